"""Every reported figure: one function each, with its definition and its source, over a link's packet log.

`FIGURES` lists them for tables and reports; `summarise` computes the row of one flow. All functions are pure and work
on arrays. 1 Mbit/s = 10^6 bit/s, and bytes are IP bytes on the wire unless a name says payload.

Conventions, the same for every scheme and every backend:

* A packet's queueing delay is departure - arrival - own serialisation: the time it stood behind others (and, over a
  trace, waited for its delivery opportunity, as mahimahi counts it). Propagation is outside.
* A percentile is mahimahi's (`mm-throughput-graph`): the element at index floor(q n) of the n sorted values.
* The log holds packets that left the link within the run. What was still queued at the end is in no figure, so that a
  scheme with a standing queue looks slightly better than it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FIGURES",
    "NEED_PACKETS",
    "Figure",
    "Interval",
    "PacketLog",
    "bin_capacity_mbps",
    "bin_queueing_delay_ms",
    "bin_throughput_mbps",
    "confidence_interval",
    "convergence_time_s",
    "figures_for",
    "jain_index",
    "link_packets",
    "loss_shares",
    "losses_of_flow",
    "omniscient_signal_delay_ms",
    "percentile",
    "percentiles",
    "power",
    "queue_cdf",
    "queueing_delay_ms",
    "sage_score",
    "satisfaction",
    "share_within_delay",
    "share_within_packets",
    "signal_delay_ms",
    "signal_delay_percentile_ms",
    "summarise",
    "throughput_mbps",
    "time_in_queue_length_ns",
    "utilisation",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PacketLog:
    """Packets that one link delivered, in departure order: equally long arrays of int64.

    `arrival_ns`, `departure_ns`: entering the queue, last bit sent. `flow`: index of the flow. `bytes`: IP bytes.
    `serialisation_ns`: own transmission time, 0 on a trace-driven link.
    """

    arrival_ns: Ints
    departure_ns: Ints
    flow: Ints
    bytes: Ints
    serialisation_ns: Ints

    @classmethod
    def from_arrays(cls, log: Mapping[str, ArrayLike]) -> PacketLog:
        """Builds a log from the simulator's `links[i]["log"]`, whose arrays are unsigned: differences of those would
        wrap.

        If they have 64 bits, the log is a view of them.
        """
        return cls(**{name: _signed(np.asarray(log[name])) for name in cls.__dataclass_fields__})

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def of_flow(self, flow: int) -> PacketLog:
        """Returns only the packets of `flow`."""
        mine = self.flow == flow
        return self if mine.all() else self.where(mine)

    def where(self, chosen: NDArray[np.bool_] | Ints) -> PacketLog:
        """Returns only the packets that are `chosen`, by a mask or by their rows."""
        return PacketLog(**{name: getattr(self, name)[chosen] for name in self.__dataclass_fields__})


def _signed(array: NDArray[Any]) -> Ints:
    return array.view(np.int64) if array.dtype == np.uint64 else array.astype(np.int64)


class LinkPackets:
    """Packets that one link of a run recorded, with cached intermediate results that the figures of its flows share."""

    def __init__(self, record: Mapping[str, Any], duration_s: float) -> None:
        self.duration_s = duration_s
        self.log = PacketLog.from_arrays(record["log"])
        self._log_rows = _ByFlow(self.log.flow)
        self._gone = {kind: record[kind] for kind in ("drops", "losses")}
        self._shares: dict[float, float] = {}

    def of_flow(self, flow: int) -> PacketLog:
        """Returns the packets of one flow that the link delivered."""
        rows = self._log_rows.of(flow)
        return self.log if rows.size == len(self.log) else self.log.where(rows)

    def gone_ns(self, kind: str, flow: int) -> Ints:
        """Returns when packets of one flow were dropped by the queue (`drops`) or lost by the link (`losses`)."""
        return _signed(np.asarray(self._gone[kind]["time_ns"]))[self._gone_rows[kind].of(flow)]

    @functools.cached_property
    def _gone_rows(self) -> dict[str, _ByFlow]:
        return {kind: _ByFlow(np.asarray(packets["flow"])) for kind, packets in self._gone.items()}

    @functools.cached_property
    def queue_ns(self) -> Ints:
        """`time_in_queue_length_ns` over the whole run."""
        return time_in_queue_length_ns(self.log, 0.0, self.duration_s)

    def share_within(self, budget_ms: float) -> float:
        """`share_within_delay` over the whole run."""
        if budget_ms not in self._shares:
            self._shares[budget_ms] = share_within_delay(self.log, budget_ms, 0.0, self.duration_s)
        return self._shares[budget_ms]


class _ByFlow:
    """The rows of each flow, in order."""

    def __init__(self, flow: NDArray[Any]) -> None:
        self._order = np.argsort(flow, kind="stable")
        self._sorted = flow[self._order]

    def of(self, flow: int) -> Ints:
        low, high = np.searchsorted(self._sorted, [flow, flow + 1])
        return self._order[low:high]


def link_packets(result: Mapping[str, Any]) -> list[LinkPackets]:
    """Returns the packets of every link of a run that recorded them; none if it did not."""
    return [LinkPackets(link, float(result["duration_s"])) for link in result["links"] if "log" in link]


def percentile(values: ArrayLike, q: float) -> float:
    """Returns the element at index floor(q n) of the n sorted values, NaN if there are none (mm-throughput-graph)."""
    return percentiles(values, [q])[0]


def percentiles(values: ArrayLike, shares: Sequence[float]) -> list[float]:
    """Returns `percentile` of several shares, in less time than one by one."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return [math.nan] * len(shares)
    indices = [min(int(q * array.size), array.size - 1) for q in shares]
    return [float(each) for each in np.partition(array, indices)[indices]]


