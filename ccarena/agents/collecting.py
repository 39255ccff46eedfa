"""Rollouts of workers that act by themselves: native if possible, else step by step.

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
from ccarena.agents.actor_critic import Actor, FloatArray
from ccarena.agents.algorithm import Context, Stats
from ccarena.agents.progress import ReportSums
from ccarena.envs.vector import LearnedVectorEnv
from ccarena.policies.artifact import Artifact
from ccarena.policies.spec import Spec

__all__ = ["Collector", "Sampler", "Steps", "collector", "seeds"]


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
    network: Actor,
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
        network: Actor,
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
        network: Actor,
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


def seeds(seed: int, worker: int, generation: int = 0) -> tuple[int, int]:
    """Returns the seeds of a worker's worlds and of its action sampling; `generation` counts the worker's restarts."""
    state = np.random.SeedSequence((seed, worker, generation)).generate_state(2, np.uint64)
    return int(state[0] >> np.uint64(1)), int(state[1])


class Sampler:
    """Rollouts of `steps` decisions in each row of `envs` with the current weights of `network`, and their statistics.

    `network` is on `device`, and its weights keep their place in memory.
    """

    def __init__(
        self,
        envs: gym.vector.VectorEnv,
        network: Actor,
        context: Context,
        device: torch.device,
        steps: int,
        env_seed: int,
        sampling_seed: int,
    ) -> None:
        self._envs = envs
        observation, _ = envs.reset(seed=env_seed)
        self._collector = collector(envs, network, context.spec, device, steps, np.asarray(observation))
        self._rng = np.random.Generator(np.random.PCG64(sampling_seed))
        self._sums = ReportSums(context.spec, context.config.progress)
        self._episode_return = np.zeros(envs.num_envs)
        self._episode_decisions = np.zeros(envs.num_envs)

    def collect(self) -> tuple[Steps, Stats]:
        """Collects one rollout, in buffers that the next one overwrites.

        Raises PolicyError if the network gives a number that is not finite.
        """
        steps = self._collector.collect(self._rng)
        stats = self._episodes(steps)
        if steps.reports is not None:
            stats |= self._sums(steps.reports.reshape(-1, steps.reports.shape[-1]))
        return steps, stats

    def _episodes(self, steps: Steps) -> Stats:
        """Returns statistics of the last rollout, and of the episodes that ended in it."""
        episodes = return_sum = length_sum = 0.0
        over = steps.terminated | steps.truncated
        for rewards, done in zip(steps.rewards, over, strict=True):
            self._episode_return += rewards
            self._episode_decisions += 1
            if done.any():
                (ended,) = np.nonzero(done)
                episodes += len(ended)
                return_sum += float(self._episode_return[ended].sum())
                length_sum += float(self._episode_decisions[ended].sum())
                self._episode_return[ended] = self._episode_decisions[ended] = 0
        return {
            "decisions": float(steps.rewards.size),
            "reward": float(steps.rewards.sum(dtype=np.float64)),
            "episodes": episodes,
            "return": return_sum,
            "episode_decisions": length_sum,
        }

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Returns everything that the next rollout depends on besides the weights, as arrays and as JSON."""
        arrays: dict[str, NDArray] = {
            "environment": np.frombuffer(self._envs.get_state(), dtype=np.uint8),  # type: ignore[attr-defined]
            "observation": np.array(self._collector.observation, dtype=np.float32),
            "episode_return": self._episode_return.copy(),
            "episode_decisions": self._episode_decisions.copy(),
        }
        return arrays, {"rng": self._rng.bit_generator.state}

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        self._envs.set_state(arrays["environment"].tobytes())  # type: ignore[attr-defined]
        self._collector.observation = arrays["observation"].copy()
        self._episode_return = arrays["episode_return"].copy()
        self._episode_decisions = arrays["episode_decisions"].copy()
        self._rng.bit_generator.state = rest["rng"]

    def close(self) -> None:
        """Closes the worlds."""
        self._envs.close()
