"""Large tables that are sorted and filtered in the browser, and heat maps as tables.

A grid draws only the visible rows, so that 100,000 of them cost no more than twenty. It is a grid to a screen reader
(WAI-ARIA 1.2), and every row is reached with the arrow keys. The rows are stored in the page, or in a script beside it,
which a browser also loads from a local file.

The cells of a column are one text in which each cell has the same number of digits to the base 64 (`packed`). A browser
stores this text unparsed, and computes where the cells of the visible rows begin. A column is parsed as a whole once it
is sorted or filtered.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.pages import charts
from ccarena.pages.blocks import Drawn, escape

__all__ = ["Grid", "HeatMap", "Links", "Numbers", "Rows", "Words", "data_script", "packed"]

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""Digits of the base 64; none has a meaning in JSON or HTML."""
_DIGITS = np.frombuffer(DIGITS.encode(), np.uint8)
LARGEST = 2**35
"""Most steps between the least and the largest number of a column; with a row's number they fit a JavaScript number."""


def packed(cells: NDArray[np.int64]) -> dict[str, Any]:
    """Returns whole numbers from 0 as text: `cells`, with `width` digits each, the most significant first."""
    width = next(width for width in range(1, 9) if int(cells.max(initial=0)) < 64**width)
    places = 6 * np.arange(width - 1, -1, -1)
    digits = (cells[:, None] >> places) & 63
    return {"cells": _DIGITS[digits].tobytes().decode(), "width": width}


@dataclass(frozen=True)
class Words:
    """A column of words."""

    title: str
    cells: Sequence[str]
    links: Mapping[str, str] = field(default_factory=dict)
    """Targets of words, relative to the page."""
    choose: bool = False
    """Offer the words in a list to choose from."""
    first: str = ""
    """Word that is chosen first; all rows if empty."""

    def plain(self, order: NDArray[np.intp]) -> dict[str, Any]:
        """Returns each different word once, and the packed index of the word in each row; rows in `order`."""
        values = list(dict.fromkeys(self.cells))
        place = {word: at for at, word in enumerate(values)}
        at = np.fromiter((place[word] for word in self.cells), np.int64, len(self.cells))
        out: dict[str, Any] = {"title": self.title, "values": values, **packed(at[order])}
        if self.links:
            out["links"] = [self.links.get(word, "") for word in values]
        return out | ({"choose": self.first} if self.choose else {})


@dataclass(frozen=True)
class Numbers:
    """Column of numbers; one that is not finite is blank and sorts last."""

    title: str
    cells: Sequence[float | None]
    digits: int = 2
    help: str = ""
    """Description of the figure."""

    def plain(self, order: NDArray[np.intp]) -> dict[str, Any]:
        """Returns the numbers packed, with as many digits as are shown; rows in `order`."""
        low, scale, steps = self.steps()
        ends = (low, low + int(steps.max(initial=1)) - 1)
        longest = max(len(f"{end / scale:.{self.digits}f}") for end in ends)
        about = {"title": self.title, "low": low, "scale": scale, "digits": self.digits, "help": self.help}
        about |= {"longest": longest}
        return about | packed(steps[order])

    def steps(self) -> tuple[int, float, NDArray[np.int64]]:
        """Returns (low, scale, steps) so that a number is (low + step - 1) / scale; step 0 is unknown.

        A column that spans more than `LARGEST` steps is rounded to fewer digits.
        """
        numbers = np.array([math.nan if x is None else x for x in self.cells], np.float64)
        known = np.isfinite(numbers)
        low, high = (numbers[known].min(), numbers[known].max()) if known.any() else (0.0, 0.0)
        coarser = max(0, math.ceil(math.log10((high - low) * 10.0**self.digits / LARGEST))) if high > low else 0
        scale = 10.0 ** (self.digits - coarser)
        low = round(float(low) * scale)
        steps = np.where(known, np.round(np.where(known, numbers, 0.0) * scale) - low + 1, 0).astype(np.int64)
        return low, scale, steps


