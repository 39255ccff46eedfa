"""Policy in integers: the native conversion of an artifact, and NumPy's reference of its results.

`IntegerPolicy.of(artifact)` has 16-bit weights, 32-bit values and 64-bit sums, none of which can overflow for any
observation. docs/export.md says which networks have such a form, and `crates/ccarena-cc/src/policy/integer.rs` what
each step does. NumPy, Rust and C give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccarena.policies.artifact import Artifact

Integers = NDArray[np.int64]

_OBSERVATION_LIMIT = 1 << 61
_PER_ENTRY = 7
_LAYER_NORM_BITS = 23


class Step(NamedTuple):
    """Step of the computation: the values from `output` on are `op` of those from `input` and `second` on."""

    op: int
    input: int
    second: int
    output: int
    rows: int
    inputs: int
    outputs: int
    weights: int
    constants: int
    shift: int
    low: int
    high: int


@dataclass(frozen=True)
class IntegerPolicy:
    """Integer form of a policy."""

    observation: int
    """Length of the observation, at the start of the values."""
    observation_bits: int
    """Binary digits after the point of a raw observation, in the signal's unit."""
    state: int
    """Number of state values of a flow, which follow the observation."""
    next: tuple[tuple[int, int], ...]
    """Place of each part of the state after a decision, and its length."""
    steps: tuple[Step, ...]
    weights: NDArray[np.uint16]
    """Weights, with 32768 added."""
    constants: Integers
    values: int
    """Number of all values together."""
    output: tuple[int, int]
    """Place of the outputs, and their number."""
    output_bits: int
    """Binary digits after the point of an output."""
    bounds: tuple[int, int] | None
    """Bounds of a continuous action in the outputs' unit; None for discrete actions."""

    @classmethod
    def of(cls, policy: Artifact) -> IntegerPolicy:
        """Returns the integer form of `policy`.

        Raises PolicyError, naming the node of its graph, in these cases:
        - an operation has no integer form;
        - weights or values are too large;
        - a sum could overflow;
        - the network is too large.
        """
        from ccarena import _core

        program = _core.IntegerPolicy(policy.encode()).program()
        steps = tuple(Step(*(int(n) for n in row)) for row in program.pop("steps"))
        following = tuple(program.pop("next"))
        return cls(steps=steps, next=following, **program)

    def raw(self, observations: NDArray[Any]) -> Integers:
        """Returns observations `[N, length]` in the signals' units as integers, rounded to the nearest."""
        scaled = np.floor(np.asarray(observations, np.float64) * 2.0**self.observation_bits + 0.5)
        limited = np.clip(scaled, -float(_OBSERVATION_LIMIT), float(_OBSERVATION_LIMIT))
        whole: Integers = limited.astype(np.int64)
        return whole

    def outputs(self, raw: Integers, state: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
        """Returns outputs `[N, outputs]` in units of 2^-output_bits for `raw` observations.

        `state` `[N, state]` is a recurrent policy's memory of each flow, updated in place; None means zeros.
        """
        values = np.zeros((len(raw), self.values), np.int64)
        values[:, : self.observation] = self._normalised(raw)
        if state is not None:
            values[:, self.observation : self.observation + self.state] = state
        for step in self.steps:
            y = OPERATIONS[step.op](self, step, values).reshape(len(raw), -1)
            values[:, step.output : step.output + y.shape[1]] = y
        if state is not None and self.next:
            state[...] = np.concatenate([values[:, place : place + length] for place, length in self.next], axis=1)
        place, length = self.output
        outputs = values[:, place : place + length]
        return (outputs if self.bounds is None else np.clip(outputs, *self.bounds)).astype(np.int32)

    def act(self, observations: NDArray[Any], state: NDArray[np.int32] | None = None) -> NDArray[Any]:
        """Returns actions `[N]`: indices, or continuous ones, as `Artifact.act`."""
        return self.actions(self.outputs(self.raw(observations), state))

    def actions(self, outputs: NDArray[np.int32]) -> NDArray[Any]:
        """Returns the actions that `outputs` `[N, outputs]` stand for."""
        if self.bounds is None:
            return outputs.argmax(axis=1)
        return (outputs[:, 0] / 2.0**self.output_bits).astype(np.float32)

    def _normalised(self, raw: Integers) -> Integers:
        low, high, offset, factor, shift, least, most = self.constants[: self.observation * _PER_ENTRY].reshape(-1, 7).T
        return np.clip(_shift((np.clip(raw, low, high) - offset) * factor, shift), least, most)

    def constants_of(self, step: Step, count: int) -> Integers:
        """Returns the first `count` constants of a step."""
        return self.constants[step.constants : step.constants + count]


def _shift(x: Integers, shift: Any) -> Integers:
    """Returns x / 2^shift, rounded to the nearest, halves upwards."""
    shifted: Integers = (x + ((np.int64(1) << shift) >> 1)) >> shift
    return shifted


def _taken(step: Step, values: Integers, width: int) -> Integers:
    """Returns the input values of a step, `[N, rows, width]`."""
    return values[:, step.input : step.input + step.rows * width].reshape(len(values), step.rows, width)


def _gather(policy: IntegerPolicy, step: Step, values: Integers) -> Integers:
    index = policy.constants_of(step, step.outputs)
    return np.where(index < 0, 0, _shift(values[:, step.input + np.maximum(index, 0)], step.shift))


def _linear(policy: IntegerPolicy, step: Step, values: Integers) -> Integers:
    weights = policy.weights[step.weights : step.weights + step.outputs * step.inputs].astype(np.int64) - 32768
    bias, shift = policy.constants_of(step, 2 * step.outputs).reshape(-1, 2).T
    return _shift(_taken(step, values, step.inputs) @ weights.reshape(step.outputs, step.inputs).T + bias, shift)


def _clip(_: IntegerPolicy, step: Step, values: Integers) -> Integers:
    return np.clip(_taken(step, values, step.outputs), step.low, step.high)


def _table(policy: IntegerPolicy, step: Step, values: Integers) -> Integers:
    start, *_ = policy.constants_of(step, 1)
    knots = policy.constants_of(step, step.inputs + 2)[1:]
    x = np.clip(_taken(step, values, step.outputs), step.low, step.high) - start
    segment = np.clip(x >> step.shift, 0, step.inputs - 1)
    slope = knots[segment + 1] - knots[segment]
    found: Integers = knots[segment] + _shift(slope * (x - (segment << step.shift)), step.shift)
    return found


def _second(step: Step, values: Integers) -> Integers:
    return values[:, step.second : step.second + step.outputs]


def _add(policy: IntegerPolicy, step: Step, values: Integers) -> Integers:
    of_x, of_z = policy.constants_of(step, 2)
    return _shift(_taken(step, values, step.outputs)[:, 0] * of_x + _second(step, values) * of_z, step.shift)


def _mul(_: IntegerPolicy, step: Step, values: Integers) -> Integers:
    return _shift(_taken(step, values, step.outputs)[:, 0] * _second(step, values), step.shift)


def _affine(policy: IntegerPolicy, step: Step, values: Integers) -> Integers:
    scale, shift = policy.constants_of(step, 2 * step.outputs).reshape(-1, 2).T
    return _shift(_taken(step, values, step.outputs) * scale + shift, step.shift)


def _layer_norm(policy: IntegerPolicy, step: Step, values: Integers) -> Integers:
    factor, eps = (int(c) for c in policy.constants_of(step, 2))
    x = _taken(step, values, step.inputs)
    d = step.inputs * x - x.sum(axis=2, keepdims=True)
    # The bits of an integer below 2^53 are the exponent of it as a float.
    bits = np.frexp(np.abs(d).max(axis=2, keepdims=True).astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - _LAYER_NORM_BITS, 0)
    d = d >> shift
    squares = (d * d).sum(axis=2, keepdims=True) + (eps >> (2 * shift))
    product = d * factor
    return np.sign(product) * (np.abs(product) // np.maximum(_root(squares), 1))


def _root(x: Integers) -> Integers:
    """Returns ⌊√x⌋ of the float, which may be one off."""
    root = np.sqrt(x.astype(np.float64)).astype(np.int64)
    root = np.where(root * root > x, root - 1, root)
    found: Integers = np.where((root + 1) * (root + 1) <= x, root + 1, root)
    return found


OPERATIONS: tuple[Callable[[IntegerPolicy, Step, Integers], Integers], ...] = (
    _gather,
    _linear,
    _clip,
    _table,
    _add,
    _mul,
    _affine,
    _layer_norm,
)
"""Implementations by the number of `Step.op`: `operation(policy, step, values [N, values])`."""
