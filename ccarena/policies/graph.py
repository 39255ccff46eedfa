"""Network as a list of operations on named values, with a reference implementation in NumPy.

Values are those of one observation: shapes have no batch axis, and axes are counted without it. The first value is
`observation`, the normalised one. Recurrent states follow, which belong to a flow, then one value per node.

docs/artifact.md lists the operations with their attributes. The native extension checks graphs
(`ccarena._core.Policy`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
OBSERVATION = "observation"


@dataclass(frozen=True)
class State:
    """Recurrent state, zeros at a flow's start: its shape, and the value that replaces it after a decision."""

    name: str
    shape: tuple[int, ...]
    next: str

    @property
    def size(self) -> int:
        """Returns how many numbers the state has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Node:
    """Operation of a graph: the value `name` is `op` of `inputs`."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Names of weight tensors, and numbers."""


@dataclass(frozen=True, repr=False)
class Graph:
    """A network from the normalised observation to its output."""

    input: int
    """Length of the observation."""
    nodes: tuple[Node, ...]
    output: str
    """Name of the output value: `[actions]`, or `[1]` for a continuous action."""
    tensors: Mapping[str, FloatArray]
    """Weights by name."""
    state: tuple[State, ...] = ()

    @property
    def state_len(self) -> int:
        """Returns how many numbers all states have together."""
        return sum(state.size for state in self.state)

    def __repr__(self) -> str:
        weights = sum(tensor.size for tensor in self.tensors.values())
        return f"Graph of {len(self.nodes)} nodes, {weights:,} weights and {self.state_len} numbers remembered"

    def to_json(self) -> dict[str, Any]:
        """Returns everything but the tensors as JSON data."""
        return {
            "input": self.input,
            "state": [{"name": s.name, "shape": list(s.shape), "next": s.next} for s in self.state],
            "nodes": [{"name": n.name, "op": n.op, "inputs": list(n.inputs), **dict(n.attributes)} for n in self.nodes],
            "output": self.output,
        }

    @classmethod
    def of_json(cls, json: Mapping[str, Any], tensors: Mapping[str, FloatArray]) -> Graph:
        """Builds a graph from checked JSON data; the inverse of `to_json`."""
        return cls(
            json["input"],
            tuple(
                Node(
                    entry["name"],
                    entry["op"],
                    tuple(entry["inputs"]),
                    {key: value for key, value in entry.items() if key not in ("name", "op", "inputs")},
                )
                for entry in json["nodes"]
            ),
            json["output"],
            tensors,
            tuple(State(s["name"], tuple(s["shape"]), s["next"]) for s in json.get("state", [])),
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every value, found by running the graph once."""
        values = _values(self, np.zeros((1, self.input), np.float32), np.zeros((1, self.state_len), np.float32))
        return {name: value.shape[1:] for name, value in values.items()}


def run(graph: Graph, x: FloatArray, state: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Returns output `[N, *shape]` for normalised observations `x` `[N, input]`, and the next state `[N, state_len]`.

    `state` `[N, state_len]` is the previous state, all states one after the other; None means zeros.
    """
    if state is None:
        state = np.zeros((len(x), graph.state_len), np.float32)
    values = _values(graph, np.asarray(x, np.float32), state)
    following = [values[each.next].reshape(len(x), -1) for each in graph.state]
    return values[graph.output], np.concatenate([state[:, :0], *following], axis=1)


def _values(graph: Graph, x: FloatArray, state: FloatArray) -> dict[str, FloatArray]:
    values, start = {OBSERVATION: x}, 0
    for each in graph.state:
        values[each.name] = state[:, start : start + each.size].reshape(len(x), *each.shape)
        start += each.size
    for node in graph.nodes:
        operation = OPERATIONS[node.op]
        inputs = [values[name] for name in node.inputs]
        values[node.name] = np.asarray(operation(inputs, node.attributes, graph.tensors), np.float32)
    return values


Operation = Callable[[Sequence[FloatArray], Mapping[str, Any], Mapping[str, FloatArray]], NDArray]


def _linear(x: FloatArray, weight: FloatArray, bias: FloatArray | None) -> FloatArray:
    y: FloatArray = x @ weight.T
    return y if bias is None else y + bias


def _optional(attributes: Mapping[str, Any], tensors: Mapping[str, FloatArray], key: str) -> FloatArray | None:
    name = attributes.get(key)
    return None if name is None else tensors[name]


def _linear_node(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    return _linear(inputs[0], t[a["weight"]], _optional(a, t, "bias"))


def _conv1d(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    weight, bias = t[a["weight"]], _optional(a, t, "bias")
    stride, padding, dilation = (
        a.get(key, default) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    x = np.pad(inputs[0], ((0, 0), (0, 0), (padding, padding)))
    reach = (weight.shape[2] - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=2)[:, :, ::stride, ::dilation]
    y: FloatArray = np.einsum("nclk,fck->nfl", windows, weight)
    return y if bias is None else y + bias[:, None]


def _cell(
    inputs: Sequence[FloatArray],
    a: Mapping[str, Any],
    t: Mapping[str, FloatArray],
    width: int,
    step: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """Returns the states after each step of `step(input's gates, state's gates, state)`."""
    x, weight = inputs[0], t[a["weight_hh"]]
    hidden = weight.shape[1]
    state = inputs[1] if len(inputs) > 1 else np.zeros((len(x), width * hidden), np.float32)
    after = []
    for row in np.moveaxis(x, 1, 0) if x.ndim == 3 else (x,):
        of_input = _linear(row, t[a["weight_ih"]], _optional(a, t, "bias_ih"))
        state = step(of_input, _linear(state[:, :hidden], weight, _optional(a, t, "bias_hh")), state)
        after.append(state)
    return np.stack(after, axis=1) if x.ndim == 3 else state


def _gru(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    def step(x: FloatArray, h: FloatArray, state: FloatArray) -> FloatArray:
        (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, axis=1), np.split(h, 3, axis=1)
        r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
        return (1 - z) * np.tanh(xn + r * hn) + z * state

    return _cell(inputs, a, t, 1, step)


def _lstm(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    def step(x: FloatArray, h: FloatArray, state: FloatArray) -> FloatArray:
        i, f, g, o = np.split(x + h, 4, axis=1)
        c = _sigmoid(f) * state[:, state.shape[1] // 2 :] + _sigmoid(i) * np.tanh(g)
        return np.concatenate((_sigmoid(o) * np.tanh(c), c), axis=1)

    return _cell(inputs, a, t, 2, step)


def _layer_norm(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    x = inputs[0].astype(np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    y = (centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + a.get("eps", 1e-5))).astype(np.float32)
    weight, bias = _optional(a, t, "weight"), _optional(a, t, "bias")
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _embedding(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    rows = t[a["weight"]]
    return rows[np.clip(inputs[0], 0, len(rows) - 1).astype(np.int64)]


def _slice(inputs: Sequence[FloatArray], a: Mapping[str, Any], _: Mapping[str, FloatArray]) -> FloatArray:
    return inputs[0][(slice(None),) * (a["axis"] + 1) + (slice(a["start"], a["stop"]),)]


def _softmax(inputs: Sequence[FloatArray], a: Mapping[str, Any], _: Mapping[str, FloatArray]) -> NDArray:
    x, axis = inputs[0].astype(np.float64), a["axis"] + 1
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _affine(inputs: Sequence[FloatArray], a: Mapping[str, Any], t: Mapping[str, FloatArray]) -> FloatArray:
    def constant(key: str, neutral: float) -> FloatArray | np.float32:
        value = a.get(key, neutral)
        return t[value] if isinstance(value, str) else np.float32(value)

    y: FloatArray = inputs[0] * constant("scale", 1.0) + constant("shift", 0.0)
    return y


def _sigmoid(x: FloatArray) -> FloatArray:
    return (1 / (1 + np.exp(-np.clip(x.astype(np.float64), -700, 700)))).astype(np.float32)


def _gelu(x: NDArray, approximate: str) -> NDArray:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _each(function: Callable[[NDArray, Mapping[str, Any]], NDArray]) -> Operation:
    """Returns an operation on each entry, computed in float64 and rounded once."""
    return lambda inputs, attributes, _: function(inputs[0].astype(np.float64), attributes)


def _pair(function: Callable[[FloatArray, FloatArray], FloatArray]) -> Operation:
    def apply(inputs: Sequence[FloatArray], _a: Mapping[str, Any], _t: Mapping[str, FloatArray]) -> FloatArray:
        x, y = inputs
        rank = max(x.ndim, y.ndim)
        # Axes are matched from the last; the batch axis stays the first.
        x, y = (v.reshape(len(v), *(1,) * (rank - v.ndim), *v.shape[1:]) for v in (x, y))
        return function(x, y)

    return apply


OPERATIONS: dict[str, Operation] = {
    "linear": _linear_node,
    "conv1d": _conv1d,
    "gru": _gru,
    "lstm": _lstm,
    "layer_norm": _layer_norm,
    "embedding": _embedding,
    "concat": lambda x, a, _: np.concatenate(x, axis=a["axis"] + 1),
    "slice": _slice,
    "reshape": lambda x, a, _: x[0].reshape(len(x[0]), *a["shape"]),
    "transpose": lambda x, a, _: x[0].transpose(0, *(axis + 1 for axis in a["axes"])),
    "relu": lambda x, _a, _t: np.maximum(x[0], np.float32(0)),
    "leaky_relu": lambda x, a, _: np.where(x[0] > 0, x[0], np.float32(a.get("slope", 0.01)) * x[0]),
    "elu": lambda x, a, _: np.where(
        x[0] > 0,
        x[0],
        np.float32(a.get("alpha", 1.0)) * np.expm1(np.minimum(x[0], 0).astype(np.float64)).astype(np.float32),
    ),
    "silu": _each(lambda x, _: x / (1 + np.exp(-np.clip(x, -700, 700)))),
    "gelu": _each(lambda x, a: _gelu(x, a.get("approximate", "none"))),
    "sigmoid": lambda x, _a, _t: _sigmoid(x[0]),
    "tanh": _each(lambda x, _: np.tanh(x)),
    "softplus": _each(lambda x, _: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    "exp": _each(lambda x, _: np.exp(np.minimum(x, 88.0))),
    "clip": lambda x, a, _: np.clip(x[0], np.float32(a.get("low", -np.inf)), np.float32(a.get("high", np.inf))),
    "softmax": _softmax,
    "mean": lambda x, a, _: x[0].mean(axis=a["axis"] + 1, dtype=np.float32),
    "add": _pair(lambda x, y: x + y),
    "mul": _pair(lambda x, y: x * y),
    "div": _pair(
        lambda x, y: np.divide(x, y, out=np.zeros(np.broadcast_shapes(x.shape, y.shape), x.dtype), where=y != 0)
    ),
    "affine": _affine,
}
"""Implementations by name: `operation(inputs [N, *shape], attributes, tensors)`."""
