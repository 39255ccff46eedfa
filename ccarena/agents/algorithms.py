"""Algorithms by name: A3C, evolution, any class of Stable-Baselines3 or sb3-contrib, or the user's own."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ccarena.agents.algorithm import Algorithm, Context
from ccarena.configs.schema import OwnAlgorithm
from ccarena.configs.userfile import bind, find
from ccarena.errors import ConfigError

__all__ = ["build", "own"]

_METHODS = ("learn", "state", "restore", "policy", "close")


def build(context: Context) -> Algorithm:
    """Builds the configured algorithm, seeded. Raises ConfigError for an unknown name or argument."""
    module, _, name = context.config.algorithm.implementation.partition(":")
    algorithm: Algorithm = getattr(import_module(module), name)(context)
    return algorithm


def own(context: Context) -> Algorithm:
    """Builds the algorithm of the user's own file. Raises ConfigError if it is none."""
    config = cast(OwnAlgorithm, context.config.algorithm)
    found = find(config.name, "algorithm")
    arguments = bind(found, config.arguments, "algorithm", config.name, ("context",))
    missing = [name for name in _METHODS if not hasattr(found, name)]
    if missing:
        raise ConfigError(
            f"algorithm = {config.name}: it has no {', '.join(missing)}; expected a class that follows "
            "ccarena.agents.algorithm.Algorithm"
        )
    algorithm: Algorithm = found(context=context, **arguments)
    if not hasattr(algorithm, "decisions"):
        raise ConfigError(f"algorithm = {config.name}: it has no `decisions`: how many it has learned from")
    return algorithm
