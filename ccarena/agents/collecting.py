"""Rollouts of A3C's workers: native if possible, else step by step.

Evaluating the network for a few dozen worlds at a time, with the bookkeeping, takes as long as the simulator. In a
native rollout each world makes all its decisions by itself (`LearnedVectorEnv.rollout`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from ccarena import _core
from ccarena.agents.acting import acting, live
from ccarena.agents.actor_critic import ActorCritic, FloatArray
from ccarena.envs.vector import LearnedVectorEnv
from ccarena.policies.artifact import Artifact
from ccarena.policies.spec import Spec

__all__ = ["Collector", "Steps", "collector"]


@dataclass
class Steps:
    """Steps of a rollout: T decisions in each of N worlds."""

    observations: FloatArray
    """Observations `[T, N, size]`."""
    actions: NDArray[Any]
    """Drawn actions, `[T, N, ...]`."""
    rewards: FloatArray
    """Rewards `[T, N]`."""
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    reports: FloatArray | None
    """Reports `[T, N, report]`, if the environment has them."""
    finals: list[tuple[int, NDArray[np.intp], FloatArray]]
    """Observations in which episodes were truncated, as (step, worlds, `[k, size]`)."""
    following: FloatArray
    """Observations after the last decision, `[N, size]`."""


class Collector(Protocol):
    """Collector that makes decisions with the current weights of its network."""

    observation: FloatArray
    """Observations of the next decisions, `[N, size]`."""

    def collect(self, rng: np.random.Generator) -> Steps:
        """Collects a rollout, in arrays that the next one may overwrite."""


def collector(
    envs: gym.vector.VectorEnv,
    network: ActorCritic,
    spec: Spec,
    device: torch.device,
    steps: int,
    observation: FloatArray,
) -> Collector:
    """Returns a collector of rollouts of `steps` decisions in `envs`, which have just been reset and show
    `observation`.

    The collector is native for worlds of ccarena on the CPU, if the network's graph has no computed constants.
    """
    if isinstance(envs, LearnedVectorEnv) and envs.late_rewards:
        graph = live(network.actor, spec.size) if device.type == "cpu" else None
        if graph is not None:
            policy = _core.Policy.of(Artifact(spec.interface, graph).encode())
            return Native(envs, network, policy, dict(graph.tensors), steps, observation)
    return StepByStep(envs, network, spec, acting(network, spec, device), steps, observation)


class Native:
    """Collector of whole rollouts in the simulator's own threads."""

    def __init__(
        self,
        envs: LearnedVectorEnv,
        network: ActorCritic,
        policy: _core.Policy,
        weights: dict[str, FloatArray],
        steps: int,
        observation: FloatArray,
    ) -> None:
        self._envs, self._actions, self._policy, self._weights = envs, network.actions, policy, weights
        self._steps = steps
        self.observation = np.array(observation, dtype=np.float32)

    def collect(self, rng: np.random.Generator) -> Steps:
        """Collects a rollout."""
        actions, envs = self._actions, self._envs
        noise = actions.noise(rng, (self._steps, envs.num_envs))
        seen = envs.rollout(self._policy.with_weights(self._weights), noise, actions.spread)
        self.observation = seen.following
        cut = [(t, np.flatnonzero(row)) for t, row in enumerate(seen.truncated) if row.any()]
        drawn = seen.drawn.reshape(*seen.truncated.shape, *actions.shape)
        return Steps(
            seen.observations,
            drawn.astype(actions.dtype),
            envs.rewards_of(seen.reports, seen.privileged),
            np.zeros_like(seen.truncated),
            seen.truncated,
            seen.reports,
            [(t, worlds, seen.final_observations[t, worlds]) for t, worlds in cut],
            seen.following,
        )


class StepByStep:
    """Collector that steps all worlds together, for any environment and device."""

    def __init__(
        self,
        envs: gym.vector.VectorEnv,
        network: ActorCritic,
        spec: Spec,
        act: Callable[[FloatArray], FloatArray],
        steps: int,
        observation: FloatArray,
    ) -> None:
        self._envs, self._act, self._distribution = envs, act, network.actions
        # Worlds of ccarena leave the rewards of a rollout to one call for all of its decisions.
        self._rewards_of = envs.rewards_of if isinstance(envs, LearnedVectorEnv) and envs.late_rewards else None
        worlds, actions = envs.num_envs, self._distribution
        self._observations = np.empty((steps, worlds, spec.size), dtype=np.float32)
        self._actions = np.empty((steps, worlds, *actions.shape), dtype=actions.dtype)
        self._rewards = np.empty((steps, worlds), dtype=np.float32)
        self._terminated = np.empty((steps, worlds), dtype=np.bool_)
        self._truncated = np.empty((steps, worlds), dtype=np.bool_)
        self._reports = np.empty((steps, worlds, len(spec.report)), dtype=np.float32)
        self._privileged = np.empty((steps, worlds, len(spec.privileged)), dtype=np.float32)
        self.observation = observation

    def collect(self, rng: np.random.Generator) -> Steps:
        """Collects a rollout."""
        finals: list[tuple[int, NDArray[np.intp], FloatArray]] = []
        has_reports = False
        distribution = self._distribution
        noise = distribution.noise(rng, self._rewards.shape)
        # Between two steps the simulator has taken the caches: what can wait until after the last one does.
        for t in range(len(self._actions)):
            self._observations[t] = self.observation
            distribution.sample(self._act(self._observations[t]), noise[t], self._actions[t])
            given = distribution.given(self._actions[t])
            self.observation, self._rewards[t], terminated, truncated, infos = self._envs.step(given)
            self._terminated[t], self._truncated[t] = terminated, truncated
            if (report := infos.get("reports")) is not None:
                self._reports[t] = report
                has_reports = True
            if (privileged := infos.get("privileged")) is not None:
                self._privileged[t] = privileged
            if "final_obs" in infos:
                (cut,) = np.nonzero(self._truncated[t] & ~self._terminated[t])
                if len(cut):
                    finals.append((t, cut, np.stack([infos["final_obs"][world] for world in cut])))
        if self._rewards_of is not None:
            self._rewards[:] = self._rewards_of(self._reports, self._privileged)
        return Steps(
            self._observations,
            self._actions,
            self._rewards,
            self._terminated,
            self._truncated,
            self._reports if has_reports else None,
            finals,
            np.array(self.observation, dtype=np.float32),
        )
