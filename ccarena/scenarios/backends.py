"""The backends: where a scenario runs, and what its result says about the run.

A backend is an entry of `BACKENDS`. `execute` runs a scenario document on one. `validity` says whether a run in real
time may be believed, and `timely` repeats one until it may.
"""

from __future__ import annotations

import importlib
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena.controllers.load import is_python
from ccarena.core import programs
from ccarena.core.terminal import duration
from ccarena.errors import (
    CcarenaError,
    ConfigError,
    ControllerError,
    MachineError,
    MissingDependencyError,
    ScenarioError,
    did_you_mean,
)
from ccarena.extras import how_to_add

if TYPE_CHECKING:
    from ccarena.scenarios.entrants import Entrant

__all__ = [
    "ATTEMPTS",
    "BACKENDS",
    "KERNEL",
    "REMOTE",
    "SIM",
    "Backend",
    "about",
    "check_runs",
    "counts",
    "execute",
    "failed",
    "failure",
    "find",
    "of_result",
    "refusal",
    "simulate",
    "time_needed",
    "timely",
    "unsignalled",
    "validity",
]

ATTEMPTS = 3
"""Attempts at a run in real time before it counts as one in which the emulator is always late."""
START_S = 0.4
"""Approximate time that starting and ending a run in real time takes."""
PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Backend:
    """Place where scenarios run."""

    name: str
    """Name on command lines and in results."""
    title: str
    """Name on pages."""
    where: str
    """Place in a sentence, such as "in the simulator"."""
    run: str
    """`MODULE:FUNCTION`, which takes a scenario document and returns a result of the simulator's layout."""
    real_time: bool = True
    """Takes as long as the scenario, is seldom exactly the same, and its results have `machine`."""
    program: str = ""
    """Program that carries a run; empty if this process does."""
    code: tuple[str, ...] = ("scenarios/frames.py", "scenarios/real_time.py")
    """Files of the package that decide a run's result, beside the module of `run`."""
    records: bool = False
    """Carries the schemes of a kernel as recordings have them (`ccarena fidelity`)."""
    takes_over: bool = False
    """Takes `bridge`, which drives even the kernel's own schemes by this package's code."""
    foreign: tuple[str, ...] = ()
    """Types of `foreign` of a flow, congestion controls of others, that it carries."""

    def at_once(self, simulated: int) -> int:
        """Returns how many runs go on at once: `simulated`, or one in real time, so that none makes another late."""
        return 1 if self.real_time else simulated

    def files(self) -> list[Path]:
        """Returns the files that decide a run's result; without the program if it is not on this machine."""
        module = self.run.partition(":")[0].removeprefix("ccarena.").replace(".", "/")
        try:
            program = [programs.find(self.program)] if self.program else []
        except MachineError:
            program = []
        return [*program, *(PACKAGE / name for name in (*self.code, f"{module}.py"))]


SIM, KERNEL = "sim", "kernel"
"""The simulator; Linux TCP, with which some commands compare it."""
BACKENDS = {
    each.name: each
    for each in (
        Backend(
            SIM,
            "simulator",
            "in the simulator",
            "ccarena.scenarios.backends:simulate",
            real_time=False,
            code=("_core.abi3.so",),
            records=True,
        ),
        Backend(
            KERNEL,
            "Linux TCP, emulated link",
            "on kernel TCP",
            "ccarena.cc_kernel_bridge.run:run_scenario",
            program=programs.KERNEL_BRIDGE,
            records=True,
            takes_over=True,
            foreign=("kernel", "bpf", "command"),
        ),
        Backend(
            "quic",
            "QUIC, emulated link",
            "over QUIC",
            "ccarena.quic.run:run_scenario",
            program=programs.QUIC,
            foreign=("command",),
        ),
    )
}
"""Every backend that runs on this machine alone, by its name."""
REMOTE = Backend(
    "remote",
    "real path",
    "over a real path",
    "ccarena.remote.run:run_scenario",
    program=programs.QUIC,
    foreign=("kernel",),
)
"""Backend of `ccarena remote`, which needs a second machine."""


def find(name: str) -> Backend:
    """Returns the backend called `name`, which runs on this machine alone. Raises ConfigError if there is none."""
    if name == REMOTE.name:
        raise ConfigError(f'backend "{name}" needs a second machine: use `ccarena remote run` (docs/remote.md)')
    if name not in BACKENDS:
        raise ConfigError(f'unknown backend "{name}"{did_you_mean(name, BACKENDS)}')
    return BACKENDS[name]


def of_result(name: str) -> Backend:
    """Returns the backend that a result names, which may be `remote`. Raises ConfigError if there is none."""
    return REMOTE if name == REMOTE.name else find(name)


