"""Volumes of half-spaces in boxes: how much of a box a linear bound decides."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["share_below"]

Array = NDArray[Any]
MOST_SIDES = 10
"""Most sides of a box that are told apart: the sum has 2^n terms."""
LEAST_SIDE = 0.02
"""Slope, as a share of all, below which a side is not told apart: terms cancel in the product of the slopes."""
ERROR = 1e-6
"""Bound of the sum's rounding, with so many sides of at least this share."""


def share_below(slopes: Array, level: Array) -> Array:
    """Returns a lower bound of the share of the cube [-1, 1]^n where slopes t + level <= 0.

    `slopes` `[..., n]` and `level` `[...]` belong together. The share is the distribution of a sum of uniform numbers:
    F(y) = Σ ±(y ± a_1 ... ± a_n)_+^n / (n! Π 2 a_k). Sides that are not told apart count with their worst end.
    """
    a = -np.sort(-np.abs(slopes.reshape(-1, slopes.shape[-1])), axis=1)
    reach, y = a.sum(axis=1), -level.reshape(-1)
    found = (reach <= y).astype(np.float64)  # all of the cube
    part = np.flatnonzero((np.abs(y) < reach) & np.isfinite(reach))
    a, y = a[part] / reach[part, None], y[part] / reach[part]
    told = a >= LEAST_SIDE
    told[:, MOST_SIDES:] = False
    y = y - np.where(told, 0.0, a).sum(axis=1)
    sides = told.sum(axis=1)
    for n in np.unique(sides):
        rows = np.flatnonzero(sides == n)
        signs = np.array(list(product((-1.0, 1.0), repeat=int(n))))
        powers = np.maximum(y[rows, None] + a[rows, :n] @ signs.T, 0.0) ** n
        share = powers @ signs.prod(axis=1) / (math.factorial(n) * np.prod(2 * a[rows, :n], axis=1))
        found[part[rows]] = np.clip(share - ERROR, 0.0, 1.0)
    return found.reshape(level.shape)
