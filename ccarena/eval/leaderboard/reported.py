"""Reader of results that others report: a CSV table, for example from a paper. They are shown, and never ranked."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.core.files import digest
from ccarena.core.reader import read_bytes
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.leaderboard.checks import Check, number, or_none, text

__all__ = ["COLUMNS", "means_of", "read_reported"]

LARGEST_BYTES = 20_000_000
MOST_ROWS = 100_000


def _some(value: Any, at: str) -> str:
    """Checks text that is not empty."""
    if value == "":
        raise ConfigError(f"{at}: is empty; expected a text of at most 200 characters")
    return text()(value, at)


COLUMNS: Mapping[str, Check] = {
    "link": _some,
    "entrant": _some,
    "throughput_mbps": number(0, 1e6),
    "delay_ms": number(0, 1e6),
    "seed": or_none(number(0, 1_000_000, whole=True)),
    "source": _some,
}
"""Columns of the table, in any order; `seed` may be blank."""
_NUMBERS = ("throughput_mbps", "delay_ms", "seed")


def read_reported(file: Path) -> list[dict[str, Any]]:
    """Returns the rows of a table, each with a digest. Raises ConfigError with row, column and what was expected."""
    try:
        written = read_bytes(file, LARGEST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}; expected a CSV table") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is no UTF-8 text at byte {error.start}; expected a CSV table") from error
    out: dict[str, dict[str, Any]] = {}
    try:
        for at, row in _rows(file, written):
            checked = {name: check(row[name], f"{at}: {name}") for name, check in COLUMNS.items()}
            own = digest(json.dumps(checked).encode())
            if own in out:
                raise ConfigError(f"{at}: repeats an earlier row; expected each result once")
            out[own] = {"digest": own, **checked}
            if len(out) > MOST_ROWS:
                raise ConfigError(f"{at}: expected at most {MOST_ROWS:,} rows")
    except csv.Error as error:
        raise ConfigError(f"{file}: is no CSV table: {error}") from error
    if not out:
        raise ConfigError(f"{file}: has no rows; expected a line of column names and results below it")
    return list(out.values())


def means_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the mean over seeds of each entrant on each link from each source, in the order of their names."""
    cells: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["link"], row["entrant"], row["source"]), []).append(row)
    return [
        {
            **dict(zip(("link", "entrant", "source"), key, strict=True)),
            "results": len(mine),
            **{name: math.fsum(row[name] for row in mine) / len(mine) for name in ("throughput_mbps", "delay_ms")},
        }
        for key, mine in sorted(cells.items())
    ]


def _rows(file: Path, written: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name of each row's place, and its fields; a field that is no number stays text."""
    table = csv.reader(io.StringIO(written, newline=""), strict=True)
    head = [name.strip() for name in next(table, [])]
    expected = f"expected the columns {', '.join(COLUMNS)}"
    for name in head:
        if name not in COLUMNS:
            raise ConfigError(f'{file}: row 1: unknown column "{name}"{did_you_mean(name, COLUMNS)}; {expected}')
    if len(set(head)) < len(head) or set(head) != set(COLUMNS):
        lacking = [name for name in COLUMNS if name not in head]
        what = f"no column {', '.join(lacking)}" if lacking else "a column twice"
        raise ConfigError(f"{file}: row 1: {what}; {expected}")
    for row, cells in enumerate(table, start=2):
        if not cells:
            continue
        at = f"{file}: row {row}"
        if len(cells) != len(head):
            raise ConfigError(f"{at}: {len(cells)} fields; expected {len(head)}: {', '.join(head)}")
        yield at, {name: _value(name, cell.strip()) for name, cell in zip(head, cells, strict=True)}


def _value(name: str, written: str) -> Any:
    if name not in _NUMBERS:
        return written
    try:
        return None if written == "" else float(written)
    except ValueError:
        return written
