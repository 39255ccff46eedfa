"""ACCT's rewards, one per zone (paper, eqs. 5-7).

With A the α in force during the interval, L the packets lost in it, D/DB its queueing delay over the budget, and
B = |w[A_i] - w[A_(i-1)]| for the scaled-down action space w_k = 1 + 0.1 k:

    Green         A - ωL
    Yellow, Red   (101 - A) - ωL - ζB
    Blue          (101 - A) - β D/DB - ωL - ζB

The paper writes A_(i-1) for "the action taken by the agent in the last window"; by the time the reward of a window is
known that is the α which was in force during it. The paper gives ω = 10 and ζ = 1 but not Blue's β: 10 is our value.
Rewards are unscaled here; learners scale them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccarena.acct.spec import ACTIONS, REPORT, Zone


@dataclass(frozen=True)
class RewardParams:
    """Weights of the rewards' penalties."""

    omega: float = 10.0
    """Per lost packet (paper: 10)."""
    zeta: float = 1.0
    """Of burstiness B (paper: 1)."""
    beta: float = 10.0
    """Of D/DB in Blue (not in the paper)."""


_TOP = float(ACTIONS[-1] + 1)
_SCALED = 1.0 + 0.1 * np.arange(len(ACTIONS))


def burstiness(alpha: NDArray[np.floating], previous_alpha: NDArray[np.floating]) -> NDArray[np.float64]:
    """B of each interval, between 0 and 1.4; arguments are values of α.

    Between actions w is linear: the scheme's `initial_alpha` need not be one.
    """
    return np.abs(np.interp(alpha, ACTIONS, _SCALED) - np.interp(previous_alpha, ACTIONS, _SCALED))


def rewards(reports: NDArray[np.float32], params: RewardParams = RewardParams()) -> NDArray[np.float32]:
    """Unscaled rewards `[N]` of decision intervals from their reports `[N, len(REPORT_FIELDS)]`."""
    zone = reports[:, REPORT.zone]
    alpha = reports[:, REPORT.alpha]
    hold = _TOP - alpha - params.zeta * burstiness(alpha, reports[:, REPORT.previous_alpha])
    hold -= params.beta * reports[:, REPORT.delay_ratio] * (zone == Zone.BLUE)
    out = np.where(zone == Zone.GREEN, alpha, hold) - params.omega * reports[:, REPORT.lost_packets]
    return out.astype(np.float32, copy=False)
