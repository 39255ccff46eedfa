"""Output of commands: tables on stdout, progress on stderr; and the command line that was called."""

from __future__ import annotations

import argparse
import codecs
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "EVERY_S",
    "NOTHING_BEGUN",
    "Heartbeat",
    "Progress",
    "again",
    "command_line",
    "duration",
    "encodable",
    "entered",
    "fitting",
    "heartbeat",
    "interruption",
    "print_table",
    "progress_bar",
    "remember",
    "show_page",
    "visible",
    "width_of_lines",
]

Progress = Callable[[int, int], None]
"""Callback that takes the number of finished items and their total."""

_GAP = 2
_NARROWEST, _PREFERRED = 12, 24
"""Widths of a column of words: the least, if all columns then fit side by side, and the preferred one."""


def visible(text: str) -> str:
    """Returns `text` with control characters and characters that hide others as escapes, such as `\\x1b`.

    New lines stay. Text from files is printed this way, since a stranger may have written it.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_PLAIN = {"±": "+-", "–": "-", "—": "-", "−": "-", "·": "-", "…": "~", "≤": "<=", "≥": ">=", "×": "x", "█": "#"}
"""Characters as text of an encoding that lacks them; others become `?`."""


def encodable(text: str) -> str:
    """Returns `text` in characters that standard output can encode, such as `+-` for `±` in ASCII."""
    encoding = sys.stdout.encoding or "utf-8"
    if text.isascii() or encoding.lower().startswith("utf"):
        return text
    return text.encode(encoding, errors=encode_plainly()).decode(encoding)


def encode_plainly() -> str:
    """Returns the name of the codecs' error handler that does the same for everything that is printed."""
    name = "ccarena.plain"
    codecs.register_error(name, _plainly)
    return name


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def command_line(args: argparse.Namespace) -> str:
    """Returns the shell command that gave `args`, as `cli` stored it.

    A password in a URL (`postgresql://user:password@host/name`) is left out, since pages and results are passed on.
    """
    return shlex.join(["ccarena", *(re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", word) for word in args.words)])


NOTHING_BEGUN = "nothing was begun"
"""State of work that has written nothing yet."""


def entered(command: str) -> None:
    """Stores the command as the user gave it, before it begins."""
    global _entered
    _entered = command
    remember(command, lambda: NOTHING_BEGUN)


def remember(command: str, kept: Callable[[], str] = str) -> None:
    """Stores the command that continues the current work if it is interrupted.

    `kept` returns what is there by then, such as `the run is kept in runs/acct`; an empty text says nothing about it.
    """
    global _command, _kept
    _command, _kept = command, kept


def again(how: str = "go on") -> str:
    """Returns the command to continue (or another `how`): the stored command, or a repeated call from Python."""
    return f"{how} with: {_command}" if _command else "call it again"


def interruption() -> str:
    """Returns the message of interrupted work: its state, and the command that continues or repeats it."""
    kept = _kept()
    how = again() if kept not in ("", NOTHING_BEGUN) else f"run it again with: {_entered}" if _entered else ""
    return "; ".join(part for part in ("interrupted", kept, how) if part)


_entered = _command = ""
_kept: Callable[[], str] = str


def print_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], left: int, most: int | None = None
) -> None:
    """Prints a table whose first `left` columns are words; a first cell that repeats the one above is left blank.

    On a terminal, words are wrapped and no number is cut. Columns that do not fit side by side follow below, beside the
    first columns again. Elsewhere, a line is as long as its content, or `most` columns long. Cells are text or rich's
    `Text`.
    """
    from rich.console import Console

    title, head = encodable(visible(title)), [encodable(visible(word)) for word in head]
    rows = [[encodable(visible(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    width = min(width_of_lines() or most, most) if most else width_of_lines()
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
        table = _table(title if number == 0 else "continued", head, rows, left, block, shown)
        if console.is_terminal or console.is_jupyter:
            console.print(table)
            continue
        with console.capture() as captured:
            console.print(table)
        for line in captured.get().splitlines():
            print(line.rstrip())  # rich fills the last column with blanks


def width_of_lines() -> int | None:
    """Returns the columns of the terminal, or the variable COLUMNS; None without a terminal."""
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) else None


def _least(head: str, cells: Sequence[Any], words: bool, narrowest: int) -> tuple[int, int]:
    """(natural width, least width) of a column. A heading may be wrapped, a figure may not."""
    longest = max([len(line) for cell in cells for line in str(cell).splitlines()], default=0)
    wrapped = max([len(word) for word in head.split()], default=0)
    if words:
        word = max([len(word) for cell in cells for word in str(cell).split()], default=0)
        return max(longest, len(head)), max(wrapped, min(longest, max(narrowest, min(word, _PREFERRED))))
    return max(longest, wrapped), max(longest, wrapped)


def _blocks(widths: Sequence[int], left: int, width: int) -> list[list[int]]:
    """Returns the columns of each part of the table, all with the first `left` ones."""
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
    """Widens columns from `least` towards `natural`, the narrowest first, until `room` is used up."""
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


def show_page(path: Path) -> None:
    """Prints where a page is, as the last line of a command: an address that a browser opens, and most terminals do."""
    print(f"page, for your browser: {path.resolve().as_uri()}")


def fitting(parts: Sequence[str], width: int) -> str:
    """Returns the first of `parts` that fit into `width` columns with two blanks between them, at least one part."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + 2 + len(part) <= width:
            line += f"  {part}"
    return line


EVERY_S = 8.0
"""Seconds between two progress lines where no bar is shown: readers of logs wait 10 s."""


class Heartbeat:
    """Printer of progress lines, at least `EVERY_S` apart; short work prints none."""

    def __init__(
        self,
        line: Callable[[], str],
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line, self._say, self._clock = line, say or _to_stderr, clock
        self._began_s = self._shown_s = self._clock()
        self._lock = threading.Lock()

    def beat(self) -> None:
        """Prints a line if it is time for one."""
        with self._lock:
            now_s = self._clock()
            if now_s - self._shown_s >= EVERY_S:
                self._shown_s = now_s
                self._say(f"{self._line()}, {duration(now_s - self._began_s)}")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Returns a duration as text for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def heartbeat(line: Callable[[], str]) -> Iterator[None]:
    """Prints `line()` on stderr every few seconds while the block runs; where a bar is shown, none is needed.

    A thread does it, so that a step of minutes is not silent. `line` is called from that thread.
    """
    beats, over = Heartbeat(line), threading.Event()

    def run() -> None:
        while not over.wait(1.0):
            beats.beat()

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def progress_bar(title: str, unit: str = "links") -> Iterator[Progress]:
    """Shows progress on stderr: a bar on a terminal from the first update on, else a line every few seconds.

    The block receives a callback that takes the number of finished items and their total.
    """
    if not sys.stderr.isatty():
        state = [0, 0]

        def line() -> str:
            done, total = state
            return f"{title}: {done} of {total} {unit}" if total else f"{title}: begun"

        def note(done: int, total: int) -> None:
            state[:] = done, total

        with heartbeat(line):
            yield note
        return
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