@dataclass(frozen=True)
class Links:
    """Targets of rows, relative to the page: `page`, a #, and two whole numbers joined by a hyphen."""

    page: str
    first: Sequence[int]
    second: Sequence[int]

    def plain(self, order: NDArray[np.intp]) -> dict[str, Any]:
        """Returns the links as the page's script takes them; rows in `order`."""
        both = (packed(np.array(numbers, np.int64)[order]) for numbers in (self.first, self.second))
        return {"page": self.page, "numbers": list(both)}


@dataclass(frozen=True)
class Rows:
    """Contents of a grid: columns of words and numbers."""

    columns: Sequence[Words | Numbers]
    sort: str = ""
    """Title of the column of numbers by which rows are sorted first; "-TITLE" sorts from the largest."""
    open: Links | None = None

    def plain(self) -> dict[str, Any]:
        """Returns the rows as the page's script takes them."""
        order = self._order()
        columns = [column.plain(order) for column in self.columns]
        out: dict[str, Any] = {"rows": len(order), "columns": columns, "sort": self.sort}
        return out | ({"open": self.open.plain(order)} if self.open else {})

    def _order(self) -> NDArray[np.intp]:
        """Sorts the rows for the first view, so that no browser has to; unknown values are last."""
        title = self.sort.removeprefix("-")
        by = next((column for column in self.columns if column.title == title and isinstance(column, Numbers)), None)
        if by is None:
            return np.arange(len(self.columns[0].cells) if self.columns else 0)
        _, _, steps = by.steps()
        keys = -steps if self.sort.startswith("-") else np.where(steps == 0, np.iinfo(np.int64).max, steps)
        return np.argsort(keys, kind="stable")


def data_script(name: str, rows: Rows) -> str:
    """Returns a script that gives the grid `name` its rows."""
    text = json.dumps(rows.plain(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"(window.ccarenaGrids ??= {{}})[{json.dumps(name)}] = {text};\n"


@dataclass(frozen=True)
class Grid:
    """Block that shows the grid `name`; without `rows`, a script of the page has them."""

    name: str
    label: str
    rows: Rows | None = None

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        drawn.grids.append(self.name)
        data = ""
        if self.rows is not None:
            text = json.dumps(self.rows.plain(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            text = text.replace("<", "\\u003c")  # no tag ends the script
            data = f'<script type="application/json" class="grid-data">{text}</script>'
        return f'<div class="grid-box" data-grid="{escape(self.name)}" data-label="{escape(self.label)}">{data}</div>'


@dataclass(frozen=True)
class HeatMap:
    """Block that shows a table with coloured cells, and names at the left and above."""

    label: str
    names: Sequence[str]
    values: Sequence[Sequence[float]]
    """Values by row and column; NaN is blank."""
    shades: Sequence[Sequence[float]]
    """Shades by row and column, 0 to 1, as places in the colour ramp."""
    colours: Sequence[str]
    percent: bool = True

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in self.names)
        body = "".join(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(self._cell(i, j) for j in range(len(self.names)))}</tr>'
            for i, name in enumerate(self.names)
        )
        label = escape(self.label)
        table = f"<table class=heat><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'

    def _cell(self, row: int, column: int) -> str:
        value = self.values[row][column]
        if not math.isfinite(value):
            return "<td></td>"
        colour = charts.ramp(self.colours, self.shades[row][column])
        # Black, which is readable where the #111111 of charts falls just short of WCAG's 4.5.
        ink = "#ffffff" if charts.on(colour) == "#ffffff" else "#000000"
        text = f"{100 * value:.0f}" if self.percent else f"{value:.2f}"
        said = f"{self.names[row]} beside {self.names[column]}: {text}{' %' if self.percent else ''}"
        return f'<td style="background:{colour};color:{ink}" title="{escape(said)}">{text}</td>'
