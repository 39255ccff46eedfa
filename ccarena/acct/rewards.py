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

from ccarena.envs.native_reward import NativeReward


class acct(NativeReward):  # noqa: N801 - configurations call the reward by this name
    """A - ωL in Green, 101 - A - ωL - ζB in Yellow and Red, and 101 - A - ωL - ζB - βD in Blue, `[N]`. A is α, L the
    lost packets, B a tenth of the steps between this action and the last, and D the queueing delay over the budget.
    """

    def __init__(self, omega: float = 10.0, zeta: float = 1.0, beta: float = 10.0) -> None:
        columns = ("zone", "alpha", "previous_alpha", "delay_ratio", "lost_packets")
        super().__init__("acct", columns, (omega, zeta, beta))
