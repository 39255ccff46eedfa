"""Algorithms by name: A3C, evolution, any class of Stable-Baselines3 or sb3-contrib, or the user's own."""

from __future__ import annotations

from ccarena.agents.algorithm import Algorithm, Context
from ccarena.configs.schema import A3CConfig, EvolutionConfig, OwnAlgorithm
from ccarena.configs.userfile import bind, find
from ccarena.errors import ConfigError

__all__ = ["build"]

_METHODS = ("learn", "state", "restore", "policy", "close")


def build(context: Context) -> Algorithm:
    """The configured algorithm, seeded. Raises ConfigError for a name or an argument that there is not."""
    config = context.config.algorithm
    if isinstance(config, A3CConfig):
        from ccarena.agents.a3c_algorithm import A3C

        return A3C(context)
    if isinstance(config, EvolutionConfig):
        from ccarena.agents.evolution import Evolution

        return Evolution(context)
    if isinstance(config, OwnAlgorithm):
        return _own(context, config)
    from ccarena.agents.sb3 import Sb3

    return Sb3(context)


def _own(context: Context, config: OwnAlgorithm) -> Algorithm:
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
