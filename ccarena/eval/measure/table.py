"""The table of figures: each figure's name, unit, digits, definition, function and what it needs.

Every command, page, suite and leaderboard takes its columns from `FIGURES`; `register` adds one to all of them. Where
two definitions differ, so do their names. Delays are of the queue alone unless a name says otherwise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.measure.applications import APPLICATIONS
from ccarena.eval.measure.fairness import harm, jain_index, satisfaction
from ccarena.eval.measure.loss import loss_shares, losses_of_flow
from ccarena.eval.measure.packet_log import SHARES
from ccarena.eval.measure.queueing import cdf
from ccarena.eval.measure.queueing import share_within_delay as time_within_delay
from ccarena.eval.measure.record import (
    COUNTERS,
    FLOWS,
    LEARNERS,
    MACHINE,
    MATCH,
    PACKETS,
    RECEIVED,
    REQUIREMENT,
    SERIES,
    SOLE,
    TRACE,
    Subject,
)
from ccarena.eval.measure.sample import percentile
from ccarena.eval.measure.signal_delay import (
    omniscient_signal_delay_ms,
    power,
    sage_score,
    signal_delay_to_end_ms,
)
from ccarena.eval.measure.throughput import (
    bin_capacity_mbps,
    bin_throughput_mbps,
    convergence_time_s,
    utilisation,
)
from ccarena.eval.theory import fairness

__all__ = [
    "FIGURES",
    "LEAST_SCORE",
    "POWERS",
    "Figure",
    "columns",
    "figures_for",
    "normalised_power",
    "register",
    "row",
    "value",
]

Scope = Literal["flow", "link", "run"]


@dataclass(frozen=True)
class Figure:
    """Measured quantity."""

    title: str
    unit: str
    digits: int
    """Digits after the point in tables."""
    definition: str
    """A sentence, with its source."""
    function: Callable[[Subject], Any] | None
    """Computes the figure of a flow or a link of a run; None if it is measured of an entrant and not of a run."""
    needs: frozenset[str] = frozenset()
    """Needs of the figure (`ccarena.eval.measure.record`); if one is not met, the figure is NaN."""
    of: frozenset[Scope] = frozenset({"flow"})
    """Tables that have it: of flows, of links or of whole runs."""
    range: tuple[float, float] = (0.0, 1e12)
    """Least and greatest value that it can have."""
    scheme: str = ""
    """Scheme whose own figure it is; tables show it if this scheme takes part."""


def register(name: str, figure: Figure) -> None:
    """Adds a figure to the table. Raises ValueError if the name is taken."""
    if name in FIGURES:
        raise ValueError(f'figure "{name}" is in the table already')
    FIGURES[name] = figure


def value(subject: Subject, name: str) -> Any:
    """Returns a figure of a flow or a link; NaN if something that it needs is not known."""
    made = subject.made
    if name not in made:
        figure = FIGURES[name]
        function = figure.function
        if function is None or not figure.needs <= subject.given:
            found = None
        elif "run" in figure.of:  # the same for all flows on a link
            found = subject.record.once((name, subject.link), lambda: function(subject))
        else:
            found = function(subject)
        made[name] = math.nan if found is None else found
    return made[name]


def row(subject: Subject, names: Iterable[str]) -> dict[str, Any]:
    """Returns figures of a flow or a link by name."""
    return {name: value(subject, name) for name in names}


def figures_for(schemes: Iterable[str]) -> dict[str, Figure]:
    """Returns the figures of tables over these schemes: figures of one scheme alone only if it takes part."""
    there = {"", *schemes}
    return {name: figure for name, figure in FIGURES.items() if figure.scheme in there}


def columns(given: Iterable[str], schemes: Iterable[str] | None = None, of: Scope = "flow") -> list[str]:
    """Returns the names of the figures of a table over these schemes, or over any, that need only what is `given`."""
    there = set(given)
    return [
        name
        for name, figure in (FIGURES if schemes is None else figures_for(schemes)).items()
        if figure.function is not None and figure.needs <= there and of in figure.of
    ]


def _throughput(s: Subject) -> float:
    if s.length_s <= 0:
        return math.nan
    return (float(s.sums.active_bytes) if PACKETS in s.given else s.departed_bytes) * 8e-6 / s.length_s


def _capacity(s: Subject) -> float:
    return s.record.once(("mean capacity", s.link, *s.active_s), lambda: _mean(s.capacity_mbps))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _rate(s: Subject, payload: bool) -> float:
    """Returns Mbit/s that reached the receiver; 0 of a flow that is not there."""
    return s.received_bytes(payload) * 8e-6 / s.length_s if s.length_s > 0 else 0.0


def _all(s: Subject, name: str) -> list[float]:
    """Returns a figure of every flow of the run, computed once for all of them."""
    return s.record.once(("all", name), lambda: [value(flow, name) for flow in s.record.flows])


def _total(s: Subject, payload: bool) -> float:
    return sum(flow.received_bytes(payload) for flow in s.record.flows)


def _mean_queueing_delay(s: Subject) -> float:
    if PACKETS in s.given:
        return _mean_ms(s.sums.queueing_ns, s.sums.packets)
    if s.flow is not None or SERIES not in s.given:
        return math.nan
    delay, sent = (s.record.series(s.of_link, what) for what in ("queueing_ms", "delivered_bytes"))
    seen = np.isfinite(delay)
    return float(np.average(delay[seen], weights=np.maximum(sent[seen], 1.0))) if seen.any() else math.nan


def _mean_ms(total_ns: int, packets: int) -> float:
    return total_ns / packets / 1e6 if packets else math.nan


def _queueing_delay(q: float) -> Callable[[Subject], float]:
    at = SHARES.index(q)
    return lambda s: s.percentiles.queueing_ms[at]


def _worst_bin(s: Subject) -> float:
    delay = s.record.series(s.of_link, "queueing_ms")
    return percentile(delay[np.isfinite(delay)], 0.95)


def _within_packets(s: Subject) -> float:
    _, share = cdf(s.of_all.queue_ns)
    return float(share[min(5, len(share) - 1)])


def _p80_packets(s: Subject) -> float:
    lengths, share = cdf(s.of_all.queue_ns)
    return float(lengths[np.searchsorted(share, 0.8 - 1e-12)])


def _within_budget(s: Subject) -> float:
    return time_within_delay(s.of_all.log, 5.0, s.record.from_s, s.record.to_s)


def _self_inflicted(s: Subject) -> float:
    if s.opportunities_ms is None or not len(s.log):
        return math.nan
    first_ms, last_ms = (int(edge) // 1_000_000 for edge in (s.log.arrival_ns.min(), s.log.arrival_ns.max()))
    return value(s, "signal_delay_p95_ms") - omniscient_signal_delay_ms(s.opportunities_ms, first_ms, last_ms)


def _to_end(q: float) -> Callable[[Subject], float]:
    return lambda s: percentile(
        s.once("signal delays to the end", lambda s: signal_delay_to_end_ms(s.log, *s.active_s)), q
    )


def _loss(name: str) -> Callable[[Subject], float]:
    return lambda s: s.once("losses", _losses)[name]


def _losses(s: Subject) -> dict[str, float]:
    if s.flow is not None and PACKETS not in s.given:
        return dict.fromkeys(("loss_share", "queue_drop_share"), math.nan)
    if s.flow is not None:
        sums = [s.record.sums(link)[s.flow] for link in s.path]
        return losses_of_flow([of_link.gone for of_link in sums], sums[-1].packets)
    counts = [s.of_link.get(f"{what}_packets") for what in ("dropped", "lost", "delivered")]
    dropped, lost, delivered = (math.nan if count is None else count for count in counts)
    damaged = s.of_link.get("corrupted_packets", 0)
    lost += s.of_link.get("policed_packets", 0)
    return loss_shares(dropped, lost + damaged, delivered - damaged)


def _decisions_per_s(s: Subject) -> float:
    decisions = s.counter("decisions")
    return math.nan if decisions is None or s.length_s <= 0 else int(decisions) / s.length_s


POWERS: Mapping[str, tuple[float, float]] = {
    "score": (1.0, 1.0),
    "score_throughput": (1.0, 0.25),
    "score_delay": (0.25, 1.0),
}
"""Exponents of utilisation and of the delay's part, base RTT over mean RTT, in each normalised power.

