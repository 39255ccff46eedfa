"""Adaptations of Stable-Baselines3 to steps of different lengths: worlds, buffers, and an exploration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor

from ccarena.agents.semi_markov import discounted
from ccarena.configs.schema import Sb3Config
from ccarena.envs.sb3 import Sb3VecEnv

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn


class TimedVecEnv(Sb3VecEnv):
    """Worlds whose rewards are weighted by the length of their intervals; `discounts` `[N]` are the weights of the
    future.

    `rewards` `[N]` are the environment's own rewards of the last step, after the floor. `groups` `[N]` is the value of
    the reports' column `balance` when the next step's actions were requested; 0 in a new episode. `seen` and `raised`
    count all rewards, and those that the floor replaced.
    """

    def __init__(self, envs: gym.vector.VectorEnv, config: Sb3Config, balance: int | None = None) -> None:
        super().__init__(envs)
        self._config, self._balance = config, balance
        self.groups = np.zeros(self.num_envs, np.uint8)
        self.discounts = np.full(self.num_envs, config.gamma, np.float32)
        self.rewards = np.zeros(self.num_envs, np.float32)
        self.seen = self.raised = 0

    def step_wait(self) -> VecEnvStepReturn:
        """Returns the result of `Sb3VecEnv.step_wait`, with `discount` in the infos."""
        observations, rewards, dones, infos = super().step_wait()
        floor = self._config.reward_floor
        self.rewards = rewards if floor is None else np.maximum(rewards, np.float32(floor))
        self.seen += len(rewards)
        self.raised += np.count_nonzero(self.rewards > rewards)
        # A constant reward of 1 then has the value 1 for any γ: values are averages.
        rewards = self.rewards * np.float32(self._config.reward_scale * (1.0 - self._config.gamma))
        if self._config.discount == "time":
            gamma, unit_s = self._config.gamma, self._config.discount_unit_s
            rewards, self.discounts = discounted(rewards, self.infos["interval_s"], gamma, unit_s)
        for info, discount in zip(infos, self.discounts.tolist(), strict=True):
            info["discount"] = discount
        if self._balance is not None:
            for info, group in zip(infos, self.groups.tolist(), strict=True):
                info["group"] = group
            self.groups = np.where(dones, 0, self.infos["reports"][:, self._balance]).astype(np.uint8)
        return observations, rewards, dones, infos


class TimedReplayBuffer(ReplayBuffer):
    """Replay buffer that stores each transition's discount; SB3 reads it as it does for n-step returns."""

    KEPT: ClassVar[dict[str, type[np.generic]]] = {"discount": np.float32}
    """Stored entries of a transition's infos, each in an attribute of that name."""
    discount: NDArray[np.float32]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, dtype in self.KEPT.items():
            setattr(self, name, np.zeros((self.buffer_size, self.n_envs), dtype))

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Adds a transition per world; its infos come last."""
        infos = args[5] if len(args) > 5 else kwargs["infos"]
        for name in self.KEPT:
            getattr(self, name)[self.pos] = [info[name] for info in infos]
        super().add(*args, **kwargs)

    def _get_samples(self, batch_inds: NDArray[np.int64], env: Any = None) -> ReplayBufferSamples:
        batch_inds, worlds = self._draw(batch_inds)
        ended = self.dones[batch_inds, worlds] * (1 - self.timeouts[batch_inds, worlds])
        columns = (ended, self.rewards[batch_inds, worlds], self.discount[batch_inds, worlds])
        dones, rewards, discounts = (self.to_torch(column.reshape(-1, 1)) for column in columns)
        rows = (self.observations, self.actions, self.next_observations)
        observations, actions, following = (self.to_torch(array[batch_inds, worlds]) for array in rows)
        return ReplayBufferSamples(observations, actions, following, dones, rewards, discounts)

    def _draw(self, batch_inds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns steps and worlds of a batch's transitions, for which SB3 has drawn the steps `batch_inds`."""
        return batch_inds, np.random.randint(0, self.n_envs, size=len(batch_inds))


class BalancedReplayBuffer(TimedReplayBuffer):
    """Replay buffer that draws each group's transitions as if all groups were equally frequent.

    A batch is drawn among `CANDIDATES` times as many transitions, so a group that is rarer than that comes less often.
    """

    CANDIDATES = 16
    KEPT: ClassVar[dict[str, type[np.generic]]] = {**TimedReplayBuffer.KEPT, "group": np.uint8}
    group: NDArray[np.uint8]

    def _draw(self, batch_inds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        filled, wanted = self.buffer_size if self.full else self.pos, len(batch_inds)
        steps = np.random.randint(0, filled, size=wanted * self.CANDIDATES)
        worlds = np.random.randint(0, self.n_envs, size=len(steps))
        groups = self.group[steps, worlds]
        share = 1.0 / np.bincount(groups)[groups]
        chosen = np.random.choice(len(steps), size=wanted, p=share / share.sum())
        return steps[chosen], worlds[chosen]


class TimedRolloutBuffer(RolloutBuffer):
    """Rollout buffer with a discount per step; `discounts` has those of the last step."""

    def __init__(self, *args: Any, discounts: TimedVecEnv, **kwargs: Any) -> None:
        self._worlds = discounts
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """Empties the buffer."""
        super().reset()
        self.discounts = np.zeros((self.buffer_size, self.n_envs), np.float32)

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Adds a step of every world."""
        self.discounts[self.pos] = self._worlds.discounts
        super().add(*args, **kwargs)

    def compute_returns_and_advantage(self, last_values: Tensor, dones: NDArray[np.bool_]) -> None:
        """Computes generalised advantage estimates (Schulman et al. 2016) with a discount per step; λ stays per
        step.
        """
        following = last_values.clone().cpu().numpy().flatten()
        alive, advantage = 1.0 - dones.astype(np.float32), np.zeros(self.n_envs, np.float32)
        for step in reversed(range(self.buffer_size)):
            discount = self.discounts[step] * alive
            delta = self.rewards[step] + discount * following - self.values[step]
            advantage = delta + discount * self.gae_lambda * advantage
            self.advantages[step] = advantage
            following, alive = self.values[step], 1.0 - self.episode_starts[step]
        self.returns = self.advantages + self.values


class Explorer:
    """Exploration with noise of a different strength in each world, from the first decision on.

    Strengths are spread evenly, in logarithm, from a tenth of the configured one to all of it (as in Ape-X, Horgan et
    al. 2018). Some worlds stay near the policy, others explore far from it; otherwise a policy at the edge of the
    action space would never see the inside. SB3 would begin with uniform actions, which quarter and quadruple windows
    at every decision.
    """

    noise = 0.0
    """Standard deviation in the boldest world, actions from -1 to 1."""

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        model: Any = self
        chosen, _ = model.predict(model._last_obs, deterministic=False)
        strength = self.noise * np.logspace(-1.0, 0.0, n_envs)[:, None]
        noise = strength * np.random.standard_normal((n_envs, 1))
        scaled = np.clip(model.policy.scale_action(chosen) + noise, -1, 1).astype(np.float32)
        return model.policy.unscale_action(scaled), scaled
