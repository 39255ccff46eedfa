"""Evolution: candidates made of the best ones so far, by changing one gene or mixing two candidates.

Every generation draws from a generator of its own, seeded by the search's seed and the generation's number. The journal
keeps the scores, so a search that goes on is the same as one that was not interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ccarena.searches.candidates import Candidate, best_first
from ccarena.searches.expressions import size
from ccarena.searches.programs import Program
from ccarena.searches.templates import Template, Values

__all__ = ["Evolution"]

ELITE = 0.25
"""Share of a generation from which parents are chosen, the better the more often."""
FRESH, MIXED = 0.1, 0.3
"""Shares of candidates that are drawn anew, and that are mixed of two parents."""
_TRIES = 20
"""Attempts at a candidate that was not tried before."""


class Evolution:
    """Source of candidates (`ccarena.searches.run.Source`)."""

    def __init__(self, template: Template, population: int, seed: int) -> None:
        self._template, self._population, self._seed = template, population, seed
        self._generation = 0
        self._values: dict[str, Values] = {template.render(template.start).id: template.start}
        self._seen = {template.program.id}
        self._best: list[Candidate] = []

    def ask(self, most: int) -> list[tuple[str, Program]]:
        """Returns at most `most` new candidates; none if no other one was found."""
        rng = np.random.Generator(np.random.PCG64([self._seed, 0x5EA, self._generation]))
        found: dict[str, Program] = {}
        if self._generation == 0:
            for program in self._template.first()[:most]:
                if "rule" in self._template.genes:
                    self._values[program.id] = {"rule": float(program.text)}
                found[program.id] = program
        for _ in range(_TRIES * self._population):
            if len(found) >= min(self._population, most):
                break
            values = self._drawn(rng)
            program = self._template.render(values)
            if program.id not in self._seen:
                self._values[program.id] = values
                found.setdefault(program.id, program)
        self._generation += 1
        self._seen |= found.keys()
        return [("", program) for program in found.values()]

    def tell(self, judged: Sequence[Candidate]) -> None:
        """Takes the results of the last candidates."""
        count = max(2, round(ELITE * self._population))
        able = [each for each in (*self._best, *judged) if not each.error and each.program.id in self._values]
        self._best = best_first(able, self._size)[:count]

    def close(self) -> str:
        """Ends the source, and returns a sentence on how it ended; empty if there is nothing to say."""
        return ""

    def _drawn(self, rng: np.random.Generator) -> Values:
        kind = rng.random()
        if kind < FRESH:
            return {name: gene.drawn(rng) for name, gene in self._template.genes.items()}
        values = dict(self._parent(rng))
        if kind < FRESH + MIXED and len(self._best) > 1:
            other = self._parent(rng)
            return {name: gene.crossed(values[name], other[name], rng) for name, gene in self._template.genes.items()}
        names = list(self._template.genes)
        chosen = {names[int(rng.integers(len(names)))], *(name for name in names if rng.random() < 0.2)}
        for name in names:
            if name in chosen:
                values[name] = self._template.genes[name].mutated(values[name], rng)
        return values

    def _parent(self, rng: np.random.Generator) -> Values:
        if not self._best:
            return self._template.start
        return self._values[self._best[int(rng.random() ** 2 * len(self._best))].program.id]

    def _size(self, candidate: Candidate) -> int:
        return sum(_size(value) for value in self._values[candidate.program.id].values())


def _size(value: Any) -> int:
    return size(value) if isinstance(value, (tuple, str)) else 1
