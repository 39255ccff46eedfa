"""Pensieve's cooked traces: lines of a time in seconds and a throughput in Mbit/s (Mao et al., SIGCOMM 2017).

A throughput holds from the time of the line before to its own (`fixed_env.py`: `cooked_bw[i]` lasts for `cooked_time[i]
- cooked_time[i - 1]`). The first line therefore only gives the start.
"""

from __future__ import annotations

import array
import itertools
import math
from pathlib import Path

import numpy as np

from ccarena.errors import TraceError
from ccarena.traces.recording import Recording
from ccarena.traces.tables import text_lines

__all__ = ["looks_like", "read"]


def looks_like(head: str) -> bool:
    """Returns whether `head`, the start of a file, has two columns of numbers, of which the first one rises."""
    lines = [line.split() for line in head.splitlines()[:50] if line.strip()]
    try:
        times = [float(time) for time, rate in lines if math.isfinite(float(rate))]
    except ValueError:
        return False
    return len(times) > 1 and all(a < b for a, b in itertools.pairwise(times))


def read(path: Path) -> Recording:
    """Reads the recording in a cooked trace. Raises TraceError with the line of a fault."""
    lines, times, rates = array.array("q"), array.array("d"), array.array("d")
    for line, text in enumerate(text_lines(path), 1):
        if not text.strip():
            continue
        try:
            time, rate = map(float, text.split())
        except ValueError:
            time = rate = math.nan
        if not (math.isfinite(time) and math.isfinite(rate)):
            raise TraceError(f'{path}:{line}: "{text.strip()[:40]}"; expected a time in s and a rate in Mbit/s')
        if times and time < times[-1]:
            raise TraceError(f"{path}:{line}: time {time:g} s comes after {times[-1]:g} s; expected rising times")
        lines.append(line)
        times.append(time)
        rates.append(rate)
    if len(lines) < 2 or times[-1] == times[0]:
        raise TraceError(f"{path}: {len(lines)} lines of one time; expected at least two times")
    starts = np.array(times)
    whole = Recording(str(path), np.array(lines)[1:], starts[:-1], np.diff(starts), np.array(rates)[1:])
    return whole.only(whole.spans_s > 0)
