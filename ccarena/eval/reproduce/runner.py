"""Runner of what a suite's journal lacks, on all cores: a failing run is stored with its scenario, the rest
continues.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ccarena.core.files import write_atomically
from ccarena.core.terminal import duration, heartbeat
from ccarena.errors import CcarenaError
from ccarena.eval.reproduce import costs
from ccarena.eval.reproduce.runs import Run, described
from ccarena.executors import Executor
from ccarena.runs.journal import Journal

__all__ = ["PRELOAD", "Failure", "Progress", "execute", "progress"]

PRELOAD = ("ccarena.eval.reproduce.runs", "ccarena.eval.heldout.evaluate")
"""Modules that a process imports before it performs runs."""


@dataclass(frozen=True)
class Failure:
    """Failed run: the reason, and the file with its scenario."""

    run: Run
    reason: str
    scenario: Path


def execute(
    runs: Sequence[Run], journal: Journal, folder: Path, executor: Executor, progress: Progress
) -> list[Failure]:
    """Performs the runs that the journal lacks on `executor`, and appends each when it is finished, with its cost.

    Returns the failed runs; each has its scenario in `folder/failed/KEY.yaml`. Raises CcarenaError if a row cannot be
    written.
    """
    failed = folder / "failed"
    for run in runs:
        (failed / f"{run.key}.yaml").unlink(missing_ok=True)
    todo = [run for run in runs if run.key not in journal.rows]
    progress.skip([run for run in runs if run.key in journal.rows])
    failures = []
    with contextlib.closing(executor.run(costs.timed, todo)) as outcomes:
        for done in outcomes:
            run = todo[done.index]
            progress.done(run)
            try:
                row, seconds = done.result()
            except Exception as error:  # whatever it is, it must not cost the other runs
                failures.append(Failure(run, described(error), failed / f"{run.key}.yaml"))
                _set_aside(failures[-1])
                continue
            journal.append(row)
            costs.append(folder, run.key, seconds)
    return failures


def _set_aside(failure: Failure) -> None:
    run = failure.run
    text = f"# {run.suite}: {run.title}\n# {' '.join(failure.reason.split())}\n"
    body = run.spec.get("document") or dict(run.spec)
    with contextlib.suppress(CcarenaError):  # the failure itself is reported; the journal reports a full disk
        write_atomically(failure.scenario, text + yaml.safe_dump(body, sort_keys=False))


class Progress:
    """Progress of a command with the remaining time: a bar on a terminal, a line every few seconds elsewhere.

    The estimate counts simulated traffic, not runs, so that it also holds for a suite of 10 Gbit/s after one of 10
    Mbit/s.
    """

    def __init__(self, runs: Sequence[Run], doing: str = "reproducing") -> None:
        self._doing = doing
        self._total, self._work = len(runs), sum(run.work for run in runs)
        self._done, self._left = 0, self._work
        self._began_s = time.monotonic()
        self._earned = 0.0
        self._bar: Any = None
        self._suite = ""

    def add(self, runs: Sequence[Run]) -> None:
        """Counts further runs as work to do."""
        self._total += len(runs)
        self._work += sum(run.work for run in runs)
        self._left += sum(run.work for run in runs)

    def skip(self, runs: Sequence[Run]) -> None:
        """Counts runs that were finished before."""
        self._done += len(runs)
        self._left -= sum(run.work for run in runs)
        if runs:
            print(f"{runs[0].suite}: {len(runs)} runs are there already", file=sys.stderr, flush=True)

    def done(self, run: Run) -> None:
        """Counts a finished run."""
        self._done += 1
        self._left -= run.work
        self._earned += run.work
        self._suite = run.suite
        self._show()

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self._work - self._left, line=self._line())

    def _line(self) -> str:
        if not self._earned:
            return f"{self._done}/{self._total} runs"
        left_s = self._left * (time.monotonic() - self._began_s) / self._earned
        return f"{self._suite}  {self._done}/{self._total} runs, {duration(left_s)} left"

    def line(self) -> str:
        """Returns a line on the progress, for outputs without a bar."""
        return f"{self._doing} {1 - self._left / max(self._work, 1e-9):4.0%}  {self._line()}"

    @property
    def has_bar(self) -> bool:
        """True while a bar is shown."""
        return self._bar is not None

    def start(self) -> None:
        """Opens the bar, if stderr is a terminal."""
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn(self._doing), BarColumn(), TextColumn("{task.fields[line]}"))
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=self._work, line="")
        self._bar.start()

    def stop(self) -> None:
        """Closes the bar."""
        if self._bar is not None:
            self._bar.stop()


@contextlib.contextmanager
def progress(runs: Sequence[Run], doing: str = "reproducing") -> Iterator[Progress]:
    """Shows a [`Progress`] over all runs of a command during the block; `doing` is the first word of its lines."""
    shown = Progress(runs, doing)
    shown.start()
    try:
        with contextlib.nullcontext() if shown.has_bar else heartbeat(shown.line):
            yield shown
    finally:
        shown.stop()
