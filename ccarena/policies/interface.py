"""Interface of a policy: a learned scheme's spec, as far as a network and an artifact use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.core.terminal import visible

FloatArray = NDArray[np.float32]
Bounds = tuple[tuple[float, float], ...]
"""Bounds of a continuous action: low and high of each of its numbers, one per actuator."""


def bounds_of(written: Sequence[Any]) -> Bounds | None:
    """Returns the bounds that an artifact has: a pair, a list of pairs for several numbers, or empty for None."""
    if not written:
        return None
    pairs = [written] if not isinstance(written[0], Sequence) else written
    return tuple((low, high) for low, high in pairs)


def written(bounds: Bounds | None) -> Sequence[Any]:
    """Returns bounds as an artifact has them, see `bounds_of`."""
    return bounds[0] if bounds is not None and len(bounds) == 1 else bounds or []


def clipped(actions: FloatArray, bounds: Bounds) -> FloatArray:
    """Clips continuous actions `[N, numbers]` to their bounds."""
    low, high = np.array(bounds, np.float32).T
    return np.clip(actions, low, high)


def continuous(outputs: NDArray[Any]) -> NDArray[Any]:
    """Returns the continuous actions of outputs `[N, numbers]`: `[N]` if an action is one number."""
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def said(bounds: Bounds) -> str:
    """Returns bounds in words: `-1 to 1`, of several numbers `-1 to 1 × 0.5 to 2`."""
    return " × ".join(f"{low:g} to {high:g}" for low, high in bounds)


@dataclass(frozen=True, repr=False)
class Normalisation:
    """Normalisation x' = clip((x - offset) · scale, low, high), by entry of the observation; each `[length]`.

    Its numbers are fixed, not running statistics: training has no hidden state, and a policy means the same everywhere.
    """

    offset: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, offset: ArrayLike, scale: ArrayLike, low: ArrayLike, high: ArrayLike) -> Normalisation:
        """Returns a normalisation with numbers rounded to float32; infinite bounds become the largest finite ones."""
        farthest = np.finfo(np.float32).max
        ends = (np.clip(np.asarray(end, np.float64), -farthest, farthest) for end in (low, high))
        return cls(*(np.asarray(part, np.float32) for part in (offset, scale, *ends)))

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Maps raw observations `[N, length]` to normalised ones."""
        x = (np.asarray(observations, np.float32) - self.offset) * self.scale
        return np.minimum(np.maximum(x, self.low), self.high)

    def then(self, other: Normalisation) -> Normalisation:
        """Returns this normalisation followed by `other`, as one. Scales must be above 0."""
        first, second = ([np.asarray(x, np.float64) for x in vars(each).values()] for each in (self, other))
        offset, scale, low, high = first
        offset_2, scale_2, low_2, high_2 = second
        ends = [np.clip((end - offset_2) * scale_2, low_2, high_2) for end in (low, high)]
        return Normalisation.of(offset + offset_2 / scale, scale * scale_2, *ends)

    def __repr__(self) -> str:
        return f"Normalisation of {len(self.offset)} numbers"

    def tensors(self) -> dict[str, FloatArray]:
        """Returns the tensors by their names in an artifact."""
        return {f"normalisation.{name}": getattr(self, name) for name in ("offset", "scale", "low", "high")}


@dataclass(frozen=True, repr=False)
class Interface:
    """Spec, observation and actions of a learned scheme."""

    spec: str
    """Canonical form of the spec, JSON."""
    digest: str
    """Digest of the spec: a policy decides only for flows with the same digest."""
    normalisation: Normalisation
    """Normalisation of the observation."""
    actions: tuple[float, ...]
    """Values of discrete actions; empty if the action is continuous."""
    bounds: Bounds | None
    """Bounds of a continuous action, else None."""

    @property
    def observation_len(self) -> int:
        """Returns the length of the observation."""
        return len(self.normalisation.offset)

    @property
    def outputs(self) -> int:
        """Returns the number of a network's outputs: a logit for each action, or the numbers of a continuous one."""
        return len(self.actions) or len(self.bounds or [()])

    def __repr__(self) -> str:
        name = json.loads(self.spec).get("name", "unnamed")
        actions = f"one of {len(self.actions)} actions" if self.bounds is None else f"an action in {said(self.bounds)}"
        return f"{visible(str(name)):.40} {self.digest}: {self.observation_len} numbers to {actions}"
