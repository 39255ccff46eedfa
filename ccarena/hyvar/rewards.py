"""Rewards of Hyvar, Orca and Aurora, and how they are discounted over intervals of different lengths.

Hyvar (slides) and Orca, whose reward differs in details only:

    R = ((thr - ε loss) / RTT) / (thr_max / RTT_min)

1 is the highest throughput so far with empty queues. Throughput and loss are rates in one unit, RTT the mean, thr_max
and RTT_min the extremes of the flow so far. The slides do not give ε: 5 is our value.

Aurora (its paper, §4.2): 10 throughput - 1000 latency - 2000 loss, with packets/s, s and the lost share of packets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccarena.hyvar.spec import AURORA, HYBRID

FloatArray = NDArray[np.floating]
PACKET_BITS = 12_000.0
"""A packet of Aurora's throughput: 1500 bytes."""


@dataclass(frozen=True)
class HyvarReward:
    """Hyvar's and Orca's reward of decision intervals from their reports."""

    epsilon: float = 5.0
    """Weight of loss (not in the slides)."""

    def __call__(self, reports: NDArray[np.float32]) -> NDArray[np.float32]:
        """`[N]` from reports `[N, len(HYBRID.report_fields)]`; 0 where nothing has arrived yet. At most about 1."""
        r = HYBRID.report
        useful = reports[:, r.throughput_mbps] - self.epsilon * reports[:, r.loss_mbps]
        best = reports[:, r.throughput_max_mbps] * reports[:, r.rtt_ms]
        power = useful * reports[:, r.rtt_min_ms]
        return np.divide(power, best, out=np.zeros_like(power), where=best > 0).astype(np.float32, copy=False)


@dataclass(frozen=True)
class AuroraReward:
    """Aurora's reward of monitor intervals from their reports."""

    throughput: float = 10.0
    """Per packet of 1500 bytes per second."""
    latency: float = 1000.0
    """Per second of mean RTT."""
    loss: float = 2000.0
    """Of the lost share of packets."""

    def __call__(self, reports: NDArray[np.float32]) -> NDArray[np.float32]:
        """`[N]` from reports `[N, len(AURORA.report_fields)]`."""
        r = AURORA.report
        packets_per_s = reports[:, r.throughput_mbps] * np.float32(1e6 / PACKET_BITS)
        reward = self.throughput * packets_per_s - self.latency * reports[:, r.rtt_ms] / 1e3
        return (reward - self.loss * reports[:, r.loss_ratio]).astype(np.float32, copy=False)


def discounted(
    rewards: FloatArray, intervals_s: FloatArray, gamma: float, unit_s: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What intervals of different lengths are worth, and the discounts of what follows them, both `[N]`.

    A semi-Markov decision process (Bradtke and Duff, NIPS 1994): time is discounted by γ per `unit_s`, and a reward is
    a rate that lasts for its interval, so with τ = interval / unit it counts R (1 - γ^τ) / (1 - γ), and the future γ^τ.
    At
    τ = 1 that is R and γ: the naive rule, under which a policy gains by being asked often.
    """
    discount = np.power(gamma, np.asarray(intervals_s, dtype=np.float64) / unit_s)
    worth = np.asarray(rewards, dtype=np.float64) * (1.0 - discount) / (1.0 - gamma)
    return worth.astype(np.float32), discount.astype(np.float32)
