"""Percentiles, and means with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena import _core

__all__ = ["Interval", "confidence_interval", "difference", "percentile", "percentiles"]

Floats = NDArray[np.float64]


def percentile(values: ArrayLike, q: float) -> float:
    """Returns the element at index floor(q n) of the n sorted values, NaN if there are none (mm-throughput-graph)."""
    return percentiles(values, [q])[0]


def percentiles(values: ArrayLike, shares: Sequence[float]) -> list[float]:
    """Returns `percentile` of several shares, in less time than one by one."""
    return _core.percentiles(np.ascontiguousarray(values, dtype=np.float64), shares)


@dataclass(frozen=True)
class Interval:
    """Mean over `n` repetitions and its two-sided confidence interval [low, high]; NaN where it has none."""

    mean: float
    low: float
    high: float
    n: int


# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def confidence_interval(values: Sequence[float] | Floats) -> Interval:
    """Returns Student's t interval (95 %) of the mean over seeds; NaN values are left out.

    A single value has no interval, and neither have equal values: repetitions that change nothing do not say how much
    others would change. The bootstrap is no alternative: with three seeds its interval is the range of the three, far
    too narrow.
    """
    known = [float(x) for x in values if x is not None and math.isfinite(x)]
    if len(known) < 2:
        return Interval(known[0] if known else math.nan, math.nan, math.nan, len(known))
    x = np.array(known)
    mean = float(x.mean())
    if np.all(x == x[0]):
        return Interval(float(x[0]), math.nan, math.nan, int(x.size))
    half = _t_95(x.size - 1) * float(x.std(ddof=1)) / math.sqrt(x.size)
    return Interval(mean, mean - half, mean + half, int(x.size))


def difference(ours: Sequence[float] | Floats, theirs: Sequence[float] | Floats) -> Interval:
    """Returns Welch's interval (95 %) of the mean of `ours` less that of `theirs`, two independent samples.

    Values that are not finite are left out. Without two values on each side, or if all are equal, there is no interval.
    """
    a, b = (np.array([x for x in map(float, values) if math.isfinite(x)]) for values in (ours, theirs))
    mean = float(a.mean() - b.mean()) if a.size and b.size else math.nan
    n = int(a.size + b.size)
    if min(a.size, b.size) < 2:
        return Interval(mean, math.nan, math.nan, n)
    u, v = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    if u + v == 0:
        return Interval(mean, math.nan, math.nan, n)
    share = u / (u + v)
    df = 1 / (share**2 / (a.size - 1) + (1 - share) ** 2 / (b.size - 1))
    half = _t_95(max(1, math.floor(df))) * math.sqrt(u + v)  # rounding may bring df just below 1
    return Interval(mean, mean - half, mean + half, n)


def _t_95(df: int) -> float:
    """Returns the two-sided 95 % quantile of Student's t for `df` degrees of freedom."""
    z = 1.959964
    # Above the table: Cornish-Fisher (Abramowitz and Stegun 26.7.5), good to 1e-4 there.
    return _T_95[df - 1] if df <= len(_T_95) else z + (z**3 + z) / (4 * df)
