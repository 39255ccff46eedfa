"""The worlds of a training, for processes that do not learn, too: nothing here takes PyTorch."""

from __future__ import annotations

import functools

import gymnasium as gym

from ccarena.agents.algorithm import MakeEnvs
from ccarena.configs import TrainConfig
from ccarena.configs.learning import RAY_WORKERS

__all__ = ["environments"]


def environments(config: TrainConfig) -> MakeEnvs:
    """The configured distribution, in as many rows as are asked for, on a cluster where the algorithm steps them."""
    made = functools.partial(_make_envs, config)
    if config.executor == "local" or config.algorithm.workers_key != RAY_WORKERS:
        return made
    from ccarena.agents.ray_envs import on_cluster

    return on_cluster(made, config)


def _make_envs(config: TrainConfig, rows: int, threads: int, privileged: bool = False) -> gym.vector.VectorEnv:
    from ccarena.envs import LearnedVectorEnv

    # Without copies: an algorithm puts what it keeps into its own buffers.
    late = config.algorithm.late_rewards
    return LearnedVectorEnv(config, rows, threads=threads, copy=False, privileged=privileged, late_rewards=late)
