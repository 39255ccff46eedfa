"""How rewards are discounted over intervals of different lengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]


def discounted(
    rewards: FloatArray, intervals_s: FloatArray, gamma: float, unit_s: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What intervals of different lengths are worth, and the discounts of what follows them, both `[N]`.

    A semi-Markov decision process (Bradtke and Duff, NIPS 1994): time is discounted by γ per `unit_s`, and a reward is
    a rate that lasts for its interval, so with τ = interval / unit it counts R (1 - γ^τ) / (1 - γ), and the future γ^τ.
    At τ = 1 that is R and γ: the naive rule, under which an agent gains by being asked often.
    """
    discount = np.power(gamma, np.asarray(intervals_s, dtype=np.float64) / unit_s)
    worth = np.asarray(rewards, dtype=np.float64) * (1.0 - discount) / (1.0 - gamma)
    return worth.astype(np.float32), discount.astype(np.float32)
