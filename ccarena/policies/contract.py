"""What a policy is trained for: a learned scheme's document, as a network and an artifact need to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Normalisation:
    """x' = clip((x - offset) · scale, low, high), by entry of the observation; each `[length]`.

    Fixed rather than running statistics, so that training has no hidden state and a policy means the same everywhere.
    """

    offset: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Raw observations `[N, length]` to normalised ones."""
        x = (np.asarray(observations, np.float32) - self.offset) * self.scale
        return np.clip(x, self.low, self.high)

    def tensors(self) -> dict[str, FloatArray]:
        """By the names in an artifact."""
        return {f"normalisation.{name}": getattr(self, name) for name in ("offset", "scale", "low", "high")}


@dataclass(frozen=True)
class Contract:
    """Document, observation and actions of a learned scheme."""

    document: str
    """In its canonical form, JSON."""
    digest: str
    """The document's: a policy decides for flows of the same digest alone."""
    normalisation: Normalisation
    """Of the observation."""
    actions: tuple[float, ...]
    """The values of discrete actions; empty if the action is continuous."""
    bounds: tuple[float, float] | None
    """Of a continuous action, else None."""

    @property
    def observation_len(self) -> int:
        """Length of the observation."""
        return len(self.normalisation.offset)

    @property
    def outputs(self) -> int:
        """Numbers that a network gives: a logit for each action, or the continuous action."""
        return max(1, len(self.actions))


def scheme(observation: str) -> Contract:
    """The contract of the schemes that observe `observation`: `acct-1`, `hyvar-1` or `aurora-1`."""
    import json

    from ccarena.acct import spec as acct
    from ccarena.hyvar import spec as hyvar

    document = json.dumps({"learned": 1, "name": observation}, separators=(",", ":"))
    if observation == acct.OBSERVATION_ID:
        actions = tuple(float(a) for a in acct.ACTIONS)
        return Contract(document, observation, Normalisation(**acct_normalisation()), actions, None)
    layout = {known.id: known for known in (hyvar.HYBRID, hyvar.AURORA)}[observation]
    rows = np.repeat(np.array([_SCALES[name] for name in layout.series], np.float32), hyvar.HISTORY, axis=0)
    return Contract(document, observation, Normalisation(*(rows[:, k].copy() for k in range(4))), (), layout.bounds)


_SCALES: Mapping[str, tuple[float, float, float, float]] = {
    "throughput_ratio": (0.0, 1.0, 0.0, 1.0),
    "delivery_ratio": (0.0, 1.0, 0.0, 2.0),
    "rtt_ratio": (1.0, 1.0, 0.0, 4.0),
    "srtt_ratio": (1.0, 1.0, 0.0, 4.0),
    "loss_ratio": (0.0, 10.0, 0.0, 3.0),
    "window_ratio": (0.0, 0.5, 0.0, 3.0),
    "interval_ratio": (0.0, 0.2, 0.0, 2.0),
    "latency_gradient": (0.0, 2.0, -2.0, 2.0),
    "latency_ratio": (1.0, 1.0, 0.0, 4.0),
    "send_ratio": (1.0, 2.0, -2.0, 4.0),
}
"""Offset, scale and clip: what is common lies at 0 to 1, RTTs of up to twice the least, windows of up to two
bandwidth-delay products, losses of up to a tenth."""


def acct_normalisation() -> dict[str, FloatArray]:
    """ACCT's: 1-100 Mbit/s and delays of up to two budgets lie at about 0-1. Not in the paper."""
    from ccarena.acct import spec

    size = spec.OBSERVATION_SIZE
    scale, high = np.ones(size, np.float32), np.ones(size, np.float32)
    for where, factor, top in (
        (spec.SERIES_SLICES["throughput"], 0.3, 4.0),  # MB/s: clipped at 107 Mbit/s
        (spec.SERIES_SLICES["delay"], 0.5, 5.0),  # budgets: clipped at 10
        (spec.SERIES_SLICES["zone"], 1.0, 1.0),
        (spec.SERIES_SLICES["window"], 1.0, 4.0),
        (spec.SCALAR_SLICE.start, 0.01, 4.0),  # packets/s: clipped at 400
        (spec.SCALAR_SLICE.start + 1, 1.0 / spec.ACTIONS[-1], 1.0),
    ):
        scale[where] = factor
        high[where] = top
    zeros = np.zeros(size, np.float32)
    return {"offset": zeros, "scale": scale, "low": zeros.copy(), "high": high}
