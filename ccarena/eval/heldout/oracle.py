"""Oracle that knows the capacity one RTT late: a bound on what any scheme can learn to do.

An end-to-end sender learns of a link's state one round trip later at the earliest. A change of capacity therefore costs
every scheme a round trip of queue (capacity fell) or of idleness (it rose). The oracle is the sender that knows
everything else. At each moment it has the link's capacity and the fate of its own packets, both exactly one base RTT
old. It keeps one bandwidth-delay product in flight, paced:

    a(t) = clip(S(t - RTT) + L(t - RTT) + g c(t - RTT) RTT - A(t), 0, g c(t - RTT) dt)

A is sent, S served and L lost so far, c the capacity, and g = 1. With `average_ms`, c is a mean, as measured by a
router that counts a trace's delivery opportunities. The queue is fluid, FIFO, with a tail-drop limit:

    q(t + dt) = min(q(t) + a(t), limit) - served,  served = min(q(t) + a(t), c(t) dt)

It is the bound for senders that trust the last known capacity. If capacity varies all the time, throughput is traded
for delay: `gain` g above 1 keeps more in flight, and a set of gains draws the curve that such a sender cannot cross
(`trade_off`). A sender that predicts capacity is outside the bound, as is one that catches up faster than at g c after
a rise.

A real scheme also pays for the rounding to packets (2.4 ms at 5 Mbit/s). If it sends nothing into an outage, it does
not learn of the outage's end. The senders of `trade_off` therefore send whole packets, have one in flight at least, and
send one beyond their window after a round trip in which they sent none.

The causal oracle is told nothing: c is what its own packets showed, one RTT late. A slot in which it had a queue shows
the capacity. Another slot shows that the link served what came, so the estimate stays, or rises to what was served.
Until it knows of its first queue, it doubles its window per round trip. Its gain and its window of averaging are those
that are best on the link, with hindsight. So it shows what an end-to-end sender can reach, and is no bound on it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.eval.measure.loss import loss_shares
from ccarena.eval.measure.sample import percentile
from ccarena.eval.measure.table import normalised_power

__all__ = ["Bound", "best_score", "one_rtt_late", "trade_off"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_PACKET_BYTES = 1500


@dataclass(frozen=True)
class Bound:
    """Reach of the oracle on a link; figures named and defined as in `FIGURES`, delays byte-weighted."""

    throughput_mbps: float
    utilisation: float
    queueing_delay_mean_ms: float
    queueing_delay_p95_ms: float
    share_within_budget: float
    share_within_5_packets: float
    queue_p80_packets: float
    loss_share: float
    queue_drop_share: float
    rate_mbps: Floats
    queueing_delay_ms: Floats

    def figures(self) -> dict[str, float]:
        """Returns the scalar figures, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, float)}


def one_rtt_late(
    capacity_mbps: ArrayLike,
    slot_ms: float,
    base_rtt_ms: float,
    limit_bytes: float = math.inf,
    *,
    gain: float = 1.0,
    average_ms: float = 0.0,
    budget_ms: float = 5.0,
) -> Bound:
    """Runs the oracle over `capacity_mbps`, one value per slot of `slot_ms`.

    - `base_rtt_ms` is rounded to whole slots, at least one.
    - `limit_bytes` is the queue's limit.
    - `gain` is the data in flight, in bandwidth-delay products.
    - `average_ms` is the window over which capacity is measured (0: exactly).

    The result has `rate_mbps` and `queueing_delay_ms` per slot. Raises ValueError without capacity, slot or RTT.
    """
    capacity = np.asarray(capacity_mbps, dtype=np.float64)
    if capacity.size == 0 or slot_ms <= 0 or base_rtt_ms <= 0:
        raise ValueError(
            f"an oracle needs capacity, slot and RTT above 0, got {capacity.size} slots, {slot_ms=}, {base_rtt_ms=}"
        )
    slots = capacity.size
    late = max(1, round(base_rtt_ms / slot_ms))
    served_most = capacity * slot_ms * 125.0
    known = _trailing_mean(served_most, max(1, round(average_ms / slot_ms)))
    sent, served, lost, queue = _core.one_rtt_late(served_most, known, late, gain, limit_bytes, 0.0)
    accepted = sent - lost
    waits, weight = _core.oracle_waits(accepted, served), np.diff(accepted)
    delay = waits.astype(np.float64) * slot_ms
    losses = loss_shares(float(lost[-1]), 0.0, float(sent[-1] - lost[-1]))
    packets = np.floor(queue[1:] / _PACKET_BYTES + 1e-9)
    return Bound(
        throughput_mbps=float(served[-1]) / (slots * slot_ms * 125.0),
        utilisation=float(served[-1] / served_most.sum()) if served_most.sum() > 0 else math.nan,
        queueing_delay_mean_ms=float(np.average(delay, weights=weight)) if weight.sum() > 0 else math.nan,
        queueing_delay_p95_ms=_weighted_quantile(waits, weight, 0.95) * slot_ms,
        share_within_budget=float(np.mean(delay <= budget_ms)),
        share_within_5_packets=float(np.mean(packets <= 5)),
        queue_p80_packets=percentile(packets, 0.8),
        **losses,
        rate_mbps=np.diff(served) / (slot_ms * 125.0),
        queueing_delay_ms=delay,
    )


