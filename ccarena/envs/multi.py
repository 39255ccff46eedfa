"""Several learned flows on one bottleneck, as a PettingZoo parallel environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from ccarena import _core
from ccarena.configs.named import Scheme
from ccarena.envs.learned import Distribution, RewardLike, Setting
from ccarena.errors import ActionError, ConfigError


class LearnedParallelEnv(ParallelEnv[str, NDArray[np.float32], Any], EzPickle):
    """Learners that share a bottleneck; spaces and rewards are those of `ccarena.envs.LearnedEnv`.

    If decision intervals are round trips, learners decide at different times. A step puts all actions in force and ends
    when each learner has finished at least one interval; a learner that finishes more keeps its action. The reward is
    the mean over the finished intervals, and `infos[agent]["reports"]` has a row for each, `float32[k, columns]`.
    Privileged state, for rewards that take it, is measured over the whole step, the same for each of its intervals.

    Arguments:
        spec: the scheme: the name of a shipped configuration, a YAML file (a configuration, or a spec alone), or a
            mapping.
        learners: number of them, if the links are drawn; the configuration's `env.learners` if None.
        distribution: keys of the training distribution that differ from the configuration's, or another `EnvConfig`.
        scenario: a scenario document instead; its learned flows without a policy are the learners.
        reward: another reward than the configuration's: a name, a mapping with coefficients, or a callable.
    """

    def __init__(
        self,
        spec: Scheme | None = None,
        learners: int | None = None,
        distribution: Distribution | None = None,
        scenario: Mapping[str, Any] | None = None,
        reward: RewardLike | None = None,
    ) -> None:
        EzPickle.__init__(
            self, spec=spec, learners=learners, distribution=distribution, scenario=scenario, reward=reward
        )
        if learners is not None and learners < 1:
            raise ConfigError(f"learners = {learners}: expected at least 1")
        self._setting = Setting.of(spec, distribution, scenario, reward, learners=learners)
        self.metadata = {"render_modes": [], "name": f"ccarena_{self._setting.spec.name}_parallel_v0"}
        self._world = _core.SharedWorld(*self._setting.sources, seed=0)
        self._setting.spec.check(self._world.spec)
        self._episode = 0
        self.possible_agents = [f"learner{i}" for i in range(self._world.learners)]
        self.agents: list[str] = []
        self.render_mode = None

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """Returns the observation space, the same for every learner."""
        return self._setting.spec.observation_space

    def action_space(self, agent: str) -> gym.Space[Any]:
        """Returns the action space, the same for every learner."""
        return self._setting.spec.action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """Starts an episode: the first one of the run seeded with `seed`, or the next one."""
        if seed is not None:
            self._world = _core.SharedWorld(*self._setting.sources, seed=seed)
            self._episode = 0
        self._world.reset(self._episode)
        self._episode += 1
        self.agents = list(self.possible_agents)
        return self._observe(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, NDArray[np.float32]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Puts all actions in force and runs until each learner has finished an interval.

        Raises:
            ActionError: an action is missing or not in its space, or the episode is over; nothing has moved.
        """
        if not self.agents:
            raise ActionError("no episode is going on; call reset() to start one")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ActionError(f"no action for {', '.join(missing)}; every learner needs one in each step")
        spec, reward = self._setting.spec, self._setting.reward
        shape = () if spec.actions else (spec.numbers,)
        given = np.concatenate([spec.given(np.reshape(actions[agent], shape), ()) for agent in self.agents])
        reports, privileged_rows, over = self._world.step(given)
        agents = self.agents
        means = {
            agent: float(reward(rows, np.broadcast_to(privileged, (len(rows), len(privileged)))).mean())
            for agent, rows, privileged in zip(agents, reports, privileged_rows, strict=True)
        }
        infos = {agent: {"reports": rows, "columns": spec.report} for agent, rows in zip(agents, reports, strict=True)}
        observations = self._observe()
        if over:
            self.agents = []
        return observations, means, dict.fromkeys(agents, False), dict.fromkeys(agents, over), infos

    def _observe(self) -> dict[str, NDArray[np.float32]]:
        return {agent: np.asarray(self._world.observe(i)) for i, agent in enumerate(self.possible_agents)}

    def render(self) -> None:
        """Does nothing, since there is nothing to draw."""

    def close(self) -> None:
        """Does nothing, since there is nothing to release."""
