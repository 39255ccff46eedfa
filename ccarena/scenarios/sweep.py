"""Sweeps: axes with their values, and the document of each cell, whose `${AXIS}` are replaced (`template`).

Suites (docs/suites.md) and `ccarena.run` take the same sweeps.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ccarena.errors import ConfigError, ScenarioError
from ccarena.scenarios import template

__all__ = ["Sweep", "axes_of", "expanded", "label_of"]

Sweep = Mapping[str, Sequence[Any] | Mapping[str, Any]]
"""Values by axis: numbers and words, or a mapping from names to anything."""


def label_of(value: Any) -> str:
    """Returns the name of an axis's value in `where`, rows and tables."""
    return f"{value:g}" if isinstance(value, float) else "true" if value is True else str(value)


def axes_of(sweep: Sweep) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each axis with its values by their names. Raises ConfigError."""
    for axis, given in sweep.items():
        if not str(axis).isidentifier():
            raise ConfigError(f"sweep.{axis}: the name of an axis has letters, digits and _ only")
        if not isinstance(given, (Mapping, Sequence)) or isinstance(given, str) or not given:
            raise ConfigError(f"sweep.{axis}: has no values; expected a list, or a mapping from names to values")
        if isinstance(given, Mapping):
            yield axis, {str(key): value for key, value in given.items()}
            continue
        values: dict[str, Any] = {}
        for i, value in enumerate(given):
            if isinstance(value, (Mapping, list)) or value is None:
                raise ConfigError(
                    f"sweep.{axis}[{i}]: {value!r}: expected a number or a word; for values with fields give the axis "
                    "as a mapping from names to them"
                )
            if label_of(value) in values:
                raise ConfigError(f"sweep.{axis}[{i}]: {label_of(value)} is there twice")
            values[label_of(value)] = value
        yield axis, values


def expanded(
    name: str, document: Mapping[str, Any], sweep: Sweep, most: int
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yields name, document and values of the axes of each cell; the last axis changes fastest.

    Raises ConfigError for a sweep, and ScenarioError, which begins with the scenario's name, for an expression.
    """
    axes = dict(axes_of(sweep))
    if math.prod(map(len, axes.values())) > most:
        raise ConfigError(f"sweep: more than {most:,} combinations; give fewer values")
    used = set(re.findall(r"[A-Za-z_]\w*", " ".join(_expressions(document))))
    for axis in axes:
        if axis not in used:
            raise ConfigError(f"sweep.{axis}: {name} does not use it; write ${{{axis}}} in the place of the value")
    for labels in itertools.product(*axes.values()):
        cell = dict(zip(axes, labels, strict=True))
        values = {axis: axes[axis][label] for axis, label in cell.items()}
        shown = {axis: label if isinstance(sweep[axis], Mapping) else values[axis] for axis, label in cell.items()}
        where = ", ".join([name, *(f"{axis} {label}" for axis, label in cell.items())])
        try:
            yield where, template.expand(document, values, "") if axes else dict(document), shown
        except ConfigError as error:
            raise ScenarioError(f"{where}: {error}") from error


def _expressions(node: Any) -> Iterator[str]:
    """Yields all `${...}` of a document."""
    if isinstance(node, Mapping):
        for value in node.values():
            yield from _expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _expressions(value)
    elif isinstance(node, str):
        yield from template.expressions(node)
