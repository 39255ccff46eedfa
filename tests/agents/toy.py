"""A vector environment with a known optimum and the interface of ccarena's own."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np

from ccarena.agents.algorithm import Context
from ccarena.configs import TrainConfig, load_config
from ccarena.policies.spec import spec_of

SPEC = spec_of(load_config("acct"))
ZONES = 4
ZONE = SPEC.signals["zone"]


class ToyEnvs(gym.vector.VectorEnv):
    """Four zones in a ring; only the actions of the next zone's quarter lead on, every other one back to the first.

    Completing the ring is worth 100, nothing else anything: the optimum is 25 per decision, and a learner needs to see
    four decisions ahead to find it. Uniform actions get about 0.4. Episodes are truncated, at 8 to 39 decisions.
    """

    OPTIMUM, RANDOM = 25.0, 0.5

    def __init__(self, worlds: int = 32) -> None:
        self.num_envs = worlds
        self.single_observation_space = gym.spaces.Box(0, np.inf, (SPEC.size,), np.float32)
        self.single_action_space = gym.spaces.Discrete(len(SPEC.actions))
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, worlds)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, worlds)
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self._rng = np.random.default_rng()
        self._zone = np.zeros(worlds, dtype=np.int64)
        self._left = np.zeros(worlds, dtype=np.int64)
        self._observation = np.zeros((worlds, SPEC.size), dtype=np.float32)
        self._reports = np.zeros((worlds, len(SPEC.report)), dtype=np.float32)
        self._values = np.array(SPEC.actions, dtype=np.float32)
        self._index = np.arange(worlds)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._zone[:] = 0
        self._left[:] = self._rng.integers(8, 40, self.num_envs)
        return self._observe(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._reports[:, SPEC.report.index("zone")] = self._zone
        self._reports[:, SPEC.report.index("alpha")] = self._values[actions]
        advance = actions // 4 == (self._zone + 1) % 4
        reward = np.where(advance & (self._zone == 3), np.float32(100), np.float32(0))
        self._zone[:] = np.where(advance, (self._zone + 1) % 4, 0)
        self._left -= 1
        truncated = self._left == 0
        infos: dict[str, Any] = {"reports": self._reports}
        observation = self._observe()
        if truncated.any():
            infos["final_obs"] = observation.copy()
            self._zone[truncated] = 0
            self._left[truncated] = self._rng.integers(8, 40, int(truncated.sum()))
            observation = self._observe()
        return observation, reward, np.zeros(self.num_envs, dtype=np.bool_), truncated, infos

    def _observe(self) -> np.ndarray:
        zone = self._observation[:, ZONE].reshape(self.num_envs, ZONES, -1)
        zone[:, :, -1] = 0
        zone[self._index, self._zone, -1] = 1
        self._observation[:, ZONE] = zone.reshape(self.num_envs, -1)
        return self._observation

    def get_state(self) -> bytes:
        state = {"zone": self._zone.tolist(), "left": self._left.tolist(), "rng": self._rng.bit_generator.state}
        return json.dumps(state).encode()

    def set_state(self, state: bytes) -> np.ndarray:
        fields = json.loads(state)
        self._zone[:], self._left[:] = fields["zone"], fields["left"]
        self._rng.bit_generator.state = fields["rng"]
        return self._observe()


def make_toy(rows: int, threads: int) -> ToyEnvs:
    """A `MakeEnvs`."""
    return ToyEnvs(rows)


def toy_context(config: TrainConfig) -> Context:
    """What an algorithm is built from, on the toy."""
    return Context(config, SPEC, make_toy)
