"""Functions of one number, enclosed over an interval by a straight line and a radius."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ccarena.policies.graph import OPERATIONS

__all__ = ["CURVES", "Clip", "Curve", "Function", "Leaky", "Line", "SShape", "Slope", "Table"]

Array = NDArray[Any]


class Line(NamedTuple):
    """Enclosure of f(x) by `slope` x + `middle` ± `radius`, and by `low` to `high`; arrays of one shape."""

    slope: Array
    middle: Array
    radius: Array
    low: Array
    high: Array


class Function(Protocol):
    """Function of one number."""

    @property
    def slack(self) -> float:
        """Returns a bound of the inference's rounding, relative to the largest result."""

    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""

    def enclose(self, low: Array, high: Array) -> Line:
        """Encloses f over each interval."""

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Returns the least and the greatest derivative over each interval."""


def _line(slope: Array, residuals: tuple[Array, Array], values: tuple[Array, Array]) -> Line:
    least, greatest = residuals
    return Line(slope, (least + greatest) / 2, np.abs(greatest - least) / 2, *values)


def _chord(low: Array, high: Array, at_low: Array, at_high: Array) -> Array:
    width = high - low
    return np.divide(at_high - at_low, width, out=np.zeros_like(width), where=width > 0)


@dataclass(frozen=True)
class _Pieces(ABC):
    """Straight pieces: the residual of the chord is extreme at the interval's ends and at knots inside it."""

    slack: float = 0.0

    @abstractmethod
    def knots(self) -> Sequence[float]:
        """Returns the places where the slope changes."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""

    def enclose(self, low: Array, high: Array) -> Line:
        """Encloses f over each interval."""
        at_low, at_high = self(low), self(high)
        slope = _chord(low, high, at_low, at_high)
        least, greatest = at_low - slope * low, at_high - slope * high
        least, greatest = np.minimum(least, greatest), np.maximum(least, greatest)
        bottom, top = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
        for knot in self.knots():
            x = np.clip(knot, low, high)
            y = self(x)
            least, greatest = np.minimum(least, y - slope * x), np.maximum(greatest, y - slope * x)
            bottom, top = np.minimum(bottom, y), np.maximum(top, y)
        return _line(slope, (least, greatest), (bottom, top))

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Returns the least and the greatest slope of the pieces that each interval touches."""
        knots = self.knots()
        ends = [-np.inf, *knots, np.inf]
        far = [knots[0] - 2.0, *[(a + b) / 2 for a, b in pairwise(knots)], knots[-1] + 2.0]
        least, greatest = np.full_like(low, np.inf), np.full_like(low, -np.inf)
        for start, end, at in zip(ends[:-1], ends[1:], far, strict=True):
            width = (end - start) / 4 if np.isfinite(end - start) else 1.0
            a, b = (self(np.array([at - width / 2, at + width / 2])) / width).tolist()
            touched = (high >= start) & (low <= end)
            least = np.where(touched, np.minimum(least, b - a), least)
            greatest = np.where(touched, np.maximum(greatest, b - a), greatest)
        return least, greatest


@dataclass(frozen=True)
class Leaky(_Pieces):
    """Rectifier: x, or `below` x for a negative x."""

    below: float = 0.0

    def knots(self) -> Sequence[float]:
        """Returns the places where the slope changes."""
        return (0.0,)

    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""
        return np.where(x > 0, x, self.below * x)


@dataclass(frozen=True)
class Clip(_Pieces):
    """Holds x between two bounds."""

    least: float = -np.inf
    greatest: float = np.inf

    def knots(self) -> Sequence[float]:
        """Returns the places where the slope changes."""
        return (self.least, self.greatest)

    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""
        return np.clip(x, self.least, self.greatest)

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Returns 1 inside the bounds, 0 outside, and both where an interval crosses one."""
        inside = (low >= self.least) & (high <= self.greatest)
        touched = (high > self.least) & (low < self.greatest)
        return inside.astype(np.float64), (touched | inside).astype(np.float64)


@dataclass(frozen=True)
class Table(_Pieces):
    """Table of an integer policy: straight lines between knots, which go on beyond its ends."""

    places: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def knots(self) -> Sequence[float]:
        """Returns the places where the slope changes."""
        return self.places

    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""
        (first, *_, last), (y_first, *_, y_last) = self.places, self.values
        before = (self.values[1] - y_first) / (self.places[1] - first)
        after = (y_last - self.values[-2]) / (last - self.places[-2])
        beyond = before * np.minimum(x - first, 0.0) + after * np.maximum(x - last, 0.0)
        return np.interp(x, self.places, self.values) + beyond


@dataclass(frozen=True)
class SShape:
    """Rising function whose derivative rises up to `peak` and falls after it.

    With the chord as the line, the residual is extreme at an end or where the derivative is the chord's slope: at
    `steep` of it or minus that. Without `steep`, the slope is the least derivative: the residual then rises throughout.
    """

    of: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    peak: float = 0.0
    slack: float = 2.0**-21
    steep: Callable[[Array], Array] | None = None

    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""
        return self.of(x)

    def enclose(self, low: Array, high: Array) -> Line:
        """Encloses f over each interval."""
        at_low, at_high = self.of(low), self.of(high)
        if self.steep is not None:
            slope = np.maximum(_chord(low, high, at_low, at_high), 0.0)
            at = self.steep(slope)
            places = [low, high, np.clip(-at, low, high), np.clip(at, low, high)]
            residuals = np.stack([self.of(x) - slope * x for x in places])
            return _line(slope, (residuals.min(axis=0), residuals.max(axis=0)), (at_low, at_high))
        slope = np.minimum(self.derivative(low), self.derivative(high))
        return _line(slope, (at_low - slope * low, at_high - slope * high), (at_low, at_high))

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Returns the least and the greatest derivative over each interval."""
        ends = self.derivative(low), self.derivative(high)
        return np.minimum(*ends), np.maximum(np.maximum(*ends), self.derivative(np.clip(self.peak, low, high)))


