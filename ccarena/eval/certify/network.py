"""Network as four kinds of steps on vectors, with a bound of every step's rounding: what certificates reason about.

Value 0 has the parameters of a box of observations. `Network` collects the steps; `ccarena.eval.certify.floats` and
`integers` make them of the two forms of a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.eval.certify.functions import Clip, Function, Slope

__all__ = ["Affine", "Enclosed", "Map", "Network", "Product"]

Array = NDArray[Any]
MOST_ENTRIES = 1 << 24
"""Most numbers in one matrix."""


@dataclass(frozen=True)
class Affine:
    """y = Σ M x + b over several values x, off by `relative` (Σ |M x| + |b|) + `absolute` at most."""

    inputs: tuple[int, ...]
    matrices: tuple[Array, ...]
    bias: Array
    relative: float
    absolute: float

    @cached_property
    def exact(self) -> bool:
        """Tells whether float64 computes it exactly: each entry is a constant, or one value times a power of two."""
        terms = sum(np.count_nonzero(matrix, axis=1) for matrix in self.matrices) + (self.bias != 0)
        parts = (np.abs(np.frexp(matrix)[0]) for matrix in self.matrices)
        return bool(np.all(terms <= 1)) and all(bool(np.all((part == 0) | (part == 0.5))) for part in parts)


@dataclass(frozen=True)
class Map:
    """y = f(x) by entry, off by the function's slack and `absolute` at most."""

    input: int
    function: Function
    absolute: float


@dataclass(frozen=True)
class Product:
    """y = x z by entry, off by `relative` |x z| + `absolute` at most."""

    left: int
    right: int
    relative: float
    absolute: float


@dataclass(frozen=True)
class Enclosed:
    """Function of values of which only an interval is known: `bounds(lows, highs)` gives low and high, `[N, size]`."""

    inputs: tuple[int, ...]
    bounds: Callable[[Sequence[Array], Sequence[Array]], tuple[Array, Array]]


Step = Affine | Map | Product | Enclosed


@dataclass(eq=False)
class Network:
    """Steps in order; step k gives value k + 1."""

    parameters: int
    sizes: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Adds value 0, the parameters."""
        self.sizes.append(self.parameters)

    def _add(self, step: Step, size: int) -> int:
        self.steps.append(step)
        self.sizes.append(size)
        return len(self.sizes) - 1

    def affine(
        self,
        terms: Sequence[tuple[int, Array]],
        bias: Array | None = None,
        relative: float = 0.0,
        absolute: float = 0.0,
    ) -> int:
        """Adds Σ M x + b and returns its value."""
        size = len(terms[0][1])
        if any(matrix.size > MOST_ENTRIES for _, matrix in terms):
            raise PolicyError(f"a layer has more than {MOST_ENTRIES:,} weights; expected a smaller network to certify")
        shift = np.zeros(size) if bias is None else np.asarray(bias, np.float64)
        matrices = tuple(np.ascontiguousarray(matrix, np.float64) for _, matrix in terms)
        return self._add(Affine(tuple(value for value, _ in terms), matrices, shift, relative, absolute), size)

    def map(self, value: int, function: Function, absolute: float = 0.0) -> int:
        """Adds f(x) and returns its value."""
        return self._add(Map(value, function, absolute), self.sizes[value])

    def clipped(self, value: int, low: Array, high: Array) -> int:
        """Adds entries clipped to bounds of their own, and returns their value; equal bounds share a step."""
        groups: dict[tuple[float, float], list[int]] = {}
        for place, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            groups.setdefault(ends, []).append(place)
        parts = [self.map(self.take(value, places), Clip(0.0, *ends)) for ends, places in groups.items()]
        order = [place for places in groups.values() for place in places]
        return self.take(self.join(parts), np.argsort(order).tolist())

    def product(self, left: int, right: int, relative: float = 0.0, absolute: float = 0.0) -> int:
        """Adds x z and returns its value."""
        return self._add(Product(left, right, relative, absolute), self.sizes[left])

    def enclosed(
        self,
        inputs: Sequence[int],
        size: int,
        bounds: Callable[[Sequence[Array], Sequence[Array]], tuple[Array, Array]],
    ) -> int:
        """Adds a function that is known by intervals, and returns its value."""
        return self._add(Enclosed(tuple(inputs), bounds), size)

    def take(self, value: int, places: Sequence[int] | range) -> int:
        """Adds the entries of a value at `places` (-1 for a zero) and returns their value."""
        size = self.sizes[value]
        if list(places) == list(range(size)):
            return value
        matrix = np.zeros((len(places), size))
        for row, place in enumerate(places):
            if place >= 0:
                matrix[row, place] = 1
        return self.affine([(value, matrix)])

    def join(self, values: Sequence[int]) -> int:
        """Adds values one after the other and returns their value."""
        if len(values) == 1:
            return values[0]
        total, start, terms = sum(self.sizes[value] for value in values), 0, []
        for value in values:
            terms.append((value, np.eye(total, self.sizes[value], -start)))
            start += self.sizes[value]
        return self.affine(terms)

    def derivative(self, value: int, direction: Array) -> int:
        """Adds the derivative of a value along `direction` of the parameters, and returns its value.

        At a kink it is enclosed by the slopes on both sides. Rounding is left out: it is a statement about the exact
        function. Raises PolicyError for a step that is known by intervals alone.
        """
        tangents: dict[int, int | None] = {}
        start = self.affine([(0, np.zeros((self.parameters, self.parameters)))], direction)
        tangents[0] = start
        for index in range(1, value + 1):
            tangents[index] = self._tangent(self.steps[index - 1], index, tangents)
        found = tangents[value]
        return self.affine([(0, np.zeros((self.sizes[value], self.parameters)))]) if found is None else found

    def _tangent(self, step: Step, index: int, tangents: dict[int, int | None]) -> int | None:
        if isinstance(step, Affine):
            pairs = zip(step.inputs, step.matrices, strict=True)
            terms = [(tangent, m) for value, m in pairs if (tangent := tangents[value]) is not None]
            return self.affine(terms) if terms else None
        if isinstance(step, Map):
            tangent = tangents[step.input]
            return None if tangent is None else self.product(self.map(step.input, Slope(step.function)), tangent)
        if isinstance(step, Product):
            left, right = tangents[step.left], tangents[step.right]
            parts = [
                self.product(tangent, other) for tangent, other in ((left, step.right), (right, step.left)) if tangent
            ]
            return self.affine([(part, np.eye(self.sizes[index])) for part in parts]) if parts else None
        if all(tangents[value] is None for value in step.inputs):
            return None
        raise PolicyError(
            "monotone: softmax, layer_norm, embedding and div have no bounded derivative here; leave it out"
        )

    def evaluate(self, parameters: Array) -> list[Array]:
        """Returns all values at points `[N, parameters]`, in float64 without the inference's rounding."""
        values = [parameters]
        for step in self.steps:
            if isinstance(step, Affine):
                sums = [values[x] @ m.T for x, m in zip(step.inputs, step.matrices, strict=True)]
                values.append(sum(sums) + step.bias)
            elif isinstance(step, Map):
                values.append(step.function(values[step.input]))
            elif isinstance(step, Product):
                values.append(values[step.left] * values[step.right])
            else:
                at = [values[x] for x in step.inputs]
                low, high = step.bounds(at, at)
                values.append((low + high) / 2)
        return values
