"""How a training uses a Ray cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ccarena.configs.sections import Count, Section, Text


class RayConfig(Section):
    """Training on a cluster (executor `ray`; docs/cluster.md)."""

    address: Text | None = None
    """Address of the cluster, such as `head:6379` or `auto`; null is `RAY_ADDRESS`, and without that Ray starts on this
    machine."""
    workers: int = Field(2, ge=1, le=4096)
    """Processes that run the worlds of Stable-Baselines3's algorithms and of your own, each with its share of
    `env.worlds`. A3C has `algorithm.workers`, evolution as many as there are cores."""
    exchange: Literal["gradients", "rollouts"] = "gradients"
    """What A3C's workers hand over: `gradients` that they compute, or `rollouts`, of which the learner computes the
    same gradients on `device`, so that workers need no GPU and the learner has all the work."""
    max_staleness: Count | None = Field(None, ge=1)
    """A3C's gradients of weights that are so many updates old are thrown away, and counted; null is 4 times
    `algorithm.workers`."""
    deaths: int = Field(3, ge=1, le=1000)
    """So often may one worker die in a row, without having handed over anything in between, before training ends."""
    patience_s: float = Field(600.0, gt=0)
    """So long does training wait, s, while there is no worker at all, before it ends."""
