"""Runs what a suite's journal lacks, on all cores: a failing run is set aside with its scenario, the rest goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ccarena.errors import CcarenaError
from ccarena.eval.reproduce.journal import Journal
from ccarena.eval.reproduce.runs import Run, described, perform
from ccarena.files import write_atomically

__all__ = ["Failure", "Progress", "execute", "progress"]

_PLAIN_EVERY_S = 5.0
_AHEAD = 2  # runs handed out per worker: enough to keep it busy, few to lose


@dataclass(frozen=True)
class Failure:
    """A run that did not finish, why, and the file with its scenario."""

    run: Run
    reason: str
    scenario: Path


def execute(runs: Sequence[Run], journal: Journal, folder: Path, jobs: int, progress: Progress) -> list[Failure]:
    """Performs the runs that the journal lacks, `jobs` at once, and appends each as it finishes.

    Returns the runs that failed; each has its scenario in `folder/failed/KEY.yaml`. Raises CcarenaError if a row cannot
    be written.
    """
    failed = folder / "failed"
    for run in runs:
        (failed / f"{run.key}.yaml").unlink(missing_ok=True)
    todo = [run for run in runs if run.key not in journal.rows]
    progress.skip([run for run in runs if run.key in journal.rows])
    failures = []
    with contextlib.closing(_outcomes(todo, jobs)) as outcomes:
        for run, outcome in outcomes:
            progress.done(run)
            if isinstance(outcome, str):
                failures.append(Failure(run, outcome, failed / f"{run.key}.yaml"))
                _set_aside(failures[-1])
            else:
                journal.append(outcome)
    return failures


def _outcomes(todo: Sequence[Run], jobs: int) -> Generator[tuple[Run, dict[str, Any] | str], None, None]:
    """Each run with its row, or with why there is none, as they finish."""
    waiting = list(reversed(todo))
    while waiting:
        pool = _pool(min(jobs, len(waiting)))
        running: dict[Future[dict[str, Any]], Run] = {}
        suspects: list[Run] = []
        try:
            while waiting or running:
                while waiting and len(running) < _AHEAD * jobs and not suspects:
                    run = waiting.pop()
                    running[pool.submit(perform, run)] = run
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    run = running.pop(future)
                    try:
                        yield run, future.result()
                    except BrokenProcessPool:
                        suspects.append(run)
                    except Exception as error:  # whatever it is, it must not cost the other runs
                        yield run, described(error)
                if suspects and not running:
                    break
        except BrokenProcessPool:
            # A worker died while runs were handed out.
            suspects += [run, *running.values()]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(pool)
        for run in suspects:
            yield run, _alone(run)


def _alone(run: Run) -> dict[str, Any] | str:
    """The outcome in a process of its own, which tells the run that kills its worker from those beside it."""
    pool = _pool(1)
    try:
        return pool.submit(perform, run).result()
    except BrokenProcessPool:
        return "its process was killed, as the system does when memory is short, or crashed; try --jobs 1"
    except Exception as error:
        return described(error)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Not fork: threads of the parent (progress bars, numerical libraries) would be copied in the middle of their work.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["ccarena.eval.reproduce.runs", "ccarena.eval.heldout.evaluate"]
    )  # imported once for all
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(os.getpid(),))


def _begin_worker(parent: int) -> None:
    """A worker ends with the process that started it, even if that is killed: nobody reads its result then."""

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
    """Ends workers in the middle of a run after an interruption; there is nothing to end otherwise."""
    if sys.exc_info()[0] is None:
        return
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.terminate()


def _set_aside(failure: Failure) -> None:
    run = failure.run
    text = f"# {run.suite}: {run.title}\n# {' '.join(failure.reason.split())}\n"
    body = run.spec.get("document") or dict(run.spec)
    with contextlib.suppress(CcarenaError):  # the failure itself is reported; the journal reports a full disk
        write_atomically(failure.scenario, text + yaml.safe_dump(body, sort_keys=False))


class Progress:
    """How far a command is, and how long the rest takes: a bar on a terminal, a line every few seconds elsewhere.

    The estimate counts simulated traffic, not runs, so that a suite of 10 Gbit/s after one of 10 Mbit/s is no surprise.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._total, self._work = len(runs), sum(run.work for run in runs)
        self._done, self._left = 0, self._work
        self._began_s, self._shown_s = time.monotonic(), time.monotonic()
        self._earned = 0.0
        self._bar: Any = None
        self._suite = ""

    def skip(self, runs: Sequence[Run]) -> None:
        """Runs that were finished before."""
        self._done += len(runs)
        self._left -= sum(run.work for run in runs)
        if runs:
            print(f"{runs[0].suite}: {len(runs)} runs are there already", file=sys.stderr, flush=True)

    def done(self, run: Run) -> None:
        """One more run is over."""
        self._done += 1
        self._left -= run.work
        self._earned += run.work
        self._suite = run.suite
        self._show()

    def _show(self) -> None:
        left_s = self._left * (time.monotonic() - self._began_s) / max(self._earned, 1e-9)
        line = f"{self._suite}  {self._done}/{self._total} runs, {_duration(left_s)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._work - self._left, line=line)
        elif time.monotonic() - self._shown_s >= _PLAIN_EVERY_S:
            self._shown_s = time.monotonic()
            print(f"reproducing {1 - self._left / max(self._work, 1e-9):4.0%}  {line}", file=sys.stderr, flush=True)

    def start(self) -> None:
        """Opens the bar, if stderr is a terminal."""
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("reproducing"), BarColumn(), TextColumn("{task.fields[line]}"))
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=self._work, line="")
        self._bar.start()

    def stop(self) -> None:
        """Closes the bar."""
        if self._bar is not None:
            self._bar.stop()


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextlib.contextmanager
def progress(runs: Sequence[Run]) -> Iterator[Progress]:
    """A [`Progress`] over all runs of a command."""
    shown = Progress(runs)
    shown.start()
    try:
        yield shown
    finally:
        shown.stop()
