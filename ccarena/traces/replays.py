"""Folders of other record-and-replay tools: a mahimahi trace and the one-way delays that go with it.

- LeoReplayer of LeoCC (SIGCOMM 2025): `bw_N.txt`, and `delay_N.txt` with a delay in ms for each 10 ms, which repeats.
- CellReplay (Sentosa et al., NSDI 2025): `down-pdo` or `up-pdo`, and `down-delay-light-pdo` or `up-delay-light-pdo`
  with lines of a time and a base delay in ms. The light packet trains behind them say when packets of a short burst
  arrive; they are left out.

A rate is that of the trace's opportunities between two delays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import TraceError
from ccarena.traces import files
from ccarena.traces.opportunities import PACKET_BITS
from ccarena.traces.recording import Recording
from ccarena.traces.tables import text_lines

__all__ = ["in_folder", "leo"]

LEO_MS = 10
"""Time of a line of `delay_N.txt`."""
MOST_ROWS = 10_000_000


def in_folder(folder: Path) -> dict[str, Recording]:
    """Returns the recordings in a folder by what names them, such as `down`; empty text for a single one.

    Raises TraceError for a folder of other files, and with the line of a fault.
    """
    found: dict[str, Recording] = {}
    for trace, delays, name in _pairs(folder):
        read = _leo(delays, files.load(trace)) if name is None else _cell(delays, files.load(trace))
        found[name or ""] = _with_rates(trace, *read)
    if not found:
        raise TraceError(
            f"{folder}: a folder without recordings; expected bw_N.txt and delay_N.txt (LeoCC), or down-pdo and "
            "down-delay-light-pdo (CellReplay), or a file"
        )
    return found


def leo(trace: Path, delays: Path) -> Recording:
    """Returns LeoCC's recording of opportunities, and of one-way delays in ms each 10 ms. Raises TraceError."""
    return _with_rates(trace, *_leo(delays, files.load(trace)))


def _pairs(folder: Path) -> Iterator[tuple[Path, Path, str | None]]:
    """Yields traces with the files of their delays, and CellReplay's name of the direction."""
    for trace in sorted(folder.glob("bw_*.txt")):
        delays = trace.with_name(re.sub("^bw", "delay", trace.name))
        if delays.is_file():
            yield trace, delays, None
            return
    for name in ("down", "up"):
        trace, delays = folder / f"{name}-pdo", folder / f"{name}-delay-light-pdo"
        if trace.is_file() and delays.is_file():
            yield trace, delays, name


Delays = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.uint32]]
"""Edges of rows in ms, one more than the delays; delays in ms; and the trace."""


def _leo(path: Path, trace: NDArray[np.uint32]) -> Delays:
    delays = [_whole(path, line, cells, 0) for line, cells in _lines(path)]
    rows = _bounded(path, -(-int(trace[-1]) // LEO_MS))
    return np.arange(rows + 1) * LEO_MS, np.resize(np.array(delays, np.float64), rows), trace


def _cell(path: Path, trace: NDArray[np.uint32]) -> Delays:
    times: list[int] = []
    delays: list[int] = []
    for line, cells in _lines(path):
        times.append(_whole(path, line, cells, 0))
        delays.append(_whole(path, line, cells, 1))
        if len(times) > 1 and times[-1] <= times[-2]:
            raise TraceError(f"{path}:{line}: time {times[-1]} ms comes after {times[-2]} ms; expected later times")
    if len(times) < 2:
        raise TraceError(f"{path}: {len(times)} lines; expected at least two, since a line holds until the next")
    edges = np.array([*times, 2 * times[-1] - times[-2]]) - times[0]
    return edges, np.array(delays, np.float64), trace


def _with_rates(
    path: Path, edges: NDArray[np.int64], delays: NDArray[np.float64], trace: NDArray[np.uint32]
) -> Recording:
    """Returns the recording of delays between `edges`, and of the rates of a trace, which repeats."""
    period = int(trace[-1])
    count = -(-int(edges[-1]) // period)
    passes = np.arange(_bounded(path, count * trace.size) // trace.size)
    times = (passes[:, None] * period + trace[None, :].astype(np.int64)).ravel()
    counts = np.histogram(times, edges)[0]
    spans_ms = np.diff(edges)
    rates = counts * PACKET_BITS / spans_ms / 1e3
    lines = np.arange(1, delays.size + 1)
    return Recording(str(path), lines, edges[:-1] / 1e3, spans_ms / 1e3, rates, {"delay_ms": delays})


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    empty = True
    for line, text in enumerate(text_lines(path), 1):
        empty = False
        yield _bounded(path, line), text.split()
    if empty:
        raise TraceError(f"{path}: the file is empty; expected a delay in ms on each line")


def _whole(path: Path, line: int, cells: list[str], column: int) -> int:
    text = cells[column] if column < len(cells) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise TraceError(f'{path}:{line}: "{text[:40]}" in column {column}; expected a whole number of milliseconds')
    return int(text)


def _bounded(path: Path, rows: int) -> int:
    if rows > MOST_ROWS:
        raise TraceError(f"{path}: more than {MOST_ROWS:,} rows; expected a shorter recording")
    return rows
