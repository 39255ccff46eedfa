"""Observer of a user's class while it runs: what it leaves in its attributes, and which clocks and dice it uses."""

from __future__ import annotations

import datetime
import functools
import gc
import os
import random
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ccarena.controllers.classes import new
from ccarena.controllers.interface import Controller
from ccarena.errors import did_you_mean
from ccarena.scenarios.backends import PACKAGE

__all__ = ["METHODS", "Watch", "place"]

METHODS = ("on_ack", "on_loss", "on_sent", "on_timer", "on_spurious_loss", "on_recovery_end", "on_idle_restart")
"""Methods that the simulator calls."""
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_TIME: dict[Any, str] = {
    getattr(time, name): f"time.{name}" for each in _CLOCKS for name in (each, f"{each}_ns") if hasattr(time, name)
} | {
    datetime.datetime.now: "datetime.now",
    datetime.datetime.utcnow: "datetime.utcnow",
    datetime.datetime.today: "datetime.today",
    datetime.date.today: "date.today",
}
"""Clocks of the machine."""
_SHARED: random.Random = random.random.__self__  # type: ignore[attr-defined]
"""Generator of the functions of the module `random`."""
_PACKAGE = f"{PACKAGE}{os.sep}"
_NOT_OWN = (_PACKAGE, sysconfig.get_path("stdlib"), "<frozen ")
"""Beginnings of the names of files that no user wrote."""


def place(frames: Iterable[tuple[str, int]]) -> str:
    """Returns the first of these files and lines that a user wrote, in the end of a sentence; empty if none is."""
    for file, line in frames:
        if not file.startswith(_NOT_OWN):
            return f"; {Path(file).name}, line {line}"
    return ""


class Watch:
    """Subclass of a controller's class that looks at the controller after each call."""

    def __init__(self, theirs: type) -> None:
        self.fault = ""
        """First fault of the current run."""
        self._theirs = theirs
        self._steers = any({"window", "pacing_rate"} & vars(each).keys() for each in _own(theirs))
        methods = {
            name: self._watched(getattr(theirs, name)) for name in METHODS if callable(getattr(theirs, name, None))
        }
        self._type = type(theirs.__name__, (theirs,), methods)

    def make(self, _flow: int, _where: str, facts: Mapping[str, Any]) -> Any:
        """Returns a new controller, as `classes.make` does."""
        return new(self._type, facts)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches one run, which this thread makes."""
        self.fault = ""
        kept, collects = sys.getprofile(), gc.isenabled()
        # A collection runs callbacks of libraries within the user's code, and some ask a clock.
        gc.disable()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(kept)
            if collects:
                gc.enable()

    def fault_of_all(self) -> str:
        """Returns what is wrong with the class whatever the link, after all runs; empty if nothing is."""
        for name in dir(self._theirs):
            if name.startswith("on_") and name not in METHODS and callable(getattr(self._theirs, name)):
                hint = did_you_mean(name, METHODS) or f"; expected {', '.join(METHODS)}"
                return f"nobody calls its method {name}{hint}"
        return "" if self._steers else "it never sets window or pacing_rate, so its window stays as it was"

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        hears = callable(getattr(self._theirs, "on_timer", None))

        @functools.wraps(method)
        def call(controller: Any, *arguments: Any, **named: Any) -> Any:
            answer = method(controller, *arguments, **named)
            self._steers = self._steers or not {"window", "pacing_rate"}.isdisjoint(vars(controller))
            window = controller.window
            if not self.fault and isinstance(window, (int, float)) and window < 1:
                self._found(f"leaves window = {window:g}", "expected at least 1 packet", method, arguments)
            if not self.fault and not hears and controller.timer_s is not None:
                self._found(
                    f"sets timer_s = {controller.timer_s}", "the class has no method on_timer", method, arguments
                )
            return answer

        return call

    def _found(self, what: str, expected: str, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        at_s = arguments[0] if isinstance(arguments[0], float) else arguments[0].now_s
        self.fault = f"{method.__name__} {what} at {at_s:.3f} s; {expected}"

    def _called(self, frame: FrameType, event: str, function: Any) -> None:
        """Looks at a call of a built-in function, which all clocks and sources of randomness are."""
        if event != "c_call" or self.fault:
            return
        if getattr(function, "__self__", None) is _SHARED:
            said = "it uses the module random, which is not seeded; use self.random"
        elif function is os.urandom:
            said = "it asks the machine for random bytes; use self.random"
        elif function is time.sleep:
            said = "it sleeps, while the time of the simulation stands still"
        elif function in _TIME:
            said = f"it asks the machine's clock, {_TIME[function]}; the time is now_s of the event"
        else:
            return
        # Without a place, the package itself or the import of a module asks.
        if where := place(_outwards(frame)):
            self.fault = said + where


def _own(theirs: type) -> list[type]:
    """Returns a class and its bases below `Controller`."""
    return [each for each in theirs.__mro__ if issubclass(each, Controller) and each is not Controller]


def _outwards(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    """Yields files and lines from a frame on to the package's, which has called the user's code."""
    while frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
