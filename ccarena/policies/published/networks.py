"""Networks of the published controllers, from the tensors of their checkpoints."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena.policies.checkpoint import Wanted
from ccarena.policies.graph import OBSERVATION, Graph, Node, State
from ccarena.policies.interface import FloatArray

_BATCH_NORM_EPSILON = 1e-3
"""Epsilon of tf.layers.batch_normalization, which both actors use without gamma."""
_LEAKY_SLOPE = 0.2


def actor(widths: Sequence[int]) -> list[Wanted]:
    """Returns the tensors of an actor with these widths, from its input to its output."""
    found = []
    last = len(widths) - 2
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        dense = "actor/dense" if layer == last else f"actor/fc{layer + 1}"
        found += [
            Wanted(f"layer{layer}.weight", f"{dense}/kernel", (outputs, inputs)),
            Wanted(f"layer{layer}.bias", f"{dense}/bias", (outputs,)),
        ]
        if layer < last:
            norm = "actor/batch_normalization" + (f"_{layer}" if layer else "")
            parts = {"beta": "beta", "mean": "moving_mean", "var": "moving_variance"}
            found += [Wanted(f"bn{layer}.{ours}", f"{norm}/{theirs}", (outputs,)) for ours, theirs in parts.items()]
    return found


def actor_graph(tensors: Mapping[str, FloatArray], history: int) -> Graph:
    """Returns an actor: dense layers, each but the last with batch normalisation and a leaky ReLU, and tanh.

    The authors' input has one state after the other, and ours one signal after the other: the first layer's columns are
    ordered anew.
    """
    layers = [name.removesuffix(".weight") for name in tensors if name.startswith("layer") and name.endswith(".weight")]
    weights = {f"{layer}.{part}": tensors[f"{layer}.{part}"] for layer in layers for part in ("weight", "bias")}
    first = weights["layer0.weight"]
    outputs, inputs = first.shape
    weights["layer0.weight"] = first.reshape(outputs, history, -1).transpose(0, 2, 1).reshape(outputs, inputs)
    nodes: list[Node] = []

    def then(name: str, op: str, attributes: Mapping[str, Any]) -> None:
        nodes.append(Node(name, op, (nodes[-1].name if nodes else OBSERVATION,), attributes))

    for index, layer in enumerate(layers):
        then(layer, "linear", {"weight": f"{layer}.weight", "bias": f"{layer}.bias"})
        if layer == layers[-1]:
            then("action", "tanh", {})
            break
        norm = f"bn{index}"
        beta, mean, var = (np.asarray(tensors[f"{norm}.{part}"], np.float64) for part in ("beta", "mean", "var"))
        scale = 1 / np.sqrt(var + _BATCH_NORM_EPSILON)
        weights |= {
            f"{norm}.scale": scale.astype(np.float32),
            f"{norm}.shift": (beta - mean * scale).astype(np.float32),
        }
        then(norm, "affine", {"scale": f"{norm}.scale", "shift": f"{norm}.shift"})
        then(f"{layer}.active", "leaky_relu", {"slope": _LEAKY_SLOPE})
    return Graph(inputs, tuple(nodes), nodes[-1].name, weights)


UNITS, ACTIONS, _NUMBERS = 32, 5, 4
"""Units of Indigo's cell, its actions, and the numbers that it observes beside its last action."""
_DOUBLING = 4
"""Action that Indigo is told to have taken before its first decision (dagger/run_sender.py)."""
_FORGET_BIAS = 1.0
"""Bias of TensorFlow's basic LSTM cell that is not among its stored weights."""


def indigo_graph(tensors: Mapping[str, FloatArray]) -> Graph:
    """Returns Indigo's network: one LSTM cell, and a linear layer to the scores of the actions.

    Its input is four numbers and the last action as a one-hot vector. The greatest score has the greatest probability,
    so that the softmax behind it is left out.
    """
    inputs, steps = _NUMBERS + ACTIONS, (ACTIONS, ACTIONS + 2)
    # TensorFlow's gates are input, candidate, forget, output; ours input, forget, candidate, output.
    gates = np.concatenate([np.arange(UNITS) + gate * UNITS for gate in (0, 2, 1, 3)])
    kernel, bias = tensors["lstm.kernel"][gates], tensors["lstm.bias"][gates].copy()
    bias[UNITS : 2 * UNITS] += np.float32(_FORGET_BIAS)
    # Before the first decision the doubling counts as the last action.
    doubling = np.eye(ACTIONS, dtype=np.float32)[_DOUBLING]
    weights = {
        "lstm.weight_ih": np.ascontiguousarray(kernel[:, :inputs]),
        "lstm.weight_hh": np.ascontiguousarray(kernel[:, inputs:]),
        "lstm.bias_ih": bias,
        "lstm.bias_hh": np.zeros_like(bias),
        "out.weight": tensors["out.weight"],
        "out.bias": tensors["out.bias"],
        # A whole number i as a one-hot vector: entry k is (i - k + 1)+ - 2 (i - k)+ + (i - k - 1)+.
        "steps.weight": np.ones((ACTIONS + 2, 1), np.float32),
        "steps.bias": -np.arange(-1, ACTIONS + 1, dtype=np.float32),
        "taken.weight": (np.eye(*steps) - 2 * np.eye(*steps, 1) + np.eye(*steps, 2)).astype(np.float32),
        "taken.bias": -doubling,
        "doubling": doubling,
        "one": np.ones(1, np.float32),
    }
    cell = {key: f"lstm.{key}" for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    nodes = (
        Node("numbers", "slice", (OBSERVATION,), {"axis": 0, "start": 0, "stop": _NUMBERS}),
        Node("index", "slice", (OBSERVATION,), {"axis": 0, "start": _NUMBERS, "stop": _NUMBERS + 1}),
        Node("steps", "linear", ("index",), {"weight": "steps.weight", "bias": "steps.bias"}),
        Node("passed", "relu", ("steps",)),
        Node("taken", "linear", ("passed",), {"weight": "taken.weight", "bias": "taken.bias"}),
        Node("asked", "mul", ("taken", "began")),
        Node("last", "affine", ("asked",), {"shift": "doubling"}),
        Node("input", "concat", ("numbers", "last"), {"axis": 0}),
        Node("cell", "lstm", ("input", "memory"), cell),
        Node("hidden", "slice", ("cell",), {"axis": 0, "start": 0, "stop": UNITS}),
        Node("scores", "linear", ("hidden",), {"weight": "out.weight", "bias": "out.bias"}),
        Node("begun", "affine", ("began",), {"scale": 0.0, "shift": "one"}),
    )
    state = (State("memory", (2 * UNITS,), "cell"), State("began", (1,), "begun"))
    return Graph(_NUMBERS + 1, nodes, "scores", weights, state)
