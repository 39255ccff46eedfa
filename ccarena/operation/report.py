"""A canary's report: connections with the policy against those that ran the fallback scheme beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ccarena.eval.measure.sample import Interval, confidence_interval, difference
from ccarena.operation.connections import Connection

__all__ = ["Compared", "Report", "report"]

FIGURES: dict[str, tuple[str, bool, Callable[[Connection], float | None]]] = {
    "throughput_mbps": ("throughput, Mbit/s", True, lambda c: c.throughput_mbps),
    "rtt_ms": ("RTT, ms", False, lambda c: c.rtt_ms),
    "retransmitted": (
        "retransmitted bytes, %",
        False,
        lambda c: 100 * c.retransmitted_bytes / c.sent_bytes if c.sent_bytes else None,
    ),
}
"""Figures of a connection: title, whether more is better, and the function."""


@dataclass(frozen=True)
class Compared:
    """One figure of both sides: means over connections with 95 % intervals."""

    figure: str
    title: str
    policy: Interval
    control: Interval
    difference: Interval
    """The policy's mean less the control's (Welch)."""
    verdict: str
    """`better` or `worse`; `no difference seen` if the interval of the difference holds 0, `too few connections` if
    there is none, and `no data` if a side has no connection with the figure."""


@dataclass(frozen=True)
class Report:
    """Comparison of a policy's connections with the control's."""

    name: str
    generation: int
    """Number of the policy, as `stats` prints it."""
    policy: int
    """Number of connections that the policy had, those included that were handed back."""
    handed_back: int
    """Number of these."""
    control: int
    """Number of connections that the fallback had beside them."""
    figures: tuple[Compared, ...]


def report(name: str, records: Sequence[Connection], generation: int) -> Report:
    """Compares connections of policy number `generation` with the fallback's of the same time.

    Takes `records` (`connections`) with data to send, also those of which nothing arrived. A connection that was handed
    back counts for the policy: leaving either out would hide the policy's worst cases. A connection that
    changed sides counts on each side with its part there.
    """
    records = [each for each in records if each.generation == generation]
    policy = _united(records, ("policy", "handed_back"))
    control = _united(records, ("control",))
    handed_back = {c.connection for c in records if c.ended == "guard"} & {c.connection for c in policy}
    figures = tuple(_compare(figure, *about, policy, control) for figure, about in FIGURES.items())
    return Report(name, generation, len(policy), len(handed_back), len(control), figures)


def _compare(
    figure: str,
    title: str,
    more: bool,
    of: Callable[[Connection], float | None],
    policy: Sequence[Connection],
    control: Sequence[Connection],
) -> Compared:
    ours, theirs = ([math.nan if (value := of(c)) is None else value for c in side] for side in (policy, control))
    found = difference(ours, theirs)
    verdict = "no difference seen"
    if not all(any(not math.isnan(value) for value in side) for side in (ours, theirs)):
        verdict = "no data"
    elif math.isnan(found.low):
        verdict = "too few connections"
    elif found.low > 0 or found.high < 0:
        verdict = "better" if (found.low > 0) == more else "worse"
    return Compared(figure, title, confidence_interval(ours), confidence_interval(theirs), found, verdict)


def _united(records: Sequence[Connection], roles: Sequence[str]) -> list[Connection]:
    """Returns the connections with data on the way under `roles`, the records of one connection added up."""
    united: dict[int, Connection] = {}
    for record in records:
        if record.role in roles and record.busy_s > 0:
            before = united.get(record.connection)
            united[record.connection] = record if before is None else _added(before, record)
    return list(united.values())


def _added(a: Connection, b: Connection) -> Connection:
    acked, busy_s = a.acked_bytes + b.acked_bytes, a.busy_s + b.busy_s
    counts = [(c.rtt_ms, c.rtt_samples) for c in (a, b) if c.rtt_ms is not None]
    samples = sum(n for _, n in counts)
    return replace(
        b,
        acked_bytes=acked,
        busy_s=busy_s,
        sent_bytes=a.sent_bytes + b.sent_bytes,
        retransmitted_bytes=a.retransmitted_bytes + b.retransmitted_bytes,
        throughput_mbps=acked * 8e-6 / busy_s if busy_s else None,
        rtt_ms=sum(mean * n for mean, n in counts) / samples if samples else None,
        rtt_samples=samples,
    )
