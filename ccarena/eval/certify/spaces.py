"""Boxes of observations: parameters with limits, and the observations that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Space"]

Array = NDArray[Any]


@dataclass(frozen=True, repr=False)
class Space:
    """Box of parameters, and for each step of a flow the observation `matrix` u + `shift`."""

    names: tuple[str, ...]
    """Names of the parameters: a signal, or one of its values."""
    low: Array
    high: Array
    matrices: tuple[Array, ...]
    shifts: tuple[Array, ...]
    ends: tuple[Array, Array]
    """Least and greatest raw value of each entry of an observation."""
    label: str = ""
    """Channels that the space fixes, such as `zone red`; empty if there is one space alone."""

    @property
    def steps(self) -> int:
        """Returns the number of decisions."""
        return len(self.matrices)

    def observations(self, points: Array) -> NDArray[np.float32]:
        """Returns flows `[N, steps, length]` in float32, within the ends after rounding."""
        raw = [points @ matrix.T + shift for matrix, shift in zip(self.matrices, self.shifts, strict=True)]
        whole = np.stack(raw, axis=1).astype(np.float32)
        low, high = (end.astype(np.float32) for end in self.ends)
        low = np.where(low < self.ends[0], np.nextafter(low, np.float32(np.inf)), low)
        high = np.where(high > self.ends[1], np.nextafter(high, np.float32(-np.inf)), high)
        # An end without width that float32 does not have is rounded.
        clipped: NDArray[np.float32] = np.where(low <= high, np.clip(whole, np.minimum(low, high), high), whole)
        return clipped

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """Returns points drawn evenly, a third of whose coordinates lie at an end."""
        points = rng.uniform(self.low, self.high, (count, len(self.low)))
        at_end = rng.integers(0, 6, points.shape)
        return np.where(at_end == 0, self.low, np.where(at_end == 1, self.high, points))