def throughput_mbps(log: PacketLog, start_s: float, end_s: float) -> float:
    """Returns the rate of bytes that left the link in (start, end] (mahimahi: departed bits / duration)."""
    left = (log.departure_ns > start_s * 1e9) & (log.departure_ns <= end_s * 1e9)
    return float(log.bytes[left].sum()) * 8e-6 / (end_s - start_s) if end_s > start_s else math.nan


def utilisation(delivered_bytes: float, capacity_bytes: float) -> float:
    """Returns delivered over deliverable bytes, in [0, 1].

    A trace's opportunities are 1504 bytes and a full packet has 1500, so the maximum on a trace is 0.997.
    """
    return delivered_bytes / capacity_bytes if capacity_bytes > 0 else math.nan


def queueing_delay_ms(log: PacketLog) -> Floats:
    """Returns each packet's queueing delay, in log order: departure - arrival - own serialisation."""
    return (log.departure_ns - log.arrival_ns - log.serialisation_ns) / 1e6


def share_within_delay(log: PacketLog, budget_ms: float, start_s: float, end_s: float) -> float:
    """Returns the share of the time in [start, end) with at most `budget_ms` of work in the queue (ACCT §III, Fig. 5b).

    The work at t is the virtual waiting time of queueing theory: how long a packet that arrived at t would wait until
    all earlier packets had left. Unlike a share of packets it counts idle time and does not favour fast phases.
    """
    start_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
    if end_ns <= start_ns:
        return math.nan
    order = np.argsort(log.arrival_ns, kind="stable")
    arrival = log.arrival_ns[order]
    empty_at = np.maximum.accumulate(log.departure_ns[order])
    next_arrival = np.append(arrival[1:], np.iinfo(np.int64).max)
    # Between two arrivals the work falls by 1 s/s, so that it is over the budget first and within it afterwards.
    over_from = np.clip(arrival, start_ns, end_ns)
    over_to = np.clip(np.minimum(next_arrival, empty_at - round(budget_ms * 1e6)), start_ns, end_ns)
    return 1.0 - float(np.maximum(over_to - over_from, 0).sum()) / (end_ns - start_ns)


