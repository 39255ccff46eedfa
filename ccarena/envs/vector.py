"""The native vector environment: N worlds stepped in Rust threads, observations written into preallocated arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ccarena import _core
from ccarena.acct.rewards import RewardParams
from ccarena.configs.schema import AcctEnvConfig
from ccarena.envs.acct import acct_interface
from ccarena.envs.domain import documents
from ccarena.envs.interface import Interface
from ccarena.errors import ConfigError


class WorldsVectorEnv(VectorEnv[NDArray[np.float32], ArrayLike, NDArray[Any]]):
    """Many native worlds with one learner each. Subclasses say which scheme it is, in words and in their `Interface`.

    A world whose episode is over starts the next one within the same step (`AutoresetMode.SAME_STEP`): the observation
    returned is the new episode's first, and `infos["final_obs"]` holds the old one's last in the rows where `truncated`
    is true. `infos["reports"]` holds the interval's report of every world, `float32[N, report]`, `infos["interval_s"]`
    its length, `float32[N]`. Without `copy`, arrays are reused at every step.
    """

    def __init__(
        self,
        interface: Interface,
        documents: tuple[str | None, str | None],
        num_envs: int,
        seed: int = 0,
        threads: int = 2,
        copy: bool = True,
    ) -> None:
        """`documents` is (domain, scenario) as `ccarena.envs.domain.documents` gives it."""
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.num_envs = num_envs
        if self.num_envs < 1:
            raise ConfigError(f"num_envs = {num_envs}: expected at least 1")
        self._worlds = _core.VecWorlds(*documents, worlds=self.num_envs, seed=seed, threads=threads)
        interface.check(self._worlds.observation)
        self.single_observation_space = interface.observation_space
        self.single_action_space = interface.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._interface = interface
        self._copy = copy
        n = self.num_envs
        self._observations = np.zeros((n, interface.observation_size), np.float32)
        self._final = np.zeros((n, interface.observation_size), np.float32)
        self._reports = np.zeros((n, len(interface.report_fields)), np.float32)
        self._truncated = np.zeros(n, np.bool_)
        self._terminated = np.zeros(n, np.bool_)

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
        given = self._interface.actions(actions, (self.num_envs,))
        self._worlds.step(given, self._observations, self._reports, self._truncated, self._final)
        reward = self._interface.rewards(self._reports)
        infos: dict[str, Any] = {
            "reports": self._out(self._reports),
            "interval_s": self._interface.intervals_s(self._reports),
        }
        if self._truncated.any():
            infos["final_obs"] = self._out(self._final)
            infos["_final_obs"] = self._truncated.copy()
        return self._out(self._observations), reward, self._terminated.copy(), self._truncated.copy(), infos

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


class AcctVectorEnv(WorldsVectorEnv):
    """Many worlds with one ACCT flow each; the environment of training.

    Spaces, rewards and episodes are those of `ccarena.envs.AcctEnv`; `infos["reports"]` has `len(REPORT_FIELDS)`
    columns.

    Arguments:
        num_envs: number of worlds; `config.worlds` if None.
        config: distribution of links and competitors; the defaults of `AcctEnvConfig` if None.
        scenario: a scenario document instead, in which exactly one flow has a learned scheme and no policy.
        seed: of the run; episodes follow from seed, world and episode number alone.
        threads: threads that simulate; results do not depend on it.
        reward: parameters of the rewards.
        copy: return fresh arrays from every step.
    """

    def __init__(
        self,
        num_envs: int | None = None,
        config: AcctEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        seed: int = 0,
        threads: int = 2,
        reward: RewardParams | None = None,
        copy: bool = True,
    ) -> None:
        worlds = (config or AcctEnvConfig()).worlds if num_envs is None else num_envs
        super().__init__(acct_interface(reward), documents(config, scenario), worlds, seed, threads, copy)
