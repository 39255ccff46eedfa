"""Scenarios over QUIC and the emulated link, in real time: a client of `ccarena-quic run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccarena.cc_kernel_bridge.run import Runner

__all__ = ["PROGRAM", "run_scenario"]

PROGRAM = "ccarena-quic"


def run_scenario(document: Mapping[str, Any], *, lateness_bound_ms: float = 1.0) -> dict[str, Any]:
    """Runs a scenario document in real time. The result has the layout of `ccarena._core.simulate`'s.

    Its key `machine` describes the run: `valid` is False if the emulator's p99 lateness was above `lateness_bound_ms`.
    Raises ScenarioError, TraceError, PolicyError, MachineError or RunnerError.
    """
    with Runner(document, lateness_bound_ms=lateness_bound_ms, program=PROGRAM) as runner:
        while runner.wait() is not None:
            pass
        return runner.result