def time_in_queue_length_ns(log: PacketLog, start_s: float, end_s: float) -> Ints:
    """Returns the time in [start, end) during which exactly k packets were queued, for k = 0, 1, ...

    A packet is queued from its arrival until its own transmission starts; the one on the wire is not in the queue (as
    ns-3 and Linux count it). On a trace-driven link it is queued until it departs.
    """
    start_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
    enter = log.arrival_ns
    leave = np.maximum(log.departure_ns - log.serialisation_ns, enter)
    # Lengths between events do not depend on the order of simultaneous events: those last 0 ns.
    times = np.concatenate(([start_ns], enter, leave, [end_ns]))
    steps = np.concatenate(([0], np.ones(len(log), np.int64), -np.ones(len(log), np.int64), [0]))
    order = np.argsort(times, kind="stable")
    times = np.clip(times[order], start_ns, max(start_ns, end_ns))
    # Within one instant -1 may come before +1 and dip below zero, for 0 ns.
    length = np.maximum(np.cumsum(steps[order])[:-1], 0)
    spent = np.diff(times)
    present = spent > 0
    size = int(length[present].max()) + 1 if present.any() else 1
    # Sums of doubles, which are exact up to 2^53 ns, or 104 days.
    return np.bincount(length[present], weights=spent[present], minlength=size).astype(np.int64)


def queue_cdf(log: PacketLog, start_s: float, end_s: float) -> tuple[Ints, Floats]:
    """Returns (k, share of the time with at most k packets queued): ACCT's Fig. 5(a)."""
    return _cdf(time_in_queue_length_ns(log, start_s, end_s))


def _cdf(spent: Ints) -> tuple[Ints, Floats]:
    total = spent.sum()
    return np.arange(len(spent)), np.cumsum(spent) / total if total else np.ones(len(spent))


def share_within_packets(log: PacketLog, packets: int, start_s: float, end_s: float) -> float:
    """Returns the share of the time with at most `packets` packets queued (ACCT §III: 5 packets, 80 % of the time)."""
    _, share = queue_cdf(log, start_s, end_s)
    return float(share[min(packets, len(share) - 1)])


def signal_delay_ms(log: PacketLog, pauses_after_ms: float = math.inf, gone_ns: Ints | None = None) -> Floats:
    """Returns the signal delay of each millisecond from the first to the last arrival.

    The signal delay at t is the least time in which a message created at t can cross the queue (mahimahi's definition,
    in whole milliseconds). The message crosses with the first packet that arrives at t or later, so the delay grows by
    1 ms per ms without arrivals. Only the queue counts.

    An application that has nothing to send has no message. For a flow whose application pauses, `pauses_after_ms` is
    the base RTT. The time between two arrivals is left out if the second comes only after all packets before it are
    acknowledged. A packet that was dropped or lost (`gone_ns`) is outstanding until the next one arrives.
    """
    low, count = _signal_spans(log, pauses_after_ms, gone_ns)
    before = np.repeat(np.cumsum(count) - count, count)
    return (np.repeat(low + count - 1, count) - (np.arange(before.size) - before)).astype(np.float64)


def signal_delay_percentile_ms(
    log: PacketLog, q: float, pauses_after_ms: float = math.inf, gone_ns: Ints | None = None
) -> float:
    """Returns `percentile` of `signal_delay_ms`, in memory for the packets and not for the milliseconds."""
    return _percentile_of_spans(*_signal_spans(log, pauses_after_ms, gone_ns), q)


