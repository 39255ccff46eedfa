"""Pools of threads, for work that releases the interpreter's lock, as the simulator does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

__all__ = ["pool_of", "stopped"]

_own = threading.local()
"""Event `stop` of a thread's pool."""


@contextmanager
def pool_of(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yields a pool of threads. If an exception leaves the block, such as Ctrl-C, the pool's simulations end early, and
    work that has not begun is dropped.

    The interpreter raises KeyboardInterrupt in the main thread alone, so simulations in others ask `stopped`.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(max(1, threads), initializer=_begin, initargs=(stop,)) as pool:
        try:
            yield pool
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def stopped() -> bool:
    """Returns whether the work of this thread shall end, as nobody waits for it any more."""
    stop = getattr(_own, "stop", None)
    return stop is not None and stop.is_set()


def _begin(stop: threading.Event) -> None:
    _own.stop = stop
