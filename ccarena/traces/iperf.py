"""Output of iperf3: rates of its report intervals, from JSON (`-J`, `--json-stream`) and from text.

Several streams are added up; of `--bidir` the client's sending direction counts. Omitted intervals (`-O`) are left out.
With `--get-server-output` the receiver's intervals count, since a sender fills its buffers first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.core.reader import parse_json, read_bytes
from ccarena.errors import ConfigError, TraceError
from ccarena.traces.recording import Recording
from ccarena.traces.tables import text_lines

__all__ = ["looks_like_json", "looks_like_text", "read_json", "read_text"]

LARGEST_BYTES = 64_000_000
_FACTORS = {"": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
_ROW = re.compile(
    r"\[ *(?P<id>SUM|\d+)\](?:\[(?P<role>[RT]X)-[CS]\])? +(?P<start>\d+\.\d+)- *(?P<end>\d+\.\d+) +sec +"
    r"[\d.]+ [KMGT]?Bytes +(?P<rate>[\d.]+) (?P<factor>[KMGT]?)(?P<unit>bits|Bytes)/sec(?P<rest>.*)"
)

Interval = tuple[int, float, float, float]
"""Interval of a report: line or number, start and end in seconds, rate in Mbit/s."""


def looks_like_json(head: str) -> bool:
    """Returns whether `head`, the start of a file, is iperf3's JSON."""
    return (head.lstrip().startswith("{") and '"intervals"' in head) or head.startswith('{"event"')


def looks_like_text(head: str) -> bool:
    """Returns whether `head`, the start of a file, is iperf3's text."""
    return bool(_ROW.search(head))


def read_json(path: Path) -> Recording:
    """Reads the intervals in iperf3's JSON; errors count them from 1. Raises TraceError, naming what is missing."""
    try:
        text = read_bytes(path, LARGEST_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot read the file: {error.strerror}; expected a readable file") from error
    intervals: list[Interval] = []
    for number, one in enumerate(_intervals(text, path), 1):
        try:
            total = one["sum"]
            if not total.get("omitted", False):
                start, end = float(total["start"]), float(total["end"])
                intervals.append((number, start, end, float(total["bits_per_second"]) * 1e-6))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TraceError(
                f"{path}: interval {number} has no sum of its streams ({error}); expected iperf3's JSON"
            ) from error
    return _recording(path, intervals)


def read_text(path: Path) -> Recording:
    """Reads the intervals in iperf3's text. Raises TraceError, naming the line where a second test begins."""
    streams: dict[str, list[Interval]] = {}
    reverse = False
    for line, text in enumerate(text_lines(path), 1):
        if text.startswith("Reverse mode"):
            reverse = True
        if text.startswith("Server output:"):
            if reverse:
                break
            streams = {}
        match = _ROW.search(text)
        if not match or match["role"] == "RX" or re.search(r"\((omitted)\)|\b(sender|receiver)\b", match["rest"]):
            continue
        start, end = float(match["start"]), float(match["end"])
        rows = streams.setdefault(match["id"], [])
        if rows and (start < rows[-1][1] or start == 0):
            if start == 0 and end >= rows[-1][2]:
                continue  # the summary of a version that does not say of whom
            raise TraceError(f"{path}:{line}: a second test starts here; expected one, so cut the file there")
        rate = float(match["rate"]) * _FACTORS[match["factor"]] * (8 if match["unit"] == "Bytes" else 1)
        rows.append((line, start, end, rate))
    if "SUM" not in streams and len(streams) > 1:
        raise TraceError(f"{path}: {len(streams)} streams without [SUM] rows; expected one stream, or their sum")
    return _recording(path, streams.get("SUM") or next(iter(streams.values()), []))


def _recording(path: Path, intervals: list[Interval]) -> Recording:
    # iperf3 prints a last interval of a few microseconds at times, in text of no length.
    rows = [row for row in intervals if row[2] > row[1]]
    if not rows:
        raise TraceError(f"{path}: no report intervals; expected iperf3's output with -i 1 or shorter")
    lines, starts, ends, rates = (np.asarray(column) for column in zip(*rows, strict=True))
    return Recording(str(path), lines, starts, ends - starts, rates)


def _intervals(text: bytes, path: Path) -> list[Any]:
    try:
        if text.startswith(b'{"event"'):
            events = [parse_json(line, f"{path}:{n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()]
            return [event["data"] for event in events if event["event"] == "interval"]
        document = parse_json(text, str(path))
        intervals = document["intervals"]
        sends = bool(intervals) and bool(intervals[0]["sum"].get("sender", True))
        there = document.get("server_output_json", {}).get("intervals") if sends else None
        found = list(there or intervals)
    except ConfigError as error:
        raise TraceError(str(error)) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise TraceError(f"{path}: {error}; expected iperf3's JSON, whole") from error
    if not found and "error" in document:
        raise TraceError(f"{path}: the test failed: {document['error']}")
    return found
