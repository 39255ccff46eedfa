"""Figure over time that most pages show: rates in front of the capacity, and below them the queueing delay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ccarena.pages import charts
from ccarena.pages.blocks import Figure
from ccarena.pages.charts import Axis, Chart, Even, Style

__all__ = ["DELAY_TICKS", "LEAST_DELAY_MS", "Course", "over_time"]

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
    # Of a bin, the capacity is drawn all along and a scheme's value in the middle.
    time, x = Even(start_s + bin_s / 2, bin_s), Axis("time (s)")
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
            [None if ms is None else max(ms, LEAST_DELAY_MS) for ms in one.delay_ms],
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
        delay = Axis("queueing delay (ms, log)", log=True, ticks=DELAY_TICKS)
        parts.append(Chart(x, delay, delays, height=260, unified=True, levels=level))
    return Figure(label, parts, same_x=True, caption=caption)
