"""Stable-Baselines3's TD3, SAC and PPO for schemes with continuous actions, with time in their discounts.

SB3 discounts by step. Where steps differ in length (`ccarena.hyvar.discounted`), rewards are converted where they leave
the worlds, and the discount of what follows goes into the replay or rollout buffer. With `discount: step` both are what
SB3 does by itself.

Departures: exploration is `_Explorer`'s. PPO completes the return of a
truncated episode by γ V, not γ^τ V (SB3 adds it before the buffer is asked).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena.configs.schema import Sb3Config, Sb3TrainConfig
from ccarena.envs.sb3 import Sb3VecEnv
from ccarena.errors import MissingDependencyError
from ccarena.hyvar.rewards import discounted
from ccarena.hyvar.spec import LAYOUTS
from ccarena.policies import contract

try:
    from stable_baselines3 import PPO, SAC, TD3
    from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
    from stable_baselines3.common.logger import Logger
    from torch import Tensor, nn
except ImportError as error:
    raise MissingDependencyError.for_extra("stable-baselines3", "train", "training with Stable-Baselines3") from error

from ccarena.policies.sb3 import NormalisedObservation

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.type_aliases import ReplayBufferSamples
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn


class TimedVecEnv(Sb3VecEnv):
    """Worlds whose rewards count by the length of their intervals; `discounts` `[N]` is what the future counts.

    `rewards` `[N]` are those of the last step as the environment gives them, but for the floor.
    """

    def __init__(self, envs: gym.vector.VectorEnv, config: Sb3Config) -> None:
        super().__init__(envs)
        self._config = config
        self.discounts = np.full(self.num_envs, config.gamma, np.float32)
        self.rewards = np.zeros(self.num_envs, np.float32)

    def step_wait(self) -> VecEnvStepReturn:
        """As `Sb3VecEnv.step_wait`, with `discount` in the infos."""
        observations, rewards, dones, infos = super().step_wait()
        floor = self._config.reward_floor
        self.rewards = rewards if floor is None else np.maximum(rewards, np.float32(floor))
        # Rewards of 1 for ever are then worth 1, whatever γ: values are averages.
        rewards = self.rewards * np.float32(self._config.reward_scale * (1.0 - self._config.gamma))
        if self._config.discount == "time":
            intervals_s = np.array([info["interval_s"] for info in infos])
            rewards, self.discounts = discounted(rewards, intervals_s, self._config.gamma, self._config.discount_unit_s)
        for info, discount in zip(infos, self.discounts.tolist(), strict=True):
            info["discount"] = discount
        return observations, rewards, dones, infos


class TimedReplayBuffer(ReplayBuffer):
    """A replay buffer that keeps each transition's discount; SB3 asks for it as it does for n-step returns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.discounts = np.zeros((self.buffer_size, self.n_envs), np.float32)

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Adds a transition per world; its infos come last."""
        infos = args[5] if len(args) > 5 else kwargs["infos"]
        self.discounts[self.pos] = [info["discount"] for info in infos]
        super().add(*args, **kwargs)

    def _get_samples(self, batch_inds: NDArray[np.int64], env: Any = None) -> ReplayBufferSamples:
        worlds = np.random.randint(0, self.n_envs, size=len(batch_inds))
        ended = self.dones[batch_inds, worlds] * (1 - self.timeouts[batch_inds, worlds])
        columns = (ended, self.rewards[batch_inds, worlds], self.discounts[batch_inds, worlds])
        dones, rewards, discounts = (self.to_torch(column.reshape(-1, 1)) for column in columns)
        rows = (self.observations, self.actions, self.next_observations)
        observations, actions, following = (self.to_torch(array[batch_inds, worlds]) for array in rows)
        from stable_baselines3.common.type_aliases import ReplayBufferSamples

        return ReplayBufferSamples(observations, actions, following, dones, rewards, discounts)


class TimedRolloutBuffer(RolloutBuffer):
    """A rollout buffer with a discount per step, which `discounts()` gives for the step that has just been taken."""

    def __init__(self, *args: Any, discounts: Callable[[], NDArray[np.float32]], **kwargs: Any) -> None:
        self._discounts_now = discounts
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """Empties it."""
        super().reset()
        self.discounts = np.zeros((self.buffer_size, self.n_envs), np.float32)

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Adds a step of every world."""
        self.discounts[self.pos] = self._discounts_now()
        super().add(*args, **kwargs)

    def compute_returns_and_advantage(self, last_values: Tensor, dones: NDArray[np.bool_]) -> None:
        """Generalised advantage estimation (Schulman et al. 2016) with a discount per step; λ is per step as ever."""
        following = last_values.clone().cpu().numpy().flatten()
        alive, advantage = 1.0 - dones.astype(np.float32), np.zeros(self.n_envs, np.float32)
        for step in reversed(range(self.buffer_size)):
            discount = self.discounts[step] * alive
            delta = self.rewards[step] + discount * following - self.values[step]
            advantage = delta + discount * self.gae_lambda * advantage
            self.advantages[step] = advantage
            following, alive = self.values[step], 1.0 - self.episode_starts[step]
        self.returns = self.advantages + self.values


