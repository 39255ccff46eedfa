"""Integer form of a policy as a network to reason about: the steps themselves, each off by its rounding shift alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.certify.functions import Clip, Table
from ccarena.eval.certify.network import Network
from ccarena.policies.artifact import Artifact
from ccarena.policies.integer import IntegerPolicy, Step

__all__ = ["IntegerForm"]

Array = NDArray[Any]
_HALF = 0.5
"""Largest error of a shift to the right, which rounds to the nearest."""


@dataclass(repr=False)
class IntegerForm:
    """Integer form of a policy. Values are in the units of its steps."""

    policy: Artifact
    name: str = "integer"
    integer: IntegerPolicy = field(init=False)

    def __post_init__(self) -> None:
        """Makes the integer form. Raises PolicyError for a policy without one."""
        self.integer = IntegerPolicy.of(self.policy)

    def start(self, network: Network) -> list[int]:
        """Adds the memory of a flow before its first decision and returns its values."""
        zeros = [np.zeros((length, network.parameters)) for _, length in self.integer.next]
        return [network.affine([(0, matrix)]) for matrix in zeros]

    def decide(self, network: Network, raw: int, state: Sequence[int]) -> tuple[int, list[int]]:
        """Adds one decision on the `raw` observation; returns the outputs, in the signals' units, and the memory."""
        buffer = _Buffer(network, [])
        buffer.put(0, self._normalised(network, raw))
        start = self.integer.observation
        for value in state:
            buffer.put(start, value)
            start += network.sizes[value]
        for step in self.integer.steps:
            buffer.put(step.output, _STEPS[step.op](self.integer, step, buffer))
        place, length = self.integer.output
        output = buffer.get(range(place, place + length))
        if self.integer.bounds is not None:
            output = network.map(output, Clip(0.0, *(float(bound) for bound in self.integer.bounds)))
        output = network.affine([(output, np.eye(length) / 2.0**self.integer.output_bits)])
        return output, [buffer.get(range(place, place + length)) for place, length in self.integer.next]

    def _normalised(self, network: Network, raw: int) -> int:
        entries = self.integer.constants[: self.integer.observation * 7].reshape(-1, 7).astype(np.float64)
        low, high, offset, factor, shift, least, most = entries.T
        unit = 2.0**self.integer.observation_bits
        whole = network.affine([(raw, unit * np.eye(len(entries)))], None, 0.0, _HALF)
        clipped = network.clipped(whole, low, high)
        scale = factor / 2.0**shift
        scaled = network.affine([(clipped, np.diag(scale))], -offset * scale, 0.0, _HALF)
        return network.clipped(scaled, least, most)

    def act(self, observations: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns choices `[N]` and outputs `[N, outputs]` at each step of flows `[N, steps, length]`, as Rust does."""
        from ccarena import _core

        native = _core.IntegerPolicy(self.policy.encode())
        state = np.zeros((len(observations), self.integer.state), np.int32)
        steps = [native.act(np.ascontiguousarray(step), state) for step in observations.transpose(1, 0, 2)]
        outputs = np.stack([found for _, found in steps], axis=1) / 2.0**self.integer.output_bits
        return np.stack([best for best, _ in steps], axis=1), outputs


@dataclass
class _Buffer:
    """Values of a program by their places."""

    network: Network
    pieces: list[tuple[int, int]]
    """Place of the first entry and value, in the order of writing."""

    def put(self, place: int, value: int) -> None:
        """Places a value."""
        self.pieces.append((place, value))

    def get(self, places: Sequence[int] | range) -> int:
        """Returns the value with the entries at `places`; a negative place is a zero."""
        owner: dict[int, tuple[int, int]] = {}
        wanted = set(places)
        for start, value in self.pieces:
            for at in range(self.network.sizes[value]):
                if start + at in wanted:
                    owner[start + at] = (value, at)
        used = list(dict.fromkeys(owner[place][0] for place in places if place >= 0))
        if len(used) == 1 or not used:
            value = used[0] if used else self.pieces[0][1]
            return self.network.take(value, [owner[place][1] if place >= 0 else -1 for place in places])
        terms = []
        for value in used:
            matrix = np.zeros((len(places), self.network.sizes[value]))
            for row, place in enumerate(places):
                if place >= 0 and owner[place][0] == value:
                    matrix[row, owner[place][1]] = 1
            terms.append((value, matrix))
        return self.network.affine(terms)


def _input(step: Step, buffer: _Buffer, width: int) -> int:
    return buffer.get(range(step.input, step.input + step.rows * width))


def _gather(policy: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    index = policy.constants_of(step, step.outputs).tolist()
    taken = buffer.get([step.input + k if k >= 0 else -1 for k in index])
    if step.shift == 0:
        return taken
    return buffer.network.affine([(taken, np.eye(len(index)) / 2.0**step.shift)], None, 0.0, _HALF)


def _linear(policy: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    weights = policy.weights[step.weights : step.weights + step.outputs * step.inputs].astype(np.float64) - 32768
    bias, shift = policy.constants_of(step, 2 * step.outputs).astype(np.float64).reshape(-1, 2).T
    matrix = weights.reshape(step.outputs, step.inputs) / 2.0 ** shift[:, None]
    whole = np.kron(np.eye(step.rows), matrix)
    return buffer.network.affine(
        [(_input(step, buffer, step.inputs), whole)], np.tile(bias / 2.0**shift, step.rows), 0.0, _HALF
    )


def _clip(_: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    return buffer.network.map(_input(step, buffer, step.outputs), Clip(0.0, float(step.low), float(step.high)))


def _table(policy: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    start, *knots = policy.constants_of(step, step.inputs + 2).astype(np.float64).tolist()
    places = [start + k * 2.0**step.shift for k in range(step.inputs + 1)]
    clipped = buffer.network.map(_input(step, buffer, step.outputs), Clip(0.0, float(step.low), float(step.high)))
    return buffer.network.map(clipped, Table(0.0, tuple(places), tuple(knots)), _HALF)


def _second(step: Step, buffer: _Buffer) -> int:
    return buffer.get(range(step.second, step.second + step.rows * step.outputs))


def _add(policy: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    of_x, of_z = (float(c) / 2.0**step.shift for c in policy.constants_of(step, 2))
    unit = np.eye(step.rows * step.outputs)
    terms = [(_input(step, buffer, step.outputs), of_x * unit), (_second(step, buffer), of_z * unit)]
    return buffer.network.affine(terms, None, 0.0, _HALF)


def _mul(_: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    product = buffer.network.product(_input(step, buffer, step.outputs), _second(step, buffer))
    size = step.rows * step.outputs
    return buffer.network.affine([(product, np.eye(size) / 2.0**step.shift)], None, 0.0, _HALF)


def _affine(policy: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    scale, shift = policy.constants_of(step, 2 * step.outputs).astype(np.float64).reshape(-1, 2).T / 2.0**step.shift
    return buffer.network.affine([(_input(step, buffer, step.outputs), np.diag(scale))], shift, 0.0, _HALF)


def _layer_norm(policy: IntegerPolicy, step: Step, buffer: _Buffer) -> int:
    factor = float(policy.constants_of(step, 2)[0])
    size = step.rows * step.inputs

    def bounds(lows: Sequence[Array], _: Sequence[Array]) -> tuple[Array, Array]:
        """Bounds by the proof of ranges: with the root rounded down, a deviation is less than twice it."""
        most = np.full((len(lows[0]), size), 2 * abs(factor))
        return -most, most

    return buffer.network.enclosed([_input(step, buffer, step.inputs)], size, bounds)


_STEPS: tuple[Callable[[IntegerPolicy, Step, _Buffer], int], ...] = (
    _gather,
    _linear,
    _clip,
    _table,
    _add,
    _mul,
    _affine,
    _layer_norm,
)
"""Implementations by the number of `Step.op`."""
