"""Slowed workers: each answers what it was given, after a pause. Without PyTorch, so that many fit on one machine."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["SlowWorker", "Still", "pause"]


class SlowWorker:
    """A worker of A3C as a Ray actor (`ccarena.agents.ray.RemoteWorker`)."""

    def __init__(self, answer: bytes, pause_s: float) -> None:
        self._answer, self._pause_s = answer, pause_s

    def gradient(self, weights: Any, entropy_weight: float) -> bytes:
        """The answer, as if it were a gradient."""
        time.sleep(self._pause_s)
        return self._answer

    def rollout(self, weights: Any, entropy_weight: float) -> bytes:
        """The answer, as if it were a rollout."""
        time.sleep(self._pause_s)
        return self._answer


class Still:
    """Worlds that stand still: each step gives the first one's answer, after a pause."""

    def __init__(self, config: Any, pause_s: float, rows: int, threads: int) -> None:
        from ccarena.envs import LearnedVectorEnv

        self._envs, self._pause_s = LearnedVectorEnv(config, rows, threads=threads), pause_s
        self._known: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._envs, name)

    def step(self, actions: Any) -> Any:
        """As of a vector environment."""
        if self._known is None:
            self._known = self._envs.step(actions)
        time.sleep(self._pause_s)
        return self._known


def pause(seconds: float) -> None:
    """A piece of work."""
    time.sleep(seconds)
