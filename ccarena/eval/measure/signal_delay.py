"""Signal delays, as mahimahi defines them, and what is computed from them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.eval.measure.packet_log import PacketLog

__all__ = [
    "omniscient_signal_delay_ms",
    "power",
    "sage_score",
    "signal_delay_ms",
    "signal_delay_to_end_ms",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def signal_delay_ms(log: PacketLog, pauses_after_ms: float = math.inf, gone_ns: Ints | None = None) -> Floats:
    """Returns the signal delay of each millisecond from the first to the last arrival.

    The signal delay at t is the least time in which a message created at t can cross the queue (mahimahi's definition,
    in whole milliseconds). The message crosses with the first packet that arrives at t or later, so the delay grows by
    1 ms per ms without arrivals. Only the queue counts.

    An application that has nothing to send has no message. For a flow whose application pauses, `pauses_after_ms` is
    the base RTT. The time between two arrivals is left out if the second comes only after all packets before it are
    acknowledged. A packet that was dropped or lost (`gone_ns`) is outstanding until the next one arrives.
    """
    pauses_after_ns = None if math.isinf(pauses_after_ms) else round(pauses_after_ms * 1e6)
    gone_ns = np.empty(0, np.int64) if gone_ns is None else gone_ns
    low, count = _core.signal_spans(log.arrival_ns, log.departure_ns, pauses_after_ns, gone_ns)
    before = np.repeat(np.cumsum(count) - count, count)
    return (np.repeat(low + count - 1, count) - (np.arange(before.size) - before)).astype(np.float64)


def signal_delay_to_end_ms(log: PacketLog, start_s: float, end_s: float) -> Floats:
    """Returns the signal delay of each millisecond from `start_s` to `end_s`.

    A message that has not left the queue by the end counts with the time that is left. A flow that stops sending thus
    gets no low delay. `trials.rs` computes the same for the objectives of trainings.
    """
    first, last = int(start_s * 1e3), max(int(end_s * 1e3), int(start_s * 1e3) + 1)
    earliest = np.full(last - first, last, np.int64)
    at = np.clip(log.arrival_ns // 1_000_000, first, last - 1) - first
    np.minimum.at(earliest, at, log.departure_ns // 1_000_000)
    now = np.arange(first, last)
    earliest = np.minimum.accumulate(np.maximum(earliest, now)[::-1])[::-1]
    return (earliest - now).astype(np.float64)


def omniscient_signal_delay_ms(
    opportunities_ms: ArrayLike, start_ms: int | None = None, end_ms: int | None = None, q: float = 0.95
) -> float:
    """Returns the signal delay's q-quantile of a sender whose packets arrive exactly at each delivery opportunity.

    It is over the milliseconds from `start_ms` to `end_ms`, by default those of the first and the last opportunity.
    Subtracting it from a scheme's gives Sprout's self-inflicted delay (Winstein et al., NSDI 2013, §5.1). Both must be
    over the same time, since a single long outage changes a percentile. NaN if no opportunity follows.
    """
    times = np.asarray(opportunities_ms, dtype=np.int64)
    if times.size == 0:
        return math.nan
    start = int(times[0]) if start_ms is None else start_ms
    end = min(int(times[-1]), int(times[-1]) if end_ms is None else end_ms)
    # At every opportunity the delay is 0, and 1 ms more for each ms before it.
    at = np.append(times[(times >= start) & (times <= end)], end)
    at = at[np.diff(at, prepend=at[0] - 1) > 0]  # they are sorted: each once
    low = times[np.searchsorted(times, at)] - at
    count = np.diff(at, prepend=start - 1) if start <= end else np.zeros_like(at)
    return _core.percentile_of_spans(low, count, q)


def power(throughput: float, signal_delay_p95: float) -> float:
    """Returns throughput (Mbit/s) over p95 signal delay (s), MIT 6.829 and Stanford CS244's contest figure; NaN at no
    delay.
    """
    return throughput / (signal_delay_p95 / 1e3) if signal_delay_p95 > 0 else math.nan


def sage_score(throughput: float, delay_mean: float) -> float:
    """Returns S = throughput² (Mbit/s)² over mean one-way delay (ms), propagation included (Sage's league, ccBench)."""
    return throughput**2 / delay_mean if delay_mean > 0 else math.nan
