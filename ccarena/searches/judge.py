"""Runs of candidates: whole simulations in parallel, each kept in the folder's journal as soon as it is finished.

Native candidates run in threads. Classes of a user's file run in processes of their own, with limits of processor time
and memory, so that one that loops or eats memory costs only itself.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ccarena.controllers.load import check as check_class
from ccarena.controllers.load import is_python
from ccarena.errors import CcarenaError, WorkerError
from ccarena.eval.leaderboard.figures import SCORE, SHARING
from ccarena.eval.measure.record import FLOWS, LEARNERS, PACKETS, SOLE, Record
from ccarena.eval.measure.table import FIGURES, LEAST_SCORE, row
from ccarena.executors import Processes, Threads
from ccarena.executors.limits import LimitError, limited
from ccarena.runs.journal import Journal
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.one_run import perform
from ccarena.scenarios.room import receiver_room
from ccarena.searches.links import Cell

__all__ = ["SHOWN", "Judge", "Scores", "check_weights"]

SHOWN = ("throughput_mbps", "signal_delay_to_end_p95_ms")
"""Figures of the comparison on unseen links."""
_KNOWN = {False: frozenset({PACKETS, SOLE, LEARNERS}), True: frozenset({PACKETS, FLOWS, LEARNERS})}
"""Needs of figures that a run alone meets, and one beside competitors."""
MOST_ERROR = 2000
"""Longest error that is kept, in characters."""


@dataclass(frozen=True)
class Scores:
    """Results of a candidate on some cells."""

    rows: Sequence[Mapping[str, Any]]
    """Rows by cell: `score`, and the figures `SHOWN`; empty after an error."""
    error: str = ""

    @property
    def mean(self) -> float:
        """Returns the mean score; minus infinity after an error."""
        return -math.inf if self.error else statistics.fmean(row["score"] for row in self.rows)


@dataclass(frozen=True)
class _Piece:
    """Runs of one candidate that are made one after the other."""

    flow: Mapping[str, Any]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Judge:
    """Runner of candidates, whose journal is open."""

    journal: Journal
    beside: Sequence[Entrant]
    """Competitors."""
    weights: Mapping[str, float]
    workers: int
    limit_s: float
    memory_mb: float

    def run(self, candidates: Mapping[str, Entrant], cells: Sequence[Cell]) -> dict[str, Scores]:
        """Returns the scores of candidates, by their names, on all cells; what the journal has is not run again."""
        todo: list[tuple[str, _Piece]] = []
        for name, entrant in candidates.items():
            known = [self.journal.rows.get(f"{name} {cell.key}") for cell in cells]
            own = is_python(entrant.flow)
            if own and any(row is not None and row.get("error") for row in known):
                continue  # its runs come one after the other, and end with the first error
            missing = tuple(cell for cell, row in zip(cells, known, strict=True) if row is None)
            parts = ([missing] if missing else []) if own else [(cell,) for cell in missing]
            todo += [(name, _Piece(entrant.flow, part)) for part in parts]
        for own in (False, True):
            self._run([each for each in todo if is_python(each[1].flow) is own], own)
        return {name: self._scores(name, cells) for name in candidates}

    def _run(self, todo: Sequence[tuple[str, _Piece]], own: bool) -> None:
        limits = (self.limit_s, self.memory_mb) if own else None
        work = functools.partial(_measure, beside=tuple(self.beside), weights=dict(self.weights), limits=limits)
        executor = Processes(self.workers, ("ccarena.searches.judge",)) if own else Threads(self.workers)
        with closing(executor.run(work, [piece for _, piece in todo])) as running:
            for done in running:
                name, piece = todo[done.index]
                try:
                    rows = done.result()
                except WorkerError:
                    rows = [
                        {
                            "error": f"its process ended: it took more than {self.limit_s:g} s or "
                            f"{self.memory_mb:g} MB and did not stop, or crashed"
                        }
                    ]
                for cell, found in zip(piece.cells, rows, strict=False):
                    self.journal.append({"key": f"{name} {cell.key}", **found})

    def _scores(self, name: str, cells: Sequence[Cell]) -> Scores:
        rows = [self.journal.rows.get(f"{name} {cell.key}") for cell in cells]
        for cell, each in zip(cells, rows, strict=True):
            if each is not None and each.get("error"):
                return Scores([], f"{cell.link}: {each['error']}")
        return Scores([each for each in rows if each is not None])


def check_weights(weights: Mapping[str, float], beside: bool) -> str:
    """Returns why a score cannot have these weights; empty if it can."""
    for name in weights:
        if not any(FIGURES[name].needs <= _KNOWN[each] for each in ((False, True) if beside else (False,))):
            needs = ", ".join(sorted(FIGURES[name].needs - _KNOWN[beside]))
            hint = "; name competitors" if FLOWS in FIGURES[name].needs else ""
            return f"weights: {name} needs {needs}, which a run of a search lacks{hint}"
    return ""


def _measure(
    piece: _Piece, beside: Sequence[Entrant], weights: Mapping[str, float], limits: tuple[float, float] | None
) -> list[dict[str, Any]]:
    """Returns a row per cell; the last one has an `error` if the candidate failed there."""
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if limits is not None:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        for cell in piece.cells:
            try:
                with limited(*limits) if limits is not None else contextlib.nullcontext():
                    if limits is not None:
                        check_class(piece.flow)
                    rows.append(_one(piece.flow, cell, beside, weights))
            except CcarenaError as error:
                rows.append({"error": _said(error, limits)})
            except KeyboardInterrupt:
                if limits is None:
                    raise
                # A process of candidates ignores Ctrl-C.
                rows.append({"error": "it raised KeyboardInterrupt"})
            except LimitError as error:
                rows.append({"error": str(error)})
            except MemoryError:
                rows.append({"error": f"it took more than {limits[1] if limits else 0:g} MB of memory"})
            if "error" in rows[-1]:
                break
    return rows


def _said(error: CcarenaError, limits: tuple[float, float] | None) -> str:
    """Returns an error, with the traceback of a class, in at most `MOST_ERROR` characters."""
    text = str(error)
    if isinstance(error.__cause__, MemoryError) and limits is not None:
        text = f"it took more than {limits[1]:g} MB of memory; {text}"
    return text if len(text) <= MOST_ERROR else f"{text[: MOST_ERROR // 2]}...{text[-MOST_ERROR // 2 :]}"


def _one(
    flow: Mapping[str, Any], cell: Cell, beside: Sequence[Entrant], weights: Mapping[str, float]
) -> dict[str, Any]:
    others = [entrant.as_flow(**cell.route) for entrant in beside] if cell.beside else []
    room = receiver_room(cell.scenario["links"], cell.base_rtt_ms)
    own = {"receive_window_packets": room, **flow, **cell.route}
    run = perform({**cell.scenario, "flows": [own, *others], "record": {"packets": True}}, SIM)
    if reason := run.result["flows"][0].get("error"):
        return {"error": f"its flow ended: {reason}"}
    subject = Record(run.document, run.result, learners=(0,)).flows[0]
    names = [name for name in (weights or (SHARING if cell.beside else SCORE,)) if _is_known(name, cell)]
    figures = row(subject, dict.fromkeys((*names, *SHOWN)))
    if not weights:
        score = math.log(max(float(figures[names[0]]), LEAST_SCORE))
    else:
        score = math.fsum(weights[name] * float(figures[name]) for name in names)
    if not math.isfinite(score):
        lacking = ", ".join(name for name in names if not math.isfinite(float(figures[name])))
        return {"error": f"no score: {lacking or 'the sum'} is no number, as when nothing is delivered"}
    return {"score": score, **{name: float(figures[name]) for name in SHOWN}}


def _is_known(name: str, cell: Cell) -> bool:
    return FIGURES[name].needs <= _KNOWN[cell.beside]
