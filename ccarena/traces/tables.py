"""Tables of rates, one row per line: their columns, and the conversion of rows into recordings."""

from __future__ import annotations

import array
import csv
import dataclasses
import io
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccarena.core.reader import read_bytes
from ccarena.errors import ConfigError, TraceError
from ccarena.traces.clock import UNITS as TIME_UNITS
from ccarena.traces.clock import Clock
from ccarena.traces.recording import Gaps, Part, Recording, hold, take

__all__ = ["LOSS_UNITS", "UNITS", "Condition", "Table", "read", "text_lines"]

UNITS = {"bps": 1e-6, "kbps": 1e-3, "mbps": 1.0, "gbps": 1e3}
LOSS_UNITS = {"share": 1.0, "percent": 0.01}
_WORDS = {"bits/sec": 1e-6, "kbits/sec": 1e-3, "mbits/sec": 1.0, "gbits/sec": 1e3}
MAX_LINE = 65_536

Column = str | int
"""Column of a table: a header's name, or a number from 0."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A comparison of a row's column: of numbers if both sides are numbers, else of text."""

    column: Column
    compare: str
    value: str

    @classmethod
    def of(cls, text: str, option: str) -> Condition:
        """Reads `COLUMN=VALUE`, or another of `COMPARISONS`. Raises ConfigError, naming `option`."""
        match = re.fullmatch(r"(.+?)\s*(!=|<=|>=|=|<|>)\s*(.*)", text)
        if not match:
            raise ConfigError(f'{option} is "{text}"; expected COLUMN=VALUE, or one of != < <= > >= in place of =')
        column, compare, value = match.groups()
        condition = cls(column_of(column), compare, value)
        if compare not in ("=", "!=") and _as_number(value) is None:
            raise ConfigError(f'{option} is "{text}"; expected a number after {compare}')
        return condition

    def holds(self, cell: str) -> bool:
        """Returns whether the condition holds for a row whose column is `cell`."""
        left, right = _as_number(cell), _as_number(self.value)
        if left is None or right is None:
            same = cell == self.value
            return same if self.compare == "=" else not same if self.compare == "!=" else False
        return COMPARISONS[self.compare](left, right)


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns of a table and their units."""

    rate: Column | None
    """Column of the rate; None of a table without rates, which has delays or losses."""
    unit: str = "mbps"
    """`bps`, `kbps`, `mbps`, `gbps`, or `bytes` per row."""
    unit_column: Column | None = None
    """Column with the unit in iperf's words ("Mbits/sec"), row by row."""
    interval: Column | None = None
    """Column with each row's length; without one, `time` or `interval_s` gives it."""
    time: Column | None = None
    """Column with the time from which each row's rate holds (`recording.hold`)."""
    time_unit: str | None = None
    """Unit of `interval` (None: seconds) and of numbers in `time` (None: chosen by the first one)."""
    time_format: str | None = None
    """Form of `time` for `datetime.strptime`; None reads the usual ones (`clock`)."""
    delay: Column | None = None
    """Column of the one-way delay."""
    rtt: Column | None = None
    """Column of round-trip times, half of which is the delay."""
    delay_unit: str = "ms"
    """Unit of `delay` or `rtt`, of `clock.UNITS`."""
    loss: Column | None = None
    """Column of the loss."""
    loss_unit: str = "share"
    """One of `LOSS_UNITS`."""
    fill: bool = False
    """Flag that a delay or loss that is no number takes the value before it, at the beginning the first one."""
    interval_s: float = 1.0
    header: bool = True
    delimiter: str = ","
    """Separator of columns; a space stands for any white space."""
    keep: tuple[Condition, ...] = ()
    """Conditions on rows: a row that fails one of them is left out, time included."""
    drop: tuple[Condition, ...] = ()
    """Conditions on rows: a row that meets one of them is left out, time included."""