@dataclass(frozen=True)
class Curve:
    """Function whose second derivative is at most `bend`: lines between samples are off by `bend` h² / 8."""

    of: Callable[[Array], Array]
    bend: float
    steepest: tuple[float, float]
    slack: float = 2.0**-21
    samples: int = 33

    def __call__(self, x: Array) -> Array:
        """Returns f(x)."""
        return self.of(x)

    def enclose(self, low: Array, high: Array) -> Line:
        """Encloses f over each interval."""
        x = np.linspace(low, high, self.samples)
        y = self.of(x)
        slope = _chord(low, high, y[0], y[-1])
        off = self.bend * ((high - low) / (self.samples - 1)) ** 2 / 8
        residual = y - slope * x
        ends = residual.min(axis=0) - off, residual.max(axis=0) + off
        return _line(slope, ends, (y.min(axis=0) - off, y.max(axis=0) + off))

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Returns bounds of the derivative anywhere."""
        return np.full_like(low, self.steepest[0]), np.full_like(high, self.steepest[1])


@dataclass(frozen=True)
class Slope:
    """Derivative of a function, enclosed by its least and greatest value; at a kink any value between its sides."""

    function: Function
    slack: float = 0.0

    def __call__(self, x: Array) -> Array:
        """Returns the middle of the derivatives at x."""
        least, greatest = self.function.slopes(x, x)
        return (least + greatest) / 2

    def enclose(self, low: Array, high: Array) -> Line:
        """Encloses the derivative over each interval."""
        least, greatest = self.function.slopes(low, high)
        return Line(np.zeros_like(low), (least + greatest) / 2, (greatest - least) / 2, least, greatest)

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Raises TypeError: no property needs a second derivative."""
        raise TypeError("no second derivatives: a slope is not differentiated")


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


def _steep_tanh(slope: Array) -> Array:
    """Returns where the derivative of tanh, 1 - tanh², has this value."""
    return np.arctanh(np.sqrt(np.clip(1 - slope, 0.0, 1 - 2.0**-52)))


def _steep_sigmoid(slope: Array) -> Array:
    """Returns where the derivative of the sigmoid has this value: sigmoid x is (1 + tanh x/2) / 2."""
    return 2 * _steep_tanh(4 * slope)


def _elu(alpha: float) -> SShape:
    return SShape(
        lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
        lambda x: np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0))),
    )


def _numpy(op: str, **attributes: object) -> Callable[[Array], Array]:
    return lambda x: np.asarray(OPERATIONS[op]([x], attributes, {}), np.float64)


_GELU = (-0.2, 1.2)
_FAR = 3.4e38
CURVES: dict[str, Callable[[dict[str, Any]], Function]] = {
    "relu": lambda _: Leaky(),
    "leaky_relu": lambda a: Leaky(2.0**-23, float(np.float32(a.get("slope", 0.01)))),
    "clip": lambda a: Clip(0.0, float(np.float32(a.get("low", -_FAR))), float(np.float32(a.get("high", _FAR)))),
    "tanh": lambda _: SShape(np.tanh, lambda x: 1 - np.tanh(x) ** 2, steep=_steep_tanh),
    "sigmoid": lambda _: SShape(_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x)), steep=_steep_sigmoid),
    "softplus": lambda _: SShape(_numpy("softplus"), _sigmoid, np.inf),
    "exp": lambda _: SShape(_numpy("exp"), lambda x: np.where(x <= 88.0, np.exp(np.minimum(x, 88.0)), 0.0), 88.0),
    "elu": lambda a: _elu(float(np.float32(a.get("alpha", 1.0)))),
    "silu": lambda _: Curve(_numpy("silu"), 0.5, (-0.1, 1.1)),
    "gelu": lambda a: Curve(_numpy("gelu", **a), 1.0, _GELU),
}
"""Functions of a graph by the operation's name, from its attributes."""
