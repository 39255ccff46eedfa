"""What commands print: tables on stdout, progress bars on stderr; and how they were called."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["Progress", "command_line", "fitting", "print_table", "progress_bar"]

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

_GAP = 2
_NARROWEST, _PREFERRED = 12, 24
"""To which a column of words may shrink if everything then stands side by side, and otherwise."""


def command_line(args: argparse.Namespace) -> str:
    """The command with which `args` came, to be run again; `cli` keeps its words."""
    return shlex.join(["ccarena", *args.words])


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], left: int) -> None:
    """Print a table whose first `left` columns are words; a first cell that repeats the one above is left blank.

    On a terminal, words are wrapped and no number is cut: columns of figures that do not fit side by side follow below,
    beside the first columns again. Where the output is no terminal, a line is as long as its content. Cells are text or
    rich's `Text`.
    """
    from rich.console import Console

    width = _width()
    cells = [[row[i] for row in rows] for i in range(len(head))]
    natural = [max(_least(head[i], cells[i], i < left, 10**6)) for i in range(len(head))]
    width = max(width or max(sum(natural) + _GAP * len(head), len(title)), 20)
    console = Console(highlight=False, width=width)
    preferred, least = (
        [min(_least(head[i], cells[i], i < left, narrowest)) for i in range(len(head))]
        for narrowest in (_PREFERRED, _NARROWEST)
    )
    gaps, figures = _GAP * (len(head) - 1), max(least[left:], default=0)
    fits_least = sum(preferred) + gaps > width >= sum(least) + gaps
    widths = least if fits_least or sum(preferred[:left]) + _GAP * left + figures > width else preferred
    for number, block in enumerate(_blocks(widths, left, width)):
        shown = _grown([widths[i] for i in block], [natural[i] for i in block], width - _GAP * (len(block) - 1))
        console.print(_table(title if number == 0 else "continued", head, rows, left, block, shown))


def _width() -> int | None:
    """Columns of the terminal, or as COLUMNS says; None where there are none."""
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) else None


def _least(head: str, cells: Sequence[Any], words: bool, narrowest: int) -> tuple[int, int]:
    """(natural width, least width) of a column. A heading may be wrapped, a figure may not."""
    longest = max([len(line) for cell in cells for line in str(cell).splitlines()], default=0)
    wrapped = max(len(word) for word in head.split())
    if words:
        word = max([len(word) for cell in cells for word in str(cell).split()], default=0)
        return max(longest, len(head)), max(wrapped, min(longest, max(narrowest, min(word, _PREFERRED))))
    return max(longest, wrapped), max(longest, wrapped)


def _blocks(widths: Sequence[int], left: int, width: int) -> list[list[int]]:
    """The columns of each part of the table, all with the first `left` ones."""
    first = list(range(left))
    taken = sum(widths[i] + _GAP for i in first)
    blocks: list[list[int]] = [[]]
    room = width - taken
    for i in range(left, len(widths)):
        need = widths[i] + _GAP
        if need > room and blocks[-1]:
            blocks.append([])
            room = width - taken
        blocks[-1].append(i)
        room -= need
    return [[*first, *block] for block in blocks]


def _grown(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Widths from `least` towards `natural`, the narrowest first, as far as `room` reaches."""
    widths = list(least)
    while sum(widths) < room and widths != list(natural):
        grows = min((i for i in range(len(widths)) if widths[i] < natural[i]), key=widths.__getitem__)
        widths[grows] += 1
    return widths


def _table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Any]],
    left: int,
    columns: Sequence[int],
    widths: Sequence[int],
) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, _GAP - 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    for i, width in zip(columns, widths, strict=True):
        table.add_column(head[i], justify="left" if i < left else "right", overflow="fold", width=width)
    sections = len(rows) > len({str(row[0]) for row in rows})
    for index, row in enumerate(rows):
        first = index == 0 or rows[index - 1][0] != row[0]
        last = index + 1 < len(rows) and rows[index + 1][0] != row[0]
        cells = [row[i] if i or first else "" for i in columns]
        table.add_row(*cells, end_section=last and sections)
    return table


def fitting(parts: Sequence[str], width: int) -> str:
    """As many of `parts` as fit into `width` columns, two blanks apart, whole and in their order; the first always."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + 2 + len(part) <= width:
            line += f"  {part}"
    return line


@contextmanager
def progress_bar(title: str, unit: str = "links") -> Iterator[Progress]:
    """A progress bar on stderr, from the first link on; what is yielded is `evaluate`'s `progress`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
