"""Suites in real time, over emulated links: their conditions there, and runs whose links were on time.

A run whose link was late measured the machine and not the scheme: it is repeated, and if that does not help the run
fails. Rows of late runs do not exist, so that nothing can average them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena.configs.load import merge
from ccarena.errors import ConfigError, RunnerError
from ccarena.scenarios import backends
from ccarena.scenarios.backends import ATTEMPTS
from ccarena.scenarios.real_time import LATENESS_BOUND_MS

__all__ = ["about", "conditions", "timely"]

_MERGED = ("constants", "scenario")


def conditions(suite: Mapping[str, Any], section: Any, source: str, backend: str) -> dict[str, Any]:
    """Returns a suite's fields with those of its `section` for the backend.

    Constants and scenario are merged, the rest is replaced. Raises ConfigError led by `source` if there is none.
    """
    if not isinstance(section, Mapping) or not section.get("conditions"):
        raise ConfigError(
            f"{source}: {backend}: expected a section with `conditions`, which say what is other there than in the "
            "simulator; without one a suite runs in the simulator alone"
        )
    merged = {
        key: merge(suite.get(key) or {}, section[key]) for key in _MERGED if isinstance(section.get(key), Mapping)
    }
    return {**suite, **section, **merged}


def timely(document: Mapping[str, Any], backend: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of a run that kept its links' schedule, and for its row what it says of the machine: `kernel`,
    `lateness_p99_ms`, `repeated`; of user space `answer_p99_us` (None where nothing runs there) and `fallback_reports`,
    those from flows that it had left alone for so long that the kernel's CUBIC took them over.

    `options` are of the backend's runs. Raises RunnerError if the links were late in every attempt, and what
    `backends.execute` does.
    """
    result, late_ms = backends.timely(lambda: backends.execute(document, backend, **options))
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
        f"{LATENESS_BOUND_MS:g}): the machine is too busy; the same command on an idle one goes on from here"
    )


def about(rows: Sequence[Mapping[str, Any]], backend: str) -> dict[str, Any]:
    """Returns fields of claims.json: the rows' sums and largest values (None without any), `backend`, `kernel` and
    `bound_ms`.
    """
    machines = [row["machine"] for row in rows]

    def largest(name: str) -> float | None:
        return max((machine[name] for machine in machines if machine[name] is not None), default=None)

    return {
        **backends.about(backend),
        "bound_ms": LATENESS_BOUND_MS,
        **{name: largest(name) for name in ("lateness_p99_ms", "answer_p99_us")},
        **{name: sum(machine[name] for machine in machines) for name in ("repeated", "fallback_reports")},
    }
