"""Text of figures for tables and pages: headings with units, and values with the digits that the table gives them."""

from __future__ import annotations

import math

from ccarena.eval.measure.table import FIGURES

__all__ = ["UNKNOWN", "heading", "show"]

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
