"""Ranges of a scheme's parameters in which a search looks for the best values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccarena.configs.link_distribution import check_range
from ccarena.errors import ConfigError

__all__ = ["Ranges"]

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Ranges:
    """Parameters to search, each as a share of its range, on a logarithmic scale if the range is above 0."""

    ranges: dict[str, tuple[float, float]]

    @classmethod
    def of(
        cls,
        bounds: Mapping[str, tuple[float, float]],
        given: Mapping[str, tuple[float, float] | None],
        key: str,
    ) -> Ranges:
        """Reads what `key` says; a parameter without a range has its `bounds`.

        Raises ConfigError for a parameter that `bounds` lacks, or for a range that is empty or beyond the bounds.
        """
        ranges: dict[str, tuple[float, float]] = {}
        for name, between in given.items():
            low, high = between or bounds.get(name, (0.0, 0.0))
            check_range(key, name, (low, high), bounds)
            if not low < high:
                raise ConfigError(f"{key}.{name} = [{low:g}, {high:g}]: expected low < high")
            ranges[name] = (low, high)
        return cls(ranges)

    def values(self, shares: Vectors) -> dict[str, float]:
        """Returns parameters from their shares, which are clipped to 0..1."""
        out = {}
        for share, (name, (low, high)) in zip(np.clip(shares, 0.0, 1.0), self.ranges.items(), strict=True):
            out[name] = float(low * (high / low) ** share if low > 0 else low + (high - low) * share)
        return out

    def shares(self, values: Mapping[str, float]) -> Vectors:
        """Returns shares from parameters, which are clipped to their ranges; a missing one gets the low end."""
        out = []
        for name, (low, high) in self.ranges.items():
            value = min(max(values.get(name, low), low), high)
            out.append(math.log(value / low) / math.log(high / low) if low > 0 else (value - low) / (high - low))
        return np.array(out, dtype=np.float64)