def read(path: Path, table: Table, gaps: Gaps, part: Part) -> list[Recording]:
    """Reads the recordings in a table, limited to `part`.

    Raises TraceError with file, line, value and expectation, or if no row is left.
    """
    rows = _Rows(path, table)
    for line, cells in rows:
        rows.take(line, cells)
    if not any(not math.isnan(value) for value in rows.values):
        conditions = [f"{c.column}{c.compare}{c.value}" for c in table.keep]
        conditions += [f"not {c.column}{c.compare}{c.value}" for c in table.drop]
        kept = f" with {' and '.join(conditions)}" if conditions else ""
        raise TraceError(f"{path}: the table has no rows{kept}; expected at least one")
    return take(rows.recordings(gaps), part, rows.clock)


def text_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a text file of any length. Raises TraceError for what is not text."""
    try:
        # What is not a regular file has no end that is known: the reader sets one.
        source = path.open("rb") if path.is_file() else io.BytesIO(read_bytes(path))
        with io.TextIOWrapper(source, "utf-8-sig", newline="") as file:
            number = 0
            while text := file.readline(MAX_LINE + 1):
                number += 1
                if len(text) > MAX_LINE or "\0" in text:
                    what = "a zero byte" if "\0" in text else f"more than {MAX_LINE} characters"
                    raise TraceError(f"{path}:{number}: the line has {what}; expected a text table")
                yield text
    except OSError as error:
        raise TraceError(f"{path}: cannot read the table: {error.strerror}; expected a readable file") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: {error}; expected a text table, not a binary or compressed file") from error


def column_of(text: str) -> Column:
    """Returns a column from its name or number on the command line."""
    return int(text) if text.isdecimal() else text


class _Rows:
    """The rows of one table, as they are read."""

    def __init__(self, path: Path, table: Table) -> None:
        self.path, self.table = path, table
        self.clock = Clock(table.time_unit, table.time_format)
        self.lines = array.array("q")
        self.values = array.array("d")
        """Rates in Mbit/s, or bytes; NaN for rows that are left out."""
        self.times = array.array("d")
        """Starts, or lengths if the table has a column of these."""
        self.beside = {name: array.array("d") for name, column, _ in self._beside() if column is not None}
        """Delays and losses; NaN for rows that are left out, and for cells to be filled."""
        self._names: list[str] | None = None

    def _beside(self) -> list[tuple[str, Column | None, float]]:
        table = self.table
        to_ms = TIME_UNITS[table.delay_unit] * 1e3
        delay = (table.delay, to_ms) if table.delay is not None else (table.rtt, to_ms / 2)
        return [("delay_ms", *delay), ("loss", table.loss, LOSS_UNITS[table.loss_unit])]

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        lines = text_lines(self.path)
        if self.table.delimiter == " ":
            split: Iterable[tuple[int, list[str]]] = ((line, text.split()) for line, text in enumerate(lines, 1))
        else:
            split = self._csv(lines)
        for line, cells in split:
            if not any(cells):
                continue
            if self.table.header and self._names is None:
                self._names = cells
                continue
            yield line, cells

    def _csv(self, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(lines, delimiter=self.table.delimiter)
        try:
            for cells in reader:
                yield reader.line_num, [cell.strip() for cell in cells]
        except csv.Error as error:
            raise TraceError(f"{self.path}:{reader.line_num}: {error}; expected a text table") from error

    def take(self, line: int, cells: Sequence[str]) -> None:
        """Adds a row."""
        table = self.table
        kept = all(c.holds(self._cell(cells, c.column, line)) for c in table.keep)
        kept = kept and not any(c.holds(self._cell(cells, c.column, line)) for c in table.drop)
        try:
            if table.interval is not None:
                scale = TIME_UNITS[table.time_unit or "s"]
                self.times.append(self._number(cells, table.interval, line, above_zero=True) * scale)
            elif table.time is not None:
                self.times.append(self._time(cells, table.time, line))
        except TraceError:
            if kept:
                raise
            return  # a row that is left out need not tell when it was
        value = math.nan
        if kept:
            value = 0.0 if table.rate is None else self._number(cells, table.rate, line) * self._scale(cells, line)
        for name, column, scale in self._beside():
            if column is not None:
                self.beside[name].append(self._value(cells, column, line) * scale if kept else math.nan)
        self.lines.append(line)
        self.values.append(value)

    def recordings(self, gaps: Gaps) -> list[Recording]:
        """Returns the recordings of the rows that were added."""
        name, table = str(self.path), self.table
        lines, values = np.array(self.lines, np.int64), np.array(self.values)
        times = np.array(self.times) if self.times else np.full(lines.size, table.interval_s)
        beside = {column: self._filled(np.array(cells), values) for column, cells in self.beside.items()}

        def rates(rows: NDArray[np.int64], spans_s: NDArray[np.float64]) -> NDArray[np.float64]:
            return values[rows] * 8e-6 / spans_s if table.unit == "bytes" else values[rows]

        if table.time is not None and table.interval is None:
            held = hold(name, lines, times, rates, gaps, table.interval_s, beside)
        else:
            rows = np.arange(lines.size)
            held = [Recording(name, lines, np.cumsum(times) - times, times, rates(rows, times), beside)]
        return [dataclasses.replace(one, has_rates=table.rate is not None) for one in held]

    def _value(self, cells: Sequence[str], column: Column, line: int) -> float:
        """Returns a delay or a loss; NaN if it is to be filled."""
        if self.table.fill and _as_number(self._cell(cells, column, line)) is None:
            return math.nan
        try:
            return self._number(cells, column, line)
        except TraceError as error:
            raise TraceError(str(error).replace("rows out)", "rows out, --fill takes the value before)")) from error

    def _filled(self, found: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns a column with the missing cells of kept rows filled. Raises TraceError if none has a value."""
        known = np.flatnonzero(~np.isnan(found))
        if not known.size and not np.isnan(values).all():
            raise TraceError(f"{self.path}: a column of delays or losses has no number; expected one in some row")
        latest = np.maximum.accumulate(np.where(np.isnan(found), -1, np.arange(found.size)))
        return found[np.where(latest < 0, known[0] if known.size else 0, latest)]

    def _cell(self, cells: Sequence[str], column: Column, line: int) -> str:
        at = column if isinstance(column, int) else -1
        if self._names is not None and str(column) in self._names:
            at = self._names.index(str(column))
        if 0 <= at < len(cells):
            return cells[at]
        known = self._names if self._names is not None else [str(number) for number in range(len(cells))]
        if str(column) in known:
            raise TraceError(f'{self.path}:{line}: the row ends before column "{column}"; expected {len(known)} cells')
        raise TraceError(f'{self.path}:{line}: there is no column "{column}"; columns here: {", ".join(known)}')

    def _number(self, cells: Sequence[str], column: Column, line: int, *, above_zero: bool = False) -> float:
        text = self._cell(cells, column, line)
        value = _as_number(text)
        if value is None or value < 0 or (above_zero and value == 0):
            expected = "a number above 0" if above_zero else "a number, 0 or more"
            raise TraceError(
                f'{self.path}:{line}: column "{column}" is "{text}"; expected {expected} (--drop leaves rows out)'
            )
        return value

    def _time(self, cells: Sequence[str], column: Column, line: int) -> float:
        text = self._cell(cells, column, line)
        try:
            return self.clock.next(text)
        except ValueError as error:
            raise TraceError(f'{self.path}:{line}: column "{column}" is "{text}"; expected {error}') from error

    def _scale(self, cells: Sequence[str], line: int) -> float:
        if self.table.unit_column is None:
            return UNITS.get(self.table.unit, 1.0)
        unit = self._cell(cells, self.table.unit_column, line)
        if unit.lower() not in _WORDS:
            raise TraceError(
                f'{self.path}:{line}: the unit is "{unit}"; expected one of bits/sec, Kbits/sec, Mbits/sec, Gbits/sec'
            )
        return _WORDS[unit.lower()]


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
