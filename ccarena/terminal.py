"""What commands print: tables on stdout, progress bars on stderr; and how they were called."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["Progress", "command_line", "print_table", "progress_bar"]

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


def command_line(args: argparse.Namespace) -> str:
    """The command with which `args` came, to be run again; `cli` keeps its words."""
    return shlex.join(["ccarena", *args.words])


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Print a table whose first `left` columns are words; a first cell that repeats the one above is left blank."""
    from rich.console import Console
    from rich.table import Table

    # Where the output is no terminal, rich's 80 columns would break every row.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table(title=title, title_justify="left")
    for index, text in enumerate(head):
        table.add_column(text, justify="left" if index < left else "right")
    for index, row in enumerate(rows):
        first = index == 0 or rows[index - 1][0] != row[0]
        last = index + 1 < len(rows) and rows[index + 1][0] != row[0]
        table.add_row(row[0] if first else "", *row[1:], end_section=last and len(rows) > len({r[0] for r in rows}))
    console.print(table)


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