class _Explorer:
    """Explores with noise of another strength in each world, from the first decision on.

    Strengths are spread evenly, in logarithm, from a tenth of the configured one to all of it (as in Ape-X, Horgan et
    al. 2018): some worlds stay near the policy, others show what is far from it, without which a policy at the edge of
    the action space would never see the inside. SB3 would begin with uniform actions, windows quartered and quadrupled
    at every turn.
    """

    noise = 0.0

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        model: Any = self
        chosen, _ = model.predict(model._last_obs, deterministic=False)
        strength = self.noise * np.logspace(-1.0, 0.0, n_envs)[:, None]
        noise = strength * np.random.standard_normal((n_envs, 1))
        scaled = np.clip(model.policy.scale_action(chosen) + noise, -1, 1).astype(np.float32)
        return model.policy.unscale_action(scaled), scaled


class ExploringTD3(_Explorer, TD3):
    """TD3 with noise of its own kind."""


class ExploringSAC(_Explorer, SAC):
    """SAC, whose policy explores by itself, without a random start."""


def build(config: Sb3TrainConfig, envs: gym.vector.VectorEnv) -> BaseAlgorithm:
    """The configured algorithm over `envs`, seeded, with networks as the artifact has them."""
    agent, layout = config.agent, LAYOUTS[config.env.scheme]
    worlds = TimedVecEnv(envs, agent)
    policy: dict[str, Any] = {
        "net_arch": list(config.network.hidden),
        "activation_fn": nn.ReLU,
        "features_extractor_class": NormalisedObservation,
        "features_extractor_kwargs": {"normalisation": contract.scheme(layout.id).normalisation},
    }
    common: dict[str, Any] = {
        "learning_rate": _falling(agent.learning_rate),
        "gamma": agent.gamma,
        "batch_size": agent.batch_size,
        "seed": config.seed,
        "device": config.device,
    }
    model: BaseAlgorithm
    if agent.algorithm == "ppo":
        model = PPO(
            "MlpPolicy",
            worlds,
            n_steps=agent.rollout_length,
            n_epochs=agent.epochs,
            gae_lambda=agent.gae_lambda,
            ent_coef=agent.entropy,
            rollout_buffer_class=TimedRolloutBuffer,
            rollout_buffer_kwargs={"discounts": lambda: worlds.discounts},
            policy_kwargs=policy,
            **common,
        )
    else:
        replay: dict[str, Any] = {
            "buffer_size": agent.buffer_size,
            "learning_starts": agent.learning_starts,
            "train_freq": 1,
            "gradient_steps": agent.gradient_steps,
            "replay_buffer_class": TimedReplayBuffer,
            "policy_kwargs": policy,
            **common,
        }
        if agent.algorithm == "td3":
            smoothing: dict[str, Any] = {
                "target_policy_noise": agent.target_noise,
                "target_noise_clip": 2.5 * agent.target_noise,
            }
            model = ExploringTD3("MlpPolicy", worlds, **replay, **smoothing)
            model.noise = agent.noise
        else:
            model = ExploringSAC("MlpPolicy", worlds, **replay)
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def _falling(rate: float) -> Callable[[float], float]:
    """A learning rate that falls linearly to a tenth."""
    return lambda left: rate * (0.1 + 0.9 * left)
