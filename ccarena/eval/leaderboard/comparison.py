"""Comparison of entrants over links: who is better, which groups follow, and which differences can be seen.

All entrants meet the same links with the same seeds, so each comparison is of pairs of runs. A *block* holds the links
of one trace, and of the presets that were fitted to it. The mixed model has random blocks, and a random deviation of
each entrant in each block. With one mean per block, its test of two entrants is the paired t-test over blocks. The
variance of the difference is each pair's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["ERROR", "POWER", "agreement", "better", "groups", "visible"]

ERROR, POWER = 0.05, 0.8
"""Probability of a false finding or more, and of finding the smallest visible difference."""
_NOTHING, _LARGEST = 1e-12, 20.0
Floats = NDArray[np.float64]


def better(scores: Floats, error: float = ERROR) -> NDArray[np.bool_]:
    """Returns whether each is better than each other, `[n, n]`, from log scores `[blocks, n]` of independent blocks.

    Each pair has a paired t-test over blocks, and Holm's procedure allows for their number: the probability of one
    false finding or more is at most `error`. Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure",
    Scandinavian Journal of Statistics 6(2), 1979. Entrants with equal scores, or with a single block, cannot be told
    apart.
    """
    blocks, count = scores.shape
    out = np.zeros((count, count), bool)
    if blocks < 2:
        return out
    one, other = np.triu_indices(count, 1)
    difference = scores[:, one] - scores[:, other]
    mean, deviation = difference.mean(axis=0), difference.std(axis=0, ddof=1)
    size = np.abs(mean) * math.sqrt(blocks) / np.maximum(deviation, _NOTHING)
    chance = np.where(np.abs(mean) > _NOTHING, two_sided(size, blocks - 1), 1.0)
    order = np.argsort(chance, kind="stable")
    kept = chance[order] > error / np.arange(len(order), 0, -1)
    found = order[: int(np.argmax(kept)) if kept.any() else len(order)]
    for pair in found.tolist():
        first, second = (one[pair], other[pair]) if mean[pair] > 0 else (other[pair], one[pair])
        out[first, second] = True
    return out


def groups(means: Sequence[float], is_better: NDArray[np.bool_]) -> list[list[int]]:
    """Returns indices in the order of their means, cut into groups: a group ends before the first entrant that its
    best is better than.

    So each group's best is better than the next group's best, and than none of its own group. The first group is a
    subset that holds the best with high probability (Gupta, "On Some Multiple Decision (Selection and Ranking) Rules",
    Technometrics 7(2), 1965); each next one repeats this without those before it. Departure: groups follow the order of
    means, so an entrant below the cut may be one that cannot be told from the best.
    """
    out: list[list[int]] = []
    for index in sorted(range(len(means)), key=lambda k: -means[k]):
        if not out or is_better[out[-1][0], index]:
            out.append([])
        out[-1].append(index)
    return out


def visible(scores: Floats, order: Sequence[int], error: float = ERROR, power: float = POWER) -> list[float] | None:
    """Returns the smallest difference of two neighbours in `order` that `better` finds with probability `power`.

    It is a share of the score: the median over neighbours, the least and the greatest. `scores` are as for `better`. A
    visible difference has t(1 - error / 2 pairs) + t(power) standard errors. Holm's procedure asks this of the pair
    that it finds first. None if nothing can be seen. Source: Bloom, "Minimum Detectable Effects", Evaluation Review
    19(5), 1995.
    """
    blocks, count = scores.shape
    if blocks < 2 or len(order) < 2:
        return None
    pairs = count * (count - 1) / 2
    wanted = _t_of(error / pairs, blocks - 1) + _t_of(2 * (1 - power), blocks - 1)
    difference = scores[:, order[:-1]] - scores[:, order[1:]]
    each = np.expm1(np.minimum(wanted * difference.std(axis=0, ddof=1) / math.sqrt(blocks), _LARGEST))
    return [float(f"{value:.4g}") for value in (np.median(each), each.min(), each.max())]


def agreement(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns Kendall's tau-b of two lists of scores of the same entrants: 1 is the same order, -1 the opposite.

    It is NaN if all of a list tie. Source: Kendall, "The Treatment of Ties in Ranking Problems", Biometrika 33(3),
    1945.
    """
    first, second = np.triu_indices(len(one), 1)
    x, y = (np.sign(np.subtract(np.take(each, first), np.take(each, second))) for each in (one, other))
    norm = math.sqrt(float((x != 0).sum()) * float((y != 0).sum()))
    return float((x * y).sum()) / norm if norm else math.nan


def two_sided(t: Floats, freedom: int) -> Floats:
    """Returns the probability that |Student's t| with `freedom` degrees is larger (Abramowitz and Stegun 26.7)."""
    angle = np.arctan(t / math.sqrt(freedom))
    sine, cosine = np.sin(angle), np.cos(angle)
    odd = freedom % 2
    term = cosine if odd else np.ones_like(cosine)
    total = np.zeros_like(cosine) if freedom == 1 else term.copy()
    for k in range(3 if odd else 2, freedom - 1, 2):
        term = term * cosine**2 * (k - 1) / k
        total += term
    return 1.0 - (2 / math.pi * (angle + sine * total) if odd else sine * total)


@cache
def _t_of(chance: float, freedom: int) -> float:
    """Returns the t that |Student's t| exceeds with probability `chance`, by bisection."""
    low, high = 0.0, 1.0
    while two_sided(np.array([high]), freedom)[0] > chance and high < 1e9:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(np.array([middle]), freedom)[0] > chance else (low, middle)
    return high
