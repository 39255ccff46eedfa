"""Turns tables of rates (Mbit/s per second, bytes per interval) into mahimahi traces.

One fractional credit runs through the whole trace: an opportunity of 1500 bytes stands in the millisecond in which the
sum of all capacity so far reaches the next multiple of 1500 bytes, so that nothing is lost between rows.

Rows of a second hide what the link did within it. `burstiness` puts the fast component of the synthetic links
(`ccarena.traces.presets`) into every row, rescaled so that each row keeps its bytes. Tables of application throughput
(HSDPA, Ghent) are a lower bound of the link's capacity.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.errors import ConfigError, TraceError, did_you_mean
from ccarena.traces.files import check

__all__ = ["FORMATS", "Format", "convert", "find_format", "from_rates", "read_table"]

_BITS = 1500 * 8
_UNITS = {"bps": 1e-6, "kbps": 1e-3, "mbps": 1.0, "gbps": 1e3}
_TIME_UNITS = {"s": 1.0, "ms": 1e-3}
_BURST_TICK_MS = 20
_BURST_TAU_MS = 150


@dataclasses.dataclass(frozen=True)
class Format:
    """Where a table keeps what. Columns are header names, or numbers from 0 in a table without header."""

    name: str
    summary: str
    rate: str | int
    unit: str = "mbps"
    """`bps`, `kbps`, `mbps`, `gbps`, or `bytes` per row."""
    unit_column: int | str | None = None
    """A column that must say the unit in iperf's words ("Mbits/sec"), row by row."""
    interval: str | int | None = None
    """A column with each row's length; without one, `time` or `interval_s` tells it."""
    time: str | int | None = None
    """A column with each row's start; a row lasts until the next one, the last as long as the median."""
    time_unit: str = "s"
    """Of `interval` and `time`: `s` or `ms`."""
    interval_s: float = 1.0
    header: bool = True
    delimiter: str = ","
    """A space stands for any white space."""
    keep: tuple[str | int, str] | None = None
    """Only rows whose column has this value count; the time of the others is cut out."""


# Columns as the sets' own descriptions give them.
FORMATS: tuple[Format, ...] = (
    Format("mbps-csv", "CSV with a column rate_mbps, one row per second", rate="rate_mbps"),
    Format(
        "nyu-mets",
        "NYU-METS, New York public transport, 1 s rows 'value,Mbits/sec' (ODbL 1.0)",
        rate=0,
        unit_column=1,
        header=False,
    ),
    Format(
        "irish-5g",
        "Raca et al., 5G production dataset (MMSys 2020), 1 s rows, downloading rows only (GPL-3)",
        rate="DL_bitrate",
        unit="kbps",
        keep=("State", "D"),
    ),
    Format(
        "hsdpa",
        "Riiser et al., HSDPA commute paths in Norway (MMSys 2013), bytes received in each interval",
        rate=4,
        unit="bytes",
        interval=5,
        time_unit="ms",
        header=False,
        delimiter=" ",
    ),
    Format(
        "ghent",
        "van der Hooft et al., 4G/LTE in Ghent (IEEE Communications Letters 2016), bytes received in each interval",
        rate=4,
        unit="bytes",
        interval=5,
        time_unit="ms",
        header=False,
        delimiter=" ",
    ),
)


def find_format(name: str) -> Format:
    """The format called `name`.

    Raises:
        ConfigError: there is none; names the nearest.
    """
    for known in FORMATS:
        if known.name == name:
            return known
    raise ConfigError(f'unknown table format "{name}"{did_you_mean(name, [known.name for known in FORMATS])}')


def convert(
    path: str | os.PathLike[str], table: Format, *, burstiness: float = 0.0, seed: int = 0
) -> NDArray[np.uint32]:
    """The trace in a table of rates: milliseconds, `uint32[opportunities]`; see `read_table` and `from_rates`."""
    rates_mbps, intervals_s = read_table(path, table)
    return from_rates(rates_mbps, intervals_s, name=str(path), burstiness=burstiness, seed=seed)


