"""Environments of learned schemes in the simulator: their shared parts, and the single environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.configs.load import load_config, merge
from ccarena.configs.named import Scheme, configuration_of
from ccarena.configs.schema import EnvConfig, RewardConfig, TrainConfig
from ccarena.envs.render import FPS, MODES, Scope
from ccarena.envs.rewards import Reward
from ccarena.envs.sources import sources
from ccarena.errors import ConfigError, ScenarioError
from ccarena.policies.spec import Spec, spec_of

__all__ = ["Distribution", "LearnedEnv", "RewardLike", "Setting"]

Distribution = EnvConfig | Mapping[str, Any]
"""Link distribution of training, or the keys of one that differ from the configuration's."""
RewardLike = str | Mapping[str, Any] | RewardConfig | Callable[..., ArrayLike]
"""Name of a reward (with its coefficients in a mapping), or a callable (`ccarena.envs.rewards`)."""


@dataclass(frozen=True)
class Setting:
    """Settings that an environment of a learned scheme is made from."""

    config: TrainConfig
    spec: Spec
    reward: Reward
    sources: tuple[str | None, str | None]
    """Link distribution and scenario for `ccarena._core`, one of them None."""

    @classmethod
    def of(
        cls,
        scheme: Scheme | None,
        distribution: Distribution | None = None,
        scenario: Mapping[str, Any] | None = None,
        reward: RewardLike | None = None,
        learners: int | None = None,
    ) -> Setting:
        """Builds the settings from an environment's arguments. Raises ConfigError, ScenarioError or TraceError."""
        if scheme is None:
            raise ConfigError(
                "an environment without a learned scheme: give spec=..., the name of a shipped configuration (such as "
                '"acct"), a YAML file, or a mapping; for example gymnasium.make("ccarena/Learned-v0", spec="acct")'
            )
        if distribution is not None and scenario is not None:
            raise ConfigError("an environment takes a distribution or a scenario, not both")
        config = configuration_of(scheme)
        changes: dict[str, Any] = {}
        if isinstance(distribution, EnvConfig):
            changes["env"] = distribution.model_dump(mode="json")
        elif distribution is not None:
            changes["env"] = merge(config.env.model_dump(mode="json"), distribution)
        if learners is not None:
            changes["env"] = {**changes.get("env", config.env.model_dump(mode="json")), "learners": learners}
        if isinstance(reward, RewardConfig):
            changes["reward"] = reward.model_dump(mode="json")
        elif isinstance(reward, (str, Mapping)):
            changes["reward"] = reward
        if changes:
            # Checked in a configuration of their own: an environment does not depend on how A3C divides worlds among
            # workers.
            checked = load_config({"spec": config.spec, "algorithm": "PPO", **changes})
            config = config.model_copy(update={key: getattr(checked, key) for key in changes})
        spec = spec_of(config)
        given = reward if callable(reward) else config.reward
        return cls(config, spec, Reward(given, spec), sources(config, scenario))


class LearnedEnv(gym.Env[NDArray[np.float32], SupportsFloat], EzPickle):
    """Learned flow on one simulated path, of any scheme that is a spec.

    ## Description
    Each episode draws a link, a buffer and competitors. The caller decides for one flow; the scheme's spec says
    when, what it observes and what an action does.

    ## Action Space
    The spec's: `Discrete`, an index into its actions, or `Box` of shape (1,) between its bounds. The action is in
    force until the next decision.

    ## Observation Space
    `Box`, float32, with the finite bounds of the spec's signals; `ccarena.policies.spec.spec_of` names its entries.

    ## Rewards
    The configuration's reward (docs/environment.md), unscaled.

    ## Starting State
    A flow that has sent nothing.

    ## Episode End
    Truncated at the first decision after the episode's simulated time (`distribution.episode_s`, or the scenario's
    duration), and at most 1 s later. Never terminated: congestion control has no goal state.

    ## Info
    The report by name, and `interval_s`, the length of the interval.

    ## Arguments
    - `spec`: the scheme: the name of a shipped configuration, a YAML file (a configuration, or a spec alone), or a
      mapping.
    - `distribution`: keys of the training distribution that differ from the configuration's, or another `EnvConfig`.
    - `scenario`: a scenario document instead, with one flow of this scheme that has no policy.
    - `reward`: another reward than the configuration's: a name, a mapping with coefficients, or a callable.
    - `render_mode`: with `rgb_array`, `render()` returns a picture of the episode so far: rate, capacity and queueing
      delay over time. `human` shows it in a window at every step. Both need matplotlib (extra `render`).

    A pickled environment is made anew from its arguments, at the start of its first episode.

    ## Version History
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": list(MODES), "render_fps": FPS}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(
        self,
        spec: Scheme | None = None,
        distribution: Distribution | None = None,
        scenario: Mapping[str, Any] | None = None,
        reward: RewardLike | None = None,
        render_mode: str | None = None,
    ) -> None:
        EzPickle.__init__(
            self, spec=spec, distribution=distribution, scenario=scenario, reward=reward, render_mode=render_mode
        )
        self._setting = Setting.of(spec, distribution, scenario, reward, learners=None if scenario is not None else 1)
        # Gymnasium types spaces by one type of action and observation, for boxes and discrete ones alike.
        self.observation_space = self._setting.spec.observation_space  # type: ignore[assignment]
        self.action_space = self._setting.spec.action_space
        self.render_mode = render_mode
        own = self._setting.spec
        self._scope = None if render_mode is None else Scope(render_mode, own.privileged, own.name)
        self._start(seed=0)

    @property
    def scheme(self) -> Spec:
        """Returns the spec of the scheme."""
        return self._setting.spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode: the first of the run seeded with `seed`, else the one after the last."""
        super().reset(seed=seed)
        if seed is not None:
            self._start(seed)
        self._world.reset(self._episode)
        self._episode += 1
        if self._scope is not None:
            self._scope.clear()
        return self._world.observe(0), {}

    def step(self, action: SupportsFloat) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Puts `action` in force and runs to the next decision.

        Raises:
            ActionError: the action is not in the action space; nothing has moved.
        """
        spec = self._setting.spec
        (report,), privileged, over = self._world.step(spec.given(action, ()).reshape(1))
        info = dict(zip(spec.report, report[0].tolist(), strict=True))
        info["interval_s"] = info["interval_ms"] / 1e3
        if self._scope is not None:
            self._scope.add(privileged[0])
            if self._scope.mode == "human":
                self._scope.draw()
        return self._world.observe(0), float(self._setting.reward(report, privileged)[0]), False, over, info

    def render(self) -> NDArray[np.uint8] | None:
        """Returns the episode so far as `uint8[480, 720, 3]`; None in `human` mode, which draws at every step.

        Raises:
            ConfigError: the environment was made without a `render_mode`.
        """
        if self._scope is None:
            raise ConfigError('this environment draws nothing; make it with render_mode="rgb_array" or "human"')
        return self._scope.draw()

    def close(self) -> None:
        """Closes the window of `human` mode."""
        if self._scope is not None:
            self._scope.close()

    def _start(self, seed: int) -> None:
        """Starts a run from its first episode."""
        self._world = _core.SharedWorld(*self._setting.sources, seed=seed)
        self._episode = 0
        self._setting.spec.check(self._world.spec)
        if self._world.learners != 1:
            raise ScenarioError(
                f"the scenario has {self._world.learners} flows whose scheme is learned and has no policy; expected "
                "exactly one (ccarena.envs.multi.LearnedParallelEnv takes several)"
            )
