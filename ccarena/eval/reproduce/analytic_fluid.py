"""Rows of suites on WCC's fluid models (`ccarena.eval.theory.fluid`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena.eval.theory import fluid, stability

__all__ = ["fluid_model", "fluid_surface"]

_POINTS = 600


def fluid_model(
    model: str, weights: Sequence[float], w_bar: Mapping[str, float], duration: float, **_: Any
) -> dict[str, Any]:
    """Returns one setting of a fluid model: shares of the capacity, and windows over `duration` full-queue round trips.

    `w_bar` is {at: packets} or {above: packets over the threshold}; zero above is the threshold itself.

    Measures of the run:
    - `threshold` and `w_bar`, in packets, and `ratio`, TP_1 / TP_n;
    - `from_roots`, `from_weights` and `from_equal`: the largest relative distance of TP_i / TP_n from the ratios of the
      weights' roots, of the weights, and from 1;
    - `swing`: the variation of the windows' sum over a cycle, as a share of w̄ (0 at a fixed point).

    Measures of each flow: `share`, and `window_least` and `window_most` in packets over a cycle. Curves: windows over
    time from W = 1.
    """
    edge = fluid.threshold(model, weights)
    packets = float(w_bar["at"]) if "at" in w_bar else edge + float(w_bar["above"])
    share = fluid.throughput(model, weights, packets)
    cycle = fluid.limit_cycle(model, weights, packets)
    if cycle is None:
        least = most = np.sqrt(2 * np.asarray(weights))
        swing = 0.0
    else:
        least, most = cycle.window.min(axis=0), cycle.window.max(axis=0)
        swing = float(np.ptp(cycle.window.sum(axis=1))) / packets
    path = fluid.trajectory(model, weights, packets, duration=duration)
    thin = slice(None, None, max(1, len(path.t) // _POINTS))
    a = np.asarray(weights, dtype=np.float64)
    ratio = share / share[-1]

    def distance(target: Any) -> float:
        return float(np.abs(ratio / (target / target[-1]) - 1).max())

    flows = [
        {"name": f"weight {w:g}", "share": s, "window_least": low, "window_most": high}
        for w, s, low, high in zip(*map(np.ndarray.tolist, (a, share, least, most)), strict=True)
    ]
    return {
        "run": {
            "threshold": edge,
            "w_bar": packets,
            "ratio": float(ratio[0]),
            "from_roots": distance(np.sqrt(a)),
            "from_weights": distance(a),
            "from_equal": distance(np.ones_like(a)),
            "swing": swing,
        },
        "flows": flows,
        "curves": {
            f"weight {w:g}": {"x": path.t[thin].tolist(), "y": path.window[thin, i].tolist()}
            for i, w in enumerate(a.tolist())
        },
    }


def fluid_surface(
    quantity: str, model: str, w_bar: float, weights: Mapping[str, float], beyond: Sequence[float], **_: Any
) -> dict[str, Any]:
    """Returns a quantity of two flows over a grid of their weights: {least, most, points} of `weights`, for both alike.

    `quantity` is one of these:
    - `radius`, the spectral radius of the paper's matrix Z;
    - `ratio`, TP_1 / TP_2;
    - `multiplier`, the largest magnitude of the delayed system's own characteristic multipliers, at the weights
      `beyond` only.

    Measures of the run: its `least` and `most`, and over the grid `monotonic`: 1 if it grows with a_1 for each a_2,
    else 0. Curves: over a_1, one for each a_2.
    """
    if quantity == "multiplier":
        values = stability.multipliers(model, beyond, w_bar)
        largest = math.nan if values is None else float(np.abs(values[0]))
        return {"run": {"least": largest, "most": largest}}
    grid = np.linspace(weights["least"], weights["most"], int(weights["points"]))
    pairs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    if quantity == "radius":
        surface = stability.spectral_radius(model, pairs, w_bar)
    else:
        share = fluid.throughput(model, pairs, w_bar)
        surface = share[..., 0] / share[..., 1]
    return {
        "run": {
            "least": float(np.nanmin(surface)),
            "most": float(np.nanmax(surface)),
            "monotonic": float((np.diff(surface, axis=0) > 0).all()),
        },
        "curves": {
            f"a₂ = {a2:g}": {"x": grid.tolist(), "y": surface[:, j].tolist()} for j, a2 in enumerate(grid.tolist())
        },
    }
