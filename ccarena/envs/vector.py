"""The native vector environment: N worlds stepped in Rust threads, observations written into preallocated arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.configs.record import Scheme
from ccarena.envs.learned import Distribution, RewardLike, Setting
from ccarena.envs.spec import Spec
from ccarena.errors import ActionError, ConfigError


@dataclass(frozen=True)
class Seen:
    """What became of T decisions in each of N rows."""

    observations: NDArray[np.float32]
    """What they were made on, `[T, N, size]`."""
    drawn: NDArray[np.float32]
    """`[T, N]`: indices of discrete actions, continuous ones before they are squashed into their bounds."""
    reports: NDArray[np.float32]
    """`[T, N, report]`."""
    truncated: NDArray[np.bool_]
    """`[T, N]`."""
    final_observations: NDArray[np.float32]
    """`[T, N, size]`: last ones of finished episodes where `truncated`, nothing elsewhere."""
    truth: NDArray[np.float32] | None
    """`[T, N, truth]`, if the reward takes it or it was asked for."""
    following: NDArray[np.float32]
    """`[N, size]`: the observations after the last decision."""


class LearnedVectorEnv(VectorEnv[NDArray[np.float32], ArrayLike, NDArray[Any]]):
    """Many worlds of a learned scheme; the environment of training.

    Spaces, rewards and episodes are those of `ccarena.envs.LearnedEnv`. A world with several learners
    (`config.learners`) has a row for each: row i is learner i % learners of world i // learners, and all end together.

    A world whose episode is over starts the next one within the same step (`AutoresetMode.SAME_STEP`): the observation
    returned is the new episode's first, and `infos["final_obs"]` holds the old one's last in the rows where `truncated`
    is true. `infos["reports"]` holds the interval's report of every row, `float32[N, report]`, `infos["interval_s"]`
    its length, `float32[N]`, and `infos["truth"]` what only the simulator knows, `float32[N, truth]`, if the reward
    takes it or `privileged` asks for it. Without `copy`, arrays are reused at every step.

    Arguments:
        spec: the scheme: the name of a shipped record, a YAML file (a record, or a document alone), or a mapping.
        num_envs: number of rows; the record's worlds times learners if None.
        config: keys of the training distribution that differ from the record's, or another `EnvConfig`.
        scenario: a scenario document instead, in which exactly one flow has a learned scheme and no policy.
        seed: of the run; episodes follow from seed, world and episode number alone.
        threads: threads that simulate; results do not depend on it.
        reward: another reward than the record's: a name, a mapping with coefficients, or a callable.
        copy: return fresh arrays from every step.
        privileged: put the simulator's truth into the infos.
        late_rewards: `step` answers zeros, and `rewards_of` the rewards of many steps at once, which takes less time.
    """

    def __init__(
        self,
        spec: Scheme,
        num_envs: int | None = None,
        config: Distribution | None = None,
        scenario: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int = 2,
        reward: RewardLike | None = None,
        copy: bool = True,
        privileged: bool = False,
        late_rewards: bool = False,
    ) -> None:
        setting = Setting.of(spec, config, scenario, reward)
        env = setting.record.env
        self.learners = 1 if scenario is not None else env.learners
        self.num_envs = env.worlds * self.learners if num_envs is None else num_envs
        if self.num_envs < 1:
            raise ConfigError(f"num_envs = {num_envs}: expected at least 1")
        if self.num_envs % self.learners:
            raise ConfigError(f"num_envs = {num_envs}: expected a multiple of the {self.learners} learners of a world")
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        worlds = self.num_envs // self.learners
        self._worlds = _core.VecWorlds(
            *setting.sources, worlds=worlds, seed=seed, threads=threads, learners=self.learners
        )
        setting.spec.check(self._worlds.spec)
        self.single_observation_space = setting.spec.observation_space
        self.single_action_space = setting.spec.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._setting, self._copy = setting, copy
        n, size = self.num_envs, setting.spec.size
        self._observations = np.zeros((n, size), np.float32)
        self._final = np.zeros((n, size), np.float32)
        self._reports = np.zeros((n, len(setting.spec.report)), np.float32)
        self._truncated = np.zeros(n, np.bool_)
        self._terminated = np.zeros(n, np.bool_)
        needed = privileged or setting.reward.needs_truth
        self._truth = np.zeros((n, len(setting.spec.truth)), np.float32) if needed else None
        self.late_rewards = late_rewards

    @property
    def scheme(self) -> Spec:
        """What the scheme sees, reports and takes."""
        return self._setting.spec

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts every world anew from its first episode; `seed` replaces the run's."""
        if isinstance(seed, list):
            raise ConfigError("one seed for all worlds is expected: each world's own follows from it")
        super().reset(seed=seed)
        self._worlds.reset(self._observations, seed)
        return self._out(self._observations), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Every world to its next decision. `actions`: `[N]` indices or, where they are continuous, `[N, 1]`.

        Raises:
            ActionError: an action is not a number or not in the action space; no world has moved.
        """
        spec = self._setting.spec
        given = spec.given(actions, (self.num_envs,))
        self._worlds.step(given, self._observations, self._reports, self._truncated, self._final, self._truth)
        reward = (
            np.zeros(self.num_envs, np.float32)
            if self.late_rewards
            else self._setting.reward(self._reports, self._truth)
        )
        infos: dict[str, Any] = {"reports": self._out(self._reports), "interval_s": spec.intervals_s(self._reports)}
        if self._truth is not None:
            infos["truth"] = self._out(self._truth)
        if self._truncated.any():
            infos["final_obs"] = self._out(self._final)
            infos["_final_obs"] = self._truncated.copy()
        return self._out(self._observations), reward, self._terminated.copy(), self._truncated.copy(), infos

    def rollout(self, policy: _core.Policy, noise: NDArray[np.float32], spread: float = 1.0) -> Seen:
        """Lets `policy` make T decisions in every row, with nobody in between; `noise` is `[T, N, outputs]`.

        Of discrete actions the one with the largest sum of logit and noise is taken. A continuous one is y, the output
        plus the noise times `spread`, squashed into its bounds: low + (high - low) (1 + tanh y) / 2. Episodes
        follow one another as in `step`.

        Raises:
            ActionError: the noise has another shape.
            PolicyError: the policy is of another document, or gives a number that is not finite.
        """
        spec, n, learners = self._setting.spec, self.num_envs, self.learners
        steps = len(noise)
        if noise.shape != (steps, n, spec.outputs):
            raise ActionError(f"noise of shape {noise.shape}; expected (T, {n}, {spec.outputs})")
        worlds = n // learners

        def fresh(*shape: int, dtype: type[np.generic] = np.float32) -> NDArray[Any]:
            return np.empty((worlds, steps, learners, *shape), dtype)

        def by_step(array: NDArray[Any]) -> NDArray[Any]:
            return array.swapaxes(0, 1).reshape(steps, n, *array.shape[3:])

        observations, finals = fresh(spec.size), fresh(spec.size)
        drawn, reports, truncated = fresh(), fresh(len(spec.report)), fresh(dtype=np.bool_)
        truth = None if self._truth is None else fresh(len(spec.truth))
        given = noise.reshape(steps, worlds, learners, spec.outputs).swapaxes(0, 1)
        self._worlds.rollout(
            policy,
            np.ascontiguousarray(given, np.float32),
            spread,
            observations,
            drawn,
            reports,
            truncated,
            finals,
            self._observations,
            truth,
        )
        return Seen(
            by_step(observations),
            by_step(drawn),
            by_step(reports),
            by_step(truncated),
            by_step(finals),
            None if truth is None else by_step(truth),
            self._observations.copy(),
        )

    def rewards_of(self, reports: NDArray[np.float32], truth: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Rewards `[...]` of steps from what they reported, `[..., report]`, and the simulator's truth, `[..., truth]`,
        which may be None where the reward does not look at it."""
        told = None if truth is None else truth.reshape(-1, truth.shape[-1])
        return self._setting.reward(reports.reshape(-1, reports.shape[-1]), told).reshape(reports.shape[:-1])

    def get_state(self) -> bytes:
        """Everything that `set_state` needs to continue from here: each world's episode and its actions so far."""
        return bytes(self._worlds.state())

    def set_state(self, state: bytes) -> NDArray[np.float32]:
        """Restores `get_state`'s result by replaying it; returns the observations.

        Raises:
            CheckpointError: the state is not one of as many worlds.
        """
        self._worlds.restore(state, self._observations)
        return self._out(self._observations)

    @property
    def data_packets(self) -> int:
        """Packets delivered so far in the current episodes, over all worlds."""
        return int(self._worlds.data_packets().sum())

    def _out(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        return array.copy() if self._copy else array
