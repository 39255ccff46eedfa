"""Scenarios over QUIC and the emulated link, in real time: a client of `ccarena-quic run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccarena.core.programs import QUIC
from ccarena.scenarios.real_time import LATENESS_BOUND_MS, RealTimeRun

__all__ = ["run_scenario"]


def run_scenario(document: Mapping[str, Any], *, lateness_bound_ms: float = LATENESS_BOUND_MS) -> dict[str, Any]:
    """Runs a scenario document in real time. The result has the layout of `ccarena._core.simulate`'s.

    Its key `machine` says how the run went. Raises ScenarioError, TraceError, PolicyError, MachineError or RunnerError.
    """
    with RealTimeRun(QUIC, document, lateness_bound_ms=lateness_bound_ms) as run:
        return run.to_its_end()
