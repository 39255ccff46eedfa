"""One ACCT flow on one simulated path, as a Gymnasium environment."""

from __future__ import annotations

from typing import Any, SupportsInt

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.acct.rewards import RewardParams, rewards
from ccarena.acct.spec import ACTIONS, OBSERVATION_SIZE, REPORT_FIELDS
from ccarena.configs.schema import AcctEnvConfig
from ccarena.envs.actions import as_actions
from ccarena.envs.domain import documents
from ccarena.errors import ScenarioError


class AcctEnv(gym.Env[NDArray[np.float32], SupportsInt]):
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

    def __init__(
        self,
        config: AcctEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        reward: RewardParams | None = None,
    ) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self._reward = reward or RewardParams()
        self._documents = documents(config, scenario)
        self._start(seed=0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode: the first of the run seeded with `seed`, else the one after the last."""
        super().reset(seed=seed)
        if seed is not None:
            self._start(seed)
        self._world.reset(self._episode)
        self._episode += 1
        return self._world.observe(0), {}

    def step(self, action: SupportsInt) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Puts α in force and runs to the end of the next decision interval; the info is its report, by name.

        Raises:
            ActionError: the action is not an index; nothing has moved.
        """
        (report,), over = self._world.step(as_actions(action, ()).reshape(1))
        info = dict(zip(REPORT_FIELDS, report[0].tolist(), strict=True))
        return self._world.observe(0), float(rewards(report, self._reward)[0]), False, over, info

    def _start(self, seed: int) -> None:
        """A run from its first episode."""
        self._world = _core.SharedWorld(*self._documents, seed=seed)
        self._episode = 0
        if self._world.learners != 1:
            raise ScenarioError(
                f"the scenario has {self._world.learners} flows whose scheme is learned and has no policy; expected "
                "exactly one (ccarena.envs.multi.AcctParallelEnv takes several)"
            )
