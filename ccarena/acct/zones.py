"""ACCT's four zones as a function of rate and delay, and how time is shared between them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Zone(IntEnum):
    """Operating zone of a decision interval (paper, §II-B), as reports carry it."""

    GREEN = 0
    """Below the advertised rate, queueing delay within the budget."""
    YELLOW = 1
    """At or above the advertised rate, within the budget."""
    RED = 2
    """At or above the advertised rate, over the budget."""
    BLUE = 3
    """Below the advertised rate, over the budget: the bottleneck does not signal."""


def classify(
    cwnd_packets: ArrayLike, twnd_packets: ArrayLike, queueing_delay_ms: ArrayLike, budget_ms: float = 5.0
) -> NDArray[np.int64]:
    """Zones of decision intervals, broadcast over the arguments.

    The paper states Green and Yellow by a "certain threshold" and by the budget; both are taken as the budget, which
    makes the two axes (`cwnd < twnd`, `delay < budget`) a complete partition. Paper, §II-B.
    """
    below = np.asarray(cwnd_packets) < np.asarray(twnd_packets)
    within = np.asarray(queueing_delay_ms) < budget_ms
    return np.where(within, np.where(below, Zone.GREEN, Zone.YELLOW), np.where(below, Zone.BLUE, Zone.RED))


def shares(zones: ArrayLike) -> NDArray[np.float64]:
    """Share of decision intervals in each zone, `[len(Zone)]`, summing to 1; zeros for no interval at all."""
    counts = np.bincount(np.asarray(zones, dtype=np.int64).ravel(), minlength=len(Zone)).astype(np.float64)
    return counts / max(counts.sum(), 1.0)
