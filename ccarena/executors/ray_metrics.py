"""Figures of a running job as Prometheus gauges, which every node of a Ray cluster exports (docs/cluster.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ccarena.executors.ray import module

__all__ = ["Gauges"]

_EVERY_S = 1.0


class Gauges:
    """`ccarena_NAME` by name, each with the label `run`."""

    def __init__(self, run: str) -> None:
        module()
        from ray.util.metrics import Gauge

        self._make, self._run = Gauge, run
        self._known: dict[str, Any] = {}
        self._set_s = -_EVERY_S

    def set(self, figures: Mapping[str, float | None]) -> None:
        """Takes the figures of now, at most once a second; None is left as it was."""
        now_s = time.monotonic()
        if now_s - self._set_s < _EVERY_S:
            return
        self._set_s = now_s
        for name, value in figures.items():
            if value is None:
                continue
            if name not in self._known:
                self._known[name] = self._make(f"ccarena_{name}", f"{name} of a ccarena run", tag_keys=("run",))
            self._known[name].set(float(value), tags={"run": self._run})
