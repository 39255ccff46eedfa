"""Loop of a search: batches of candidates go through the rungs, and the best of all is compared on unseen links."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ccarena.core.files import write_atomically
from ccarena.core.terminal import Progress, again
from ccarena.errors import CcarenaError, ConfigError
from ccarena.runs.journal import Journal
from ccarena.scenarios.entrants import Entrant
from ccarena.searches.candidates import Candidate, best_first
from ccarena.searches.evolution import Evolution
from ccarena.searches.generator import Outside
from ccarena.searches.judge import Judge
from ccarena.searches.prepared import Prepared
from ccarena.searches.programs import Program, Programs
from ccarena.searches.verdict import Verdict, compared
from ccarena.tune.halving import promoted

__all__ = ["CANDIDATES", "Finished", "Source", "search"]

CANDIDATES = "candidates.csv"
"""File of all candidates, the best first."""
STALE = 20
"""Batches in a row without a new candidate, after which a search ends."""


class Source(Protocol):
    """Source of candidates."""

    def ask(self, most: int) -> list[tuple[str, Program]]:
        """Returns at most `most` programs with their names; none ends the search."""

    def tell(self, judged: Sequence[Candidate]) -> None:
        """Takes the results of the last programs, in their order."""

    def close(self) -> str:
        """Ends the source, and returns a sentence on how it ended; empty if there is nothing to say."""


@dataclass(frozen=True)
class Finished:
    """Search that has come to its end."""

    prepared: Prepared
    candidates: Sequence[Candidate]
    """All candidates, the best first."""
    best: Candidate
    entrant: Entrant
    """Entrant of the best."""
    verdict: Verdict
    ended: str = ""
    """Sentence on how the generator ended; empty if there is nothing to say."""


@dataclass
class _Search:
    """State of a search: what was tried, and the scores by rung."""

    prepared: Prepared
    judge: Judge
    programs: Programs
    tried: dict[str, Candidate] = field(default_factory=dict)
    seen: list[list[float]] = field(default_factory=list)

    def whole(self, program: Program) -> Candidate:
        """Runs the template on every rung. Raises ConfigError if it fails there."""
        found = self._run([("", program)], lambda scores, _: list(scores))[0]
        if found.error:
            raise ConfigError(f"the template fails on the links of the search: {found.error}")
        return found

    def batch(self, programs: Sequence[tuple[str, Program]]) -> list[Candidate]:
        """Runs a batch through the rungs, and returns the candidates in its order."""
        new: dict[str, tuple[str, Program]] = {}
        for name, program in programs:
            if program.id not in self.tried:
                new.setdefault(program.id, (name, program))
        self._run(list(new.values()), promoted)
        return [replace(self.tried[program.id], name=name) for name, program in programs]

    def _run(
        self,
        programs: Sequence[tuple[str, Program]],
        choose: Callable[[Mapping[str, float], Sequence[float]], list[str]],
    ) -> list[Candidate]:
        entrants: dict[str, Entrant] = {}
        for name, program in programs:
            number = len(self.tried)
            known = Candidate(number, name, program, 0, -math.inf, {})
            try:
                entrants[program.id] = self.programs.entrant(program, label=f"candidate {number}")
            except CcarenaError as error:
                known = replace(known, error=str(error))
            self.tried[program.id] = known
        for rung, cells in enumerate(self.prepared.rungs):
            if not entrants:
                break
            scores: dict[str, float] = {}
            for key, found in self.judge.run(entrants, cells).items():
                before = self.tried[key]
                if found.error:
                    self.tried[key] = replace(before, score=-math.inf, scores={}, error=found.error)
                    continue
                by_link: dict[str, list[float]] = {}
                for cell, row in zip(cells, found.rows, strict=True):
                    by_link.setdefault(cell.link, []).append(float(row["score"]))
                mean = {link: math.fsum(each) / len(each) for link, each in by_link.items()}
                self.tried[key] = replace(before, rung=rung + 1, score=found.mean, scores=mean)
                scores[key] = found.mean
            chosen = choose(scores, self.seen[rung])
            self.seen[rung] += scores.values()
            entrants = {key: entrants[key] for key in chosen}
        return [self.tried[program.id] for _, program in programs]


def search(prepared: Prepared, folder: Path, workers: int, progress: Progress | None = None) -> Finished:
    """Carries out a plan in `folder`, or goes on with it there. Raises CcarenaError.

    After Ctrl-C, KeyboardInterrupt says how to go on.
    """
    plan, template = prepared.plan, prepared.template
    plan.write(folder)
    with Journal(folder, "ccarena search") as journal:
        judge = Judge(journal, prepared.beside, plan.weights, workers, plan.limit_s, plan.memory_mb)
        programs = Programs(folder, template.entrant, template.spec)
        state = _Search(prepared, judge, programs, seen=[[] for _ in prepared.rungs])
        try:
            first = state.whole(template.program)
            with closing(_source(prepared, journal, folder)) as source:
                source.tell([first])
                ended = _loop(state, source, progress)
            order = best_first(list(state.tried.values()))
            best = order[0]
            write_atomically(folder / CANDIDATES, table_of(order))
            verdict = compared(prepared, judge, programs, best, order)
        except KeyboardInterrupt:
            order = best_first(list(state.tried.values()))
            so_far = f"; best so far: {order[0].said}" if order else ""
            raise KeyboardInterrupt(
                f"interrupted after {len(order)} candidates{so_far} (in {folder}); {again()}"
            ) from None
        journal.settle(sorted(journal.rows))
        return Finished(prepared, order, best, programs.entrant(best.program), verdict, ended)


def _source(prepared: Prepared, journal: Journal, folder: Path) -> Source:
    plan = prepared.plan
    if not plan.generator:
        return Evolution(prepared.template, plan.population, plan.seed)
    about = {
        "template": plan.template,
        "links": plan.links,
        "beside": plan.beside,
        "seed": plan.seed,
        "population": plan.population,
        "candidates": plan.candidates,
        "rungs": plan.rungs,
    }
    return Outside(plan.generator, about, plan.population, plan.silence_s, journal, folder)


def _loop(state: _Search, source: Source, progress: Progress | None) -> str:
    """Judges batches until there are enough candidates, and returns how the source ended."""
    total, stale = state.prepared.plan.candidates, 0
    while (left := total + 1 - len(state.tried)) > 0 and stale < STALE:
        batch = source.ask(left)
        if not batch:
            break
        before = len(state.tried)
        source.tell(state.batch(batch))
        stale = stale + 1 if len(state.tried) == before else 0
        if progress is not None:
            progress(len(state.tried) - 1, total)
    how = source.close()
    if stale >= STALE:
        return f"ended, because {STALE} batches in a row had no new candidate"
    return how


def table_of(candidates: Sequence[Candidate]) -> str:
    """Returns a row per candidate as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["candidate", "name", "rung", "score", "error", "program", "id"])
    for each in candidates:
        score = repr(each.score) if math.isfinite(each.score) else ""
        writer.writerow([each.number, each.name, each.rung, score, each.error, each.program.said, each.program.id])
    return text.getvalue()
