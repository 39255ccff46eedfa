"""Text of figures for tables and pages: headings with units, and values with the digits that the table gives them."""

from __future__ import annotations

import math
from dataclasses import replace

from ccarena.eval.measure.sample import Interval
from ccarena.eval.measure.table import FIGURES

__all__ = ["UNKNOWN", "bounded", "heading", "show", "with_interval"]

UNKNOWN = "–"


def heading(figure: str) -> str:
    """Returns a figure's title with its unit, for the head of a column."""
    about = FIGURES[figure]
    return f"{about.title} ({'%' if about.unit == 'share' else about.unit})"


def show(figure: str, value: float | None) -> str:
    """Returns a value in the figure's unit, shares in percent; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    about = FIGURES[figure]
    return f"{100 * value:.{max(about.digits - 2, 1)}f}" if about.unit == "share" else f"{value:.{about.digits}f}"


def bounded(figure: str, interval: Interval) -> Interval:
    """Returns the interval with its ends inside the figure's range; that of a share whose mean is at most 1 ends at 1.

    Few seeds give Student's intervals that reach beyond what the figure can be.
    """
    least, most = FIGURES[figure].range
    if FIGURES[figure].unit == "share" and interval.mean <= 1:
        most = min(most, 1.0)
    ends = [end if math.isnan(end) else min(max(end, least), most) for end in (interval.low, interval.high)]
    return replace(interval, low=ends[0], high=ends[1])


def with_interval(figure: str, interval: Interval) -> str:
    """Returns a mean with its interval, `bounded`: ± half of it, or its ends in brackets if it is cut off."""
    found = bounded(figure, interval)
    if not math.isfinite(found.high):
        return show(figure, found.mean)
    if found == interval:
        return f"{show(figure, found.mean)} ± {show(figure, found.high - found.mean)}"
    return f"{show(figure, found.mean)} [{show(figure, found.low)}, {show(figure, found.high)}]"
