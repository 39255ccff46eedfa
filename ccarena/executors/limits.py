"""Limits of processor time and memory for code of others, in a process that runs nothing else."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["LimitError", "limited"]

_KILLED_AFTER = 2.0
"""Multiple of the processor time after which a process that does not hear the signal is killed."""
_ASLEEP = 10.0
"""Multiple of the processor time that may pass in real time, for code that waits."""
_AGAIN_S = 1.0
"""Time after which the error is raised again in code that has caught it."""
_STATM = Path("/proc/self/statm")


class LimitError(BaseException):
    """Limit that was exceeded. No `except Exception` of a user's code catches it."""


@contextmanager
def limited(seconds: float, memory_mb: float) -> Iterator[None]:
    """Raises LimitError in the block after `seconds` of processor time, and MemoryError beyond `memory_mb` more memory.

    A block that does not return to the interpreter is killed with its process. Call it in a process's main thread; in
    another thread nothing is limited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, _: Any) -> None:
        what = "of processor time" if number == signal.SIGPROF else "without an end"
        raise LimitError(f"it took more than {seconds if number == signal.SIGPROF else _ASLEEP * seconds:g} s {what}")

    kept = {number: signal.signal(number, over) for number in (signal.SIGPROF, signal.SIGALRM)}
    bounds = {resource.RLIMIT_CPU: _used_s() + _KILLED_AFTER * seconds + 1.0}
    if _STATM.exists():
        pages = int(_STATM.read_text("ascii").split()[0])
        bounds[resource.RLIMIT_AS] = pages * resource.getpagesize() + memory_mb * 1e6
    before = {name: resource.getrlimit(name) for name in bounds}
    try:
        for name, most in bounds.items():
            hard = before[name][1]
            least = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
            resource.setrlimit(name, (least, hard))
        signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
        signal.setitimer(signal.ITIMER_REAL, _ASLEEP * seconds, _AGAIN_S)
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0.0)
        for name, both in before.items():
            resource.setrlimit(name, both)
        for number, handler in kept.items():
            signal.signal(number, handler)


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
