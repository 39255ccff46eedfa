"""The table of harms: what an entrant can do wrong on a link, each with one definition, threshold and function.

Each harm is a number, 0 at best and higher where it is worse. A case is a counterexample of a harm if the number
reaches the threshold. Runs are measured from a fifth of their time on, and from 2 s after the last flow has started.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccarena.attacks.case import PACKET_BYTES, Case, Competition
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.heldout.oracle import Bound, one_rtt_late
from ccarena.eval.measure.queueing import queueing_delay_ms
from ccarena.eval.measure.record import Record, Subject
from ccarena.eval.measure.table import normalised_power, value
from ccarena.eval.measure.throughput import bin_capacity_mbps, bin_throughput_mbps

__all__ = ["HARMS", "Harm", "Seen", "chosen", "values_of"]

WINDOW_S = 1.0
"""Window of which a standing queue takes the least delay, and shortest bin of a rate's swings."""
SETTLED_S = 8.0
"""Time after the last change of the link from which a queue is standing: BBRv3's largest bandwidth is that of two
cycles of probing, of up to 3 s each (draft-ietf-ccwg-bbr-06, 5.3.3).
"""
LEAST_WINDOWS = 2
"""Windows of the shortest stretch in which a queue can stand."""
LEAST_WINDOW_PACKETS = 4
"""Packets in flight that no harm counts: many controllers never send with fewer."""


@dataclass(frozen=True)
class Seen:
    """Run of a case, as harms see it."""

    case: Case
    record: Record
    """The run; the attacked flow is its first one."""
    without_others: float = math.nan
    """Rate of the attacked flow without the others, Mbit/s."""
    without_attacked: float = math.nan
    """Mean rate of the others without the attacked flow, Mbit/s."""

    @property
    def subject(self) -> Subject:
        """Returns the attacked flow."""
        return self.record.flows[0]

    @cached_property
    def oracle(self) -> Bound:
        """Returns the oracle on the same link."""
        capacity = self.record.capacity_mbps(self.subject.link)
        limit = self.case.queue_packets * PACKET_BYTES
        return one_rtt_late(capacity, 1e3 * self.record.bin_s, self.subject.base_rtt_ms, limit)

    @cached_property
    def rates_mbps(self) -> list[float]:
        """Returns the rate of each flow."""
        return [float(value(flow, "throughput_mbps")) for flow in self.record.flows]

    @property
    def fair_mbps(self) -> float:
        """Returns the fair share: capacity that was used, over the number of flows."""
        return sum(self.rates_mbps) / len(self.rates_mbps)


@dataclass(frozen=True)
class Harm:
    """Harm to an entrant's user or to others."""

    title: str
    definition: str
    threshold: float
    """Value from which a case is a counterexample."""
    competition: Competition | None
    """Competition in which it is defined; None in any."""
    function: Callable[[Seen], float]
    bulk: bool = True
    """True if it is defined for bulk traffic alone."""


