"""Check of a user's controller on links that are hard.

Each case is a scenario with fixed seeds. In each of them the controller runs twice. The calls of a class are watched;
a module can do nothing that it may not, and its flow says why it ended.
"""

from __future__ import annotations

import functools
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.controllers.classes import class_of, flow_of
from ccarena.errors import CcarenaError, ControllerError
from ccarena.scenarios.backends import failure, simulate
from ccarena.scenarios.entrants import Entrant

__all__ = ["CASES", "Finding", "check"]


def _link(rate_mbps: float, delay_ms: float = 20.0, packets: int = 100, **fields: Any) -> dict[str, Any]:
    service = {"type": "constant", "rate_mbps": rate_mbps}
    return {"service": service, "delay_ms": delay_ms, "queue": {"type": "droptail", "packets": packets}, **fields}


def _alone(link: Mapping[str, Any], duration_s: float = 10.0, **flow: Any) -> dict[str, Any]:
    return {"duration_s": duration_s, "links": [link], "flows": [flow]}


CASES: dict[str, dict[str, Any]] = {
    "a steady link": _alone(_link(24)),
    "a fast link": _alone(_link(400, 2, 1000), 2.0),
    "a slow link with room for three packets": _alone(_link(0.5, 50, 3)),
    "one packet in ten is lost": _alone(_link(12, loss=0.1)),
    "everything is lost for seconds": _alone(_link(12, outages={"on_s": 2, "off_s": 2}), 20.0),
    "a round trip of a second": _alone(_link(12, 500, 1000), 20.0),
    "a cellular link": _alone({**_link(1), "service": {"type": "cellular", "preset": "lte-driving"}}),
    "an application that pauses": _alone(_link(24), app={"type": "onoff", "rate_mbps": 10, "on_s": 0.3, "off_s": 0.9}),
    "congestion marks": _alone({**_link(24), "queue": {"type": "codel"}}, ecn=True),
    "beside CUBIC": {**_alone(_link(24)), "flows": [{}, {"scheme": "cubic", "start_s": 1}]},
}
"""Scenarios, whose first flow is the controller's."""
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")
_METHODS = ("on_ack", "on_loss", "on_sent", "on_timer", "on_spurious_loss", "on_recovery_end", "on_idle_restart")


@dataclass(frozen=True)
class Finding:
    """Fault of a controller in one case."""

    case: str
    fault: str


def check(entrant: Entrant) -> list[Finding]:
    """Returns what is wrong with a controller, at most one finding per case; none if all is well."""
    found = []
    for name, scenario in CASES.items():
        fault = _fault_in(scenario, entrant)
        if fault:
            found.append(Finding(name, fault))
    return found


def _fault_in(scenario: Mapping[str, Any], entrant: Entrant) -> str:
    is_class = entrant.flow["controller"]["type"] == "python"
    results = []
    try:
        for _ in range(2):
            result, fault = (_run_class if is_class else _run_module)(scenario, entrant)
            if fault:
                return fault
            results.append(_plain(result["flows"]))
    except ControllerError as error:
        frames = traceback.extract_tb(error.__cause__.__traceback__) if error.__cause__ else []
        where = f"; {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
        return str(error).partition("\n")[0] + where
    except CcarenaError as error:
        return str(error)
    if results[0] != results[1]:
        return "two runs with the same seed differ; take randomness from self.random, and keep nothing in the class"
    if results[0][0]["delivered_bytes"] == 0:
        return "nothing was delivered"
    return ""


def _run_class(scenario: Mapping[str, Any], entrant: Entrant) -> tuple[Mapping[str, Any], str]:
    """Returns the result of a run, and what the class did that it should not."""
    watched = _Watch(class_of(entrant.flow))
    with _no_clock(watched):
        result = simulate(_document(scenario, {**entrant.flow, **flow_of(watched.type)}))
    return result, watched.fault


def _run_module(scenario: Mapping[str, Any], entrant: Entrant) -> tuple[Mapping[str, Any], str]:
    """Returns the result of a run, and why the module's flow ended; empty if it did not."""
    result = simulate(_document(scenario, entrant.flow))
    return result, failure(result["flows"][0])


def _document(scenario: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a case with the controller's flow in it."""
    first, *others = scenario["flows"]
    return {**scenario, "seed": 1, "flows": [{**own, **first}, *others], "record": {"transmissions": True}}


def _plain(value: Any) -> Any:
    """Returns a result without arrays, which can be compared."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


class _Watch:
    """Subclass of a controller's class that looks at the controller after each call."""

    def __init__(self, theirs: type) -> None:
        self.fault = ""
        self.thread: int | None = None
        """Thread in which the controller's code runs at the moment."""
        names = [name for name in _METHODS if callable(getattr(theirs, name, None))]
        methods = {name: self._watched(getattr(theirs, name)) for name in names}
        self.type = type(theirs.__name__, (theirs,), {**methods, "__init__": self._entered(theirs.__init__)})  # type: ignore[misc]

    def _entered(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> None:
            self.thread = threading.get_ident()
            try:
                method(*arguments, **named)
            finally:
                self.thread = None

        return call

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        entered = self._entered(method)

        @functools.wraps(method)
        def call(controller: Any, *arguments: Any) -> None:
            entered(controller, *arguments)
            window = controller.window
            if not self.fault and isinstance(window, (int, float)) and window < 1:
                at_s = arguments[0] if isinstance(arguments[0], float) else arguments[0].now_s
                self.fault = f"{method.__name__} leaves window = {window:g} at {at_s:.3f} s; expected at least 1 packet"

        return call


@contextmanager
def _no_clock(watched: _Watch) -> Iterator[None]:
    """Finds calls of clocks of the machine, and of the module `random`'s own generator, while a run lasts."""
    kept: list[tuple[Any, str, Any]] = []

    def replace(module: Any, name: str, said: str) -> None:
        own = getattr(module, name)

        @functools.wraps(own)
        def called(*arguments: Any, **named: Any) -> Any:
            # Others may ask meanwhile, such as another thread of this process.
            if watched.thread == threading.get_ident():
                watched.fault = watched.fault or said
            return own(*arguments, **named)

        kept.append((module, name, own))
        setattr(module, name, called)

    for name in CLOCKS:
        replace(time, name, f"it asks the machine's clock, time.{name}; the time is now_s of the event")
    for name in ("random", "uniform", "randint", "gauss", "choice"):
        replace(random, name, f"it calls random.{name}, which is not seeded; use self.random.{name}")
    try:
        yield
    finally:
        for module, name, own in kept:
            setattr(module, name, own)
