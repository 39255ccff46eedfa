"""Fairness between flows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["harm", "jain_index", "satisfaction"]


def jain_index(rates: ArrayLike) -> float:
    """Returns (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has all (Jain, Chiu, Hawe,
    DEC-TR-301, 1984).
    """
    x = np.asarray(rates, dtype=np.float64)
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (x.size * squares) if squares > 0 else math.nan


def satisfaction(rate_mbps: float, required_mbps: float) -> float:
    """Returns x / a: a flow's rate over the least rate that it requires (Hercules, worst-case satisfaction, Fig. 5)."""
    return rate_mbps / required_mbps if required_mbps > 0 else math.nan


def harm(lost: float, of: float) -> float:
    """`lost` / `of`: 0 is none, 1 is all, below 0 a gain (Ware, Mukerjee, Seshan, Sherry, HotNets 2019)."""
    return lost / of if of > 0 else math.nan
