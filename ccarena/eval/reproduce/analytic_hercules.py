"""Hercules' requirement penalty as a function of the rate."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["requirement_penalty"]

POINTS = 121


def requirement_penalty(d: float, normalised: list[float], **_: Any) -> dict[str, Any]:
    """Returns H = arctan(D (x̄ - 1/2))/π + 1/2 (Hercules, equation (1)) for x̄ from `normalised[0]` to `normalised[1]`.

    x̄ is 0 at the least required rate and 1 at the largest. Measures of the run: H at both ends, and its slope between.
    """

    def h(x: float) -> float:
        return math.atan(d * (x - 0.5)) / math.pi + 0.5

    low, high = normalised
    xs = [low + (high - low) * i / (POINTS - 1) for i in range(POINTS)]
    run = {"at_minimum": h(0.0), "at_maximum": h(1.0), "slope": d / math.pi, "least": h(low), "most": h(high)}
    return {"run": run, "curves": {"H": {"x": xs, "y": [h(x) for x in xs]}}}
