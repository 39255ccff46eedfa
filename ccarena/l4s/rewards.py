"""Reward of a scalable sender: a rate near the fair share, and a short queue.

The reward of a round trip is the product of two numbers, each 1 at best:

- the smaller of rate / fair share and fair share / rate. The fair share is the capacity over the active flows;
- D / (D + queueing delay). At a queueing delay of D the reward is half of what it is at none.
"""

from __future__ import annotations

from ccarena.envs.native_reward import NativeReward


class l4s(NativeReward):  # noqa: N801 - configurations call the reward by this name
    """(min(rate, share) / max(rate, share)) D / (D + queueing delay), `[N]`, with D = `delay_ms`."""

    def __init__(self, delay_ms: float = 10.0) -> None:
        columns = ("privileged.own_mbps", "privileged.fair_share_mbps", "queueing_delay_ms")
        super().__init__("l4s", columns, (delay_ms,))
