"""Search space: a YAML file of configuration keys, each with its values or the range that they are drawn from.

    algorithm.actor_lr: {log_uniform: [1.0e-5, 1.0e-2]}
    algorithm.gamma: [0.9, 0.95, 0.99]
    env.worlds: {int: [16, 128]}

A list, or `choice`, is drawn from; of a `grid` every value is tried, as often as there are samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.agents.api import check_names
from ccarena.configs import TrainConfig, load_config
from ccarena.core.dimensions import Dimension, dimensions_of
from ccarena.errors import ConfigError, ScenarioError, TraceError

__all__ = ["Space", "check", "check_kinds", "read_space"]

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

    def kinds(self) -> list[dict[str, Any]]:
        """Returns the first corner, and those that differ from it in more than a number."""
        first, *others = (setting for setting in self.corners())
        return [first, *(each for each in others if any(_differs(first[key], each[key]) for key in first))]


def _differs(one: Any, other: Any) -> bool:
    return one != other and not (type(one) in (int, float) and type(other) in (int, float))


def read_space(path: Path, config: str, overrides: Mapping[str, Any]) -> Space:
    """Reads the space in the file and checks that each corner is a configuration, whose names this machine finds.

    Raises ConfigError.
    """
    space = Space(dimensions_of(path, "configuration keys, such as `algorithm.gamma: [0.9, 0.99]`"))
    for reserved in ("seed", "out", "name"):
        if reserved in space.dimensions:
            raise ConfigError(f"{path}: {reserved} cannot be searched; every trial is trained with --seeds seeds")
    corners = space.corners()
    if len(corners) > MOST_VALUES:
        raise ConfigError(f"{path}: {len(corners):,} values of all keys; expected at most {MOST_VALUES:,}")
    known: set[str] = set()
    with _naming(path):
        for setting in corners:
            loaded = load_config(config, {**overrides, **setting})
            # A rate of the algorithm names nothing: what is the same otherwise is looked up once.
            rest = loaded.model_dump_json(exclude={"algorithm"})
            if rest not in known:
                check_names(loaded)
                known.add(rest)
    return space


def check_kinds(path: Path, space: Space, config: str, overrides: Mapping[str, Any]) -> None:
    """Raises ConfigError for a corner with which no training would begin, on any machine: for arguments of networks
    and algorithms, and for figures that a training is judged by. Needs PyTorch.
    """
    from ccarena.agents.train import check_elsewhere

    with _naming(path):
        for setting in space.kinds():
            check_elsewhere(load_config(config, {**overrides, **setting}))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the space's file in errors of its corners."""
    try:
        yield
    except (ConfigError, ScenarioError, TraceError) as error:
        raise ConfigError(f"{path}: {error}") from error


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
