"""Other draws of a suite's seeds: how a claim would have been judged had chance drawn others like them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ccarena.eval.reproduce.values import Drawn, Row

__all__ = ["CONFIDENCE", "COUNT", "resamples"]

COUNT = 200
CONFIDENCE = 0.95


def resamples(rows: Sequence[Row]) -> list[Drawn]:
    """The bootstrap's samples of `rows`: seeds drawn with replacement, each with all of its rows.

    A seed is drawn as a whole because it may be the same chance in every cell. Where there are fewer different samples
    than [`COUNT`], as of up to four seeds, each comes as often as it would; the same rows give the same samples.
    """
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row)
    known: dict[Any, Any] = {}
    return [Drawn(by_seed, drawn, known) for drawn in _draws(tuple(sorted(by_seed)))]


@functools.lru_cache(maxsize=64)
def _draws(seeds: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Seeds of each sample, sorted."""
    n = len(seeds)
    if n < 2:
        return [seeds]
    if n**n <= COUNT * 2:
        return [tuple(sorted(drawn)) for drawn in itertools.product(seeds, repeat=n)]
    drawn = np.random.default_rng(0).integers(n, size=(COUNT, n))
    return [tuple(seeds[i] for i in sorted(sample)) for sample in drawn.tolist()]


def agreeing(verdicts: Sequence[bool]) -> bool | None:
    """What at least [`CONFIDENCE`] of the verdicts say; None if they say neither so often."""
    share = sum(verdicts) / len(verdicts)
    return True if share >= CONFIDENCE else False if share <= 1 - CONFIDENCE + 1e-12 else None
