"""Native vector environment: N worlds stepped in Rust threads, observations written into preallocated arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.configs.named import Scheme
from ccarena.envs.learned import Distribution, RewardLike, Setting
from ccarena.errors import ActionError, CheckpointError, ConfigError
from ccarena.policies.spec import Spec


@dataclass(frozen=True)
class Seen:
    """Results of T decisions in each of N rows."""

    observations: NDArray[np.float32]
    """Observations of the decisions, `[T, N, size]`."""
    drawn: NDArray[np.float32]
    """Drawn actions `[T, N]`: indices of discrete actions, continuous ones before they are squashed into their
    bounds.
    """
    reports: NDArray[np.float32]
    """Reports, `[T, N, report]`."""
    truncated: NDArray[np.bool_]
    """Flags of truncated episodes, `[T, N]`."""
    final_observations: NDArray[np.float32]
    """Last observations of finished episodes where `truncated`, `[T, N, size]`; undefined elsewhere."""
    privileged: NDArray[np.float32] | None
    """`[T, N, privileged]`, if the reward takes it or it was asked for."""
    following: NDArray[np.float32]
    """Observations after the last decision, `[N, size]`."""


class LearnedVectorEnv(VectorEnv[NDArray[np.float32], ArrayLike, NDArray[Any]], EzPickle):
    """Many worlds of a learned scheme; the environment of training.

    Spaces, rewards and episodes are those of `ccarena.envs.LearnedEnv`. A world with several learners
    (`distribution.learners`) has a row for each: row i is learner i % learners of world i // learners, and all end
    together.

    By default a world whose episode is over starts the next one within the same step (`AutoresetMode.SAME_STEP`): the
    observation returned is the new episode's first, and `infos["final_obs"]` holds the old one's last in the rows where
    `truncated` is true. With `AutoresetMode.NEXT_STEP`, which Gymnasium's vector wrappers of observations and RLlib
    expect, the observation returned is the old episode's last. The next step ignores the row's action and returns the
    new episode's first observation with a reward of 0 and a report of zeros.

    `infos["reports"]` holds the interval's report of every row, `float32[N, report]`, `infos["interval_s"]`
    its length, `float32[N]`, and `infos["privileged"]` what only the simulator knows, `float32[N, privileged]`, if the
    reward takes it or `privileged` asks for it. Without `copy`, arrays are reused at every step.

    Arguments:
        spec: the scheme: the name of a shipped configuration, a YAML file (a configuration, or a spec alone), or a
            mapping.
        num_envs: number of rows; the configuration's worlds times learners if None.
        distribution: keys of the training distribution that differ from the configuration's, or another `EnvConfig`.
        scenario: a scenario document instead, in which exactly one flow has a learned scheme and no policy.
        seed: of the run; episodes follow from seed, world and episode number alone.
        threads: threads that simulate; results do not depend on it.
        reward: another reward than the configuration's: a name, a mapping with coefficients, or a callable.
        copy: return fresh arrays from every step.
        privileged: put the simulator's privileged state into the infos.
        late_rewards: `step` answers zeros, and `rewards_of` the rewards of many steps at once, which takes less time.
        autoreset_mode: when the next episode starts: `AutoresetMode.SAME_STEP` (default) or `NEXT_STEP`, or its name.
        max_episode_steps: most steps of an episode; None leaves the end to the simulated time.

    A pickled environment is made anew from its arguments, at the start of its first episode.
    """

    def __init__(
        self,
        spec: Scheme | None = None,
        num_envs: int | None = None,
        distribution: Distribution | None = None,
        scenario: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int = 2,
        reward: RewardLike | None = None,
        copy: bool = True,
        privileged: bool = False,
        late_rewards: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        max_episode_steps: int | None = None,
    ) -> None:
        EzPickle.__init__(
            self,
            spec=spec,
            num_envs=num_envs,
            distribution=distribution,
            scenario=scenario,
            seed=seed,
            threads=threads,
            reward=reward,
            copy=copy,
            privileged=privileged,
            late_rewards=late_rewards,
            autoreset_mode=autoreset_mode,
            max_episode_steps=max_episode_steps,
        )
        setting = Setting.of(spec, distribution, scenario, reward)
        env = setting.config.env
        self.learners = 1 if scenario is not None else env.learners
        self.num_envs = env.worlds * self.learners if num_envs is None else num_envs
        if self.num_envs < 1:
            raise ConfigError(f"num_envs = {num_envs}: expected at least 1")
        if self.num_envs % self.learners:
            raise ConfigError(f"num_envs = {num_envs}: expected a multiple of the {self.learners} learners of a world")
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ConfigError(f"max_episode_steps = {max_episode_steps}: expected at least 1")
        self.metadata = {"render_modes": [], "autoreset_mode": _mode(autoreset_mode)}
        worlds = self.num_envs // self.learners
        self._worlds = _core.VecWorlds(
            *setting.sources, worlds=worlds, seed=seed, threads=threads, learners=self.learners
        )
        setting.spec.check(self._worlds.spec)
        if max_episode_steps is not None:
            self._worlds.limit_episodes(max_episode_steps)
        self.single_observation_space = setting.spec.observation_space
        self.single_action_space = setting.spec.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._setting, self._copy = setting, copy
        n, size = self.num_envs, setting.spec.size
        self._observations = np.zeros((n, size), np.float32)
        self._final = np.zeros((n, size), np.float32)
        self._reports = np.zeros((n, len(setting.spec.report)), np.float32)
        self._terminated = np.zeros(n, np.bool_)
        needed = privileged or setting.reward.needs_privileged
        self._privileged = np.zeros((n, len(setting.spec.privileged)), np.float32) if needed else None
        self.late_rewards = late_rewards
        # Rows whose next step shows the first observation of an episode that has begun (NEXT_STEP alone).
        self._held = np.zeros(n, np.bool_) if self._mode_is(AutoresetMode.NEXT_STEP) else None

    def _mode_is(self, mode: AutoresetMode) -> bool:
        return bool(self.metadata["autoreset_mode"] == mode)

    @property
    def scheme(self) -> Spec:
        """Returns the spec of the scheme."""
        return self._setting.spec

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts every world anew from its first episode; `seed` replaces the run's seed."""
        if isinstance(seed, list):
            raise ConfigError("one seed for all worlds is expected: each world's own follows from it")
        super().reset(seed=seed)
        self._worlds.reset(self._observations, seed)
        if self._held is not None:
            self._held[:] = False
        return self._out(self._observations), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Steps every world to its next decision. `actions`: `[N]` indices, or continuous actions `[N, numbers]`.

        Raises:
            ActionError: an action is not a number or not in the action space; no world has moved.
        """
        n, held, reward = self.num_envs, self._held, self._setting.reward
        given = self._setting.spec.given(actions, (n,))
        native = None if self.late_rewards else reward.native
        rewards, intervals_s = np.zeros(n, np.float32), np.empty(n, np.float32)
        observations, reports, truncated = (
            self._fresh(self._observations),
            self._fresh(self._reports),
            np.empty(n, bool),
        )
        before = None if held is None or native is not None else held.copy()
        ended, finite = self._worlds.step(
            given,
            observations,
            reports,
            intervals_s,
            truncated,
            self._final,
            None if native is None else rewards,
            native,
            self._privileged,
            held,
        )
        if not finite:
            reward.check(rewards, reports)
        if native is None and not self.late_rewards:
            moved = slice(None) if before is None else ~before
            rewards[moved] = reward(reports[moved], None if self._privileged is None else self._privileged[moved])
        infos: dict[str, Any] = {"reports": reports, "interval_s": intervals_s}
        if self._privileged is not None:
            infos["privileged"] = self._out(self._privileged)
        if ended and held is None:
            infos["final_obs"], infos["_final_obs"] = self._out(self._final), truncated.copy()
        return observations, rewards, self._terminated.copy(), truncated, infos

    def rollout(self, policy: _core.Policy, noise: NDArray[np.float32], spread: ArrayLike = ()) -> Seen:
        """Lets `policy` make T decisions in every row, without Python in between; `noise` is `[T, N, outputs]`.

        Of discrete actions, the one with the largest sum of logit and noise is taken. Each number of a continuous one
        is y, the output plus the noise times its `spread`, squashed into its bounds:
        low + (high - low) (1 + tanh y) / 2. Episodes follow one another as in `step`.

        Raises:
            ActionError: the noise has another shape.
            ConfigError: the environment's `autoreset_mode` is NEXT_STEP, which rollouts do not support.
            PolicyError: the policy is for another spec, or gives a number that is not finite.
        """
        spec, n, learners = self._setting.spec, self.num_envs, self.learners
        steps = len(noise)
        if self._held is not None:
            raise ConfigError("a rollout takes autoreset_mode SAME_STEP; this environment was made with NEXT_STEP")
        if noise.shape != (steps, n, spec.outputs):
            raise ActionError(f"noise of shape {noise.shape}; expected (T, {n}, {spec.outputs})")
        worlds = n // learners

        def fresh(*shape: int, dtype: type[np.generic] = np.float32) -> NDArray[Any]:
            return np.empty((worlds, steps, learners, *shape), dtype)

        def by_step(array: NDArray[Any]) -> NDArray[Any]:
            return array.swapaxes(0, 1).reshape(steps, n, *array.shape[3:])

        observations, finals = fresh(spec.size), fresh(spec.size)
        drawn = fresh() if spec.numbers == 1 else fresh(spec.numbers)
        reports, truncated = fresh(len(spec.report)), fresh(dtype=np.bool_)
        privileged = None if self._privileged is None else fresh(len(spec.privileged))
        given = noise.reshape(steps, worlds, learners, spec.outputs).swapaxes(0, 1)
        self._worlds.rollout(
            policy,
            np.ascontiguousarray(given, np.float32),
            np.asarray(spread, np.float32),
            observations,
            drawn,
            reports,
            truncated,
            finals,
            self._observations,
            privileged,
        )
        return Seen(
            by_step(observations),
            by_step(drawn),
            by_step(reports),
            by_step(truncated),
            by_step(finals),
            None if privileged is None else by_step(privileged),
            self._observations.copy(),
        )

    def rewards_of(
        self, reports: NDArray[np.float32], privileged: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Rewards `[...]` of steps from their reports, `[..., report]`, and the simulator's privileged state,
        `[..., privileged]`, which may be None if the reward does not take it."""
        told = None if privileged is None else privileged.reshape(-1, privileged.shape[-1])
        return self._setting.reward(reports.reshape(-1, reports.shape[-1]), told).reshape(reports.shape[:-1])

    def get_state(self) -> bytes:
        """Returns everything that `set_state` needs to continue: each world's episode and its actions so far."""
        state = bytes(self._worlds.state())
        if self._held is None:
            return state
        return self._held.tobytes() + self._final[self._held].tobytes() + state

    def set_state(self, state: bytes) -> NDArray[np.float32]:
        """Restores the result of `get_state` by replaying it; returns the observations.

        Raises:
            CheckpointError: the state is not one of as many worlds.
        """
        if self._held is None:
            self._worlds.restore(state, self._observations)
            return self._out(self._observations)
        n = self.num_envs
        if len(state) < n:
            raise CheckpointError("saved environment state: truncated")
        held = np.frombuffer(state[:n], np.bool_)
        rest = n + int(held.sum()) * self._final.itemsize * self._final.shape[1]
        if len(state) < rest:
            raise CheckpointError("saved environment state: truncated")
        self._worlds.restore(state[rest:], self._observations)
        self._held[:] = held
        self._final[held] = np.frombuffer(state[n:rest], np.float32).reshape(-1, self._final.shape[1])
        # Rows on hold show the last observations of their finished episode.
        self._observations[held] = self._final[held]
        return self._out(self._observations)

    @property
    def data_packets(self) -> int:
        """Returns the packets delivered so far in the current episodes, over all worlds."""
        return int(self._worlds.data_packets().sum())

    def _fresh(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns an array like `array` to be filled: it itself if arrays are reused."""
        return np.empty(array.shape, np.float32) if self._copy else array

    def _out(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        return array.copy() if self._copy else array


def _mode(given: AutoresetMode | str) -> AutoresetMode:
    """Returns the mode with this name or value. Raises ConfigError."""
    modes = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)
    for mode in modes:
        if given in (mode, mode.name, mode.value):
            return mode
    raise ConfigError(f"autoreset_mode = {given!r}: expected {' or '.join(mode.name for mode in modes)}")
