"""Figures of a running job as Prometheus gauges, which every node of a Ray cluster exports (docs/cluster.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ccarena.executors.ray import module

__all__ = ["Gauges"]

_EVERY_S = 1.0


class Gauges:
    """Gauges `ccarena_NAME` by name, each with the label `run`."""

    def __init__(self, run: str) -> None:
        module()
        from ray.util.metrics import Gauge

        self._make, self._run = Gauge, run
        self._known: dict[str, Any] = {}
        self._set_s, self._decisions = time.monotonic(), 0

    def set(self, decisions: int, figures: Mapping[str, float | None]) -> None:
        """Sets the gauges to the current figures, at most once a second; None leaves a gauge as it is."""
        now_s = time.monotonic()
        if now_s - self._set_s < _EVERY_S:
            return
        if self._decisions:
            self._gauge("decisions_per_second", (decisions - self._decisions) / (now_s - self._set_s))
        self._set_s, self._decisions = now_s, decisions
        for name, value in {"decisions": decisions, **figures}.items():
            if value is not None:
                self._gauge(name, float(value))

    def _gauge(self, name: str, value: float) -> None:
        if name not in self._known:
            self._known[name] = self._make(f"ccarena_{name}", f"{name} of a ccarena run", tag_keys=("run",))
        self._known[name].set(value, tags={"run": self._run})
