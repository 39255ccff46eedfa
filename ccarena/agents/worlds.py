"""Worlds of a training, also for processes that do not learn: this module imports no PyTorch."""

from __future__ import annotations

import functools

import gymnasium as gym

from ccarena.agents.algorithm import MakeEnvs
from ccarena.configs import TrainConfig
from ccarena.configs.link_distribution import with_link_files

__all__ = ["environments"]


def environments(config: TrainConfig) -> MakeEnvs:
    """Returns a maker of environments of the configured distribution, on a cluster if the algorithm steps them
    there.
    """
    made = functools.partial(_make_envs, config if config.executor == "local" else with_link_files(config))
    if config.executor == "local" or not config.algorithm.steps_together:
        return made
    from ccarena.agents.ray_envs import on_cluster

    return on_cluster(made, config)


def _make_envs(config: TrainConfig, rows: int, threads: int, privileged: bool = False) -> gym.vector.VectorEnv:
    from ccarena.envs import LearnedVectorEnv

    # Without copies: an algorithm puts what it keeps into its own buffers.
    late = config.algorithm.late_rewards
    return LearnedVectorEnv(config, rows, threads=threads, copy=False, privileged=privileged, late_rewards=late)
