"""Claims about a policy's actions as rows over the outputs of a network: what a bound has to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.certify.network import Network
from ccarena.eval.certify.spaces import Space
from ccarena.policies.artifact import Artifact

__all__ = ["Bounded", "Change", "Form", "Monotone", "unrolled"]

Array = NDArray[Any]
Flags = NDArray[Any]
_STRICT = 1e-12
"""Distance of two logits at which the larger one is chosen, whatever their order."""
_NEVER = -1e30
"""Offset of a row that is certain."""


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

    def allowed(self, winners: NDArray[np.intp], allowed: Flags) -> tuple[Array, Array]:
        """Returns rows that show that every step's choice stays in `allowed` `[N, steps, actions]`, as its winner is.

        Each action that is not allowed has a row: its logit less the winner's.
        """
        count, steps, actions = allowed.shape
        rows = np.zeros((count, steps, actions, steps, actions))
        box, step, action = np.nonzero(~allowed)
        rows[box, step, action, step, action] += 1
        rows[box, step, action, step, winners[box, step]] -= 1
        offset = np.where(allowed, _NEVER, _STRICT)
        return rows.reshape(count, steps * actions, steps * actions), offset.reshape(count, -1)


@dataclass
class Bounded(_Question):
    """Claim that number `number` of every step's action is `least` to `most`."""

    number: int = 0
    least: float = -np.inf
    most: float = np.inf

    def rows(self, outputs: Array) -> tuple[Flags, Array, Array]:
        """Returns what to show at centres with these outputs, as `search.Question` defines it."""
        if len(self.values):
            return self._choices(outputs)
        count, size = outputs.shape
        places = np.arange(self.space.steps) * (size // self.space.steps) + self.number
        unit, ends = np.zeros((2 * len(places), size)), np.zeros(2 * len(places))
        for k, place in enumerate(places):
            unit[k, place], ends[k] = 1, -self.most
            unit[len(places) + k, place], ends[len(places) + k] = -1, self.least
        finite = np.isfinite(ends)
        unit, ends = unit[finite], ends[finite]
        excess = outputs @ unit.T + ends
        holds = np.all(excess <= 0, axis=1)
        rows = np.broadcast_to(unit, (count, *unit.shape)).copy()
        offset = np.broadcast_to(ends, (count, len(ends))).copy()
        # One row above 0 violates the claim: the others need not be shown.
        worst = np.argmax(excess, axis=1)
        for box in np.flatnonzero(~holds):
            rows[box], offset[box] = 0, _NEVER
            rows[box, 0], offset[box, 0] = -unit[worst[box]], -ends[worst[box]] + _STRICT
        return holds, rows, offset

    def _choices(self, outputs: Array) -> tuple[Flags, Array, Array]:
        winners = self.chosen(outputs).argmax(axis=2)
        good = (self.values >= self.least) & (self.values <= self.most)
        holds = np.all(good[winners], axis=1)
        first_bad = np.argmin(good[winners], axis=1)
        allowed = np.broadcast_to(good, (*winners.shape, len(good))).copy()
        for box in np.flatnonzero(~holds):
            allowed[box] = True
            allowed[box, first_bad[box]] = ~good
        return holds, *self.allowed(winners, allowed)

    def violated(self, points: Array) -> Flags:
        """Returns where the policy's own actions are out of bounds."""
        actions = self.actions(points, self.number)
        return np.any((actions > self.most) | (actions < self.least), axis=1)


@dataclass
class Change(_Question):
    """Claim that an action differs from the one before it by `most` at most."""

    number: int = 0
    most: float = 0.0

    def rows(self, outputs: Array) -> tuple[Flags, Array, Array]:
        """Returns what to show at centres with these outputs, as `search.Question` defines it."""
        if len(self.values):
            return self._choices(outputs)
        count, size = outputs.shape
        width = size // self.space.steps
        unit = np.zeros((2 * (self.space.steps - 1), size))
        for step in range(self.space.steps - 1):
            for row, sign in ((2 * step, 1), (2 * step + 1, -1)):
                unit[row, (step + 1) * width + self.number], unit[row, step * width + self.number] = sign, -sign
        excess = outputs @ unit.T - self.most
        holds = np.all(excess <= 0, axis=1)
        rows = np.broadcast_to(unit, (count, *unit.shape)).copy()
        offset = np.full((count, len(unit)), -self.most)
        for box in np.flatnonzero(~holds):
            rows[box], offset[box] = 0, _NEVER
            rows[box, 0], offset[box, 0] = -unit[excess[box].argmax()], self.most + _STRICT
        return holds, rows, offset

    def _choices(self, outputs: Array) -> tuple[Flags, Array, Array]:
        """Shows that all choices lie within `most` of each other, or that those of the centre do not change."""
        winners = self.chosen(outputs).argmax(axis=2)
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
        return holds, *self.allowed(winners, allowed)

    def violated(self, points: Array) -> Flags:
        """Returns where the policy's own actions change by more than `most`."""
        apart = np.abs(np.diff(self.actions(points, self.number), axis=1))
        return np.any(apart > self.most + 1e-6 * (1 + abs(self.most)), axis=1)


@dataclass
class Monotone(_Question):
    """Claim that the last action never rises (`sign` 1) or never falls (-1) where parameters rise together.

    `direction` says which; each moves by the same share of its own range. A point is the start of a move to the box's
    end. What is bounded is the derivative. Rounding moves an action by less than `within`; a violation must exceed it.
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
        if len(self.values):
            order = np.argsort(self.values, kind="stable")
            unit = np.zeros((width - 1, width))
            for row, (low, high) in enumerate(pairwise(order)):
                unit[row, high], unit[row, low] = 1, -1
        else:
            unit = np.zeros((1, width))
            unit[0, self.number] = 1
        slopes = network.derivative(outputs[-1], self.direction * (self.space.high - self.space.low))
        self.network, self.output = network, network.affine([(slopes, self.sign * unit)])

    def rows(self, outputs: Array) -> tuple[Flags, Array, Array]:
        """Returns the slopes, all of which have to be at most 0.

        For discrete actions that is sufficient. A slope above 0 violates nothing: the action may rise by `within`.
        """
        count, size = outputs.shape
        rows = np.broadcast_to(np.eye(size), (count, size, size))
        return np.ones(count, np.bool_), rows, np.zeros((count, size))

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
