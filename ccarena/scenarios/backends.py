"""Backends that run a scenario, and the fields of their results.

`simulate` and `execute` run a scenario document. `validity` says whether a real-time run is valid, and `timely` repeats
one until it is.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable, Mapping
from typing import Any

from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError, ScenarioError, did_you_mean

__all__ = [
    "ATTEMPTS",
    "BACKENDS",
    "KERNEL",
    "QUIC",
    "REAL_TIME",
    "SIM",
    "TITLES",
    "about",
    "execute",
    "simulate",
    "timely",
    "validity",
]

SIM, KERNEL, QUIC = BACKENDS = ("sim", "kernel", "quic")
"""Names of the backends: the simulator; and in real time over the emulated link, Linux TCP
(`ccarena.cc_kernel_bridge.run`) and QUIC (`ccarena.quic.run`).
"""
REAL_TIME = (KERNEL, QUIC)
TITLES = {SIM: "simulator", KERNEL: "Linux TCP, emulated link", QUIC: "QUIC, emulated link"}
ATTEMPTS = 3
"""Attempts of a real-time run before the emulator counts as too late for it."""


def about(backend: str) -> dict[str, Any]:
    """Returns where figures are measured: `backend` and, in real time, the version of the `kernel`.

    Raises ConfigError for an unknown backend.
    """
    if backend not in BACKENDS:
        raise ConfigError(f'unknown backend "{backend}"{did_you_mean(backend, BACKENDS)}')
    return {"backend": backend, **({"kernel": platform.release()} if backend in REAL_TIME else {})}


def simulate(document: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a scenario document in the native simulator. Raises ScenarioError, or MissingDependencyError without it."""
    try:
        core = importlib.import_module("ccarena._core")
    except ImportError as error:
        raise MissingDependencyError(
            "the native extension ccarena._core is not built; run `make setup`, or `pip install .`"
        ) from error
    from ccarena.scenarios.scenario import scenario_json

    try:
        return dict(core.simulate(scenario_json(document)))
    except CcarenaError:
        raise
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def execute(document: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """Runs a scenario document on a backend: `simulate`, or `run_scenario` of `cc_kernel_bridge.run` or `quic.run`."""
    if backend == SIM:
        return simulate(document)
    package = "quic" if backend == QUIC else "cc_kernel_bridge"
    return dict(importlib.import_module(f"ccarena.{package}.run").run_scenario(document))


def validity(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `valid` (the emulator kept its schedule) and `lateness_p99_ms` of a real-time run; {} of a
    simulated one.
    """
    machine = result.get("machine")
    if machine is None:
        return {}
    return {"valid": bool(machine["valid"]), "lateness_p99_ms": float(machine["lateness"]["p99_ms"])}


def timely(run: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any] | None, list[float]]:
    """Repeats a real-time run until the emulator keeps its schedule, at most `ATTEMPTS` times.

    Returns the valid result, or None if there was none, and the 99th percentile of lateness of each late run, in ms.
    """
    late_ms: list[float] = []
    while len(late_ms) < ATTEMPTS:
        result = run()
        outcome = validity(result)
        if outcome["valid"]:
            return result, late_ms
        late_ms.append(outcome["lateness_p99_ms"])
    return None, late_ms
