"""Link models: conditions traces of satellite, 5G, Wi-Fi and cable links.

The models live in the native extension (`crates/ccarena-net/src/link_models.rs`), where training draws a fresh trace
for every episode. The same model, length and seed give the same trace. `compare` tells how far a model is from a table.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, MissingDependencyError, did_you_mean
from ccarena.extras import how_to_add
from ccarena.traces.presets import MAX_DURATION_S

__all__ = ["COLUMNS", "all_models", "base_delay_ms", "draw", "fastest_mbps", "write"]

COLUMNS = ("time_ms", "rate_mbps", "delay_ms", "loss")
"""Columns of a conditions trace."""


def all_models() -> list[dict[str, Any]]:
    """Returns all models: name, family, summary, source, the table that it was fitted to, mean rate and base delays.

    Raises:
        MissingDependencyError: the native extension is not built.
    """
    return list(_core().link_models())


def draw(model: str, duration_s: float, seed: int, mean_mbps: float | None = None) -> NDArray[np.float64]:
    """Draws a conditions trace: `float64[rows, 4]` with the columns `COLUMNS`.

    Args:
        model: a name from `all_models()`.
        duration_s: above 0, at most a day; rounded up to the model's ticks, at least two.
        seed: 0 to 2^64 - 1.
        mean_mbps: scales the rates so that traces of all seeds have this mean; times, delays and losses stay.

    Raises:
        ConfigError: an argument is wrong.
        MissingDependencyError: the native extension is not built.
    """
    names = [known["name"] for known in all_models()]
    if model not in names:
        raise ConfigError(f'unknown link model "{model}"{did_you_mean(model, names)}')
    if not (math.isfinite(duration_s) and 0 < duration_s <= MAX_DURATION_S):
        raise ConfigError(f"duration_s is {duration_s}; expected above 0 and at most {MAX_DURATION_S:g} s")
    if not 0 <= seed < 2**64:
        raise ConfigError(f"seed is {seed}; expected 0 to 2^64 - 1")
    if mean_mbps is not None and not 0.01 <= mean_mbps <= 10_000:
        raise ConfigError(f"mean_mbps is {mean_mbps}; expected 0.01 to 10000 Mbit/s")
    rows: NDArray[np.float64] = _core().draw_conditions(model, duration_s, seed, mean_mbps)
    return rows


def base_delay_ms(model: str, seed: int) -> float:
    """Returns the one-way delay below which the trace of `seed` never falls, ms."""
    delay: float = _core().base_delay_ms(model, seed)
    return delay


def fastest_mbps(conditions: Mapping[str, Any]) -> float:
    """Returns the greatest rate that a scenario's `conditions` with a `model` can have, Mbit/s."""
    model = next(known for known in all_models() if known["name"] == conditions["model"])
    mean_mbps = conditions.get("mean_mbps") or model["mean_mbps"]
    return float(model["cap_mbps"] * mean_mbps / model["mean_mbps"])


def write(path: Path, rows: NDArray[np.float64]) -> Path:
    """Writes rows of `draw` as a conditions trace and returns its path. Raises TraceError if it cannot."""
    from ccarena.traces import conditions  # needs the native extension

    time_ms, *values = rows.T
    return conditions.write(path, time_ms, **dict(zip(COLUMNS[1:], values, strict=True)))


def _core() -> Any:
    try:
        return importlib.import_module("ccarena._core")
    except ImportError as error:
        raise MissingDependencyError(
            f"drawing a conditions trace needs ccarena's native extension, which cannot be loaded ({error}); "
            f"build it: {how_to_add()} (a Rust toolchain is needed)"
        ) from error
