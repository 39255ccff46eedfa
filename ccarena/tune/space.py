"""Search space: a YAML file of configuration keys, each with its values or the range that they are drawn from.

    algorithm.actor_lr: {log_uniform: [1.0e-5, 1.0e-2]}
    algorithm.gamma: [0.9, 0.95, 0.99]
    env.worlds: {int: [16, 128]}

A list, or `choice`, is drawn from; of a `grid` every value is tried, as often as there are samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.configs import TrainConfig, load_config
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, did_you_mean, excerpt

__all__ = ["Dimension", "Space", "dimensions_of", "read_space"]

MOST_VALUES = 1000
"""Most values of all keys together: each value is checked in a configuration of its own."""
KINDS = ("choice", "grid", "uniform", "log_uniform", "int", "log_int")


@dataclass(frozen=True)
class Dimension:
    """The values of one key: a choice, or a range."""

    kind: str
    """One of [`KINDS`]."""
    values: tuple[Any, ...]
    """All values of a choice or a grid; the low and high end of a range."""


@dataclass(frozen=True)
class Space:
    """Dimensions by configuration key."""

    dimensions: dict[str, Dimension]

    def corners(self) -> list[dict[str, Any]]:
        """Returns settings that together have every value of every choice and both ends of every range."""
        first = {key: each.values[0] for key, each in self.dimensions.items()}
        return [{**first, key: value} for key, each in self.dimensions.items() for value in each.values]


def read_space(path: Path, config: str, overrides: Mapping[str, Any]) -> Space:
    """Reads the space in the file and checks that each corner is a configuration. Raises ConfigError."""
    space = Space(dimensions_of(path, "configuration keys, such as `algorithm.gamma: [0.9, 0.99]`"))
    for reserved in ("seed", "out", "name"):
        if reserved in space.dimensions:
            raise ConfigError(f"{path}: {reserved} cannot be searched; every trial is trained with --seeds seeds")
    corners = space.corners()
    if len(corners) > MOST_VALUES:
        raise ConfigError(f"{path}: {len(corners):,} values of all keys; expected at most {MOST_VALUES:,}")
    for setting in corners:
        try:
            load_config(config, {**overrides, **setting})
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
    return space


def dimensions_of(
    given: Path | Mapping[str, Any], keys: str = "parameters, such as `beta: {uniform: [0.5, 0.9]}`"
) -> dict[str, Dimension]:
    """Returns the dimensions by key of a space: a YAML file, or what it would hold. Raises ConfigError, which says
    that a space is a mapping of `keys`.
    """
    where = given if isinstance(given, Path) else "space"
    try:
        document = read_data(given) if isinstance(given, Path) else given
    except OSError as error:
        raise ConfigError(f"{given}: cannot read the space: {error.strerror}; expected a YAML file") from error
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


def check(config: TrainConfig) -> None:
    """Raises ConfigError for a training without validations, whose results cannot be compared."""
    if not config.validation.kinds:
        raise ConfigError("validation.kinds is empty: trials are compared by their validations; name a kind of links")
