"""Genes of a candidate: numbers in a range, choices, and expressions, each with how it is drawn, changed and mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ccarena.configs.ranges import Ranges
from ccarena.core.dimensions import Dimension
from ccarena.searches import expressions
from ccarena.searches.expressions import Tree

__all__ = ["Choice", "Expression", "Gene", "Number", "gene_of"]

SPREAD = 0.15
"""Standard deviation of a number's change, as a share of its range."""
DIGITS = 4
"""Significant digits of numbers."""


class Gene(Protocol):
    """Part of a candidate that evolution changes."""

    def drawn(self, rng: np.random.Generator) -> Any:
        """Returns a random value."""

    def mutated(self, value: Any, rng: np.random.Generator) -> Any:
        """Returns a value near `value`."""

    def crossed(self, value: Any, other: Any, rng: np.random.Generator) -> Any:
        """Returns a value made of two."""


@dataclass(frozen=True)
class Number:
    """Number between two ends, on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def _scale(self) -> Ranges:
        # `Ranges` is logarithmic above 0.
        return Ranges({"": (self.low, self.high) if self.log else (0.0, self.high - self.low)})

    def _value(self, share: float) -> float:
        found = self._scale().values(np.array([share]))[""] + (0.0 if self.log else self.low)
        found = round(found) if self.whole else float(f"{found:.{DIGITS}g}")
        return float(min(max(found, self.low), self.high))

    def drawn(self, rng: np.random.Generator) -> float:
        """Returns a value between the ends."""
        return self._value(rng.random())

    def mutated(self, value: float, rng: np.random.Generator) -> float:
        """Returns a value near `value`, between the ends."""
        (share,) = self._scale().shares({"": value if self.log else value - self.low})
        return self._value(float(share) + SPREAD * rng.normal())

    def crossed(self, value: float, other: float, rng: np.random.Generator) -> float:
        """Returns one of two values."""
        return value if rng.random() < 0.5 else other


@dataclass(frozen=True)
class Choice:
    """One of several numbers."""

    values: Sequence[float]

    def drawn(self, rng: np.random.Generator) -> float:
        """Returns one of the values."""
        return self.values[int(rng.integers(len(self.values)))]

    def mutated(self, value: float, rng: np.random.Generator) -> float:
        """Returns one of the values, whatever `value` is."""
        return self.drawn(rng)

    def crossed(self, value: float, other: float, rng: np.random.Generator) -> float:
        """Returns one of two values."""
        return value if rng.random() < 0.5 else other


@dataclass(frozen=True)
class Expression:
    """Expression over names."""

    names: Sequence[str]

    def drawn(self, rng: np.random.Generator) -> Tree:
        """Returns a random expression over the names."""
        return expressions.simple(expressions.drawn(self.names, rng))

    def mutated(self, value: Tree, rng: np.random.Generator) -> Tree:
        """Returns the expression with a changed part."""
        return expressions.mutated(value, self.names, rng)

    def crossed(self, value: Tree, other: Tree, rng: np.random.Generator) -> Tree:
        """Returns the expression with a part of another one."""
        return expressions.crossed(value, other, rng)


def gene_of(dimension: Dimension) -> Gene:
    """Returns the gene of a dimension of a space (`ccarena.core.dimensions`)."""
    if dimension.kind in ("choice", "grid"):
        return Choice(dimension.values)
    low, high = dimension.values
    return Number(low, high, "log" in dimension.kind, "int" in dimension.kind)
