"""Rewards of ACCT, one per zone (paper, eqs. 5-7).

    Green         A - ωL
    Yellow, Red   (101 - A) - ωL - ζB
    Blue          (101 - A) - β D/DB - ωL - ζB

A is the α in force during the interval, L the lost packets, and D/DB the queueing delay over the budget. With the
scaled-down action space w_k = 1 + 0.1 k, B is |w[A_i] - w[A_(i-1)]|.

The paper writes A_(i-1) for "the action taken by the agent in the last window". When the reward of a window is known,
this is the α that was in force during it. The paper gives ω = 10 and ζ = 1 but not Blue's β: 10 is our value. Rewards
are unscaled here; learners scale them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ccarena.acct.zones import Zone
from ccarena.envs.rewards import Columns
from ccarena.policies.spec import Spec


def burstiness(
    alpha: NDArray[np.floating], previous_alpha: NDArray[np.floating], actions: tuple[float, ...]
) -> NDArray[np.float64]:
    """Returns B of each interval, between 0 and a tenth per action; arguments are values of α.

    Between actions w is linear: the scheme's `initial_alpha` need not be one.
    """
    values, scaled = _scaled(actions)
    return np.abs(np.interp(alpha, values, scaled) - np.interp(previous_alpha, values, scaled))


@cache
def _scaled(actions: tuple[float, ...]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Returns the actions and their w; cached, because rewards are computed at every step."""
    return np.asarray(actions, np.float64), 1.0 + 0.1 * np.arange(len(actions))


def acct(
    report: Columns, spec: Spec, omega: float = 10.0, zeta: float = 1.0, beta: float = 10.0
) -> NDArray[np.float32]:
    """Returns A - ωL in Green, 101 - A - ωL - ζB in Yellow and Red, and 101 - A - ωL - ζB - βD in Blue, `[N]`.
    A is α, L the lost packets, B a tenth of the steps between this action and the last, and D the queueing delay over
    the budget.
    """
    # A plain number: NumPy takes four times as long to compare an array with a member of an enumeration.
    zone, alpha = report.zone, report.alpha
    hold = float(spec.actions[-1] + 1) - alpha - zeta * burstiness(alpha, report.previous_alpha, spec.actions)
    hold -= beta * report.delay_ratio * (zone == Zone.BLUE.value)
    out = np.where(zone == Zone.GREEN.value, alpha, hold) - omega * report.lost_packets
    return out.astype(np.float32, copy=False)
