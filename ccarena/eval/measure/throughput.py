"""Rates: of a log, over time, and of the capacity."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.eval.measure.packet_log import PacketLog

__all__ = ["bin_capacity_mbps", "bin_throughput_mbps", "convergence_time_s", "throughput_mbps", "utilisation"]

Floats = NDArray[np.float64]


def throughput_mbps(log: PacketLog, start_s: float, end_s: float) -> float:
    """Returns the rate of bytes that left the link in (start, end] (mahimahi: departed bits / duration)."""
    if end_s <= start_s:
        return math.nan
    # The least and the greatest are found sooner than those within.
    at_ns, from_ns, to_ns = log.departure_ns, start_s * 1e9, end_s * 1e9
    whole = len(log) > 0 and at_ns.min() > from_ns and at_ns.max() <= to_ns
    left = log.bytes if whole else log.bytes[(at_ns > from_ns) & (at_ns <= to_ns)]
    return float(left.sum()) * 8e-6 / (end_s - start_s)


def utilisation(delivered_bytes: float, capacity_bytes: float) -> float:
    """Returns delivered over deliverable bytes, in [0, 1].

    A trace's opportunities are 1504 bytes and a full packet has 1500, so the maximum on a trace is 0.997.
    """
    return delivered_bytes / capacity_bytes if capacity_bytes > 0 else math.nan


def convergence_time_s(
    rates_mbps: ArrayLike, target_mbps: ArrayLike, bin_s: float = 1.0, hold_s: float = 5.0, tolerance: float = 0.25
) -> float:
    """Returns the smallest t from which every bin of the next `hold_s` is within `tolerance` of its target; NaN if none
    is.

    PCC's forward-looking rule (Dong et al., NSDI 2015): 1 s bins, 5 s, 25 % of the ideal equal rate. `rates_mbps`
    starts at the event (arrival or change); `target_mbps` is a number or one per bin.
    """
    rates = np.asarray(rates_mbps, dtype=np.float64)
    target = np.broadcast_to(np.asarray(target_mbps, dtype=np.float64), rates.shape)
    near = np.abs(rates - target) <= tolerance * target
    hold = max(1, round(hold_s / bin_s))
    if rates.size < hold:
        return math.nan
    runs = np.lib.stride_tricks.sliding_window_view(near, hold).all(axis=1)
    return float(np.argmax(runs)) * bin_s if runs.any() else math.nan


def bin_throughput_mbps(log: PacketLog, duration_s: float, bin_s: float, start_s: float = 0.0) -> Floats:
    """Returns departures as a rate per bin of `bin_s`, from `start_s` on: float64[ceil(duration / bin)]."""
    bins = max(1, math.ceil(duration_s / bin_s - 1e-9))
    index = np.minimum((log.departure_ns - round(start_s * 1e9)) // round(bin_s * 1e9), bins - 1)
    sent = np.bincount(index, weights=log.bytes, minlength=bins)
    return sent.astype(np.float64) * 8e-6 / bin_s


def bin_capacity_mbps(capacity_mbps: ArrayLike, per_bin: int) -> Floats:
    """Returns means over `per_bin` consecutive bins; the last may be shorter."""
    capacity = np.asarray(capacity_mbps, dtype=np.float64)
    starts = np.arange(0, capacity.size, per_bin)
    return np.add.reduceat(capacity, starts) / np.diff(np.append(starts, capacity.size)) if capacity.size else capacity
