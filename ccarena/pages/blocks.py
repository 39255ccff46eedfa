"""Blocks of a page's sections. Every block escapes its text."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ccarena.pages.charts import Chart
from ccarena.pages.states import STATES, State

__all__ = [
    "Block",
    "Callout",
    "Cell",
    "Choice",
    "Code",
    "Details",
    "Drawn",
    "Figure",
    "Items",
    "Table",
    "Text",
]

MANY_COLUMNS = 10
"""Number of columns from which a table is set in smaller type."""
_SPREAD = re.compile(r"(.*?) ([±(\[].*)")
"""Pattern of a number with its interval or range."""


@dataclass
class Drawn:
    """State of a page while it is rendered: its charts, which its script draws, and the elements that need a name."""

    charts: list[dict[str, Any]] = field(default_factory=list)
    named: int = 0
    tables: int = 0
    """Number of tables so far, from which each region of a page gets its own name."""
    grids: list[str] = field(default_factory=list)
    """Grids of the page."""
    runnable: bool = False
    """True if the page has runs that a reader can repeat."""
    files: dict[str, str] = field(default_factory=dict)
    """Files of these runs, packed, by name."""
    said_unbuilt: bool = False
    """True if the page says that the simulator for browsers is missing."""

    def name(self) -> str:
        """Returns a new id."""
        self.named += 1
        return f"part-{self.named}"


class Block(Protocol):
    """Anything that stands in a section."""

    def html(self, drawn: Drawn) -> str:
        """Returns the block as HTML and adds its charts to `drawn`."""
        ...


def escape(text: object) -> str:
    """Escapes text for HTML, between tags and in attributes."""
    return html.escape(str(text))


def prose(text: object) -> str:
    """Escapes a sentence for HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def together(blocks: Sequence[Block], drawn: Drawn) -> str:
    """Returns the blocks one after the other."""
    return "".join(block.html(drawn) for block in blocks)


def _sign(state: State) -> str:
    """Returns the sign of a state before its word, which says the same to a screen reader."""
    return f"<span aria-hidden=true>{STATES[state].sign} </span>" if STATES[state].sign else ""


@dataclass(frozen=True)
class Text:
    """A paragraph, and optionally a link at its end."""

    text: str
    link: tuple[str, str] | None = None
    """Target of the link, relative to the page, and its text."""

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        link = f' <a href="{escape(self.link[0])}">{escape(self.link[1])}</a>' if self.link else ""
        return f"<p>{prose(self.text)}{link}</p>"


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: Sequence[str]

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        return f"<ul>{''.join(f'<li>{prose(item)}</li>' for item in self.items)}</ul>"


@dataclass(frozen=True)
class Code:
    """Commands or a file's text, with a button that copies it."""

    text: str

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        return f'<div class="code"><pre>{escape(self.text)}</pre><button type="button" class="copy">Copy</button></div>'


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away until the summary is clicked."""

    summary: str
    blocks: Sequence[Block]
    open: bool = False

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        state = " open" if self.open else ""
        return f"<details{state}><summary>{escape(self.summary)}</summary>{together(self.blocks, drawn)}</details>"


@dataclass(frozen=True)
class Callout:
    """A finding that is set off, with its state."""

    state: State
    headline: str
    blocks: Sequence[Block] = ()
    question: str = ""
    """Question that the headline answers, above it in small letters."""

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        question = f"<h3>{escape(self.question)}</h3>" if self.question else ""
        headline = f"<p class=headline>{_sign(self.state)}{prose(self.headline)}</p>"
        return f'<div class="callout {self.state}">{question}{headline}{together(self.blocks, drawn)}</div>'


@dataclass(frozen=True)
class Cell:
    """A table's cell."""

    text: str
    state: State = "plain"
    note: str = ""
    """Note below the text, in small letters."""
    link: str = ""
    """Target of a click on the text, relative to the page."""


