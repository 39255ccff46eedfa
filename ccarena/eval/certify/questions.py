"""Claims about a policy's actions as rows over the outputs of a network: what a bound has to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.certify.network import Network
from ccarena.eval.certify.spaces import Space
from ccarena.policies.artifact import Artifact

__all__ = ["Bounded", "Change", "Form", "Monotone", "Rows", "unrolled"]

Array = NDArray[Any]
Flags = NDArray[Any]
_STRICT = 1e-12
"""Distance of two logits at which the larger one is chosen, whatever their order."""
_CERTAIN = -1e30
"""Offset of a row that is certain."""


@dataclass(frozen=True)
class Rows:
    """Rows that have to be shown over boxes, from the outputs at their centres.

    The claim holds where all `holding` rows are at most 0, and is violated where all `violating` rows are. Both are
    matrices `[N, rows, size]`, which multiply the outputs, and offsets `[N, rows]`.
    """

    holds: Flags
    """Flags of the centres at which it holds, `[N]`."""
    holding: tuple[Array, Array]
    violating: tuple[Array, Array]


class Form(Protocol):
    """Form of a policy: `floats.FloatForm` or `integers.IntegerForm`."""

    @property
    def policy(self) -> Artifact:
        """Returns the policy."""

    @property
    def name(self) -> str:
        """Returns the form's name."""

    def start(self, network: Network) -> list[int]:
        """Adds the memory of a flow before its first decision and returns its values."""

    def decide(self, network: Network, raw: int, state: Sequence[int]) -> tuple[int, list[int]]:
        """Adds one decision on the raw observation; returns the outputs and the memory after it."""

    def act(self, observations: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns choices `[N, steps]` and outputs `[N, steps, outputs]` of flows `[N, steps, length]`."""


def unrolled(form: Form, space: Space) -> tuple[Network, list[int]]:
    """Returns the network of a flow's decisions, and the outputs of each; memory starts at zero."""
    network = Network(len(space.low))
    state, outputs = form.start(network), []
    for matrix, shift in zip(space.matrices, space.shifts, strict=True):
        raw = network.affine([(0, matrix)], shift)
        output, state = form.decide(network, raw, state)
        outputs.append(output)
    return network, outputs


@dataclass
class _Question:
    """Network of a form over a space, which every question has."""

    form: Form
    space: Space
    network: Network = field(init=False)
    output: int = field(init=False)

    def __post_init__(self) -> None:
        """Builds the network."""
        self.network, outputs = unrolled(self.form, self.space)
        self.output = self.network.join(outputs)

    @property
    def values(self) -> Array:
        """Returns the values of discrete actions; empty if actions are continuous."""
        return np.array(self.form.policy.interface.actions, np.float64)

    def actions(self, points: Array, number: int = 0) -> Array:
        """Returns the actions `[N, steps]` of the policy in its form: the values of discrete ones."""
        choices, outputs = self.form.act(self.space.observations(points))
        return self.values[choices] if len(self.values) else np.asarray(outputs[:, :, number], np.float64)

    def chosen(self, outputs: Array) -> Array:
        """Returns the logits `[N, steps, actions]` of outputs `[N, size]`."""
        return outputs.reshape(len(outputs), self.space.steps, -1)

    def allowed(self, logits: Array, allowed: Flags) -> tuple[Array, Array]:
        """Returns rows that show that every step's choice stays in `allowed` `[N, steps, actions]`.

        Each action that is not allowed has a row: its logit less that of the best allowed one at the centre.
        """
        count, steps, actions = allowed.shape
        winners = np.where(allowed, logits, -np.inf).argmax(axis=2)
        rows = np.zeros((count, steps, actions, steps, actions))
        box, step, action = np.nonzero(~allowed)
        rows[box, step, action, step, action] += 1
        rows[box, step, action, step, winners[box, step]] -= 1
        offset = np.where(allowed, _CERTAIN, _STRICT)
        return rows.reshape(count, steps * actions, steps * actions), offset.reshape(count, -1)


def _all_below(outputs: Array, unit: Array, ends: Array) -> Rows:
    """Returns what shows that every row of `unit` times the outputs plus `ends` is at most 0, or that one is above."""
    count = len(outputs)
    excess = outputs @ unit.T + ends
    worst = excess.argmax(axis=1)
    holding = np.broadcast_to(unit, (count, *unit.shape)), np.broadcast_to(ends, (count, len(ends)))
    return Rows(np.all(excess <= 0, axis=1), holding, (-unit[worst][:, None], _STRICT - ends[worst][:, None]))


def _impossible(outputs: Array) -> tuple[Array, Array]:
    """Returns a row that is above 0 everywhere."""
    return np.zeros((len(outputs), 1, outputs.shape[1])), np.ones((len(outputs), 1))


@dataclass
class Bounded(_Question):
    """Claim that number `number` of every step's action is `least` to `most`."""

    number: int = 0
    least: float = -np.inf
    most: float = np.inf

    def rows(self, outputs: Array) -> Rows:
        """Returns what to show at centres with these outputs."""
        if len(self.values):
            return self._choices(outputs)
        size = outputs.shape[1]
        places = np.arange(self.space.steps) * (size // self.space.steps) + self.number
        unit, ends = np.zeros((2 * len(places), size)), np.zeros(2 * len(places))
        for k, place in enumerate(places):
            unit[k, place], ends[k] = 1, -self.most
            unit[len(places) + k, place], ends[len(places) + k] = -1, self.least
        finite = np.isfinite(ends)
        unit, ends = unit[finite], ends[finite]
        return _all_below(outputs, unit, ends)

    def _choices(self, outputs: Array) -> Rows:
        logits = self.chosen(outputs)
        good = (self.values >= self.least) & (self.values <= self.most)
        holds = np.all(good[logits.argmax(axis=2)], axis=1)
        shape = (*logits.shape[:2], len(good))
        holding = self.allowed(logits, np.broadcast_to(good, shape))
        if good.all():
            return Rows(holds, holding, _impossible(outputs))
        # One step violates the claim alone: the one that is closest to it.
        best = [np.where(part, logits, -np.inf).max(axis=2) for part in (~good, good)]
        step = (best[0] - best[1]).argmax(axis=1)
        bad = np.ones(shape, np.bool_)
        bad[np.arange(len(step)), step] = ~good
        return Rows(holds, holding, self.allowed(logits, bad))

    def violated(self, points: Array) -> Flags:
        """Returns where the policy's own actions are out of bounds."""
        actions = self.actions(points, self.number)
        return np.any((actions > self.most) | (actions < self.least), axis=1)


@dataclass
class Change(_Question):
    """Claim that an action differs from the one before it by `most` at most."""

    number: int = 0
    most: float = 0.0

    def rows(self, outputs: Array) -> Rows:
        """Returns what to show at centres with these outputs."""
        if len(self.values):
            return self._choices(outputs)
        size = outputs.shape[1]
        width = size // self.space.steps
        unit = np.zeros((2 * (self.space.steps - 1), size))
        for step in range(self.space.steps - 1):
            for row, sign in ((2 * step, 1), (2 * step + 1, -1)):
                unit[row, (step + 1) * width + self.number], unit[row, step * width + self.number] = sign, -sign
        return _all_below(outputs, unit, np.full(len(unit), -self.most))

    def _choices(self, outputs: Array) -> Rows:
        """Shows that all choices lie within `most` of each other, or that those of the centre do not change.

        Of a centre, only what is true there can be shown around it.
        """
        logits = self.chosen(outputs)
        winners = logits.argmax(axis=2)
        taken = self.values[winners]
        apart = np.abs(np.diff(taken, axis=1))
        holds = np.all(apart <= self.most, axis=1)
        # A window of values of this width around those that are taken.
        middle = (taken.max(axis=1) + taken.min(axis=1)) / 2
        near = np.abs(self.values - middle[:, None]) <= self.most / 2
        allowed = np.broadcast_to(near[:, None], (*winners.shape, near.shape[1])).copy()
        fits = np.take_along_axis(allowed, winners[:, :, None], axis=2)[:, :, 0].all(axis=1)
        for box in np.flatnonzero(~(holds & fits)):
            step = int(apart[box].argmax())
            # A pair violates the claim alone; that it holds needs every step.
            steps = np.arange(self.space.steps) if holds[box] else np.arange(step, step + 2)
            allowed[box] = True
            allowed[box, steps] = False
            allowed[box, steps, winners[box, steps]] = True
        rows, offset = self.allowed(logits, allowed)
        none, never = _impossible(outputs)
        holding, violating = (
            (np.where(at[:, None, None], rows, none), np.where(at[:, None], offset, never)) for at in (holds, ~holds)
        )
        return Rows(holds, holding, violating)

    def violated(self, points: Array) -> Flags:
        """Returns where the policy's own actions change by more than `most`."""
        apart = np.abs(np.diff(self.actions(points, self.number), axis=1))
        return np.any(apart > self.most + 1e-6 * (1 + abs(self.most)), axis=1)


@dataclass
class Monotone(_Question):
    """Claim that the last action never rises (`sign` 1) or never falls (-1) where parameters rise together.

    `direction` says which; each moves by the same share of its own range. A point is the start of a move to the box's
    end. What is bounded is the derivative, of continuous actions. Rounding moves an action by less than `within`; a
    violation must exceed it.
    """

    direction: Array = field(default_factory=lambda: np.zeros(0))
    sign: float = 1.0
    number: int = 0
    within: float = 0.0

    def __post_init__(self) -> None:
        """Builds the network of the derivative."""
        super().__post_init__()
        network, outputs = unrolled(self.form, self.space)
        width = network.sizes[outputs[-1]]
        unit = np.zeros((1, width))
        unit[0, self.number] = 1
        slopes = network.derivative(outputs[-1], self.direction * (self.space.high - self.space.low))
        self.network, self.output = network, network.affine([(slopes, self.sign * unit)])

    def rows(self, outputs: Array) -> Rows:
        """Returns the slope, in actions over the whole range of the signal, less `within`.

        Where it is at most 0 throughout, no move raises the action by more than its share of `within`.
        """
        return _all_below(outputs, np.ones((1, 1)), np.array([-self.within]))

    def violated(self, points: Array) -> Flags:
        """Returns from which points a move of one of several lengths violates the claim."""
        found = np.zeros(len(points), np.bool_)
        before = self.actions(points, self.number)[:, -1]
        for share in (1.0, 0.25, 0.05):
            after = self.actions(self.moved(points, share), self.number)[:, -1]
            found |= self.sign * (after - before) > self.within
        return found

    def moved(self, points: Array, share: float) -> Array:
        """Returns points moved along the proof's direction, this share of the way to the end of the box."""
        sides = self.direction * (self.space.high - self.space.low)
        moving = sides > 0
        if not moving.any():
            return points
        room = np.min((self.space.high - points)[:, moving] / sides[moving], axis=1, keepdims=True)
        return np.minimum(points + share * np.maximum(room, 0.0) * sides, self.space.high)
