"""Dimensions of a search space: keys, each with the values or the range that it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, did_you_mean, excerpt

__all__ = ["Dimension", "dimensions_of"]

KINDS = ("choice", "grid", "uniform", "log_uniform", "int", "log_int")


@dataclass(frozen=True)
class Dimension:
    """The values of one key: a choice, or a range."""

    kind: str
    """One of [`KINDS`]."""
    values: tuple[Any, ...]
    """All values of a choice or a grid; the low and high end of a range."""


def dimensions_of(
    given: Path | Mapping[str, Any], keys: str = "parameters, such as `beta: {uniform: [0.5, 0.9]}`"
) -> dict[str, Dimension]:
    """Returns the dimensions by key of a space: a YAML file, or what it would hold. Raises ConfigError, which says
    that a space is a mapping of `keys`.
    """
    where = given if isinstance(given, Path) else "space"
    document = read_data(given, f"a space in YAML: a mapping of {keys}") if isinstance(given, Path) else given
    if not isinstance(document, Mapping) or not document:
        raise ConfigError(f"{where}: expected a mapping of {keys}")
    return {str(key): _dimension(where, str(key), value) for key, value in document.items()}


def _dimension(path: Path | str, key: str, value: Any) -> Dimension:
    if isinstance(value, list) and value:
        return Dimension("choice", tuple(value))
    if isinstance(value, dict) and len(value) == 1:
        (kind, given), *_ = value.items()
        if kind not in KINDS:
            raise ConfigError(f'{path}: {key}: unknown kind "{excerpt(kind)}"{did_you_mean(str(kind), KINDS)}')
        if kind in ("choice", "grid") and isinstance(given, list) and given:
            return Dimension(kind, tuple(given))
        numbers = (int,) if kind.endswith("int") else (int, float)
        if (
            isinstance(given, list)
            and len(given) == 2
            and all(isinstance(end, numbers) and not isinstance(end, bool) for end in given)
            and given[0] < given[1]
            and (given[0] > 0 or not kind.startswith("log"))
        ):
            return Dimension(kind, tuple(given))
        above = " above 0" if kind.startswith("log") else ""
        raise ConfigError(f"{path}: {key}: {kind} = {excerpt(given)}: expected [low, high]{above} with low < high")
    raise ConfigError(
        f"{path}: {key} = {excerpt(value)}: expected a list of values, or one of {', '.join(KINDS)} with its range"
    )
