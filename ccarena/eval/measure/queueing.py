"""Queueing delays and queue lengths.

A packet's queueing delay is departure - arrival - own serialisation: the time it stood behind others (and, over a
trace, waited for its delivery opportunity, as mahimahi counts it). Propagation is outside.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.eval.measure.packet_log import PacketLog

__all__ = [
    "bin_queueing_delay_ms",
    "cdf",
    "one_way_delay_ms",
    "queue_cdf",
    "queueing_delay_ms",
    "share_within_delay",
    "share_within_packets",
    "time_in_queue_length_ns",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def queueing_delay_ms(log: PacketLog) -> Floats:
    """Returns each packet's queueing delay, in log order: departure - arrival - own serialisation."""
    return _core.delays_ms(log.arrival_ns, log.departure_ns, _sending_ns(log), 0.0)


def one_way_delay_ms(log: PacketLog, propagation_ms: float) -> Floats:
    """Returns each packet's time from the queue's entry to the link's far end, in log order."""
    return _core.delays_ms(log.arrival_ns, log.departure_ns, None, propagation_ms)


def share_within_delay(log: PacketLog, budget_ms: float, start_s: float, end_s: float) -> float:
    """Returns the share of the time in [start, end) with at most `budget_ms` of work in the queue (ACCT §III, Fig. 5b).

    The work at t is the virtual waiting time of queueing theory: how long a packet that arrived at t would wait until
    all earlier packets had left. Unlike a share of packets it counts idle time and does not favour fast phases.
    """
    start_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
    if end_ns <= start_ns:
        return math.nan
    over_ns = _core.time_over_delay_ns(log.arrival_ns, log.departure_ns, round(budget_ms * 1e6), start_ns, end_ns)
    return 1.0 - over_ns / (end_ns - start_ns)


def time_in_queue_length_ns(log: PacketLog, start_s: float, end_s: float) -> Ints:
    """Returns the time in [start, end) during which exactly k packets were queued, for k = 0, 1, ...

    A packet is queued from its arrival until its own transmission starts; the one on the wire is not in the queue (as
    ns-3 and Linux count it). On a trace-driven link it is queued until it departs.
    """
    times_ns = round(start_s * 1e9), round(end_s * 1e9)
    return _core.time_in_queue_length_ns(log.arrival_ns, log.departure_ns, _sending_ns(log), *times_ns)


def _sending_ns(log: PacketLog) -> NDArray[np.uint32]:
    return np.ascontiguousarray(log.serialisation_ns, dtype=np.uint32)


def queue_cdf(log: PacketLog, start_s: float, end_s: float) -> tuple[Ints, Floats]:
    """Returns (k, share of the time with at most k packets queued): ACCT's Fig. 5(a)."""
    return cdf(time_in_queue_length_ns(log, start_s, end_s))


def cdf(spent: Ints) -> tuple[Ints, Floats]:
    total = spent.sum()
    return np.arange(len(spent)), np.cumsum(spent) / total if total else np.ones(len(spent))


def share_within_packets(log: PacketLog, packets: int, start_s: float, end_s: float) -> float:
    """Returns the share of the time with at most `packets` packets queued (ACCT §III: 5 packets, 80 % of the time)."""
    _, share = queue_cdf(log, start_s, end_s)
    return float(share[min(packets, len(share) - 1)])


def bin_queueing_delay_ms(log: PacketLog, duration_s: float, bin_s: float) -> Floats:
    """Returns the largest queueing delay among the packets that left in each bin, NaN where none did."""
    bins = max(1, math.ceil(duration_s / bin_s - 1e-9))
    index = np.minimum(log.departure_ns // round(bin_s * 1e9), bins - 1)
    worst = np.full(bins, -np.inf)
    np.maximum.at(worst, index, queueing_delay_ms(log))
    return np.where(np.isfinite(worst), worst, np.nan)
