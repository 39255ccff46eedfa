"""Configuration of a training on a Ray cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ccarena.configs.sections import Count, Section, Text


class RayConfig(Section):
    """Training on a cluster (executor `ray`; docs/cluster.md)."""

    address: Text | None = None
    """Address of the cluster, such as `head:6379` or `auto`. Null is `RAY_ADDRESS`; without it, Ray starts on this
    machine."""
    workers: int = Field(2, ge=1, le=4096)
    """Processes that run the worlds of RLlib's and Stable-Baselines3's algorithms and your own, each with its share of
    `env.worlds`. A3C uses `algorithm.workers` instead, evolution all cores."""
    exchange: Literal["gradients", "rollouts"] = "gradients"
    """Message of A3C's workers: `gradients`, or `rollouts`, from which the learner computes the same gradients on
    `device`."""
    max_staleness: Count | None = Field(None, ge=1)
    """Age in updates of the weights from which A3C's gradients are dropped and counted; null is 4 times
    `algorithm.workers`."""
    deaths: int = Field(3, ge=1, le=1000)
    """Deaths of one worker in a row, without a result in between, after which training ends."""
    patience_s: float = Field(600.0, gt=0)
    """Time without any worker after which training ends, s."""
