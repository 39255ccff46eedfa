"""One ACCT flow on one simulated path, as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena.acct.rewards import RewardParams
from ccarena.acct.spec import REPORT_FIELDS
from ccarena.configs.schema import AcctEnvConfig
from ccarena.envs.vector import AcctVectorEnv


class AcctEnv(gym.Env[NDArray[np.float32], np.int64]):
    """ACCT's sender on packet-level TCP: once per window of data the agent chooses the aggressiveness α.

    ## Action Space
    `Discrete(15)`: index into α ∈ {1, 2, 3, 4, 5, 10, 20, …, 100}; the window grows by α segments per round trip.

    ## Observation Space
    `Box(58,)`, float32, series oldest first: throughput (MB/s), queueing delay / budget, zone (one-hot: green, yellow,
    red, blue) and window / target window over the last 8 intervals; loss rate (packets/s); previous α.

    ## Rewards
    By zone (paper eqs. 5–7, `ccarena.acct.rewards`): about −∞ to 100; unscaled.

    ## Starting State
    A flow that has sent nothing: all zeros but the initial α.

    ## Episode End
    Truncated at the first decision after the episode's simulated time (`config.episode_s`, or the scenario's duration);
    a flow that stalls ends at most 1 s later. Never terminated: congestion control has no goal state.

    ## Arguments
    - `config`: distribution of links and competitors (`ccarena.configs.schema.AcctEnvConfig`).
    - `scenario`: a scenario document instead, with one flow of scheme `acct` that has no policy.
    - `reward`: parameters of the rewards.

    ## Version History
    - v0: first version.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        config: AcctEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        reward: RewardParams | None = None,
    ) -> None:
        self._vector = AcctVectorEnv(1, config=config, scenario=scenario, threads=1, reward=reward)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self._observation: NDArray[np.float32] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode: the first of the run seeded with `seed`, else the one after the last."""
        super().reset(seed=seed)
        if seed is not None or self._observation is None:
            observations, _ = self._vector.reset(seed=seed)
            self._observation = observations[0]
        return self._observation, {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Puts α in force and runs to the end of the next decision interval."""
        observations, reward, _, truncated, infos = self._vector.step(np.asarray([action]))
        self._observation = observations[0]
        report = dict(zip(REPORT_FIELDS, infos["reports"][0].tolist(), strict=True))
        over = bool(truncated[0])
        return infos["final_obs"][0] if over else self._observation, float(reward[0]), False, over, report
