"""Records and display of a training run: learning curve (`progress.jsonl`, TensorBoard) and terminal."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from ccarena.agents.algorithm import Stats
from ccarena.agents.tracking import Tracker
from ccarena.configs.schema import ProgressConfig
from ccarena.core.terminal import fitting
from ccarena.errors import MissingDependencyError, TrainingError
from ccarena.policies.spec import Spec
from ccarena.runs.run_folder import PROGRESS, VALIDATION, resume_command

ROWS = 400
"""Rows of the learning curve, spread evenly over the training."""
_PLAIN_EVERY_S = 5.0
_PLAIN_COLUMNS = 80
_RATE_AFTER_S = 1.0
"""Least time for a meaningful rate, s: the first update of a resumed training may come at once."""
_EPISODES = ("decisions", "reward", "episodes", "return", "episode_decisions")


class ReportSums:
    """Sums of the reports' columns and counts of categories for the learning curve. Raises ConfigError."""

    def __init__(self, spec: Spec, config: ProgressConfig) -> None:
        self._means = [(name, spec.column(name, "progress.means")) for name in config.means]
        self._shares = [
            (spec.column(name, "progress.shares"), [f"{name}_{category}" for category in categories])
            for name, categories in config.shares.items()
        ]

    def __call__(self, reports: NDArray[np.float32]) -> Stats:
        """Returns the sums over reports `[N, columns]`."""
        stats: Stats = {}
        for column, names in self._shares:
            counts = np.bincount(reports[:, column].astype(np.intp), minlength=len(names))
            stats |= {name: float(count) for name, count in zip(names, counts, strict=False)}
        for name, column in self._means:
            stats[name] = float(reports[:, column].sum(dtype=np.float64))
        return stats


def merge(total: Stats, part: Stats) -> None:
    """Adds `part` to `total`."""
    for name, value in part.items():
        total[name] = total.get(name, 0.0) + value


def summarise(stats: Stats) -> dict[str, float | None]:
    """Returns means per decision. Returns and lengths are per episode, None if none ended or the algorithm does not
    report them.
    """
    decisions, episodes = max(stats["decisions"], 1.0), stats.get("episodes", 0.0)
    row: dict[str, float | None] = {"reward_mean": stats["reward"] / decisions}
    for name, total in (("return_mean", "return"), ("episode_decisions_mean", "episode_decisions")):
        row[name] = stats[total] / episodes if episodes and total in stats else None
    return row | {name: total / decisions for name, total in stats.items() if name not in _EPISODES}


class Recorder:
    """Recorder of statistics: it writes a row of the learning curve at the first update and every `total_decisions /
    ROWS` decisions.
    """

    def __init__(self, directory: Path, total_decisions: int, shares: Mapping[str, Sequence[str]]) -> None:
        if find_spec("tensorboard") is None:
            raise MissingDependencyError.for_extra("tensorboard", "train", "logging of training")
        self._every = max(total_decisions // ROWS, 1)
        self._stats: Stats = {}
        self._row = -1
        self._groups = {f"{name}_{category}": name for name, categories in shares.items() for category in categories}
        self._path, self._validation = directory / PROGRESS, directory / VALIDATION
        self._tracker: Tracker | None = None
        self._hparams: dict[str, Any] = {}
        self._board_directory = directory / "tensorboard"
        self._board: Any = None
        self._file: IO[str] | None = None
        self._excepthook = threading.excepthook

    def board(self, hparams: Mapping[str, Any], tracker: Tracker | None) -> None:
        """Starts TensorBoard with `hparams` in its table; `tracker` gets the same figures, and is ended with it."""
        self._hparams, self._tracker = dict(hparams), tracker

    def add(self, stats: Stats, **now: float) -> dict[str, Any] | None:
        """Adds an update's `stats`; returns the row if one was due. `now` (with `decisions`) goes into it unchanged.

        Raises TrainingError if the row cannot be written.
        """
        merge(self._stats, stats)
        if now["decisions"] < (self._row + 1) * self._every:
            return None
        row = now | summarise(self._stats)
        self._row = int(now["decisions"]) // self._every
        self._stats = {}
        try:
            self._write(row, int(now["decisions"]))
        except OSError as error:
            raise self._unwritten(error) from error
        return row

    def _write(self, row: dict[str, Any], decisions: int) -> None:
        if self._file is None:
            self._file = open(self._path, "a", encoding="utf-8")
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        figures = {
            f"{self._groups.get(name, 'time' if name == 'elapsed_s' else 'train')}/{name}": value
            for name, value in row.items()
            if value is not None and name != "decisions"
        }
        self._show(figures, decisions)

    def validated(self, row: Mapping[str, Any], actions: Mapping[str, NDArray[np.float64]], decisions: int) -> None:
        """Records a validation: a line of `validation.jsonl`, scalars, and a histogram of the actions on each class.

        Raises TrainingError if it cannot be written.
        """
        try:
            with open(self._validation, "a", encoding="utf-8") as file:
                file.write(json.dumps({"decisions": decisions, **row}) + "\n")
            self._show({f"validation/{name}": value for name, value in row.items()}, decisions)
            for name, taken in actions.items():
                self._board.add_histogram(f"actions/{name}", taken, decisions)
        except OSError as error:
            raise self._unwritten(error) from error

    def _show(self, figures: Mapping[str, float], decisions: int) -> None:
        """Sends figures to TensorBoard and the tracker."""
        if self._board is None:
            # Seconds on a busy machine, in which the first row is there already.
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self._board_directory), purge_step=decisions)
            threading.excepthook = self._on_thread_error
            self._write_hparams()
        for name, value in figures.items():
            self._board.add_scalar(name, value, decisions)
        if self._tracker is not None:
            self._tracker.log(figures, decisions)

    def _write_hparams(self) -> None:
        """Writes TensorBoard's table of hyperparameters, with reward and score, into the same run."""
        from torch.utils.tensorboard.summary import hparams

        if self._hparams:
            for summary in hparams(self._hparams, {"train/reward_mean": 0, "validation/score": 0}):
                self._board.file_writer.add_summary(summary)

    def _unwritten(self, error: OSError) -> TrainingError:
        return TrainingError(
            f"{self._path.parent}: cannot write the learning curve: {error.strerror or error}; the last checkpoint "
            f"is kept; free some space, then go on with: {resume_command(self._path.parent)}"
        )

    def _on_thread_error(self, args: Any) -> None:
        """Suppresses tracebacks of TensorBoard's thread, whose errors the next call raises."""
        if not isinstance(args.exc_value, OSError):
            self._excepthook(args)

    def state(self) -> dict[str, Any]:
        """Returns the argument of `restore`."""
        sizes = [path.stat().st_size if path.exists() else 0 for path in (self._path, self._validation)]
        return {"stats": self._stats, "row": self._row, "bytes": sizes}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores a `state()`: rows that were written after it are dropped."""
        self._stats, self._row = state["stats"], state["row"]
        for path, size in zip((self._path, self._validation), state["bytes"], strict=True):
            if path.exists():
                os.truncate(path, min(size, path.stat().st_size))

    def clear(self) -> None:
        """Deletes rows that a run wrote which was killed before its first checkpoint."""
        self.restore({"stats": {}, "row": -1, "bytes": [0, 0]})

    def close(self) -> None:
        """Flushes everything."""
        threading.excepthook = self._excepthook
        # What could not be written has been reported when it was.
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
            if self._board is not None:
                self._board.close()
        if self._tracker is not None:
            self._tracker.close()


class _Bar(Progress):
    """Progress bar with a line of figures below it."""

    line = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yields the bar, then the line."""
        yield from super().get_renderables()
        yield Text(self.line, no_wrap=True, overflow="ellipsis")


