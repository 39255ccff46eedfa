"""Synthetic cellular links: named stochastic models, fitted to published statistics of recorded links.

The models live in the native extension (`crates/ccarena-net/src/cellular.rs`), where training draws a fresh trace for
every episode. The same preset, length and seed give the same trace.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, MissingDependencyError, did_you_mean
from ccarena.extras import how_to_add

__all__ = ["MAX_DURATION_S", "all_presets", "generate"]

MAX_DURATION_S = 86_400.0


def all_presets() -> list[dict[str, Any]]:
    """Returns all presets: `name`, `summary`, `mean_mbps` and `published`, the statistics that each was fitted to.

    Raises:
        MissingDependencyError: the native extension is not built.
    """
    return list(_core().cellular_presets())


def generate(preset: str, duration_s: float, seed: int, mean_mbps: float | None = None) -> NDArray[np.uint32]:
    """Draws a trace from a preset: milliseconds in 1 to `duration_s`, `uint32[opportunities]`, never empty.

    Args:
        preset: a name from `all_presets()`.
        duration_s: above 0, at most a day.
        seed: 0 to 2^64 - 1.
        mean_mbps: scales the preset's rates to this mean; times (memory, outages) stay.

    Raises:
        ConfigError: an argument is wrong.
        MissingDependencyError: the native extension is not built.
    """
    names = [known["name"] for known in all_presets()]
    if preset not in names:
        raise ConfigError(f'unknown cellular preset "{preset}"{did_you_mean(preset, names)}')
    if not (math.isfinite(duration_s) and 0 < duration_s <= MAX_DURATION_S):
        raise ConfigError(f"duration_s is {duration_s}; expected above 0 and at most {MAX_DURATION_S:g} s")
    if not 0 <= seed < 2**64:
        raise ConfigError(f"seed is {seed}; expected 0 to 2^64 - 1")
    if mean_mbps is not None and not 0.01 <= mean_mbps <= 10_000:
        raise ConfigError(f"mean_mbps is {mean_mbps}; expected 0.01 to 10000 Mbit/s")
    trace: NDArray[np.uint32] = _core().generate_cellular(preset, duration_s, seed, mean_mbps)
    return trace


def _core() -> Any:
    try:
        return importlib.import_module("ccarena._core")
    except ImportError as error:
        raise MissingDependencyError(
            f"generating a cellular trace needs ccarena's native extension, which cannot be loaded ({error}); "
            f"build it: {how_to_add()} (a Rust toolchain is needed)"
        ) from error
