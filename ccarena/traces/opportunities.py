"""Conversion of rates into mahimahi's delivery opportunities, in chunks, so that memory does not grow with the rate.

One fractional credit runs through the whole trace. An opportunity of 1500 bytes is placed in the millisecond in which
the sum of all capacity reaches the next multiple of 1500 bytes. No capacity is lost between rows. A trace lasts until
its last opportunity: if the rates last longer, a last opportunity is placed at their end.

Rows of a second hide what the link did within it. `burstiness` puts the fast component of the synthetic links
(`ccarena.traces.presets`) into every row, rescaled so that each row keeps its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.errors import ConfigError, TraceError

__all__ = ["MAX_OPPORTUNITIES", "PACKET_BITS", "from_rates", "opportunities"]

PACKET_BITS = 1500 * 8
MAX_OPPORTUNITIES = 1_000_000_000
"""Most opportunities of one trace: about 10 GB of text."""
_CHUNK = 2**18
_BURST_TICK_MS = 20
_BURST_TAU_MS = 150
_BURST_MAX_ROW_S = 3600.0

Pieces = Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Packets and milliseconds of consecutive rows."""


def from_rates(
    rates_mbps: ArrayLike, intervals_s: ArrayLike, *, name: str = "rates", burstiness: float = 0.0, seed: int = 0
) -> NDArray[np.uint32]:
    """Returns the whole trace of `opportunities`: `uint32` milliseconds."""
    chunks = opportunities(rates_mbps, intervals_s, name=name, burstiness=burstiness, seed=seed)
    return np.concatenate(list(chunks))


def opportunities(
    rates_mbps: ArrayLike, intervals_s: ArrayLike, *, name: str = "rates", burstiness: float = 0.0, seed: int = 0
) -> Iterator[NDArray[np.uint32]]:
    """Yields the trace that offers each rate for its interval, as chunks of `uint32` milliseconds.

    It has floor(all bytes / 1500) opportunities, and one more at the end if the last of them stands before it.

    Args:
        rates_mbps: `float[rows]`, not negative.
        intervals_s: `float[rows]`, above 0, or one number for all.
        name: stands in errors, whose lines are the rows from 1.
        burstiness: coefficient of variation of the rate within a row, 0 to 2; 0 spreads a row's bytes evenly.
        seed: of the burstiness.

    Raises, before the first chunk:
        TraceError: a rate or an interval is not finite or out of range, or the trace is too short or too long.
        ConfigError: `burstiness` is out of range.
    """
    rates, intervals = np.broadcast_arrays(
        np.asarray(rates_mbps, float).ravel(), np.asarray(intervals_s, float).ravel()
    )
    if not 0 <= burstiness <= 2:
        raise ConfigError(f"burstiness is {burstiness}; expected 0 to 2")
    for values, what, wrong in (
        (rates, "a rate in Mbit/s, 0 or more", ~(rates >= 0) | np.isinf(rates)),
        (intervals, "an interval in s, above 0", ~(intervals > 0) | np.isinf(intervals)),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise TraceError(f"{name}:{row + 1}: {values[row]} is not {what}")
    packets, spans_ms = rates * 1e6 * intervals / PACKET_BITS, intervals * 1000.0
    total, length_ms = float(packets.sum()), float(spans_ms.sum())
    if length_ms > 2**32 - 1:
        raise TraceError(f"{name}: the rows last {length_ms / 1000:.0f} s; a trace ends before {2**32 // 1000} s")
    if total > MAX_OPPORTUNITIES:
        raise TraceError(
            f"{name}: {total:.4g} opportunities of 1500 bytes; a trace has at most {MAX_OPPORTUNITIES:.0e} "
            "(take a part with --from and --until, or write rates with --out NAME.json)"
        )
    # Sums of decimal fractions miss whole numbers by rounding errors, which would cost a millisecond or a packet.
    slack = 1e-12 * max(total, 1.0) + 1e-9
    if total + slack < 1:
        raise TraceError(f"{name}: all rows together carry {total * 1500:.0f} bytes; expected at least 1500")
    pieces: Pieces = iter([(packets, spans_ms)])
    if burstiness > 0:
        if (intervals > _BURST_MAX_ROW_S).any():
            row = int(np.argmax(intervals > _BURST_MAX_ROW_S))
            raise TraceError(
                f"{name}:{row + 1}: a row of {intervals[row]:g} s; burstiness takes at most {_BURST_MAX_ROW_S:g} s"
            )
        pieces = _with_bursts(packets, spans_ms, burstiness, seed)
    return _emitted(pieces, slack)


def _emitted(pieces: Pieces, slack: float) -> Iterator[NDArray[np.uint32]]:
    base, base_ms, done, last = 0.0, 0.0, 0, 1
    for packets, spans_ms in pieces:
        # The inverse of the cumulative capacity, which is piecewise linear, at 1, 2, 3, ... packets.
        gathered = base + np.concatenate(([0.0], np.cumsum(packets)))
        ends_ms = base_ms + np.concatenate(([0.0], np.cumsum(spans_ms)))
        base, base_ms = float(gathered[-1]), float(ends_ms[-1])
        until = math.floor(base + slack)
        for first in range(done, until, _CHUNK):
            wanted = np.arange(first + 1, min(first + _CHUNK, until) + 1, dtype=float)
            row = np.minimum(np.searchsorted(gathered, wanted - slack, side="left"), packets.size) - 1
            share = np.clip((wanted - gathered[row]) / packets[row], 0.0, 1.0)
            times = np.ceil(ends_ms[row] + share * spans_ms[row] - 1e-6)
            times = np.maximum.accumulate(np.maximum(times, last)).astype(np.uint32)
            last = int(times[-1])
            yield times
        done = max(done, until)
    end = math.ceil(base_ms - 1e-6)
    if last < end or done == 0:
        yield np.array([max(end, 1)], dtype=np.uint32)


def _with_bursts(packets: NDArray[np.float64], spans_ms: NDArray[np.float64], cv: float, seed: int) -> Pieces:
    """Cuts rows into ticks whose shares follow exp(Ornstein-Uhlenbeck), rescaled to each row's packets."""
    ticks = np.maximum(np.rint(spans_ms / _BURST_TICK_MS).astype(int), 1)
    ends = np.cumsum(ticks)
    decay = math.exp(-_BURST_TICK_MS / _BURST_TAU_MS)
    rng = np.random.default_rng(seed)
    level, start = 0.0, 0
    while start < packets.size:
        so_far = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, so_far + _CHUNK, side="right")))
        rows = slice(start, stop)
        owner = np.repeat(np.arange(stop - start), ticks[rows])
        noise = rng.standard_normal(owner.size)
        noise[int(start == 0) :] *= math.sqrt(1 - decay * decay)
        log_rate = np.empty(owner.size)
        for i, step in enumerate(noise.tolist()):
            level = decay * level + step
            log_rate[i] = level
        weight = np.exp(math.sqrt(math.log1p(cv * cv)) * log_rate)
        share = weight / np.bincount(owner, weight)[owner]
        yield packets[rows][owner] * share, (spans_ms[rows] / ticks[rows])[owner]
        start = stop