@dataclass(frozen=True)
class Table:
    """Table with an interval below its number if space is short; on a phone each row is a card."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    words: int = 1
    """Number of columns of words at the left; the others hold numbers."""
    grouped: bool = False
    """Grouping: a first cell that repeats the one above is not shown, and a rule separates groups."""
    emphasise: str = ""
    """Cell by which rows are highlighted."""

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        head = "".join(f'<th scope="col"{self._kind(at)}>{escape(text)}</th>' for at, text in enumerate(self.head))
        body = "".join(self._row(at) for at in range(len(self.rows)))
        look = ' class="prose"' if self._prose else ' class="wide"' if len(self.head) >= MANY_COLUMNS else ""
        table = f"<table{look}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        drawn.tables += 1
        label = escape(f"table {drawn.tables}: {', '.join(filter(None, self.head))}")
        return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'

    @property
    def _prose(self) -> bool:
        return self.words >= len(self.head)

    def _row(self, index: int) -> str:
        row = [cell if isinstance(cell, Cell) else Cell(cell) for cell in self.rows[index]]
        above = self.rows[index - 1][0] if index else None
        repeats = self.grouped and above in (row[0], row[0].text)
        classes = ["rule"] if self.grouped and index and not repeats else []
        classes += ["ours"] if self.emphasise and any(cell.text == self.emphasise for cell in row) else []
        kind = f' class="{" ".join(classes)}"' if classes else ""
        cells = (self._cell(at, cell, repeats=repeats and at == 0) for at, cell in enumerate(row))
        return f"<tr{kind}>{''.join(cells)}</tr>"

    def _cell(self, at: int, cell: Cell, repeats: bool) -> str:
        note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
        # On a phone, where each row is a card, and a first cell has its text whatever stands above.
        label = f' data-label="{escape(self.head[at])}"' if self.head[at] else ""
        text = f'<a href="{escape(cell.link)}">{escape(cell.text)}</a>' if cell.link else self._text(at, cell.text)
        kind = self._kind(at, cell.state, ["repeats"] if repeats else [])
        return f"<td{label}{kind}><span>{_sign(cell.state)}{text}</span>{note}</td>"

    def _text(self, at: int, text: str) -> str:
        """Lets a number and its interval or range take two lines, and breaks no part."""
        if at < self.words or not (parts := _SPREAD.fullmatch(text)):
            return escape(text)
        return " ".join(f'<span class="whole">{escape(part)}</span>' for part in parts.groups())

    def _kind(self, at: int, state: State = "plain", more: Sequence[str] = ()) -> str:
        names = [*(["words"] if at < self.words else []), *([state] if state != "plain" else []), *more]
        return f' class="{" ".join(names)}"' if names else ""


@dataclass(frozen=True)
class Figure:
    """Charts with one legend: a click on a name hides or shows that series in all of them."""

    label: str
    """Description for people who cannot see the figure, and the name of a saved image."""
    charts: Sequence[Chart]
    columns: int = 1
    """Number of charts side by side, if there is room."""
    same_x: bool = False
    """Zooming one chart zooms all."""
    caption: str = ""

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        parts = []
        for chart in self.charts:
            title = f"<h4>{escape(chart.title)}</h4>" if chart.title else ""
            place = f'<div class="plot" data-chart="{len(drawn.charts)}" style="height:{chart.height}px"></div>'
            parts.append(f'<div class="chart">{title}{place}</div>')
            drawn.charts.append({**chart.plain(), "title": chart.title})
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        same_x = " data-same-x" if self.same_x else ""
        return (
            f'<figure role="group" aria-label="{escape(self.label)}"{same_x}>{caption}<div class="legend"></div>'
            f'<div class="charts columns-{self.columns}">{"".join(parts)}</div></figure>'
        )


@dataclass(frozen=True)
class Choice:
    """Choice among several sets of blocks by name; `first` is shown first."""

    label: str
    options: Mapping[str, Sequence[Block]]
    first: int = 0

    def html(self, drawn: Drawn) -> str:
        """See `Block`."""
        name = drawn.name()
        parts = [
            f'<div class="option"{"" if at == self.first else " hidden"}>{together(blocks, drawn)}</div>'
            for at, blocks in enumerate(self.options.values())
        ]
        if len(parts) == 1:
            return parts[0]
        names = "".join(
            f"<option{' selected' if at == self.first else ''}>{escape(option)}</option>"
            for at, option in enumerate(self.options)
        )
        label = f'<label for="{name}">{escape(self.label)}</label>'
        # A browser that goes back would keep the old choice without its blocks.
        select = f'<select id="{name}" autocomplete="off">{names}</select>'
        return f'<div class="choice"><div class="chooser">{label} {select}</div>{"".join(parts)}</div>'
