"""The range of observations that a trained policy sees on its training links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.configs.schema import TrainConfig
from ccarena.envs.vector import LearnedVectorEnv
from ccarena.policies.artifact import Artifact

__all__ = ["observed_range"]

FLOWS, DECISIONS = 64, 256
"""Number of recorded flows, and decisions of each; an episode that ends is followed by one on another link."""
_MARK = 0x53454E
"""Offset that separates this seed from those of trainings and validations."""


def observed_range(config: TrainConfig, policy: Artifact) -> dict[str, list[float]]:
    """Returns the range of each entry of the observations, least (`low`) and greatest (`high`) raw value.

    Runs `policy` on links drawn as in its training. The same policy and configuration give the same range, on any
    number of threads.
    """
    played = config.model_copy(update={"params": dict(policy.params)})
    flows = -(-FLOWS // played.env.learners) * played.env.learners
    envs = LearnedVectorEnv(played, flows, threads=config.threads, copy=False)
    seed = int(np.random.SeedSequence([_MARK, config.seed]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    observations, _ = envs.reset(seed=seed)
    seen = _natively if policy.interface.bounds is None and not policy.graph.state_len else _step_by_step
    low, high = seen(envs, policy, observations)
    envs.close()
    return {"low": _shortest(low), "high": _shortest(high)}


Range = tuple[NDArray[np.float32], NDArray[np.float32]]


def _natively(envs: LearnedVectorEnv, policy: Artifact, _: NDArray[np.float32]) -> Range:
    """Returns the range of a native rollout, which takes the discrete action of the largest logit as the policy
    does.
    """
    noise = np.zeros((DECISIONS, envs.num_envs, envs.scheme.outputs), np.float32)
    seen = envs.rollout(_core.Policy.of(policy.encode()), noise).observations
    return seen.min(axis=(0, 1)), seen.max(axis=(0, 1))


def _step_by_step(envs: LearnedVectorEnv, policy: Artifact, observations: NDArray[np.float32]) -> Range:
    """Returns the range for any policy, stepped from Python."""
    state = np.zeros((envs.num_envs, policy.graph.state_len), np.float32) if policy.graph.state_len else None
    low, high = observations.min(axis=0), observations.max(axis=0)
    for _ in range(DECISIONS):
        actions = policy.act(observations, state)
        observations, *_ = envs.step(actions if policy.interface.bounds is None else actions.reshape(len(actions), -1))
        low, high = np.minimum(low, observations.min(axis=0)), np.maximum(high, observations.max(axis=0))
    return low, high


def _shortest(values: NDArray[np.float32]) -> list[float]:
    """Returns the shortest decimal numbers that are equal in float32."""
    return [float(str(value)) for value in values]