GAINS = tuple(np.geomspace(0.5, 4.0, 13).tolist())
"""Data in flight along the trade-off of delay and throughput, in bandwidth-delay products."""
AVERAGES_MS = (20.0, 100.0, 200.0)
"""Windows over which capacity is measured along the trade-off."""


@functools.lru_cache(maxsize=64)
def trade_off(capacity_mbps: bytes, slot_ms: float, late: int, limit_bytes: float) -> tuple[Floats, Floats]:
    """Returns the trade-off of such senders: utilisations, rising, and 95th percentiles of the signal delay in ms.

    The senders send whole packets. Where a slot carries more than one packet, what it leaves of the last one is not
    sent later, so utilisations are a little lower than such senders could reach; `best_score` sends it.
    `capacity_mbps` is an array of float64 as bytes, `late` the base RTT in slots. Of all `GAINS` and `AVERAGES_MS`,
    those remain that no other sender improves on in both.
    """
    served_most = np.frombuffer(capacity_mbps) * slot_ms * 125.0
    reached: list[tuple[float, float]] = []
    for average_ms in AVERAGES_MS:
        known = _trailing_mean(served_most, max(1, round(average_ms / slot_ms)))
        for gain in GAINS:
            sent, served, lost, _ = _core.one_rtt_late(served_most, known, late, gain, limit_bytes, _PACKET_BYTES)
            signal_ms = _signal_delay_p95_ms(sent - lost, served, slot_ms)
            reached.append((float(served[-1] / served_most.sum()), signal_ms))
    kept: list[tuple[float, float]] = []
    for utilisation, signal_ms in sorted(reached, key=lambda both: (-both[0], both[1])):
        if not kept or signal_ms < kept[-1][1]:
            kept.append((utilisation, signal_ms))
    curve = np.array(kept[::-1])
    return curve[:, 0], curve[:, 1]


def best_score(
    capacity_mbps: Floats,
    slot_ms: float,
    base_rtt_ms: float,
    limit_bytes: float,
    *,
    by_opportunities: bool,
    is_causal: bool = False,
) -> float:
    """Returns the best normalised power of the senders of `trade_off`, which here lose no part of a packet; 0 on a link
    without any capacity.

    If `is_causal`, they are the causal oracle's: nobody tells them the capacity.

    `by_opportunities`: a packet waits for a delivery opportunity of a trace, and takes no time of its own to send. Else
    its own serialisation is no queueing delay, as in `queueing_delay_mean_ms`.
    """
    served_most = capacity_mbps * slot_ms * 125.0
    if not served_most.any():
        return 0.0
    late = max(1, round(base_rtt_ms / slot_ms))
    constant = bool(np.all(served_most == served_most[:1]))
    own_bytes = 0.0 if by_opportunities else _PACKET_BYTES
    best = 0.0
    for average_ms in AVERAGES_MS[:1] if constant and not is_causal else AVERAGES_MS:
        window = max(1, round(average_ms / slot_ms))
        known = _trailing_mean(served_most, window)
        for gain in GAINS:
            sender = (late, gain, limit_bytes, _PACKET_BYTES, True, window if is_causal else 0)
            sent, served, lost, _ = _core.one_rtt_late(served_most, known, *sender)
            accepted = sent - lost
            weight = np.diff(accepted)
            if weight.sum() > 0 and served[-1] > 0:
                # All that came before the last packet of the slot is gone when its own transmission begins.
                delay_ms = np.average(
                    _waiting_ms(np.maximum(accepted - own_bytes, 0.0), served, slot_ms), weights=weight
                )
                used = float(served[-1] / served_most.sum())
                best = max(best, normalised_power(used, float(delay_ms), base_rtt_ms))
    return best


def _trailing_mean(values: Floats, window: int) -> Floats:
    """Returns the mean over the last `window` values, fewer at the start."""
    total = np.cumsum(values)
    window = min(window, values.size)
    first, others = total[:window], total[window:] - total[: values.size - window]
    return np.concatenate((first / np.arange(1, window + 1), others / window))


def _waiting_ms(accepted: Floats, served: Floats, slot_ms: float) -> Floats:
    """Returns the time until the data accepted in each slot is served; to the end of the run if it never is."""
    return _core.oracle_waits(accepted, served).astype(np.float64) * slot_ms


def _signal_delay_p95_ms(accepted: Floats, served: Floats, slot_ms: float) -> float:
    """Returns `signal_delay_ms` of the served packets, between the first and the last one's arrival."""
    came = np.flatnonzero(np.diff(accepted) > 0)
    # The first packet of a slot is gone when all that came before it is, and itself.
    gone = np.searchsorted(served[1:], accepted[came] + _PACKET_BYTES - 1e-6, side="left")
    came, gone = came[gone < served.size - 1], gone[gone < served.size - 1]
    if came.size == 0:
        return math.nan
    slots = np.arange(came[0], came[-1] + 1)
    return percentile((gone[np.searchsorted(came, slots)] - slots) * slot_ms, 0.95)


def _weighted_quantile(values: Ints, weight: Floats, q: float) -> float:
    """Returns the quantile of values that are not negative, each with its weight; NaN without weight."""
    if weight.sum() <= 0:
        return math.nan
    # Numbers of 16 bits or fewer are sorted by their digits.
    order = np.argsort(values.astype(np.min_scalar_type(values.max())), kind="stable")
    share = np.cumsum(weight[order]) / weight.sum()
    return float(values[order[min(int(np.searchsorted(share, q, side="right")), values.size - 1)]])
