"""Suites on kernel TCP or QUIC over emulated links, in real time: their conditions there, and runs whose links were on
time.

A run whose link was late measured the machine and not the scheme: it is repeated, and if that does not help the run
fails. Rows of late runs do not exist, so that nothing can average them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.cc_kernel_bridge import run as bridge
from ccarena.configs.load import merge
from ccarena.core import programs
from ccarena.errors import ConfigError, MachineError, RunnerError
from ccarena.quic import run as quic
from ccarena.scenarios import backends
from ccarena.scenarios.backends import ATTEMPTS, KERNEL, QUIC

__all__ = ["BOUND_MS", "about", "conditions", "program", "timely"]

BOUND_MS = 1.0
"""What the 99th percentile of a link's lateness must not exceed."""

_MERGED = ("constants", "scenario")


def conditions(suite: Mapping[str, Any], source: str, backend: str = KERNEL) -> dict[str, Any]:
    """A suite's fields with those of its section for the backend (`kernel`, `quic`).

    Constants and scenario are merged, the rest is replaced. Raises ConfigError led by `source` if there is none.
    """
    section = suite.get(backend)
    if not isinstance(section, Mapping) or not section.get("conditions"):
        raise ConfigError(
            f"{source}: {backend}: expected a section with `conditions`, which say what is other there than in the "
            "simulator; without one a suite runs in the simulator alone"
        )
    merged = {
        key: merge(suite.get(key) or {}, section[key]) for key in _MERGED if isinstance(section.get(key), Mapping)
    }
    return {**suite, **section, **merged}


def program(backend: str, required: bool = True) -> list[Path]:
    """The program that carries the runs; nothing, or MachineError if it is `required`, where it is not there."""
    try:
        return [programs.find(quic.PROGRAM if backend == QUIC else programs.KERNEL_BRIDGE)]
    except MachineError:
        if required:
            raise
        return []


def timely(document: Mapping[str, Any], backend: str, in_user_space: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of a run that kept its links' schedule, and for its row what it says of the machine: `kernel`,
    `lateness_p99_ms`, `repeated`; of user space `answer_p99_us` (None where nothing runs there) and `fallback_reports`,
    those from flows that it had left alone for so long that the kernel's CUBIC took them over.

    On kernel TCP `in_user_space` drives even the kernel's own schemes from there, by this package's code. Raises
    RunnerError if the links were late in every attempt, and what `cc_kernel_bridge.run.run_scenario` raises.
    """

    def attempt() -> dict[str, Any]:
        if backend == QUIC:
            return quic.run_scenario(document, lateness_bound_ms=BOUND_MS)
        return bridge.run_scenario(document, bridge=in_user_space, lateness_bound_ms=BOUND_MS)

    result, late_ms = backends.timely(attempt)
    if result is not None:
        machine = result["machine"]
        return result, {
            "kernel": machine["kernel"],
            "lateness_p99_ms": backends.validity(result)["lateness_p99_ms"],
            "repeated": len(late_ms),
            "answer_p99_us": machine.get("answer_latency_us", {}).get("p99"),
            "fallback_reports": machine.get("fallback_reports", 0),
        }
    raise RunnerError(
        f"the link was late in {ATTEMPTS} attempts, {', '.join(f'{ms:.2f}' for ms in late_ms)} ms (p99; at most "
        f"{BOUND_MS:g}): the machine is too busy; the same command on an idle one goes on from here"
    )


def about(rows: Sequence[Mapping[str, Any]], backend: str) -> dict[str, Any]:
    """For claims.json: the rows' sums and largest values (None without any), `backend`, `kernel` and `bound_ms`."""
    machines = [row["machine"] for row in rows]

    def largest(name: str) -> float | None:
        return max((machine[name] for machine in machines if machine[name] is not None), default=None)

    return {
        **backends.about(backend),
        "bound_ms": BOUND_MS,
        **{name: largest(name) for name in ("lateness_p99_ms", "answer_p99_us")},
        **{name: sum(machine[name] for machine in machines) for name in ("repeated", "fallback_reports")},
    }
