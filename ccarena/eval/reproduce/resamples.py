"""Resamples of a suite's seeds: the judgement of a claim under other draws of the seeds."""

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
    """Returns the bootstrap's samples of `rows`: seeds drawn with replacement, each with all of its rows.

    A seed is drawn as a whole because it may be the same draw in every cell. If there are fewer different samples than
    [`COUNT`], as of up to four seeds, each is weighted by its probability. The same rows give the same samples.
    """
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row)
    known: dict[Any, Any] = {}
    return [Drawn(by_seed, drawn, known) for drawn in _draws(tuple(sorted(by_seed)))]


@functools.lru_cache(maxsize=64)
def _draws(seeds: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the seeds of each sample, sorted."""
    n = len(seeds)
    if n < 2:
        return [seeds]
    if n**n <= COUNT * 2:
        return [tuple(sorted(drawn)) for drawn in itertools.product(seeds, repeat=n)]
    drawn = np.random.default_rng(0).integers(n, size=(COUNT, n))
    return [tuple(seeds[i] for i in sorted(sample)) for sample in drawn.tolist()]


def agreeing(verdicts: Sequence[bool]) -> bool | None:
    """Returns the verdict of at least [`CONFIDENCE`] of the samples; None if no verdict is as frequent."""
    share = sum(verdicts) / len(verdicts)
    return True if share >= CONFIDENCE else False if share <= 1 - CONFIDENCE + 1e-12 else None