Kleinrock's generalised power is throughput^r / delay. With r = 4 and r = 1/4 it orders links as the last two.
"""


def _score(name: str) -> Callable[[Subject], float]:
    return lambda s: normalised_power(
        value(s, "utilisation"), value(s, "queueing_delay_mean_ms"), s.base_rtt_ms, POWERS[name]
    )


LEAST_SCORE = 1e-4
"""Least score in a geometric mean, for a run that gets nothing through: a zero would make the mean zero."""


def normalised_power(
    used: float, delay_ms: float, base_rtt_ms: float, powers: tuple[float, float] = (1.0, 1.0)
) -> float:
    """Returns the score of a utilisation and a mean queueing delay; 0 if nothing came through."""
    if not math.isfinite(delay_ms):
        return 0.0
    throughput, delay = powers
    return used**throughput * base_rtt_ms**delay / (base_rtt_ms + delay_ms) ** delay


def _fair_share(s: Subject) -> float:
    return s.weight / s.record.once("weights", lambda: sum(flow.weight for flow in s.record.flows))


def _share(name: str) -> Callable[[Subject], float]:
    def share(s: Subject) -> float:
        total = s.record.once(("sum", name), lambda: sum(_all(s, name)))
        return float(value(s, name)) / total if total > 0 else math.nan

    return share


def _worst_share(s: Subject) -> float:
    return min((value(flow, "share") / value(flow, "fair_share") for flow in s.record.flows), default=math.nan)


def _relative(s: Subject) -> float:
    first = value(s.record.flows[0], "received_mbps")
    return float(value(s, "received_mbps")) / first if first > 0 else math.nan


def _relative_worst(s: Subject) -> float:
    first = s.record.flows[0].weight
    return max(abs(value(flow, "relative") * first / flow.weight - 1) for flow in s.record.flows)


def _worst_satisfaction(s: Subject) -> float:
    known = [x for x in _all(s, "satisfaction_goodput") if not math.isnan(x)]
    return min(known, default=math.nan)


def _distance(kind: str) -> Callable[[Subject], float]:
    return lambda s: s.record.once("distances", lambda: _distances(s)).get(kind, math.nan)


def _distances(s: Subject) -> dict[str, float]:
    """Returns distances of the flows' rates from fair ones on mean capacities; applications' rates are demands."""
    rates = _all(s, "throughput_mbps")
    links = s.record.links
    capacity = {link.of_link["name"]: _capacity(link) for link in links}
    if not all(math.isfinite(rate) for rate in rates) or not all(mbps > 0 for mbps in capacity.values()):
        return {}
    flows = s.record.entries
    fair = _fair_rates(
        tuple(capacity.items()),
        tuple(tuple(flow["path"]) for flow in flows),
        tuple(flow["app"].get("rate_mbps") for flow in flows),
        tuple((r["min_mbps"], r["max_mbps"]) if (r := flow["requirement"]) else None for flow in flows),
    )
    return {kind: fairness.distance(rates, optimum) for kind, optimum in fair.items()}


@functools.lru_cache(maxsize=64)
def _fair_rates(
    capacity: tuple[tuple[str, float], ...],
    paths: tuple[tuple[str, ...], ...],
    demands: tuple[float | None, ...],
    requirements: tuple[tuple[float, float] | None, ...],
) -> dict[str, list[float]]:
    """Returns the flows' max-min fair rates, and HRF's if any has a requirement; seeds of one scenario share them."""
    fair = {"max-min": fairness.max_min_rates(dict(capacity), demands, paths)}
    if any(requirements):
        fair["hrf"] = fairness.hrf_rates(dict(capacity), requirements, paths, demands=demands)
    return fair


def _harm_to_delay(s: Subject) -> float:
    # Relative to the queueing delay alone, which is near 0 for a flow by itself, any delay would be total harm.
    own, alone = value(s, "queueing_delay_mean_ms"), s.alone["queueing_delay_mean_ms"]
    return harm(own - alone, s.base_rtt_ms + own)


def _convergence(s: Subject) -> float:
    record = s.record
    length_s = record.to_s - record.from_s
    bins = math.floor(length_s + 1e-9)
    rates = bin_throughput_mbps(s.log, length_s, 1.0, record.from_s)[:bins]
    capacity = bin_capacity_mbps(record.capacity_mbps(s.link), round(1.0 / record.bin_s))[:bins]
    return convergence_time_s(rates, _fair_share(s) * capacity)


def _cpu(who: str) -> Callable[[Subject], float]:
    def percent(s: Subject) -> float:
        seconds = s.record.result["machine"].get(f"{who}_cpu_s")
        return math.nan if seconds is None else 100 * float(seconds) / s.record.duration_s

    return percent


def _link_counter(name: str) -> Callable[[Subject], Any]:
    return lambda s: s.of_link.get(name)


def _queue_counter(queue: str, name: str) -> Callable[[Subject], Any]:
    return lambda s: next((each[name] for each in s.of_link.get("queues", ()) if each["name"] == queue), None)


def _flow_counter(name: str) -> Callable[[Subject], Any]:
    return lambda s: s.counter(name)


_QUEUE: dict[str, Any] = {"of": frozenset({"flow", "link"}), "needs": frozenset({PACKETS})}
_SUITE: dict[str, Any] = {"of": frozenset({"run"})}
_RUN: dict[str, Any] = {"of": frozenset({"flow", "run"})}
_SHARE: dict[str, Any] = {"range": (0.0, 1.0)}
_ANY = (-1e12, 1e12)

FIGURES: dict[str, Figure] = {
    "throughput_mbps": Figure(
        "Throughput", "Mbit/s", 2,
        "IP bytes that left the link, over the flow's time (mahimahi: departed bits / duration).",
        _throughput, **_QUEUE,
    ),
    "received_mbps": Figure(
        "Received", "Mbit/s", 2, "IP bytes that reached the receiver, duplicates included, over the flow's time.",
        lambda s: _rate(s, payload=False), frozenset({RECEIVED}),
    ),
    "goodput_mbps": Figure(
        "Goodput", "Mbit/s", 2, "Payload that reached the receiver, each byte once, over the flow's time.",
        lambda s: _rate(s, payload=True), frozenset({RECEIVED}),
    ),
    "capacity_mbps": Figure(
        "Capacity", "Mbit/s", 2, "What the link could have carried, over the flow's time.",
        _capacity, of=frozenset({"flow", "link"}),
    ),
    "utilisation": Figure(
        "Utilisation", "share", 3,
        "IP bytes that left the link over those that it could have carried. A trace's opportunities are 1504 bytes and "
        "a full packet has 1500, so that a trace allows 0.997 at most.",
        lambda s: utilisation(s.of_all.departed_bytes, s.record.capacity_bytes(s.link)),
        of=frozenset({"flow", "link"}),
        # Capacity and delivery are counted over a whole run: a buffer that is full at its start adds a little.
        range=(0.0, 2.0),
    ),
    "queueing_delay_mean_ms": Figure(
        "Mean queueing delay", "ms", 2,
        "Mean over packets of departure - arrival - own sending; without a packet log, of a link's bins by bytes.",
        _mean_queueing_delay, of=frozenset({"flow", "link"}),
    ),
    "queueing_delay_p50_ms": Figure(
        "Median queueing delay", "ms", 2, "Median of the packets' queueing delays.", _queueing_delay(0.50), **_QUEUE
    ),
    "queueing_delay_p95_ms": Figure(
        "p95 queueing delay", "ms", 2, "95th percentile of the packets' queueing delays.",
        _queueing_delay(0.95), **_QUEUE,
    ),
    "queueing_delay_p99_ms": Figure(
        "p99 queueing delay", "ms", 2, "99th percentile of the packets' queueing delays.",
        _queueing_delay(0.99), **_QUEUE,
    ),
    "one_way_delay_mean_ms": Figure(
        "Mean one-way delay", "ms", 2, "Mean over packets of the time from the queue's entry to the link's far end.",
        lambda s: _mean_ms(s.sums.whole_ns, s.sums.packets) + s.delay_ms, **_QUEUE,
    ),
    "one_way_delay_p95_ms": Figure(
        "p95 one-way delay", "ms", 2, "95th percentile of the packets' one-way delays (Pantheon).",
        lambda s: s.percentiles.whole_ms + s.delay_ms, **_QUEUE,
    ),
    "share_within_budget": Figure(
        "Time within budget", "share", 4,
        "Share of the time with at most 5 ms of work queued at the link (virtual waiting time).",
        lambda s: s.of_all.once("within budget", _within_budget), **_QUEUE, **_SHARE, scheme="acct",
    ),
    "share_within_5_packets": Figure(
        "Time with at most 5 queued", "share", 4,
        "Share of the time with at most 5 packets queued at the link (ACCT Fig. 5a).",
        _within_packets, **_QUEUE, **_SHARE, scheme="acct",
    ),
    "queue_p80_packets": Figure(
        "Queue, p80", "packets", 0, "Packets that the link's queue has at most for 80 % of the time (ACCT Fig. 5a).",
        _p80_packets, **_QUEUE, scheme="acct",
    ),
    "signal_delay_p95_ms": Figure(
        "p95 signal delay (queue)", "ms", 1,
        "95th percentile, over each ms from the first to the last arrival, of the least time until news of then has "
        "left the queue (mahimahi); without propagation.",
        lambda s: s.percentiles.signal_ms, **_QUEUE,
    ),
    **{
        f"signal_delay_to_end_p{q}_ms": Figure(
            f"p{q} signal delay to the end (queue)", "ms", 1,
            f"{q}th percentile of the signal delay over each ms of the flow's time: news that has not left the queue "
            "by the end counts with the time that is left; without propagation.",
            _to_end(q / 100), frozenset({PACKETS, LEARNERS}),
        )
        for q in (50, 90, 95, 98)
    },
    "self_inflicted_delay_ms": Figure(
        "Self-inflicted delay", "ms", 1, "p95 signal delay minus an omniscient sender's on the same trace (Sprout).",
        _self_inflicted, frozenset({PACKETS, TRACE}), range=_ANY,
    ),
    "power": Figure(
        "Power", "Mbit/s/s", 1,
        "Throughput over p95 signal delay in s, without propagation (MIT 6.829, Stanford CS244).",
        lambda s: power(value(s, "throughput_mbps"), value(s, "signal_delay_p95_ms")), **_QUEUE,
    ),
    "sage_score": Figure(
        "Sage score", "(Mbit/s)²/ms", 2, "Throughput squared over mean one-way delay (Sage's league).",
        lambda s: sage_score(value(s, "throughput_mbps"), value(s, "one_way_delay_mean_ms")), **_QUEUE,
    ),
    "score": Figure(
        "Score", "share", 3,
        "Normalised power: utilisation times base RTT over mean RTT, the base RTT plus the mean queueing delay "
        "(Kleinrock, ICC 1979); 1 is a full link without a queue. Over links it is the geometric mean.",
        _score("score"), frozenset({PACKETS, SOLE}), **_SHARE,
    ),
    "score_throughput": Figure(
        "Score, throughput-minded", "share", 3,
        "Utilisation times the fourth root of base RTT over mean RTT: delay counts less (Kleinrock's generalised "
        "power, r = 4).",
        _score("score_throughput"), frozenset({PACKETS, SOLE}), **_SHARE,
    ),
    "score_delay": Figure(
        "Score, delay-minded", "share", 3,
        "The fourth root of utilisation times base RTT over mean RTT: throughput counts less (Kleinrock's generalised "
        "power, r = 1/4).",
        _score("score_delay"), frozenset({PACKETS, SOLE}), **_SHARE,
    ),
    "loss_share": Figure(
        "Loss", "share", 5,
        "Packets that queues of the path dropped, or that links lost at random, in an outage or by a policer, or "
        "damaged, over those that came (Pantheon).",
        _loss("loss_share"), of=frozenset({"flow", "link"}), **_SHARE,
    ),
    "queue_drop_share": Figure(
        "Queue drops", "share", 5, "The part of the loss that queues dropped.",
        _loss("queue_drop_share"), of=frozenset({"flow", "link"}), **_SHARE,
    ),
    "satisfaction_goodput": Figure(
        "Satisfaction (goodput)", "x/a", 3, "Goodput over the least rate that the flow requires (Hercules).",
        lambda s: satisfaction(value(s, "goodput_mbps"), s.least_mbps), frozenset({RECEIVED, REQUIREMENT}),
    ),
    "satisfaction_throughput": Figure(
        "Satisfaction (throughput)", "x/a", 3, "Throughput over the least rate that the flow requires.",
        lambda s: satisfaction(value(s, "throughput_mbps"), s.least_mbps), frozenset({PACKETS, REQUIREMENT}),
    ),
    "inferences_per_s": Figure(
        "Inferences", "1/s", 1, "Decisions of a learned scheme per second of the flow's time; 0 for other schemes.",
        _decisions_per_s, frozenset({COUNTERS}),
    ),
    "share": Figure(
        "Share", "share", 2, "Throughput over the sum of all flows' throughputs.",
        _share("throughput_mbps"), frozenset({PACKETS, FLOWS}), **_SHARE,
    ),
    "received_share": Figure(
        "Share of received", "share", 2, "Received rate over the sum of all flows' received rates.",
        _share("received_mbps"), frozenset({RECEIVED, FLOWS}), **_SHARE,
    ),
    "relative": Figure(
        "Throughput ratio", "x", 3, "Received rate over the first flow's: the papers' throughput ratio.",
        _relative, frozenset({RECEIVED, FLOWS}),
    ),
    "fair_share": Figure(
        "Fair share", "share", 2, "The flow's weight over the sum of all weights.",
        _fair_share, frozenset({FLOWS}), **_SHARE,
    ),
    "score_sharing": Figure(
        "Score, sharing", "share", 3,
        "The least of all flows' shares over their fair shares: 1 is fair, 0 is a flow that gets nothing. The "
        "leaderboard takes it beside CUBIC.",
        _worst_share, frozenset({PACKETS, FLOWS}), **_RUN, **_SHARE,
    ),
    "solo_throughput_mbps": Figure(
        "Throughput alone", "Mbit/s", 2, "Throughput of the same flow without the others.",
        lambda s: s.alone["throughput_mbps"], frozenset({PACKETS, MATCH}),
    ),
    "solo_queueing_delay_mean_ms": Figure(
        "Mean queueing delay alone", "ms", 2, "Mean queueing delay of the same flow without the others.",
        lambda s: s.alone["queueing_delay_mean_ms"], frozenset({PACKETS, MATCH}),
    ),
    "harm_throughput": Figure(
        "Harm to throughput", "share", 2, "(alone - beside the others) / alone (Ware et al., HotNets 2019).",
        lambda s: harm(s.alone["throughput_mbps"] - value(s, "throughput_mbps"), s.alone["throughput_mbps"]),
        frozenset({PACKETS, MATCH}), range=(-1e12, 1.0),
    ),
    "harm_delay": Figure(
        "Harm to delay", "share", 2,
        "(beside - alone) / beside, of base RTT plus mean queueing delay (Ware et al.).",
        _harm_to_delay, frozenset({PACKETS, MATCH}), range=(-1e12, 1.0),
    ),
    "convergence_time_s": Figure(
        "Convergence time", "s", 1, "Until 5 s in which every second's rate is within 25 % of the fair one (PCC).",
        _convergence, frozenset({PACKETS, MATCH}),
    ),
    "jain_goodput": Figure(
        "Jain's index (goodput)", "1/n to 1", 4, "(sum x)^2 / (n sum x^2) of all flows' goodputs.",
        lambda s: jain_index(_all(s, "goodput_mbps")), frozenset({RECEIVED, FLOWS}), **_RUN, **_SHARE,
    ),
    "jain_received": Figure(
        "Jain's index (received)", "1/n to 1", 4, "The same of all flows' received rates.",
        lambda s: jain_index(_all(s, "received_mbps")), frozenset({RECEIVED}), **_SUITE, **_SHARE,
    ),
    "jain_weighted": Figure(
        "Jain's index (weighted)", "1/n to 1", 4, "The same of all flows' throughputs over their weights.",
        lambda s: jain_index([value(flow, "throughput_mbps") / flow.weight for flow in s.record.flows]),
        frozenset({PACKETS, FLOWS}), **_RUN, **_SHARE,
    ),
    "jain_learners": Figure(
        "Jain's index (learners)", "1/n to 1", 4, "The same of the throughputs of a trial's learners.",
        lambda s: jain_index([value(s.record.flows[k], "throughput_mbps") for k in s.record.learners or ()]),
        frozenset({PACKETS, LEARNERS}), **_RUN, **_SHARE,
    ),
    "max_min_distance": Figure(
        "Distance from max-min", "share", 3, "Of all flows' throughputs: sum |x - x*| / sum x*, x* max-min fair.",
        _distance("max-min"), frozenset({PACKETS, FLOWS}), **_RUN,
    ),
    "hrf_distance": Figure(
        "Distance from HRF", "share", 3,
        "The same from requirement-based fairness, if a flow has a requirement (Hercules).",
        _distance("hrf"), frozenset({PACKETS, FLOWS}), **_RUN,
    ),
    "worst_satisfaction": Figure(
        "Worst satisfaction", "x/a", 3, "The least satisfaction of goodput among flows with a requirement (Hercules).",
        _worst_satisfaction, frozenset({RECEIVED}), **_SUITE,
    ),
    "relative_worst": Figure(
        "Worst ratio", "share", 3,
        "The largest relative distance of a flow's throughput ratio from its weight over the first flow's weight.",
        _relative_worst, frozenset({RECEIVED}), **_SUITE,
    ),
    "total_mbps": Figure(
        "Total received", "Mbit/s", 2, "IP bytes of all flows that reached receivers, over the window.",
        lambda s: _total(s, payload=False) * 8e-6 / (s.record.to_s - s.record.from_s),
        frozenset({RECEIVED}), **_SUITE,
    ),
    "utilisation_goodput": Figure(
        "Utilisation (goodput)", "share", 3,
        "Payload of all flows that reached receivers over the IP bytes that the link could have carried.",
        lambda s: utilisation(_total(s, payload=True), s.record.capacity_bytes(s.link)),
        frozenset({RECEIVED}), **_SUITE,
    ),
    "queueing_delay_bin_p95_ms": Figure(
        "p95 of bins' queueing delay", "ms", 2, "95th percentile of the mean queueing delays of a link's bins.",
        _worst_bin, frozenset({SERIES}), of=frozenset({"link"}),
    ),
    **{
        f"{what}_packets": Figure(
            title, "packets", 0, f"Packets that {text}, over the whole run.",
            _link_counter(f"{what}_packets"), of=frozenset({"link"}),
        )
        for what, title, text in (
            ("arrived", "Arrived", "came to the link"),
            ("delivered", "Delivered", "left the link"),
            ("dropped", "Dropped", "the link's queue dropped"),
            (
                "marked_ect0", "Marked, with ECT(0)",
                "had ECT(0) and that the link's queue or policer marked (RFC 3168)",
            ),
            (
                "marked_ect1", "Marked, with ECT(1)",
                "had ECT(1) and that the link's queue or policer marked (L4S, RFC 9331)",
            ),
            (
                "dropped_not_ect", "Dropped, without ECN",
                "the link's queue or policer would have marked if their flow used ECN, and dropped",
            ),
        )
    },
    **{
        f"{queue}_queue_delay_p{percent}_ms": Figure(
            f"p{percent} delay of the {title} queue", "ms", 2,
            f"{text} of the times that packets waited in the {title} queue of `dualpi2` (RFC 9332), over the whole run,"
            " rounded up by at most 3 %.",
            _queue_counter(queue, f"delay_p{percent}_ms"), of=frozenset({"link"}),
        )
        for queue, title in (("l4s", "L4S"), ("classic", "classic"))
        for percent, text in ((50, "Median"), (99, "99th percentile"))
    },
    **{
        name: Figure(
            title, unit, digits, definition, _flow_counter(name), frozenset({COUNTERS}),
        )
        for name, title, unit, digits, definition in (
            ("sent_packets", "Sent", "packets", 0, "Data packets sent, retransmissions included."),
            ("retransmitted_packets", "Retransmitted", "packets", 0, "Retransmissions."),
            ("lost_packets", "Lost", "packets", 0, "Packets that the sender considered lost."),
            ("timeouts", "Timeouts", "times", 0, "Retransmission timeouts."),
            ("reordered", "Reordered", "times", 0, "Acknowledgements that told the sender of packets out of order."),
            (
                "spurious_retransmits", "Spurious", "packets", 0,
                "Retransmissions of what the receiver had already, as its acknowledgements say (D-SACK, RFC 2883).",
            ),
            (
                "undone_recoveries", "Undone", "times", 0,
                "Recoveries that proved needless, so that the sender undid the reduction of its window.",
            ),
            ("rtt_min_ms", "Least RTT", "ms", 2, "Least RTT sample of the sender."),
            ("rtt_mean_ms", "Mean RTT", "ms", 2, "Mean RTT sample of the sender."),
        )
    },
    **{
        f"{who}_cpu_percent": Figure(
            title, "%", 1, definition, _cpu(who), frozenset({MACHINE}), **_SUITE,
        )
        for who, title, definition in (
            ("daemon", "CPU, controllers", "CPU time of the controllers in user space, over the run's time."),
            ("datapath", "CPU, BPF", "CPU time of the BPF programs that serve them, over the run's time."),
        )
    },
    **{
        name: Figure(r.title, r.unit, r.digits, r.definition, r.function, frozenset({r.need}), range=r.range)
        for name, r in APPLICATIONS.items()
    },
    "cpu_ns": Figure(
        "CPU per decision", "ns", 0,
        "Native code, one core of the machine of the runs. Of a scheme: an acknowledgement of a long flow in its "
        "steady state, less what a controller that does nothing takes. Of a policy: one run of its network in float32, "
        "once per interval of its clock. Blank of what is computed from each link's capacity.",
        None,
    ),
}  # fmt: skip
"""Every figure by its name."""
