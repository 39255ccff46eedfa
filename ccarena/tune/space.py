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
from ccarena.core.dimensions import Dimension, dimensions_of
from ccarena.errors import ConfigError

__all__ = ["Space", "read_space"]

MOST_VALUES = 1000
"""Most values of all keys together: each value is checked in a configuration of its own."""


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


def check(config: TrainConfig) -> None:
    """Raises ConfigError for a training without validations, whose results cannot be compared, and for datasets that
    cannot be learned from.
    """
    if not config.validation.kinds:
        raise ConfigError("validation.kinds is empty: trials are compared by their validations; name a kind of links")
    if config.algorithm.datasets:
        from ccarena.data.dataset import Dataset
        from ccarena.policies.spec import spec_of

        for folder in config.algorithm.datasets:
            Dataset.open(folder, spec_of(config))
