"""Several ACCT flows on one bottleneck, as a PettingZoo parallel environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from ccarena import _core
from ccarena.acct.rewards import RewardParams, rewards
from ccarena.acct.spec import ACTIONS, OBSERVATION_SIZE, REPORT_FIELDS
from ccarena.configs.schema import AcctEnvConfig
from ccarena.envs.acct import acct_interface
from ccarena.envs.actions import as_actions
from ccarena.envs.domain import documents
from ccarena.errors import ActionError, ConfigError


class AcctParallelEnv(ParallelEnv[str, NDArray[np.float32], np.int64]):
    """Learners share a bottleneck; spaces and rewards are those of `ccarena.envs.AcctEnv`.

    Decision intervals are round trips, so learners decide at different times. A step puts everybody's action in force
    and ends when each has finished at least one interval; who finishes more keeps its action. The reward is the mean
    over the intervals finished, and `infos[agent]["reports"]` has a row for each, `float32[k, len(REPORT_FIELDS)]`.

    Arguments:
        learners: number of them, if the links are drawn from `config`.
        config: distribution of links and competitors.
        scenario: a scenario document instead; its learned flows without a policy are the learners.
        reward: parameters of the rewards.
    """

    def __init__(
        self,
        learners: int = 2,
        config: AcctEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        reward: RewardParams | None = None,
    ) -> None:
        if learners < 1:
            raise ConfigError(f"learners = {learners}: expected at least 1")
        self.metadata = {"render_modes": [], "name": "ccarena_acct_parallel_v0"}
        self._documents = documents(config, scenario, learners)
        self._world = _core.SharedWorld(*self._documents, seed=0)
        acct_interface().check(self._world.observation)
        self._reward = reward or RewardParams()
        self._episode = 0
        self.possible_agents = [f"learner{i}" for i in range(self._world.learners)]
        self.agents: list[str] = []
        self.render_mode = None
        self._observation_space = gym.spaces.Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)
        self._action_space = gym.spaces.Discrete(len(ACTIONS))

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """The same for every learner."""
        return self._observation_space

    def action_space(self, agent: str) -> gym.Space[Any]:
        """The same for every learner."""
        return self._action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """Starts an episode: the first of the run seeded with `seed`, else the next one."""
        if seed is not None:
            self._world = _core.SharedWorld(*self._documents, seed=seed)
            self._episode = 0
        self._world.reset(self._episode)
        self._episode += 1
        self.agents = list(self.possible_agents)
        return self._observe(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, np.int64]
    ) -> tuple[
        dict[str, NDArray[np.float32]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Puts everybody's α in force and runs until each has finished an interval.

        Raises:
            ActionError: an action is missing or not an index, or the episode is over; nothing has moved.
        """
        if not self.agents:
            raise ActionError("no episode is going on; call reset() to start one")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ActionError(f"no action for {', '.join(missing)}; every learner needs one in each step")
        given = as_actions([actions[agent] for agent in self.agents], (len(self.agents),))
        rows, _, over = self._world.step(given)
        agents = self.agents
        reports = dict(zip(agents, rows, strict=True))
        means = {agent: float(rewards(rows, self._reward).mean()) for agent, rows in reports.items()}
        infos = {agent: {"reports": rows, "columns": REPORT_FIELDS} for agent, rows in reports.items()}
        observations = self._observe()
        if over:
            self.agents = []
        return observations, means, dict.fromkeys(agents, False), dict.fromkeys(agents, over), infos

    def _observe(self) -> dict[str, NDArray[np.float32]]:
        return {agent: np.asarray(self._world.observe(i)) for i, agent in enumerate(self.possible_agents)}

    def render(self) -> None:
        """There is nothing to draw."""

    def close(self) -> None:
        """There is nothing to release."""
