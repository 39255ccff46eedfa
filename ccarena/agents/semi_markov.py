"""Discounts of rewards over intervals of different lengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]


def discounted(
    rewards: FloatArray, intervals_s: FloatArray, gamma: float, unit_s: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns rewards weighted by their intervals, and the discounts of the future, both `[N]`.

    A semi-Markov decision process (Bradtke and Duff, NIPS 1994): time is discounted by γ per `unit_s`, and a reward is
    a rate over its interval. With τ = interval / unit, the reward R becomes R (1 - γ^τ) / (1 - γ), and the discount is
    γ^τ. At τ = 1 these are R and γ. With R and γ for every interval, a policy would gain by short intervals.
    """
    discount = np.power(gamma, np.asarray(intervals_s, dtype=np.float64) / unit_s)
    worth = np.asarray(rewards, dtype=np.float64) * (1.0 - discount) / (1.0 - gamma)
    return worth.astype(np.float32), discount.astype(np.float32)
