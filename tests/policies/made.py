"""Policies for tests, without a training: one hidden layer, and tanh to the bounds of a scheme's continuous action."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena import _core as core
from ccarena.configs import load_config
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.interface import Interface
from ccarena.policies.spec import spec_of

DOCUMENT: dict[str, Any] = {
    "learned": 1,
    "name": "any",
    "clock": {"kind": "timer", "period_ms": 20},
    "observe": {"signals": ["since_ack_ms"]},
    "act": {"kind": "window", "bounds": [2, 100]},
    "base": "none",
}


def document() -> tuple[str, str]:
    """A learned scheme's canonical document and its digest, for artifacts whose network is all that matters."""
    told = core.learned(json.dumps(DOCUMENT))
    return told["canonical"], told["digest"]


def continuous(scheme: str, spread: float, bias: float = 0.0, **provenance: Any) -> Artifact:
    """A policy of the shipped `scheme`, with normal weights of deviation `spread` and a bias of its output."""
    interface, rng = spec_of(load_config(scheme)).interface, np.random.default_rng(1)
    [(low, high)] = interface.bounds or [(0.0, 0.0)]
    tensors = {
        name: rng.normal(0, spread, shape).astype(np.float32)
        for name, shape in {"hidden.weight": (4, interface.observation_len), "out.weight": (1, 4)}.items()
    }
    tensors |= {"hidden.bias": np.zeros(4, np.float32), "out.bias": np.full(1, bias, np.float32)}
    nodes = (
        Node("hidden", "linear", (OBSERVATION,), {"weight": "hidden.weight", "bias": "hidden.bias"}),
        Node("relu", "relu", ("hidden",)),
        Node("out", "linear", ("relu",), {"weight": "out.weight", "bias": "out.bias"}),
        Node("tanh", "tanh", ("out",)),
        Node("action", "affine", ("tanh",), {"scale": (high - low) / 2, "shift": (high + low) / 2}),
    )
    return Artifact.of(Graph(interface.observation_len, nodes, "action", tensors), interface, **provenance)


def constant(interface: Interface, action: float) -> Graph:
    """A network that answers `action`, whatever it observes."""
    return linear(interface, {}, [action])


def linear(interface: Interface, weights: Mapping[tuple[int, int], float], bias: Sequence[float]) -> Graph:
    """A network of one layer; `weights` by output and entry of the observation, 0 elsewhere."""
    weight = np.zeros((len(bias), interface.observation_len), np.float32)
    for place, value in weights.items():
        weight[place] = value
    node = Node("action", "linear", (OBSERVATION,), {"weight": "weight", "bias": "bias"})
    return Graph(interface.observation_len, (node,), "action", {"weight": weight, "bias": np.array(bias, np.float32)})
