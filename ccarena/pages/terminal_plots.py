"""Plots in a terminal: matrices of numbers as coloured cells, or as bars where there is no colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccarena.core.terminal import encodable, visible, width_of_lines
from ccarena.pages.charts import on

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["Cell", "Matrix", "bar", "print_matrices"]

_CELL, _LONGEST = 7, 14
"""Columns of a cell, and the most for names."""
_BAR, _GAP, _BETWEEN = 3, 1, 3
"""Columns of a cell's bar, between two cells, and between two matrices."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Cell:
    """Cell of a matrix: the number as text, its size from 0 to 1 for the bar, and the colour `#rrggbb`."""

    text: str
    size: float
    colour: str


@dataclass(frozen=True)
class Matrix:
    """Matrix with the same names for rows and columns; None is a cell without a value."""

    title: str
    names: Sequence[str]
    cells: Sequence[Sequence[Cell | None]]


def print_matrices(matrices: Sequence[Matrix]) -> None:
    """Prints matrices side by side as far as the terminal is wide, else below each other.

    A matrix that is wider than the terminal continues below with its other columns. A pipe gets 80 columns, and bars
    instead of colours, as does a terminal without colours.
    """
    from rich.console import Console

    width = width_of_lines() or 80
    console = Console(highlight=False, width=width)
    row: list[list[Text]] = []
    for block in [block for matrix in matrices for block in _blocks(matrix, width, console)]:
        if row and sum(_width(each) + _BETWEEN for each in row) + _width(block) > width:
            _print_row(console, row)
            row = []
        row.append(block)
    _print_row(console, row)


def bar(share: float, columns: int, plain: bool = False) -> str:
    """Returns a bar of `columns` characters, filled to `share` (0 to 1); of `#` if `plain`."""
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    if plain:
        return ("#" * round(share * columns)).ljust(columns)
    full, part = divmod(round(share * columns * 8), 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(columns)


def _print_row(console: Console, blocks: Sequence[Sequence[Text]]) -> None:
    from rich.text import Text

    widths = [_width(block) + _BETWEEN for block in blocks]
    for line in range(max(len(block) for block in blocks)):
        whole = Text()
        for block, width in zip(blocks, widths, strict=True):
            part = block[line].copy() if line < len(block) else Text()
            if block is not blocks[-1]:
                part.pad_right(width - part.cell_len)
            whole.append_text(part)
        if not whole.spans:  # the blanks of a coloured cell are part of it
            whole.rstrip()
        console.print(whole, no_wrap=True, overflow="crop")
    console.print()


def _width(block: Sequence[Text]) -> int:
    return max(line.cell_len for line in block)


def _blocks(matrix: Matrix, width: int, console: Console) -> list[list[Text]]:
    """Returns the matrix as blocks of lines, each with as many of its columns as fit."""
    names = [_shortened(name, min(_LONGEST, max(width // 3, 4))) for name in matrix.names]
    first = max(map(len, names))
    cell = max(_CELL, first)
    fitting = max((width - first) // (cell + _GAP), 1)
    columns = [range(low, min(low + fitting, len(names))) for low in range(0, len(names), fitting)]
    return [_block(matrix, names, each, first, cell, console) for each in columns]


def _block(matrix: Matrix, names: Sequence[str], columns: range, first: int, cell: int, console: Console) -> list[Text]:
    from rich.text import Text

    coloured = console.color_system is not None and not console.no_color
    title = matrix.title if columns.start == 0 else "continued"
    heads = "".join(" " * _GAP + names[j].center(cell) for j in columns)
    lines = [Text(encodable(title), style="bold"), Text(" " * first + heads)]
    for name, row in zip(names, matrix.cells, strict=True):
        made = Text(name.ljust(first))
        for j in columns:
            made.append(" " * _GAP)
            made.append_text(_cell(row[j], cell, coloured))
        lines.append(made)
    return lines


def _cell(value: Cell | None, width: int, coloured: bool) -> Text:
    from rich.text import Text

    if value is None:
        return Text(encodable("–").center(width))
    if coloured:
        return Text(value.text.center(width), style=f"{on(value.colour)} on {value.colour}")
    filled = bar(value.size, _BAR, plain=encodable("█") != "█")
    return Text(f"{filled}{value.text:>{_CELL - _BAR}}".center(width))


def _shortened(name: str, columns: int) -> str:
    name = encodable(visible(name))
    return name if len(name) <= columns else name[: columns - 1] + encodable("…")
