"""Searches a scheme's parameters by CMA-ES, scored by whole runs over the same links for every candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccarena.configs.ranges import Ranges
from ccarena.configs.schema import CmaEsConfig

__all__ = ["Score", "Tried", "search"]

Vectors = NDArray[np.float64]
Values = Mapping[str, float]
Score = Callable[[Sequence[Values]], Sequence[float]]
"""Returns the mean objective of each candidate's parameters."""
SIGMA = 0.25
"""Standard deviation of the first generation, in widths of the ranges."""


@dataclass(frozen=True)
class Tried:
    """A candidate and its score."""

    values: Values
    score: float


def search(
    ranges: Ranges,
    start: Values,
    score: Score,
    candidates: int,
    seed: int,
    tell: Callable[[Sequence[Tried]], None] = lambda tried: None,
) -> Tried:
    """Returns the best of `start`, of at least `candidates` others and of the centre that the search ends at.

    `tell` gets all that were tried, after each generation. The same arguments try the same candidates.
    """
    # Only here, since the package is of the extra `train`.
    from ccarena.core.cma_es import CmaEs

    tried: list[Tried] = []

    def judge(asked: Sequence[Values]) -> Vectors:
        scores = np.array(score(asked), dtype=np.float64)
        tried.extend(Tried(values, float(each)) for values, each in zip(asked, scores, strict=True))
        tell(tried)
        return scores

    judge([dict(start)])
    strategy = CmaEs(ranges.shares(start), 0, CmaEsConfig(sigma=SIGMA), seed)
    while len(tried) <= candidates:
        asked = [ranges.values(shares) for shares in strategy.ask()]
        strategy.tell(judge(asked), 0.0)
    judge([ranges.values(strategy.centre)])
    return max(tried, key=lambda each: each.score)
