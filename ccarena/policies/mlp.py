"""Policies with continuous actions: a fixed normalisation, fully connected layers with ReLUs, one output.

Tensors of the artifact (float32), with N entries in the observation and hidden layers of H0, H1, ... units:
`actor.K.{weight[HK,inputs],bias[HK]}`, `actor.out.{weight[1,H],bias[1]}`, `normalisation.{offset,scale,low,high}[N]`.
`architecture` is `{"kind": "mlp", "hidden": [H0, ...], "output": "tanh" | "linear"}`, `actions` are the bounds, `[low,
high]`. An output goes through tanh and is scaled to the bounds, or is held to them. Other metadata: `artifact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.hyvar import spec
from ccarena.policies import container

LAYOUTS = {layout.id: layout for layout in (spec.HYBRID, spec.AURORA)}
"""By the observation's name."""
MAX_LAYERS, MAX_UNITS = 8, 4096
OUTPUTS = ("tanh", "linear")

_SCALES: dict[str, tuple[float, float, float, float]] = {
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


def normalisation(layout: spec.Layout) -> dict[str, NDArray[np.float32]]:
    """Fixed input normalisation x' = clip((x - offset) · scale, low, high), each `[observation_size]`.

    Fixed rather than running statistics, so that training has no hidden state and an artifact means the same
    everywhere. The scales put what is common at 0 to 1: RTTs of up to twice the least, windows of up to two
    bandwidth-delay products, losses of up to a tenth.
    """
    rows = np.repeat(np.array([_SCALES[name] for name in layout.series], np.float32), spec.HISTORY, axis=0)
    return {name: rows[:, k].copy() for k, name in enumerate(("offset", "scale", "low", "high"))}


def expected_shapes(layout: spec.Layout, hidden: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor of an artifact with this architecture."""
    shapes: dict[str, tuple[int, ...]] = {}
    inputs = layout.observation_size
    for k, units in enumerate(hidden):
        shapes |= {f"actor.{k}.weight": (units, inputs), f"actor.{k}.bias": (units,)}
        inputs = units
    shapes |= {"actor.out.weight": (1, inputs), "actor.out.bias": (1,)}
    return shapes | {f"normalisation.{name}": (layout.observation_size,) for name in ("offset", "scale", "low", "high")}


@dataclass(frozen=True)
class MlpArtifact:
    """A validated policy."""

    tensors: dict[str, NDArray[np.float32]]
    """By name, as the module says."""
    observation: str
    """What it observes: a key of `LAYOUTS`."""
    hidden: tuple[int, ...]
    """Units of the hidden layers."""
    output: str
    """`tanh` or `linear`."""
    training: dict[str, Any] = field(default_factory=dict)
    """Effective training configuration."""
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software that trained it."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """Figures that it reached after training; empty if it was not evaluated."""

    def save(self, path: str | Path) -> None:
        """Writes the file atomically. Raises PolicyError if a weight is not finite or the file cannot be written."""
        path, layout = Path(path), LAYOUTS[self.observation]
        container.check_tensors(path, self.tensors, expected_shapes(layout, self.hidden))
        architecture = {"kind": "mlp", "hidden": list(self.hidden), "output": self.output}
        container.write(path, self, architecture, self.observation, list(layout.bounds))

    def act(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Actions `[N]` for raw observations `[N, observation_size]`, by NumPy, as the native code does it."""
        t, layout = self.tensors, LAYOUTS[self.observation]
        x = (observations - t["normalisation.offset"]) * t["normalisation.scale"]
        x = np.clip(x, t["normalisation.low"], t["normalisation.high"])
        for k in range(len(self.hidden)):
            x = np.maximum(x @ t[f"actor.{k}.weight"].T + t[f"actor.{k}.bias"], 0)
        y = (x @ t["actor.out.weight"].T + t["actor.out.bias"])[:, 0]
        low, high = layout.bounds
        scaled = low + (high - low) * (0.5 + 0.5 * np.tanh(y)) if self.output == "tanh" else y
        return np.clip(scaled, low, high).astype(np.float32)


def check(
    path: Path,
    tensors: dict[str, NDArray],
    observation: str,
    actions: list[Any],
    architecture: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> MlpArtifact:
    """The artifact that was read from `path`. Raises PolicyError if its parts do not fit each other."""
    layout = LAYOUTS[observation]
    if actions != list(layout.bounds):
        raise PolicyError(f"{path}: actions {actions}, expected {list(layout.bounds)}")
    if architecture.get("kind") != "mlp":
        raise PolicyError(f'{path}: architecture kind {architecture.get("kind")!r}, expected "mlp"')
    hidden, output = architecture.get("hidden"), architecture.get("output")
    sizes = hidden if isinstance(hidden, list) else []
    valid = [isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= MAX_UNITS for n in sizes]
    if not 1 <= len(sizes) <= MAX_LAYERS or not all(valid):
        raise PolicyError(
            f"{path}: architecture `hidden` is {hidden!r}, expected 1 to {MAX_LAYERS} integers in 1..{MAX_UNITS}"
        )
    if output not in OUTPUTS:
        raise PolicyError(f'{path}: architecture `output` is {output!r}, expected "tanh" or "linear"')
    container.check_tensors(path, tensors, expected_shapes(layout, sizes))
    return MlpArtifact(tensors, observation, tuple(sizes), output, **provenance)
