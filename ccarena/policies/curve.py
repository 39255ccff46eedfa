"""Learning curve of an artifact: a few points of its training's progress file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["COLUMNS", "POINTS", "Curve", "of_progress", "points_of", "read"]

Curve = dict[str, list[float | None]]
"""Figures by name, of the same length; `decisions` is among them."""
COLUMNS = {
    "decisions": "decisions",
    "reward_mean": "reward per decision",
    "return_mean": "return of an episode",
    "entropy": "entropy, nats",
}
"""Kept columns of `progress.jsonl`, and their names in tables. Times are left out: the same training gives the same
bytes.
"""
POINTS = 60
"""Most points of a curve; the first and the last line are among them."""


def of_progress(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """Returns the curve of the lines of a `progress.jsonl`, thinned evenly; empty without a line."""
    if not rows:
        return {}
    some = [rows[at] for at in np.unique(np.linspace(0, len(rows) - 1, min(POINTS, len(rows))).round().astype(int))]
    names = [name for name in COLUMNS if any(_number(row.get(name)) is not None for row in some)]
    return {name: [_number(row.get(name)) for row in some] for name in names}


def read(value: Any) -> Curve:
    """Returns the curve in a JSON value, empty if there is none. It has `decisions`, at most `POINTS` points, and known
    figures of that length.
    """
    decisions = value.get("decisions") if isinstance(value, Mapping) else None
    if not isinstance(decisions, list) or not 0 < len(decisions) <= POINTS:
        return {}
    found = {name: value[name] for name in COLUMNS if isinstance(value.get(name), list)}
    curve = {name: [_number(x) for x in column] for name, column in found.items() if len(column) == len(decisions)}
    return curve if len(curve) > 1 and None not in curve["decisions"] else {}


def points_of(curve: Curve) -> list[dict[str, float | None]]:
    """Returns the points of a curve, each with its figures, as the lines of a `progress.jsonl`."""
    return [dict(zip(curve, point, strict=True)) for point in zip(*curve.values(), strict=True)]


def _number(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(f"{value:.5g}") if known and not float(value).is_integer() else float(value) if known else None
