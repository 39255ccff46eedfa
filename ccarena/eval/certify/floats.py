"""Float form of a policy as a network to reason about, with bounds of float32's rounding.

A sum of n products in float32 is off by γ_n Σ |w x| at most, in any order, fused steps too: γ_n = n u / (1 - n u),
u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, §3.1). So the bounds hold for every runtime of the
float form whose functions are within 2^-21 of the exact ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.eval.certify.functions import CURVES, Function
from ccarena.eval.certify.network import Network
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, OPERATIONS, Graph, Node

__all__ = ["FloatForm"]

Array = NDArray[Any]
_UNIT = 2.0**-24
_TINY = 2.0**-126
"""Largest error where a result is too small for full precision."""
_FAR = 3.5e38
_LINEAR = ("linear", "conv1d", "concat", "slice", "reshape", "transpose", "mean", "affine", "add")


def gamma(terms: int) -> float:
    """Returns γ_n, the relative error of a sum of `terms` products."""
    return 0.0 if terms == 0 else terms * _UNIT / (1 - terms * _UNIT)


@dataclass(frozen=True, repr=False)
class FloatForm:
    """Float form of a policy."""

    policy: Artifact
    name: str = "float"
    shapes: dict[str, tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Finds the shape of every value."""
        object.__setattr__(self, "shapes", self.policy.graph.shapes())

    def start(self, network: Network) -> list[int]:
        """Adds the memory of a flow before its first decision and returns its values."""
        zeros = [np.zeros((state.size, network.parameters)) for state in self.policy.graph.state]
        return [network.affine([(0, matrix)]) for matrix in zeros]

    def decide(self, network: Network, raw: int, state: Sequence[int]) -> tuple[int, list[int]]:
        """Adds one decision on the `raw` observation; returns the outputs and the memory after it.

        Outputs are logits, or continuous actions within their bounds.
        """
        graph = self.policy.graph
        values = {OBSERVATION: self._normalised(network, raw)}
        values |= {each.name: value for each, value in zip(graph.state, state, strict=True)}
        for node in graph.nodes:
            values[node.name] = _Lowering(network, graph, self.shapes, values).node(node)
        output = values[graph.output]
        if (bounds := self.policy.interface.bounds) is not None:
            output = network.clipped(output, *np.array(bounds, np.float32).astype(np.float64).T)
        return output, [values[each.next] for each in graph.state]

    def _normalised(self, network: Network, raw: int) -> int:
        normalisation = self.policy.interface.normalisation
        offset, scale, low, high = (np.asarray(part, np.float64) for part in vars(normalisation).values())
        scaled = network.affine([(raw, np.diag(scale))], -offset * scale, gamma(3), _TINY)
        return network.clipped(scaled, low, high)

    def act(self, observations: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns choices `[N]` and outputs `[N, outputs]` at each step of flows `[N, steps, length]`, as Rust does."""
        from ccarena import _core

        native = _core.Policy.of(self.policy.encode())
        state = np.zeros((len(observations), native.state_len), np.float32)
        steps = [native.act(np.ascontiguousarray(step), state) for step in observations.transpose(1, 0, 2)]
        return np.stack([best for best, _ in steps], axis=1), np.stack([outputs for _, outputs in steps], axis=1)


@dataclass(frozen=True)
class _Lowering:
    """Makes steps of one node of a graph."""

    network: Network
    graph: Graph
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, int]

    def node(self, node: Node) -> int:
        """Adds a node and returns its value. Raises PolicyError that names it if it is not supported."""
        inputs = [self.values[name] for name in node.inputs]
        if node.op in _LINEAR:
            return self._linear(node, inputs)
        if node.op in CURVES:
            if node.op == "elu" and node.attributes.get("alpha", 1.0) < 0:
                raise PolicyError(f'graph node "{node.name}" (elu): alpha below 0 cannot be certified')
            function: Function = CURVES[node.op](dict(node.attributes))
            return self.network.map(inputs[0], function, _TINY)
        if node.op == "mul":
            left, right = self._repeated(node, inputs)
            return self.network.product(left, right, _UNIT, _TINY)
        if node.op in ("gru", "lstm"):
            return self._cell(node, inputs)
        size = math.prod(self.shapes[node.name])
        return self.network.enclosed(inputs, size, _Intervals(node, self.graph, self.shapes).bounds)

    def _linear(self, node: Node, inputs: Sequence[int]) -> int:
        """Adds a linear operation, whose matrix is what the reference answers to unit vectors."""
        shapes = [self.shapes[name] for name in node.inputs]
        bare = {key: value for key, value in node.attributes.items() if key not in ("bias", "shift")}
        tensors: dict[str, Any] = {name: tensor.astype(np.float64) for name, tensor in self.graph.tensors.items()}
        operation = OPERATIONS[node.op]
        zeros: list[Any] = [np.zeros((1, *shape)) for shape in shapes]
        bias = np.asarray(operation(zeros, node.attributes, tensors), np.float64).reshape(-1)
        terms = []
        for at, (value, shape) in enumerate(zip(inputs, shapes, strict=True)):
            size = math.prod(shape)
            given: list[Any] = [np.zeros((size, *other)) for other in shapes]
            given[at] = np.eye(size).reshape(size, *shape)
            terms.append((value, np.asarray(operation(given, bare, tensors), np.float64).reshape(size, -1).T))
        count = max(int((matrix != 0).sum(axis=1).max(initial=0)) for _, matrix in terms)
        exact = node.op in ("concat", "slice", "reshape", "transpose")
        return self.network.affine(terms, bias, 0.0 if exact else gamma(count + 3), 0.0 if exact else _TINY)

    def _repeated(self, node: Node, inputs: Sequence[int]) -> list[int]:
        shape = self.shapes[node.name]
        parts = []
        for name, value in zip(node.inputs, inputs, strict=True):
            places = np.arange(math.prod(self.shapes[name])).reshape(self.shapes[name])
            parts.append(self.network.take(value, np.broadcast_to(places, shape).reshape(-1).tolist()))
        return parts

    def _cell(self, node: Node, inputs: Sequence[int]) -> int:
        tensors, a, net = self.graph.tensors, node.attributes, self.network
        weight = tensors[a["weight_hh"]]
        hidden = weight.shape[1]
        width = hidden * (2 if node.op == "lstm" else 1)
        start = net.affine([(0, np.zeros((width, net.parameters)))]) if len(inputs) == 1 else inputs[1]
        rows, length = (
            self.shapes[node.inputs[0]] if len(self.shapes[node.inputs[0]]) == 2 else (1, net.sizes[inputs[0]])
        )
        bias = [tensors[a[key]] if a.get(key) else None for key in ("bias_ih", "bias_hh")]
        state, after = start, []
        for row in range(rows):
            x = net.take(inputs[0], range(row * length, (row + 1) * length))
            of_input = net.affine([(x, tensors[a["weight_ih"]])], bias[0], gamma(length + 3), _TINY)
            before = net.take(state, range(hidden))
            of_state = net.affine([(before, weight)], bias[1], gamma(hidden + 3), _TINY)
            state = (self._lstm if node.op == "lstm" else self._gru)(of_input, of_state, state, hidden)
            after.append(state)
        return net.join(after)

    def _sum(self, *values: int) -> int:
        size = self.network.sizes[values[0]]
        return self.network.affine([(value, np.eye(size)) for value in values], None, gamma(len(values)), _TINY)

    def _gate(self, of_input: int, of_state: int, place: int, hidden: int, function: str) -> int:
        gate = range(place * hidden, (place + 1) * hidden)
        both = self._sum(self.network.take(of_input, gate), self.network.take(of_state, gate))
        return self.network.map(both, CURVES[function]({}), _TINY)

    def _gru(self, of_input: int, of_state: int, state: int, hidden: int) -> int:
        """Adds (1 - z) n + z h as n + z (h - n), whose bounds are closer; 2^-20 covers the difference in rounding."""
        net, last = self.network, range(2 * hidden, 3 * hidden)
        reset = self._gate(of_input, of_state, 0, hidden, "sigmoid")
        update = self._gate(of_input, of_state, 1, hidden, "sigmoid")
        kept = net.product(reset, net.take(of_state, last), _UNIT, _TINY)
        new = net.map(self._sum(net.take(of_input, last), kept), CURVES["tanh"]({}), _TINY)
        unit = np.eye(hidden)
        apart = net.product(update, net.affine([(state, unit), (new, -unit)]), 0.0, _TINY)
        return net.affine([(new, unit), (apart, unit)], None, 2.0**-20, _TINY)

    def _lstm(self, of_input: int, of_state: int, state: int, hidden: int) -> int:
        net = self.network
        i, f, g, o = (
            self._gate(of_input, of_state, place, hidden, "tanh" if place == 2 else "sigmoid") for place in range(4)
        )
        before = net.take(state, range(hidden, 2 * hidden))
        cell = self._sum(net.product(f, before, _UNIT, _TINY), net.product(i, g, _UNIT, _TINY))
        return net.join([net.product(o, net.map(cell, CURVES["tanh"]({}), _TINY), _UNIT, _TINY), cell])


@dataclass(frozen=True)
class _Intervals:
    """Operations that are known by intervals alone: softmax, layer_norm, embedding and div."""

    node: Node
    graph: Graph
    shapes: Mapping[str, tuple[int, ...]]

    def bounds(self, lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
        """Returns bounds of the result, `[N, size]`, widened by the inference's rounding."""
        count = len(lows[0])
        shapes = [(count, *self.shapes[name]) for name in self.node.inputs]
        low = [np.asarray(x).reshape(shape) for x, shape in zip(lows, shapes, strict=True)]
        high = [np.asarray(x).reshape(shape) for x, shape in zip(highs, shapes, strict=True)]
        least, greatest = getattr(self, f"_{self.node.op}")(low, high)
        # The sum of the normalised value and the bias may be far smaller than both.
        bias = self._tensor("bias", 0.0) if self.node.op == "layer_norm" else 0.0
        size = np.maximum(np.abs(least - bias), np.abs(greatest - bias)) + np.abs(bias)
        slack = 2.0**-20 * size + _TINY
        return (least - slack).reshape(count, -1), (greatest + slack).reshape(count, -1)

    def _softmax(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Bounds e^x_i / Σ e^x: an entry rises with its own x and falls with the others'."""
        axis = self.node.attributes["axis"] + 1
        a, b = (np.moveaxis(x[0], axis, -1) for x in (low, high))
        others = ~np.eye(a.shape[-1], dtype=np.bool_)
        # By differences, since powers underflow, or are lost in a sum beside a large one.
        with np.errstate(over="ignore"):
            least, greatest = (
                1 / (1 + np.exp(other[..., None, :] - own[..., :, None]).sum(axis=-1, where=others))
                for own, other in ((a, b), (b, a))
            )
        return np.moveaxis(least, -1, axis), np.moveaxis(greatest, -1, axis)

    def _div(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Bounds x / y, by float32's range where y may be 0."""
        (a, c), (b, d) = low, high
        rank = max(a.ndim, c.ndim)
        a, b, c, d = (x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (a, b, c, d))
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = np.stack(np.broadcast_arrays(a / c, a / d, b / c, b / d))
        near = np.broadcast_to((c <= 0) & (d >= 0), corners[0].shape)
        return np.where(near, -_FAR, corners.min(axis=0)), np.where(near, _FAR, corners.max(axis=0))

    def _layer_norm(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        (a,), (b,) = low, high
        n = a.shape[-1]
        # Of x_i - mean, x_i itself counts (n - 1) / n.
        total_a, total_b = a.sum(axis=-1, keepdims=True), b.sum(axis=-1, keepdims=True)
        least = a * (n - 1) / n - (total_b - b) / n
        greatest = b * (n - 1) / n - (total_a - a) / n
        nearest = np.where((least <= 0) & (greatest >= 0), 0.0, np.minimum(np.abs(least), np.abs(greatest)))
        farthest = np.maximum(np.abs(least), np.abs(greatest))
        eps = self.node.attributes.get("eps", 1e-5)
        small, large = (np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) for x in (nearest, farthest))
        most = math.sqrt(n - 1) if n > 1 else 0.0
        y_low = np.maximum(np.where(least < 0, least / small, least / large), -most)
        y_high = np.minimum(np.where(greatest > 0, greatest / small, greatest / large), most)
        weight, bias = self._tensor("weight", 1.0), self._tensor("bias", 0.0)
        ends = np.stack([y_low * weight, y_high * weight])
        return ends.min(axis=0) + bias, ends.max(axis=0) + bias

    def _tensor(self, key: str, neutral: float) -> Array:
        name = self.node.attributes.get(key)
        return self.graph.tensors[name].astype(np.float64) if name else np.float64(neutral)

    def _embedding(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        rows = self.graph.tensors[self.node.attributes["weight"]].astype(np.float64)
        first, last = (np.clip(np.trunc(x[0]), 0, len(rows) - 1)[..., None] for x in (low, high))
        least, greatest = (
            np.full((*low[0].shape, rows.shape[1]), np.inf),
            np.full((*low[0].shape, rows.shape[1]), -np.inf),
        )
        for index, row in enumerate(rows):
            taken = (first <= index) & (index <= last)
            least = np.where(taken, np.minimum(least, row), least)
            greatest = np.where(taken, np.maximum(greatest, row), greatest)
        return least, greatest