def from_rates(
    rates_mbps: ArrayLike,
    intervals_s: ArrayLike,
    *,
    name: str = "rates",
    burstiness: float = 0.0,
    seed: int = 0,
) -> NDArray[np.uint32]:
    """The trace that offers each rate for its interval: floor(all bytes / 1500) opportunities, `uint32` milliseconds.

    Args:
        rates_mbps: `float[rows]`, not negative.
        intervals_s: `float[rows]`, above 0, or one number for all.
        name: stands in errors, whose lines are the rows from 1.
        burstiness: coefficient of variation of the rate within a row, 0 to 2; 0 spreads a row's bytes evenly.
        seed: of the burstiness.

    Raises:
        TraceError: a rate or an interval is not finite or out of range, or not one opportunity results.
        ConfigError: `burstiness` is out of range.
    """
    rates, intervals = np.broadcast_arrays(
        np.asarray(rates_mbps, float).ravel(), np.asarray(intervals_s, float).ravel()
    )
    if not 0 <= burstiness <= 2:
        raise ConfigError(f"burstiness is {burstiness}; expected 0 to 2")
    for values, what, wrong in (
        (rates, "a rate in Mbit/s, 0 or more", ~(rates >= 0) | np.isinf(rates)),
        (intervals, "an interval in s, above 0", ~(intervals > 0) | np.isinf(intervals)),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise TraceError(f"{name}:{row + 1}: {values[row]} is not {what}")
    packets = rates * 1e6 * intervals / _BITS
    spans_ms = intervals * 1000.0
    if burstiness > 0:
        packets, spans_ms = _with_bursts(packets, spans_ms, burstiness, seed)
    if spans_ms.sum() > 2**32 - 1:
        raise TraceError(f"{name}: the rows last {spans_ms.sum() / 1000:.0f} s; a trace ends before {2**32 // 1000} s")
    # The inverse of the cumulative capacity, which is piecewise linear, at 1, 2, 3, ... packets.
    gathered = np.concatenate(([0.0], np.cumsum(packets)))
    ends_ms = np.concatenate(([0.0], np.cumsum(spans_ms)))
    # Sums of decimal fractions miss whole numbers by rounding errors, which would cost a millisecond or a packet.
    slack = 1e-12 * max(gathered[-1], 1.0) + 1e-9
    wanted = np.arange(1, math.floor(gathered[-1] + slack) + 1, dtype=float)
    if wanted.size == 0:
        raise TraceError(f"{name}: all rows together carry {gathered[-1] * 1500:.0f} bytes; expected at least 1500")
    row = np.minimum(np.searchsorted(gathered, wanted - slack, side="left"), packets.size) - 1
    share = np.clip((wanted - gathered[row]) / packets[row], 0.0, 1.0)
    times = np.ceil(ends_ms[row] + share * spans_ms[row] - 1e-6)
    return check(np.maximum.accumulate(np.maximum(times, 1.0)), name)


def read_table(path: str | os.PathLike[str], table: Format) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rates in Mbit/s and the intervals in seconds of a table's rows, each `float64[rows]`.

    Raises:
        TraceError: with file, line, value and expectation, or if no row is left.
    """
    rates: list[float] = []
    spans: list[float] = []
    starts: list[tuple[int, float]] = []
    time_scale = _TIME_UNITS[table.time_unit]
    for line, row in _rows(Path(path), table):
        if table.keep is not None and _cell(row, table.keep[0], path, line) != table.keep[1]:
            continue
        rate = _number(row, table.rate, path, line)
        if table.interval is not None:
            spans.append(_number(row, table.interval, path, line, above_zero=True) * time_scale)
        elif table.time is not None:
            starts.append((line, _number(row, table.time, path, line) * time_scale))
        rates.append(rate if table.unit == "bytes" else rate * _scale(row, table, path, line))
    if not rates:
        kept = f" with {table.keep[0]}={table.keep[1]}" if table.keep else ""
        raise TraceError(f"{path}: the table has no rows{kept}; expected at least one")
    if starts and not spans:
        spans = _spans(starts, path, table.interval_s)
    intervals = np.asarray(spans or [table.interval_s] * len(rates))
    values = np.asarray(rates)
    return (values * 8e-6 / intervals if table.unit == "bytes" else values), intervals


def _with_bursts(
    packets: NDArray[np.float64], spans_ms: NDArray[np.float64], cv: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cuts rows into ticks whose shares follow exp(Ornstein-Uhlenbeck), rescaled to each row's packets."""
    ticks = np.maximum(np.rint(spans_ms / _BURST_TICK_MS).astype(int), 1)
    owner = np.repeat(np.arange(packets.size), ticks)
    decay = math.exp(-_BURST_TICK_MS / _BURST_TAU_MS)
    noise = np.random.default_rng(seed).standard_normal(owner.size)
    noise[1:] *= math.sqrt(1 - decay * decay)
    level = 0.0
    log_rate = np.empty(owner.size)
    for i, step in enumerate(noise.tolist()):
        level = decay * level + step
        log_rate[i] = level
    weight = np.exp(math.sqrt(math.log1p(cv * cv)) * log_rate)
    share = weight / np.bincount(owner, weight)[owner]
    return packets[owner] * share, (spans_ms / ticks)[owner]


def _spans(starts: Sequence[tuple[int, float]], path: str | os.PathLike[str], single_s: float) -> list[float]:
    if len(starts) == 1:
        return [single_s]
    spans = [b - a for (_, a), (_, b) in itertools.pairwise(starts)]
    for (line, start), span in zip(starts[1:], spans, strict=True):
        if span <= 0:
            raise TraceError(f"{path}:{line}: time {start:g} s is not after the row before; expected increasing times")
    return [*spans, float(np.median(spans))]


def _rows(path: Path, table: Format) -> Iterator[tuple[int, dict[str | int, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if table.delimiter == " ":
                lines: Iterator[list[str]] = (line.split() for line in file)
            else:
                lines = ([cell.strip() for cell in row] for row in csv.reader(file, delimiter=table.delimiter))
            names: list[str] | None = None
            for line, cells in enumerate(lines, 1):
                if not cells or cells == [""]:
                    continue
                if table.header and names is None:
                    names = cells
                    continue
                yield line, dict(zip(names, cells, strict=False)) if names else dict(enumerate(cells))
    except OSError as error:
        raise TraceError(f"{path}: cannot read the table: {error.strerror}; expected a readable file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: {error}; expected a text table, not a binary or compressed file") from error


def _cell(row: dict[str | int, str], column: str | int, path: str | os.PathLike[str], line: int) -> str:
    if column not in row:
        known = ", ".join(str(name) for name in row)
        raise TraceError(f'{path}:{line}: there is no column "{column}"; columns here: {known}')
    return row[column]


def _number(
    row: dict[str | int, str], column: str | int, path: str | os.PathLike[str], line: int, *, above_zero: bool = False
) -> float:
    text = _cell(row, column, path, line)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        expected = "a number above 0" if above_zero else "a number, 0 or more"
        raise TraceError(f'{path}:{line}: column "{column}" is "{text}"; expected {expected}')
    return value


def _scale(row: dict[str | int, str], table: Format, path: str | os.PathLike[str], line: int) -> float:
    if table.unit_column is None:
        return _UNITS[table.unit]
    words = {"bits/sec": 1e-6, "kbits/sec": 1e-3, "mbits/sec": 1.0, "gbits/sec": 1e3}
    unit = _cell(row, table.unit_column, path, line)
    if unit.lower() not in words:
        raise TraceError(
            f'{path}:{line}: the unit is "{unit}"; expected one of bits/sec, Kbits/sec, Mbits/sec, Gbits/sec'
        )
    return words[unit.lower()]
