"""Recorded traces on which schemes are measured: where one is, where in it a run starts, who has trained on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import traces
from ccarena.envs.domain import digest
from ccarena.errors import TraceError
from ccarena.traces.held_out import derives_from

__all__ = ["HELD_OUT_SEED", "TRAINED_ON_TESTED", "find_trace", "seen_in_training", "trace_start_ms"]

TRAINED_ON_TESTED = "(trained on tested links)"
"""Follows the name of a policy in every table over recordings that it was trained on."""

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


def seen_in_training(trained_on: Sequence[Mapping[str, str]], services: Iterable[Mapping[str, Any]]) -> list[str]:
    """Recordings among the `services` of tested links that a policy was trained on, or on what was fitted to them."""
    files = {Path(service["file"]) for service in services if service["type"] == "trace"}
    digests = {digest(file.read_bytes()): file.name for file in files}
    names = {file.name for file in files}
    seen = {digests[each["digest"]] for each in trained_on if each.get("digest") in digests}
    seen |= {origin for each in trained_on if (origin := derives_from(each.get("name", ""))) in names}
    return sorted(seen)
