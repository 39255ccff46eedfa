"""Converts recordings of other tools into traces, or into the steps of a scenario's service.

Tables of application throughput (HSDPA, Ghent, iperf3) are a lower bound of the link's capacity.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.core.files import write_atomically
from ccarena.core.terminal import heartbeat
from ccarena.traces import conditions, files, stats
from ccarena.traces.formats import Format
from ccarena.traces.opportunities import opportunities
from ccarena.traces.recording import MAX_MBPS, Gaps, Part, Recording

__all__ = ["convert", "recordings", "steps", "write_conditions", "write_steps", "write_trace"]


def convert(path: str | os.PathLike[str], table: Format) -> NDArray[np.uint32]:
    """Returns the trace of a file that holds one recording: milliseconds, `uint32[opportunities]`. Raises as
    `recordings`.
    """
    (only,) = recordings(path, table)
    return np.concatenate(list(opportunities(only.rates_mbps, only.spans_s, name=only.name)))


def recordings(
    path: str | os.PathLike[str],
    table: Format,
    gaps: Gaps | None = None,
    part: Part | None = None,
    max_mbps: float = MAX_MBPS,
) -> list[Recording]:
    """Returns the recordings in a file: one, unless `gaps` splits it.

    Raises:
        TraceError: with the place of a fault, or if no row is left.
        ConfigError: `part` cannot be read.
    """
    return [found.check(max_mbps) for found in table.read(Path(path), gaps, part)]


def write_trace(path: Path, recording: Recording, burstiness: float = 0.0, seed: int = 0) -> stats.TraceStats:
    """Writes a recording as a trace, atomically, in bounded memory.

    Raises as `opportunities` does, and TraceError if the file cannot be written.
    """
    counter = stats.Counter()

    def counted(chunks: Iterator[NDArray[np.uint32]]) -> Iterator[NDArray[np.uint32]]:
        for times in chunks:
            counter.add(times)
            yield times

    chunks = opportunities(
        recording.rates_mbps, recording.spans_s, name=recording.name, burstiness=burstiness, seed=seed
    )
    with heartbeat(lambda: f"{path}: {counter.opportunities} opportunities"):
        files.write(path, counted(chunks))
    return counter.stats()


def write_conditions(path: Path, recording: Recording) -> int:
    """Writes a recording as a conditions trace, atomically, and returns its number of rows.

    Raises TraceError if it is none or cannot be written.
    """
    ends_ms = np.cumsum(recording.spans_s) * 1e3
    columns = {"rate_mbps": recording.rates_mbps} if recording.has_rates else {}
    columns |= recording.beside
    starts_ms = ends_ms - recording.spans_s * 1e3
    last, before = recording.spans_s[-1], recording.spans_s[-2:][0]
    if len(recording) > 1 and not np.isclose(last, before, rtol=1e-9):
        # A trace's period ends as long after its last row as that is after the row before it.
        starts_ms = np.append(starts_ms, ends_ms[-1] - last * 500)
        columns = {name: np.append(values, values[-1]) for name, values in columns.items()}
    conditions.write(path, starts_ms.round(6), **columns)
    return int(starts_ms.size)


def steps(recording: Recording) -> dict[str, Any]:
    """Returns a recording as a scenario's service of type `steps`; its last rate continues."""
    changes = np.flatnonzero(np.diff(recording.rates_mbps, prepend=np.nan) != 0)
    starts = (np.cumsum(recording.spans_s) - recording.spans_s)[changes]
    pairs = zip(starts.round(9).tolist(), recording.rates_mbps[changes].tolist(), strict=True)
    return {"type": "steps", "steps": [{"at_s": at, "rate_mbps": rate} for at, rate in pairs]}


def write_steps(path: Path, recording: Recording) -> int:
    """Writes `steps` as JSON, atomically, and returns their number. Raises ConfigError if it cannot."""
    service = steps(recording)
    write_atomically(path, json.dumps(service) + "\n")
    return len(service["steps"])