class Display:
    """Progress of a training on stderr: a bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, total_decisions: int, done: int, shares: Mapping[str, Sequence[str]]) -> None:
        self._total, self._shares = total_decisions, shares
        self._began_s, self._done_before = time.monotonic(), done
        self._shown_s = -math.inf
        self._decisions = done
        self._recent: Stats = {}
        console = Console(stderr=True)
        self._bar: _Bar | None = None
        if console.is_terminal:
            figures = (
                TextColumn("training"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
            )
            self._bar = _Bar(*figures, console=console, refresh_per_second=4)
            self._task = self._bar.add_task("training", total=total_decisions, completed=done)
            self._bar.start()

    def update(self, decisions: int, stats: Stats) -> None:
        """Shows the state after an update with `stats`, unless the last one has only just been shown."""
        self._decisions = decisions
        for name in self._recent:
            self._recent[name] *= 0.95
        merge(self._recent, stats)
        if time.monotonic() - self._shown_s >= (0.25 if self._bar else _PLAIN_EVERY_S):
            self._show()

    def _show(self) -> None:
        self._shown_s = time.monotonic()
        line = self._line(self._shown_s - self._began_s)
        if self._bar:
            self._bar.line = line
            self._bar.update(self._task, completed=self._decisions)
        else:
            print(line, file=sys.stderr, flush=True)

    def _line(self, spent_s: float) -> str:
        row = summarise(self._recent)
        shown = [f"{self._decisions:,} decisions"]
        if not self._bar:
            shown = [f"training {min(self._decisions / self._total, 1.0):4.0%}", *shown]
        if spent_s >= _RATE_AFTER_S:
            rate = (self._decisions - self._done_before) / spent_s
            shown.append(f"{rate:,.0f}/s")
            if not self._bar and rate > 0:
                shown.append(f"{max(self._total - self._decisions, 0) / rate:,.0f} s left")
        shown.append(f"reward {row['reward_mean']:.1f}")
        if row["return_mean"] is not None:
            shown.append(f"return {row['return_mean']:,.0f}")
        for name, categories in self._shares.items():
            if f"{name}_{categories[0]}" in row:
                shares = "/".join(f"{100 * (row[f'{name}_{category}'] or 0):.0f}" for category in categories)
                shown.append(f"{name} {'/'.join(category[0].upper() for category in categories)} {shares} %")
        if "score" in row:
            shown.append(f"score {row['score']:.4g}")
        if "entropy" in row:
            shown.append(f"entropy {row['entropy']:.2f}")
        if "critic_loss" in row:
            shown.append(f"critic loss {row['critic_loss']:.2g}")
        return fitting(shown, self._bar.console.width if self._bar else _PLAIN_COLUMNS)

    def note(self, text: str) -> None:
        """Shows a permanent line."""
        print(text, file=sys.stderr) if self._bar is None else self._bar.console.print(text, markup=False)

    def close(self) -> None:
        """Shows the last state and leaves the terminal as it was."""
        if self._recent:
            self._show()
        if self._bar:
            self._bar.stop()
