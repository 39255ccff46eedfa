"""Stable-Baselines3 `VecEnv` from a Gymnasium vector environment, without one Python environment per world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena.errors import MissingDependencyError

try:
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn
except ImportError as error:
    raise MissingDependencyError.for_extra("stable-baselines3", "train", "training with Stable-Baselines3") from error


class Sb3VecEnv(VecEnv):
    """Wrapper of `envs`, which must reset worlds in the step that ends them, as ccarena's vector environments do.

    Rewards are multiplied by `reward_scale`, because SB3's defaults expect returns of about 1. In the infos, `episode`
    has the unscaled return, `interval_s` the length of the step in simulated time.
    """

    def __init__(self, envs: gym.vector.VectorEnv, reward_scale: float = 1.0) -> None:
        mode = envs.metadata.get("autoreset_mode")
        if mode != gym.vector.AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset mode is {mode}, expected {gym.vector.AutoresetMode.SAME_STEP}")
        self.envs = envs  # first, because VecEnv's constructor asks for attributes of worlds
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self._reward_scale = np.float32(reward_scale)
        self._actions: NDArray[Any] = np.empty(0)
        self._seed: int | None = None
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self.infos: dict[str, Any] = {}
        """The infos of the last step, as the vector environment returned them."""

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seeds all worlds at the next `reset`."""
        self._seed = seed
        return [seed] * self.num_envs

    def reset(self) -> VecEnvObs:
        """Returns first observations `[N, ...]` of new episodes in all worlds."""
        observation, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        self._returns[:] = 0
        self._lengths[:] = 0
        return np.array(observation)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Stores the actions; `step_wait` applies them."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Returns observations, rewards, dones and infos, which for ended worlds have `terminal_observation`."""
        observation, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        self.infos = infos
        dones = np.logical_or(terminated, truncated)
        self._returns += rewards
        self._lengths += 1
        lengths_s = infos.get("interval_s")
        each: list[dict[str, Any]] = (
            [{} for _ in range(self.num_envs)]
            if lengths_s is None
            else [{"interval_s": length_s} for length_s in lengths_s.tolist()]
        )
        for world in np.flatnonzero(dones):
            each[world] |= {
                "terminal_observation": np.array(infos["final_obs"][world]),
                "TimeLimit.truncated": bool(truncated[world] and not terminated[world]),
                "episode": {"r": float(self._returns[world]), "l": int(self._lengths[world])},
            }
        self._returns[dones] = 0
        self._lengths[dones] = 0
        # Copies: the native environment writes into the same arrays at every step, and SB3 keeps what it is given.
        return np.array(observation), np.asarray(rewards, dtype=np.float32) * self._reward_scale, dones, each

    def close(self) -> None:
        """Closes the worlds."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns the vector environment's attribute, which all worlds share."""
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Raises AttributeError: worlds have no attributes of their own."""
        raise AttributeError(f"worlds of a vector environment have no attribute of their own to set: {attr_name}")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Raises AttributeError: worlds have no methods of their own."""
        raise AttributeError(f"worlds of a vector environment have no methods of their own to call: {method_name}")

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Returns False for every world: worlds are native."""
        return [False for _ in self._get_indices(indices)]