def refusal(name: str, flow: Mapping[str, Any]) -> str:
    """Returns the reason why a backend cannot carry the flow of an entrant, and where it runs; empty if it can.

    A run may still refuse the flow, for a field of its scenario.
    """
    backend, foreign, scheme = of_result(name), flow.get("foreign"), flow["scheme"]
    if foreign is not None:
        kind = foreign["type"]
        what = {"kernel": "a congestion control of the kernel's TCP", "bpf": "a BPF object for the kernel's TCP"}
        there = [f"--backend {other}" for other, about in BACKENDS.items() if kind in about.foreign]
        lacks = f"{what.get(kind, 'a program')}, which does not run {backend.where}; use {' or '.join(there)}"
        return "" if kind in backend.foreign else lacks
    if backend.real_time and is_python(flow):
        return f"a Python class, which runs in the simulator only; leave it out, or use --backend {SIM}"
    if backend.real_time and scheme in unsignalled():
        lacks = f"signals of {scheme} routers have no place in the packets of --backend {name}"
        return f"{lacks}; leave it out, or run it with --backend {SIM}"
    return ""


@cache
def unsignalled() -> frozenset[str]:
    """Returns the schemes whose routers' signals no packet on a real link carries."""
    core = importlib.import_module("ccarena._core")
    return frozenset(router["name"] for router in core.routers() if not router["on_the_wire"])


def check_runs(name: str, entrants: Iterable[Entrant]) -> None:
    """Raises ConfigError for the first entrant that the backend cannot carry."""
    for entrant in entrants:
        if problem := refusal(name, entrant.flow):
            raise ConfigError(f'entrant "{entrant.text or entrant.label}": {problem}')


def about(name: str) -> dict[str, Any]:
    """Returns for a record where figures were measured: `backend` and, in real time, the version of the `kernel`.

    Raises ConfigError for an unknown backend.
    """
    return {"backend": name, **({"kernel": platform.release()} if find(name).real_time else {})}


def time_needed(name: str, durations_s: Sequence[float], at_once: int) -> str:
    """Returns a sentence on how long runs of these lengths take in real time; empty for the simulator, or no runs."""
    if not find(name).real_time or not durations_s:
        return ""
    seconds = sum(each + START_S for each in durations_s) / at_once
    together = "one at a time" if at_once == 1 else f"{at_once} at a time"
    runs = "1 run" if len(durations_s) == 1 else f"{len(durations_s):,} runs"
    return f"{runs} {find(name).where}, {together}: about {duration(seconds)} in real time"


def simulate(
    document: Mapping[str, Any], make: Callable[[int, str, Mapping[str, Any]], Any] | None = None
) -> dict[str, Any]:
    """Runs a scenario document in the native simulator; `make` makes its Python controllers (`classes.make`).

    Raises ScenarioError, or MissingDependencyError without the simulator.
    """
    try:
        core = importlib.import_module("ccarena._core")
    except ImportError as error:
        raise MissingDependencyError(
            f"the native extension ccarena._core is not built; build it: {how_to_add()}"
        ) from error
    from ccarena.controllers import classes
    from ccarena.executors import stopped
    from ccarena.scenarios.scenario import scenario_json

    try:
        return dict(core.simulate(scenario_json(document), make or classes.make, stopped))
    except ControllerError as error:
        raise classes.with_traceback(error) from error.__cause__
    except CcarenaError:
        raise
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def execute(document: Mapping[str, Any], name: str, **options: Any) -> dict[str, Any]:
    """Runs a scenario document on the backend called `name`; `options` go to its `run`.

    Raises ScenarioError, TraceError or PolicyError; in real time MachineError or RunnerError.
    """
    backend = of_result(name)
    if backend.real_time and (document.get("record") or {}).get("trajectories"):
        raise ScenarioError(
            f"record.trajectories: the backend {name} records none, since it has no privileged state of its links; run "
            "the scenario in the simulator (--backend sim), or leave the field out"
        )
    module, _, function = backend.run.partition(":")
    return dict(getattr(importlib.import_module(module), function)(document, **options))


def validity(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns, for a run in real time, `valid` (whether the emulator kept its schedule) and `lateness_p99_ms`."""
    machine = result.get("machine")
    if machine is None:
        return {}
    return {"valid": bool(machine["valid"]), "lateness_p99_ms": float(machine["lateness"]["p99_ms"])}


def failure(flow: Mapping[str, Any]) -> str:
    """Returns what went wrong with the program or the module of a flow in a result; empty if nothing did.

    Leaves out the flow's number and scheme, with which its `error` begins.
    """
    error = flow.get("error")
    return re.sub(r"^flows\[\d+\] \(.*?\): ", "", error) if error else ""


def failed(result: Mapping[str, Any], flow: Mapping[str, Any]) -> dict[str, str]:
    """Returns the column `error` of a flow's row: always in real time, in the simulator only of a flow that failed."""
    error = failure(flow)
    return {"error": error} if error or result.get("machine") else {}


def counts(row: Mapping[str, Any]) -> bool:
    """Returns whether a row of figures counts in means: the emulator kept its schedule, and no program or module
    failed.
    """
    return bool(row.get("valid", True)) and not row.get("error")


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
