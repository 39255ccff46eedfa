"""Large tables that are sorted and filtered in the browser, and heat maps as tables.

A grid draws only the rows that are in sight, so that 100,000 of them cost no more than twenty. It is a grid to a screen
reader (WAI-ARIA 1.2), and every row is reached with the arrow keys. Its rows stand in the page, or in a script beside
it, which a browser loads from a file, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ccarena.pages import charts
from ccarena.pages.blocks import Drawn, escape

__all__ = ["Grid", "HeatMap", "Numbers", "Rows", "Words", "data_script"]


@dataclass(frozen=True)
class Words:
    """A column of words."""

    title: str
    cells: Sequence[str]
    links: Mapping[str, str] = field(default_factory=dict)
    """Where a word leads, relative to the page."""
    choose: bool = False
    """Whether one of its words can be chosen in a list."""
    first: str = ""
    """The word that is chosen at first; all rows if empty."""

    def plain(self) -> dict[str, Any]:
        """Each different word once, and which one stands in each row."""
        values = list(dict.fromkeys(self.cells))
        place = {word: at for at, word in enumerate(values)}
        out: dict[str, Any] = {"title": self.title, "values": values, "at": [place[word] for word in self.cells]}
        if self.links:
            out["links"] = [self.links.get(word, "") for word in values]
        return out | ({"choose": self.first} if self.choose else {})


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; what is not finite is blank and stands below all others."""

    title: str
    cells: Sequence[float | None]
    digits: int = 2
    help: str = ""
    """What the figure is."""

    def plain(self) -> dict[str, Any]:
        """Numbers to as many digits as are shown."""
        numbers = [None if x is None or not math.isfinite(x) else round(x, self.digits) for x in self.cells]
        return {"title": self.title, "numbers": numbers, "digits": self.digits, "help": self.help}


@dataclass(frozen=True)
class Rows:
    """What a grid shows."""

    columns: Sequence[Words | Numbers]
    sort: str = ""
    """The title of the column by which rows are at first, or "-TITLE", with the largest first."""
    open: Sequence[str] = ()
    """Where each row leads, relative to the page; empty if nowhere."""

    def plain(self) -> dict[str, Any]:
        """As the script takes it."""
        out = {"columns": [column.plain() for column in self.columns], "sort": self.sort}
        return out | ({"open": list(self.open)} if self.open else {})


def data_script(name: str, rows: Rows) -> str:
    """A script that gives the grid `name` its rows."""
    text = json.dumps(rows.plain(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # JSON.parse reads a long text faster than the browser reads the same as a program.
    return f"(window.ccarenaGrids ??= {{}})[{json.dumps(name)}] = JSON.parse({json.dumps(text)});\n"


@dataclass(frozen=True)
class Grid:
    """A block: the grid called `name`; without `rows` a script of the page has them."""

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
    """A block: a table whose cells have colours, with names at the left and above."""

    label: str
    names: Sequence[str]
    values: Sequence[Sequence[float]]
    """Of the row beside the column; NaN is blank."""
    shades: Sequence[Sequence[float]]
    """0 to 1, through the colours."""
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