def chosen(names: Iterable[str]) -> dict[str, Harm]:
    """Returns the harms of these names, all if there are none. Raises ConfigError for an unknown one."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in HARMS:
            raise ConfigError(f'unknown harm "{name}"{did_you_mean(name, HARMS)}; harms are {", ".join(HARMS)}')
    return {name: HARMS[name] for name in wanted} if wanted else dict(HARMS)


def values_of(seen: Seen) -> dict[str, float]:
    """Returns the value of each harm that is defined for the run."""
    found = {}
    for name, harm in HARMS.items():
        if harm.competition not in (None, seen.case.competition):
            continue
        if harm.bulk and seen.case.values["application"] != "bulk":
            continue
        number = float(harm.function(seen))
        found[name] = max(number, 0.0) if math.isfinite(number) else 0.0
    return found


def _regret(seen: Seen) -> float:
    best = normalised_power(seen.oracle.utilisation, seen.oracle.queueing_delay_mean_ms, seen.subject.base_rtt_ms)
    return 1.0 - float(value(seen.subject, "score")) / best


def _idle_link(seen: Seen) -> float:
    return 1.0 - float(value(seen.subject, "utilisation")) / seen.oracle.utilisation


def _standing_queue(seen: Seen) -> float:
    log = seen.subject.log
    delay_ms, left_s = queueing_delay_ms(log), log.departure_ns * 1e-9
    worst = 0.0
    for from_s, to_s in _settled(seen):
        windows = math.floor((to_s - from_s) / WINDOW_S)
        at = np.floor((left_s - from_s) / WINDOW_S).astype(int)
        inside = (at >= 0) & (at < windows)
        least = np.full(windows, np.inf)
        np.minimum.at(least, at[inside], delay_ms[inside])
        least[np.isinf(least)] = 0.0
        worst = max(worst, float(np.median(least)))
    packets_ms = LEAST_WINDOW_PACKETS * PACKET_BYTES * 8e-3 / max(float(value(seen.subject, "capacity_mbps")), 1e-3)
    return worst / (seen.subject.base_rtt_ms + packets_ms)


def _settled(seen: Seen) -> Iterator[tuple[float, float]]:
    """Yields start and end of each stretch of time without a change of the link, less what settling takes."""
    changes = seen.case.changes_s
    starts = [seen.record.from_s, *(max(seen.record.from_s, at + SETTLED_S) for at in changes)]
    for from_s, to_s in zip(starts, [*changes, seen.record.to_s], strict=True):
        if to_s - from_s >= LEAST_WINDOWS * WINDOW_S:
            yield from_s, to_s


def _oscillation(seen: Seen) -> float:
    record, bin_s = seen.record, max(WINDOW_S, 8e-3 * seen.subject.base_rtt_ms)
    length_s = record.to_s - record.from_s
    whole = math.floor(length_s / bin_s)
    rates = bin_throughput_mbps(seen.subject.log, length_s, bin_s, record.from_s)[:whole]
    capacity = bin_capacity_mbps(record.capacity_mbps(seen.subject.link), round(bin_s / record.bin_s))[:whole]
    used = rates[capacity > 0] / capacity[capacity > 0]
    return float(used.std() / used.mean()) if used.size > 1 and used.mean() > 0 else 0.0


def _loss(seen: Seen) -> float:
    return float(value(seen.subject, "queue_drop_share"))


def _lacks(rate: float, fair: float, otherwise: float) -> float:
    """Returns the part of its share that a flow lacks: of the fair one, or of its rate without the others if less."""
    due = min(fair, otherwise)
    return 1.0 - rate / due if due > 0 else 0.0


def _starves_others(seen: Seen) -> float:
    # Together: that one of them starves another is no harm of the entrant.
    return _lacks(statistics.fmean(seen.rates_mbps[1:]), seen.fair_mbps, seen.without_attacked)


def _starved(seen: Seen) -> float:
    return _lacks(seen.rates_mbps[0], seen.fair_mbps, seen.without_others)


def _unfair(seen: Seen) -> float:
    return _lacks(min(seen.rates_mbps), seen.fair_mbps, math.inf)


def _crash(seen: Seen) -> float:
    return 0.0  # A run that failed has no figures, and `trial` gives it this harm alone.


CRASH = "crash"
"""Harm of a run that failed."""

HARMS: Mapping[str, Harm] = {
    "regret": Harm("Regret", "alone: 1 − score / the oracle's score on the same link", 0.6, "alone", _regret),
    "starves_others": Harm(
        "Starves others",
        "1 − mean rate of the others / their fair share, or / their mean rate without the entrant if that is less",
        0.7, "others", _starves_others,
    ),
    "starved": Harm(
        "Starved by others",
        "1 − rate of the entrant / its fair share, or / its rate without the others if that is less",
        0.7, "others", _starved,
    ),
    "standing_queue": Harm(
        "Standing queue",
        "alone: median over seconds of each second's least queueing delay / (base RTT + time in which the link sends "
        "four packets), in the worst stretch without a change of the link; the 8 s after a change are left out",
        1.0, "alone", _standing_queue, bulk=False,
    ),
    "idle_link": Harm("Idle link", "alone: 1 − utilisation / the oracle's utilisation", 0.5, "alone", _idle_link),
    "oscillation": Harm(
        "Oscillation",
        "alone: standard deviation / mean of the used share of the capacity, in bins of 1 s, or 8 base RTTs if longer",
        0.5, "alone", _oscillation,
    ),
    "loss": Harm("Loss", "alone: share of its packets that the queue drops", 0.05, "alone", _loss, bulk=False),
    "unfair": Harm(
        "Unfair among its own", "several flows of the entrant: 1 − rate of the worst one / the fair share",
        0.7, "itself", _unfair,
    ),
    CRASH: Harm("Crash", "1 if the controller fails: an exception, a panic or no end", 1.0, None, _crash, bulk=False),
}  # fmt: skip
"""Every harm by its name."""
