"""HTML pages that commands write beside their results, in one design.

A `Page` says what was run and how to repeat it, what was found in words, and holds sections of blocks: text, tables,
figures. Every page is one file that needs neither a network nor another file. Figures are drawn in the browser by
plotly.js, whose "basic" bundle lies in `assets/` (MIT licence, see `assets/plotly-LICENSE.txt`) and is compressed into
the page with the figures' numbers. No Python package is needed to write a page.

| module      | holds                                                                                |
|-------------|--------------------------------------------------------------------------------------|
| `page`      | `Page`, `Section`, `write`                                                           |
| `states`    | the states of results: one colour and one sign for each meaning                      |
| `blocks`    | what a section consists of: paragraphs, tables, figures, a choice among blocks       |
| `charts`    | charts with units, and their lines, bars, marks and cells                            |
| `grid`      | large tables that are sorted and filtered in the browser, and heat maps              |
| `runnable`  | runs that the reader repeats in the browser                                          |
| `markdown`  | the blocks of a text in plain Markdown                                               |
| `over_time` | the figure that most pages show: rates before capacity, and queueing delay           |
| `images`    | a figure as .svg, .png or .pdf, drawn by an installed Chrome or Chromium             |
| `browser`   | that browser, without a window                                                       |
"""

from __future__ import annotations

from ccarena.pages.blocks import Block, Callout, Cell, Choice, Code, Details, Figure, Items, Table, Text
from ccarena.pages.charts import Axis, Chart, Even
from ccarena.pages.page import Page, Section, render, write
from ccarena.pages.states import State

__all__ = [
    "Axis",
    "Block",
    "Callout",
    "Cell",
    "Chart",
    "Choice",
    "Code",
    "Details",
    "Even",
    "Figure",
    "Items",
    "Page",
    "Section",
    "State",
    "Table",
    "Text",
    "render",
    "write",
]
