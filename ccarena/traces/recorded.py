"""Recorded traces that runs use: their files, the start of a run in them, and policies that were trained on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import traces
from ccarena.core.files import digest
from ccarena.errors import TraceError
from ccarena.traces.held_out import derives_from

__all__ = [
    "HELD_OUT_SEED",
    "TRAINED_ON_TESTED",
    "find_trace",
    "seen_in_training",
    "started",
    "trace_service",
    "trace_start_ms",
]

TRAINED_ON_TESTED = "(trained on tested links)"
"""Note after the name of a policy in every table over recordings that it was trained on."""

HELD_OUT_SEED = 0x5EED_0000
"""Offset of the seeds of synthetic capacity and of drawn rates, far above those of training's worlds."""


def find_trace(name: str) -> Path | None:
    """Returns the file of the recorded trace `name` in the trace folders, None if no folder has it."""
    try:
        return traces.find(name)
    except TraceError:
        return None


def trace_service(file: Path) -> dict[str, Any]:
    """Returns the scenario's `service` over a trace."""
    return {"type": "trace", "file": str(file)}


def started(service: Mapping[str, Any], duration_s: float, seed: int, index: int = 0) -> dict[str, Any]:
    """Returns a scenario's `service` with the start of a recorded trace for a seed (`trace_start_ms`).

    A service with an `offset_ms`, or without a recorded trace, stays as it is.
    """
    if service["type"] != "trace" or "offset_ms" in service:
        return dict(service)
    return {**service, "offset_ms": trace_start_ms(Path(service["file"]), duration_s, seed, index)}


def trace_start_ms(path: Path, duration_s: float, seed: int, index: int) -> int:
    """Returns the start of a run in a trace: its beginning for seed 0, a random place for another seed.

    A trace repeats, so a run may continue past its end. Stretches with less than a quarter of the trace's mean capacity
    are drawn again: a link without capacity compares nothing. `index` separates traces that are drawn independently.
    """
    if seed == 0:
        return 0
    stamps = traces.shared(path)
    period_ms = int(stamps[-1])
    length_ms = min(round(duration_s * 1e3), period_ms)
    twice = np.concatenate((stamps, stamps.astype(np.int64) + period_ms))
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 3, seed, index]))
    for _ in range(100):
        offset = int(rng.integers(0, period_ms))
        inside = np.searchsorted(twice, offset + length_ms) - np.searchsorted(twice, offset)
        if inside * period_ms >= 0.25 * len(stamps) * length_ms:
            return offset
    return 0


def seen_in_training(trained_on: Sequence[Mapping[str, str]], services: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the recordings among the tested `services` that a policy was trained on, directly or through fitted
    presets.
    """
    files = {Path(service["file"]) for service in services if service["type"] == "trace"}
    digests = {digest(file.read_bytes()): file.name for file in files}
    names = {file.name for file in files}
    seen = {digests[each["digest"]] for each in trained_on if each.get("digest") in digests}
    seen |= {origin for each in trained_on if (origin := derives_from(each.get("name", ""))) in names}
    return sorted(seen)