def _signal_spans(log: PacketLog, pauses_after_ms: float, gone_ns: Ints | None) -> tuple[Ints, Ints]:
    """Returns (least delay, number of milliseconds) between two arrivals, where the delay falls by 1 ms per ms."""
    if len(log) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(log.arrival_ns, kind="stable")
    arrival_ns, departure_ns = log.arrival_ns[order], log.departure_ns[order]
    at, first = np.unique(arrival_ns // 1_000_000, return_index=True)
    earliest = np.minimum.reduceat(departure_ns // 1_000_000, first)
    earliest = np.minimum.accumulate(earliest[::-1])[::-1]
    count = np.diff(at, prepend=at[0] - 1)
    if not math.isinf(pauses_after_ms):
        acknowledged_ns = np.maximum.accumulate(departure_ns) + round(pauses_after_ms * 1e6)
        gone = np.diff(np.searchsorted(np.sort(np.empty(0) if gone_ns is None else gone_ns), arrival_ns))
        paused = (arrival_ns[1:] > acknowledged_ns[:-1]) & (gone == 0)
        count[1:][paused[first[1:] - 1]] = 1
    return earliest - at, count


def _percentile_of_spans(low: Ints, count: Ints, q: float) -> float:
    """Returns `percentile` of low, low + 1, ... low + count - 1 of every span."""
    total = int(count.sum())
    if total == 0:
        return math.nan
    wanted = min(int(q * total), total - 1) + 1
    least, most = int(low.min()), int((low + count).max())
    while least < most:
        middle = (least + most) // 2
        if np.clip(middle - low + 1, 0, count).sum() >= wanted:
            most = middle
        else:
            least = middle + 1
    return float(least)


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
    at = np.unique(np.append(times[(times >= start) & (times <= end)], end))
    low = times[np.searchsorted(times, at)] - at
    return _percentile_of_spans(low, np.diff(at, prepend=start - 1) if start <= end else np.zeros_like(at), q)


def power(throughput: float, signal_delay_p95: float) -> float:
    """Returns throughput (Mbit/s) over p95 signal delay (s), MIT 6.829 and Stanford CS244's contest figure; NaN at no
    delay.
    """
    return throughput / (signal_delay_p95 / 1e3) if signal_delay_p95 > 0 else math.nan


def sage_score(throughput: float, delay_mean: float) -> float:
    """Returns S = throughput² (Mbit/s)² over mean one-way delay (ms), propagation included (Sage's league, ccBench)."""
    return throughput**2 / delay_mean if delay_mean > 0 else math.nan


def loss_shares(dropped: float, lost: float, delivered: float) -> dict[str, float]:
    """Returns `loss_share` and `queue_drop_share` of packets, some `dropped` by queues and some `lost` by links.

    A link loses packets at random or in an outage, before its queue. Loss is both together, over the packets that came
    (Pantheon: 1 - egress / ingress).
    """
    offered = dropped + lost + delivered
    shares = {"loss_share": dropped + lost, "queue_drop_share": dropped}
    return {name: gone / offered if offered else 0.0 for name, gone in shares.items()}


def losses_of_flow(
    way: Sequence[LinkPackets], flow: int, from_s: float = -math.inf, to_s: float = math.inf
) -> dict[str, float]:
    """Returns `loss_shares` of one flow in (from, to] on its path: `way` are the packets of its links."""

    def count(times_ns: Ints) -> int:
        return int(np.count_nonzero((times_ns > from_s * 1e9) & (times_ns <= to_s * 1e9)))

    dropped, lost = (sum(count(link.gone_ns(kind, flow)) for link in way) for kind in ("drops", "losses"))
    return loss_shares(dropped, lost, count(way[-1].of_flow(flow).departure_ns))


def jain_index(rates: ArrayLike) -> float:
    """Returns (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has all (Jain, Chiu, Hawe,
    DEC-TR-301, 1984).
    """
    x = np.asarray(rates, dtype=np.float64)
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (x.size * squares) if squares > 0 else math.nan


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


def satisfaction(rate_mbps: float, required_mbps: float) -> float:
    """Returns x / a: a flow's rate over the least rate that it requires (Hercules, worst-case satisfaction, Fig. 5)."""
    return rate_mbps / required_mbps if required_mbps > 0 else math.nan


def bin_throughput_mbps(log: PacketLog, duration_s: float, bin_s: float) -> Floats:
    """Returns the rate of departures in each bin of `bin_s`, of the whole run: float64[ceil(duration / bin)]."""
    bins = max(1, math.ceil(duration_s / bin_s - 1e-9))
    index = np.minimum(log.departure_ns // round(bin_s * 1e9), bins - 1)
    sent = np.bincount(index, weights=log.bytes, minlength=bins)
    return sent.astype(np.float64) * 8e-6 / bin_s


def bin_queueing_delay_ms(log: PacketLog, duration_s: float, bin_s: float) -> Floats:
    """Returns the largest queueing delay among the packets that left in each bin, NaN where none did."""
    bins = max(1, math.ceil(duration_s / bin_s - 1e-9))
    index = np.minimum(log.departure_ns // round(bin_s * 1e9), bins - 1)
    worst = np.full(bins, -np.inf)
    np.maximum.at(worst, index, queueing_delay_ms(log))
    return np.where(np.isfinite(worst), worst, np.nan)


def bin_capacity_mbps(capacity_mbps: ArrayLike, per_bin: int) -> Floats:
    """Returns means over `per_bin` consecutive bins; the last may be shorter."""
    capacity = np.asarray(capacity_mbps, dtype=np.float64)
    starts = np.arange(0, capacity.size, per_bin)
    return np.add.reduceat(capacity, starts) / np.diff(np.append(starts, capacity.size)) if capacity.size else capacity


@dataclass(frozen=True)
class Interval:
    """Mean over `n` repetitions and its two-sided confidence interval [low, high]; NaN where it has none."""

    mean: float
    low: float
    high: float
    n: int


# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def confidence_interval(values: Sequence[float] | Floats) -> Interval:
    """Returns Student's t interval (95 %) of the mean over seeds; NaN values are left out.

    A single value has no interval, and neither have equal values: repetitions that change nothing do not say how much
    others would change. The bootstrap is no alternative: with three seeds its interval is the range of the three, far
    too narrow.
    """
    known = [float(value) for value in values if math.isfinite(value)]
    if len(known) < 2:
        return Interval(known[0] if known else math.nan, math.nan, math.nan, len(known))
    x = np.asarray(known)
    mean = float(x.mean())
    if np.all(x == x[0]):
        return Interval(float(x[0]), math.nan, math.nan, int(x.size))
    z, df = 1.959964, x.size - 1
    # Above the table: Cornish-Fisher (Abramowitz and Stegun 26.7.5), good to 1e-4 there.
    t = _T_95[df - 1] if df <= len(_T_95) else z + (z**3 + z) / (4 * df)
    half = t * float(x.std(ddof=1)) / math.sqrt(x.size)
    return Interval(mean, mean - half, mean + half, int(x.size))


@dataclass(frozen=True)
class Figure:
    """Presentation of a figure: its heading, unit, digits after the point and definition with source."""

    title: str
    unit: str
    digits: int
    definition: str
    scheme: str = ""
    """Scheme whose own figure it is; tables show it if this scheme takes part."""


FIGURES: dict[str, Figure] = {
    "throughput_mbps": Figure(
        "Throughput", "Mbit/s", 2, "The flow's IP bytes that left the link, over the flow's time (mahimahi)."
    ),
    "goodput_mbps": Figure("Goodput", "Mbit/s", 2, "Payload delivered to the receiver, over the flow's time."),
    "utilisation": Figure("Utilisation", "share", 3, "Bytes that left the link over those that it could have carried."),
    "queueing_delay_mean_ms": Figure(
        "Mean queueing delay", "ms", 2, "Of the packets: departure - arrival - own sending."
    ),
    "queueing_delay_p50_ms": Figure("Median queueing delay", "ms", 2, "Of the packets' queueing delays."),
    "queueing_delay_p95_ms": Figure("p95 queueing delay", "ms", 2, "Of the packets' queueing delays."),
    "queueing_delay_p99_ms": Figure("p99 queueing delay", "ms", 2, "Of the packets' queueing delays."),
    "one_way_delay_mean_ms": Figure(
        "Mean one-way delay", "ms", 2, "Per packet: from the queue's entry to the far end."
    ),
    "one_way_delay_p95_ms": Figure("p95 one-way delay", "ms", 2, "Of the packets' one-way delays (Pantheon)."),
    "share_within_budget": Figure(
        "Time within budget",
        "share",
        4,
        "Share of the time with at most 5 ms of work queued (virtual waiting time).",
        scheme="acct",
    ),
    "share_within_5_packets": Figure(
        "Time with at most 5 queued",
        "share",
        4,
        "Share of the time with at most 5 packets queued (ACCT Fig. 5a).",
        scheme="acct",
    ),
    "queue_p80_packets": Figure(
        "Queue, p80", "packets", 0, "Not exceeded for 80 % of the time (ACCT Fig. 5a).", scheme="acct"
    ),
    "signal_delay_p95_ms": Figure(
        "p95 signal delay",
        "ms",
        1,
        "For each ms, the least time until news of then has left the queue (mahimahi).",
    ),
    "self_inflicted_delay_ms": Figure(
        "Self-inflicted delay",
        "ms",
        1,
        "p95 signal delay minus an omniscient sender's on the same trace (Sprout).",
    ),
    "inferences_per_s": Figure("Inferences", "1/s", 1, "Decisions of a learned flow per second of the run."),
    "power": Figure("Power", "Mbit/s/s", 1, "Throughput over p95 signal delay (MIT 6.829, Stanford CS244)."),
    "sage_score": Figure("S", "(Mbit/s)²/ms", 2, "Throughput squared over mean one-way delay (Sage's league)."),
    "loss_share": Figure(
        "Loss",
        "share",
        5,
        "Packets that queues dropped, or links lost at random or in an outage, over those that came (Pantheon).",
    ),
    "queue_drop_share": Figure("Queue drops", "share", 5, "The part of the loss that queues dropped."),
    "satisfaction": Figure("Satisfaction", "x/a", 3, "Goodput over the least rate that the flow requires (Hercules)."),
    "max_min_distance": Figure(
        "Distance from max-min", "share", 3, "Of the flows' throughputs: sum |x - x*| / sum x*, x* max-min fair."
    ),
    "hrf_distance": Figure(
        "Distance from HRF",
        "share",
        3,
        "The same from requirement-based fairness, if a flow has a requirement (Hercules).",
    ),
    "jain_index": Figure("Jain's index", "1/n to 1", 4, "(sum x)^2 / (n sum x^2) of the flows' goodputs."),
    "convergence_time_s": Figure("Convergence time", "s", 1, "Until 5 s within 25 % of the fair rate begin (PCC)."),
}


def figures_for(schemes: Iterable[str]) -> dict[str, Figure]:
    """Returns the `FIGURES` of tables over these schemes: figures of one scheme alone only if it takes part."""
    there = {"", *schemes}
    return {name: figure for name, figure in FIGURES.items() if figure.scheme in there}


NEED_PACKETS = (
    *("throughput_mbps", "queueing_delay_mean_ms", "queueing_delay_p50_ms", "queueing_delay_p95_ms"),
    *("queueing_delay_p99_ms", "one_way_delay_mean_ms", "one_way_delay_p95_ms", "share_within_budget"),
    *("share_within_5_packets", "queue_p80_packets", "signal_delay_p95_ms", "self_inflicted_delay_ms", "power"),
    *("loss_share", "queue_drop_share"),
)
"""Figures of `summarise` that need the run's packets (`record: {packets: true}`)."""


def summarise(
    result: Mapping[str, Any],
    *,
    flow: int = 0,
    link: int = 0,
    delay_ms: float = 0.0,
    budget_ms: float = 5.0,
    opportunities_ms: ArrayLike | None = None,
    packets: Sequence[LinkPackets] | None = None,
    path: Sequence[int] | None = None,
    pauses_after_ms: float = math.inf,
) -> dict[str, float]:
    """Returns the figures of one flow on one link of a run, by their names in `FIGURES`.

    `result` is `ccarena._core.simulate`'s. Throughput and delays are the flow's on the link. Loss is that of its whole
    `path` (numbers of links; the link alone if None). Utilisation and the queue are the link's.

    - `delay_ms`: the link's propagation delay;
    - `opportunities_ms`: the trace, if there is one, for the self-inflicted delay (NaN otherwise);
    - `packets`: `link_packets` of the result, to share it between several flows;
    - `pauses_after_ms`: as for `signal_delay_ms`.

    If no packets were recorded, the figures of `NEED_PACKETS` are NaN: a percentile does not follow from counters.
    """
    record, of_flow = result["links"][link], result["flows"][flow]
    end_s = float(result["duration_s"])
    begin_s, stop_s = float(of_flow.get("start_s", 0.0)), of_flow.get("stop_s")
    until_s = end_s if stop_s is None else min(float(stop_s), end_s)
    active_s = until_s - begin_s
    counted = {
        "goodput_mbps": float(of_flow["delivered_bytes"]) * 8e-6 / active_s if active_s > 0 else math.nan,
        "utilisation": utilisation(float(record["delivered_bytes"]), float(record["capacity_bytes"])),
    }
    if "log" not in record:
        return {name: counted.get(name, math.nan) for name in (*counted, *NEED_PACKETS)}
    packets = packets or link_packets(result)
    whole = packets[link]
    mine = whole.of_flow(flow)
    delay = queueing_delay_ms(mine)
    one_way = (mine.departure_ns - mine.arrival_ns) / 1e6 + delay_ms
    lengths, share = _cdf(whole.queue_ns)
    p50, p95, p99 = percentiles(delay, (0.50, 0.95, 0.99))
    gone_ns = np.concatenate([whole.gone_ns(kind, flow) for kind in ("drops", "losses")])
    signal = signal_delay_percentile_ms(mine, 0.95, pauses_after_ms, gone_ns)
    rate = throughput_mbps(mine, begin_s, until_s)
    omniscient = math.nan
    if opportunities_ms is not None and len(mine):
        first_ms, last_ms = (int(edge) // 1_000_000 for edge in (mine.arrival_ns.min(), mine.arrival_ns.max()))
        omniscient = omniscient_signal_delay_ms(opportunities_ms, first_ms, last_ms)
    mean: Callable[[Floats], float] = lambda x: float(x.mean()) if x.size else math.nan  # noqa: E731
    return {
        "throughput_mbps": rate,
        "goodput_mbps": counted["goodput_mbps"],
        "utilisation": utilisation(float(whole.log.bytes.sum()), float(record["capacity_bytes"])),
        "queueing_delay_mean_ms": mean(delay),
        "queueing_delay_p50_ms": p50,
        "queueing_delay_p95_ms": p95,
        "queueing_delay_p99_ms": p99,
        "one_way_delay_mean_ms": mean(one_way),
        "one_way_delay_p95_ms": percentile(one_way, 0.95),
        "share_within_budget": whole.share_within(budget_ms),
        "share_within_5_packets": float(share[min(5, len(share) - 1)]),
        "queue_p80_packets": float(lengths[np.searchsorted(share, 0.8 - 1e-12)]),
        "signal_delay_p95_ms": signal,
        "self_inflicted_delay_ms": signal - omniscient,
        "power": power(rate, signal),
        "sage_score": sage_score(rate, mean(one_way)),
        **losses_of_flow([packets[each] for each in path or (link,)], flow),
    }
