"""Executors on this machine: threads of this process, or processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TypeVar

from ccarena.errors import WorkerError
from ccarena.executors.pieces import Done
from ccarena.executors.pool import pool_of

__all__ = ["Processes", "Threads"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_AHEAD = 2  # pieces handed out per process: enough to keep it busy, few to lose


@dataclass(frozen=True)
class Threads:
    """Executor in `count` threads, for work that releases the interpreter's lock, as the simulator does.

    One piece at a time runs in the caller's thread, where Ctrl-C and a debugger reach it.
    """

    count: int

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Generator[Done[Result], None, None]:
        """See `Executor`."""
        count = min(self.count, len(pieces))
        if count <= 1:
            yield from (_tried(index, work, piece) for index, piece in enumerate(pieces))
            return
        with pool_of(count) as pool:
            futures = {pool.submit(work, piece): index for index, piece in enumerate(pieces)}
            for future in as_completed(futures):
                yield Done(futures.pop(future), future.result)


def _tried(index: int, work: Callable[[Piece], Result], piece: Piece) -> Done[Result]:
    try:
        return Done.returned(index, work(piece))
    except Exception as error:
        return Done.failed(index, error)


@dataclass(frozen=True)
class Processes:
    """Executor in `count` processes, which end with this one. A piece that kills its process costs no other piece."""

    count: int
    preload: tuple[str, ...] = ()
    """Modules that are imported once for all processes."""

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Generator[Done[Result], None, None]:
        """See `Executor`."""
        waiting = list(reversed(range(len(pieces))))
        while waiting:
            pool = self._pool(min(self.count, len(waiting)))
            running: dict[Future[Result], int] = {}
            suspects: list[int] = []
            finished = False
            try:
                while waiting or running:
                    while waiting and len(running) < _AHEAD * self.count and not suspects:
                        index = waiting.pop()
                        running[pool.submit(work, pieces[index])] = index
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        index = running.pop(future)
                        if isinstance(future.exception(), BrokenProcessPool):
                            suspects.append(index)
                        else:
                            yield Done(index, future.result)
                    if suspects and not running:
                        break
                finished = True
            except BrokenProcessPool:
                # A process died while pieces were handed out.
                suspects += [index, *running.values()]
                finished = True
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                if not finished:
                    _end(pool)
            for index in suspects:
                yield self._alone(work, index, pieces[index])

    def _alone(self, work: Callable[[Piece], Result], index: int, piece: Piece) -> Done[Result]:
        """Runs a piece in a process of its own, which separates a piece that kills its process from its neighbours."""
        pool, finished = self._pool(1), False
        try:
            future = pool.submit(work, piece)
            error = future.exception()
            finished = True
        except BrokenProcessPool as broken:
            error = broken
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if not finished:
                _end(pool)
        if isinstance(error, BrokenProcessPool):
            reason = "its process was killed, as the system does when memory is short, or crashed; try --jobs 1"
            return Done.failed(index, WorkerError(reason))
        return Done(index, future.result)

    def _pool(self, count: int) -> ProcessPoolExecutor:
        # Not fork: threads of the parent (progress bars, numerical libraries) would be copied amid their work.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(self.preload))
        return ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    """Ends a worker when the process that started it ends, even if that is killed: its result has no reader."""

    def watch() -> None:
        while _alive(parent):
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent alone answers it
    threading.Thread(target=watch, daemon=True).start()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends workers that still run a piece when the caller has stopped waiting."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.terminate()
