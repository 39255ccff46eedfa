"""Recorded traces on which schemes are measured: where a trace is, and where in it a run starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ccarena import traces
from ccarena.errors import TraceError

__all__ = ["HELD_OUT_SEED", "find_trace", "trace_start_ms"]

HELD_OUT_SEED = 0x5EED_0000
"""Added to the seeds of synthetic capacity and of drawn rates, far above those of training's worlds."""


def find_trace(name: str) -> Path | None:
    """The file of the recorded trace `name` in the trace folders, None if it is in none of them."""
    try:
        return traces.find(name)
    except TraceError:
        return None


def trace_start_ms(path: Path, duration_s: float, seed: int, index: int) -> int:
    """Where in the trace a run starts: its beginning for seed 0, elsewhere for later seeds.

    Stretches with less than a quarter of the trace's mean capacity are drawn again: a link that is dead for the whole
    run compares nobody.
    """
    if seed == 0:
        return 0
    stamps = traces.load(path)
    last_ms, length_ms = int(stamps[-1]), round(duration_s * 1e3)
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 3, seed, index]))
    for _ in range(100):
        offset = int(rng.integers(0, max(1, last_ms - length_ms)))
        inside = np.searchsorted(stamps, offset + length_ms) - np.searchsorted(stamps, offset)
        if inside * last_ms >= 0.25 * len(stamps) * min(length_ms, last_ms):
            return offset
    return 0
