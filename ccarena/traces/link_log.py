"""Mahimahi's link logs (`mm-link --uplink-log`, `--downlink-log`): their delivery opportunities, to the millisecond.

`MS # BYTES` is an opportunity (`link_queue.cc`), whether a packet used it or not, so that a log gives back the trace
that ran. A log starts at its base timestamp, or without one at its first event, and ends with its last event.
"""

from __future__ import annotations

import array
import re
from pathlib import Path

import numpy as np

from ccarena.errors import TraceError
from ccarena.traces.opportunities import PACKET_BITS
from ccarena.traces.recording import Recording
from ccarena.traces.tables import text_lines

__all__ = ["looks_like", "read"]

_BASE = re.compile(r"# base timestamp: (\d+)$")
_EVENT = re.compile(r"(\d{1,15}) ([-+#d]) \d+( \d+)?$")


def looks_like(head: str) -> bool:
    """Returns whether `head`, the start of a file, is a link log."""
    lines = head.splitlines()[:-1]
    return any(map(_BASE.match, lines)) or (bool(lines) and all(map(_EVENT.match, lines)))


def read(path: Path) -> Recording:
    """Reads the opportunities of a log, as rates of milliseconds. Raises TraceError with the line of a fault."""
    base: int | None = None
    last = 0
    lines, times = array.array("q"), array.array("q")
    for line, text in enumerate(text_lines(path), 1):
        text = text.rstrip()
        if match := _BASE.match(text):
            base = int(match[1])
        elif not text.startswith("#"):
            event = _EVENT.match(text)
            if event is not None and base is None:
                base = int(event[1])
            if event is None or base is None or int(event[1]) < base:
                raise TraceError(
                    f'{path}:{line}: "{text[:40]}"; expected an event after the base timestamp of a link log: '
                    "MS # BYTES, MS + BYTES, MS - BYTES DELAY or MS d PACKETS BYTES"
                )
            last = max(last, int(event[1]) - base)
            if event[2] == "#":
                lines.append(line)
                times.append(int(event[1]) - base)
    if not times:
        raise TraceError(f"{path}: no delivery opportunities (MS # BYTES); expected the log of an mm-link")
    # An opportunity stands at the end of its millisecond; the time before and after it is without.
    ends, firsts, counts = np.unique(np.maximum(np.array(times), 1), return_index=True, return_counts=True)
    edges = np.column_stack((ends - 1, ends)).ravel()
    starts = np.append(0, edges)
    rates = np.append(np.column_stack((np.zeros(ends.size), counts * PACKET_BITS / 1000.0)).ravel(), 0.0)
    spans = np.diff(np.append(starts, max(last, int(ends[-1]))))
    rows = np.append(np.repeat(np.array(lines)[firsts], 2), lines[-1])
    whole = Recording(str(path), rows, starts / 1000, spans / 1000, rates)
    return whole.only(spans > 0)
