"""Figure over time that most pages show: rates in front of the capacity, and below them the queueing delay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ccarena.pages import charts
from ccarena.pages.blocks import Figure
from ccarena.pages.charts import Axis, Chart, Even, Style

__all__ = ["DELAY_TICKS", "LEAST_DELAY_MS", "Course", "delay_axis", "over_time"]

LEAST_DELAY_MS = 0.1
"""Least delay that is drawn, for a logarithmic axis; smaller ones are raised to it."""
DELAY_TICKS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)


@dataclass(frozen=True)
class Course:
    """Rates and delays of one scheme or flow over time; None or NaN if nothing was sent."""

    name: str
    look: Style
    rate_mbps: Iterable[float | None] | None
    delay_ms: Iterable[float | None] | None = None
    bold: bool = False
    shown: bool = True
    """Show the course from the start; if False, a click in the legend shows it."""


def over_time(
    label: str,
    bin_s: float,
    capacity_mbps: Iterable[float | None] | None,
    courses: Sequence[Course],
    *,
    start_s: float = 0.0,
    budget_ms: float | None = None,
    caption: str = "",
) -> Figure:
    """Returns the figure, in bins of `bin_s`; the lower chart exists if any course has delays.

    `budget_ms` is drawn as a level of the delay.
    """
    capacity_mbps = None if capacity_mbps is None else list(capacity_mbps)
    courses = [_listed(one) for one in courses]
    lengths = [len(each) for one in courses for each in (one.rate_mbps, one.delay_ms) if isinstance(each, list)]
    bins = max([len(capacity_mbps or ()), *lengths])
    # Of a bin, the capacity is drawn all along and a scheme's value in the middle. Both charts have the same ends.
    time = Even(start_s + bin_s / 2, bin_s)
    x = Axis("time (s)", low=start_s, high=start_s + bins * bin_s) if bins else Axis("time (s)")
    rates = [] if capacity_mbps is None else [charts.area("capacity", Even(start_s, bin_s), capacity_mbps)]
    rates += [
        charts.line(one.name, time, one.rate_mbps, one.look, width=2.2 if one.bold else 1.3, shown=one.shown)
        for one in courses
        if one.rate_mbps is not None
    ]
    delays = [
        charts.line(
            one.name,
            time,
            one.delay_ms,
            one.look,
            width=2.2 if one.bold else 1.3,
            shown=one.shown,
        )
        for one in courses
        if one.delay_ms is not None
    ]
    parts = [Chart(x, Axis("rate (Mbit/s)", from_zero=True), rates, height=300, unified=True)]
    if delays:
        level = () if budget_ms is None else ((budget_ms, f"{budget_ms:g} ms budget"),)
        drawn = [ms for one in courses for ms in one.delay_ms or ()]
        delay = delay_axis("queueing delay (ms, log)", [*drawn, budget_ms])
        parts.append(Chart(x, delay, delays, height=260, unified=True, levels=level))
    return Figure(label, parts, same_x=True, caption=caption)


def delay_axis(title: str, delays_ms: Iterable[float | None], room: float = 0.0) -> Axis:
    """Returns a logarithmic axis that holds all delays between two of its labels; smaller ones are raised to the least.

    `room`: share of the axis that it goes on beyond these two, where a mark at an end would be cut off (default 0).
    Labels are at 1, 2 and 5 of each decade, over more than two decades at 1 and 3, over more than four at 1.
    """
    known = [max(ms, LEAST_DELAY_MS) for ms in delays_ms if ms is not None and math.isfinite(ms)]
    if not known:
        return Axis(title, log=True, ticks=DELAY_TICKS)
    low, high = min(known), max(known)
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 4 else (1,)
    least, most = math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1
    ticks = [float(f"{step * 10.0**power:.1g}") for power in range(least, most + 1) for step in steps]
    low = max(tick for tick in ticks if tick <= low)
    high = min(tick for tick in ticks if tick >= high and tick > low)
    ticks = [tick for tick in ticks if low <= tick <= high]
    beyond = (high / low) ** room
    return Axis(title, log=True, low=low / beyond, high=high * beyond, ticks=ticks)


def _listed(course: Course) -> Course:
    rate, delay = (None if each is None else list(each) for each in (course.rate_mbps, course.delay_ms))
    raised = None if delay is None else [None if ms is None else max(ms, LEAST_DELAY_MS) for ms in delay]
    return replace(course, rate_mbps=rate, delay_ms=raised)
