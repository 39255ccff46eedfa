"""Sample of runs that a check repeats, and the forgery that it would miss.

The seed is secret until the check is over: the author of a forged file must not know which runs are repeated. At least
one run of each part is drawn, so that every entrant and every class of traces is checked.
"""

from __future__ import annotations

import math
import random
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Sample", "draw"]

Part = tuple[str, str]
"""Entrant of a run, and its class of traces."""


@dataclass(frozen=True)
class Sample:
    """Runs that are repeated."""

    chosen: tuple[int, ...]
    """Indices of the runs."""
    seed: int
    missed: float
    """Probability that the draw has no false run, if half of the runs of one entrant are false."""

    def said(self, of: int) -> str:
        """Returns the text for a user: the numbers, their meaning, and the way to repeat the draw."""
        missed = "never" if self.missed <= 0 else f"with a probability of at most {100 * self.missed:.2g} %"
        return (
            f"{len(self.chosen):,} of {of:,} runs were repeated and agree (--sample-seed {self.seed} repeats them); a "
            f"file in which half of an entrant's runs are false passes {missed}"
        )


def draw(parts: Sequence[Part], count: int, seed: int | None = None) -> Sample:
    """Draws at least one run of each part, and `count` runs in all if there are as many.

    `parts` has the part of each run. A `seed` repeats an earlier draw; without one it is drawn from the system's source
    of secrets.
    """
    seed = secrets.randbits(63) if seed is None else seed
    drawn = random.Random(seed)
    order = list(range(len(parts)))
    drawn.shuffle(order)
    first: dict[Part, int] = {}
    for index in order:
        first.setdefault(parts[index], index)
    chosen = set(first.values())
    rest = [index for index in order if index not in chosen]
    chosen.update(rest[: max(0, count - len(chosen))])
    return Sample(tuple(sorted(chosen)), seed, _missed(Counter(parts), Counter(parts[index] for index in chosen)))


def _missed(runs: Counter[Part], repeated: Counter[Part]) -> float:
    """Returns the highest probability, over entrants, of half the runs false and no false run repeated.

    The forger knows how many runs of each part are repeated, and chooses the false ones best: each next false run goes
    to the part where it adds least to the risk. This is optimal, because in a part with `n` of `left` runs repeated the
    factor (left - n) / left falls with each false run.
    """
    worst = 0.0
    for owner in {owner for owner, _ in runs}:
        left = {part: count for part, count in runs.items() if part[0] == owner}
        logarithm = 0.0
        for _ in range(math.ceil(sum(left.values()) / 2)):
            part = max(left, key=lambda part: (left[part] - repeated[part]) / left[part] if left[part] else 0.0)
            if left[part] <= repeated[part]:
                logarithm = -math.inf
                break
            logarithm += math.log((left[part] - repeated[part]) / left[part])
            left[part] -= 1
        worst = max(worst, math.exp(logarithm))
    return worst
