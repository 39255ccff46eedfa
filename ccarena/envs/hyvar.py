"""Hyvar, Orca and Aurora on one simulated path each: Gymnasium environments, single and vectorised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena.configs.schema import AuroraEnvConfig, EnvConfig, HyvarEnvConfig, OrcaEnvConfig
from ccarena.envs.domain import documents
from ccarena.envs.interface import Interface
from ccarena.envs.single import WorldEnv
from ccarena.envs.vector import WorldsVectorEnv
from ccarena.hyvar.rewards import AuroraReward, HyvarReward
from ccarena.hyvar.spec import AURORA, HYBRID, Layout

Action = NDArray[np.float32]
Rewards = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def interface(layout: Layout, rewards: Rewards) -> Interface:
    """How a scheme of this `layout` is learned."""
    return Interface(
        observation=layout.id,
        observation_size=layout.observation_size,
        action_space=gym.spaces.Box(*layout.bounds, (1,), np.float32),
        report_fields=layout.report_fields,
        rewards=rewards,
    )


class HyvarEnv(WorldEnv[Action]):
    """CUBIC on packet-level TCP, whose window your action scales whenever Hyvar's state reasoner asks for one.

    ## Action Space
    `Box(-2, 2, (1,))`: a; the window becomes 2^a times what it is, and CUBIC goes on from there. The first action of an
    episode has no effect: none was due yet.

    ## Observation Space
    `Box(70,)`, float32: seven ratios (`ccarena.hyvar.spec.HYBRID`) of the last 10 monitoring periods, series by series,
    oldest first.

    ## Rewards
    ((thr − ε loss) / RTT) / (thr_max / RTT_min) since the last action (`ccarena.hyvar.HyvarReward`): a rate, at most
    about 1, whatever the length of the interval. `info["interval_s"]` has that length, `ccarena.hyvar.discounted` uses
    it.

    ## Starting State
    A flow that has sent nothing: all zeros.

    ## Episode End
    Truncated at the first decision after the episode's simulated time (`config.episode_s`, or the scenario's duration),
    and at most 1 s later: a learner that nobody asks has one decision per episode. Never terminated: congestion control
    has no goal state.

    ## Arguments
    - `config`: distribution of links and competitors (`ccarena.configs.schema.HyvarEnvConfig`).
    - `scenario`: a scenario document instead, with one flow of scheme `hyvar` that has no policy.
    - `reward`: parameters of the rewards.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        config: HyvarEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        reward: HyvarReward | None = None,
    ) -> None:
        super().__init__(
            interface(HYBRID, reward or HyvarReward()), documents(config, scenario, default=HyvarEnvConfig)
        )


class OrcaEnv(WorldEnv[Action]):
    """As `HyvarEnv`, but an action is due at the end of every period, and all periods have one length.

    ## Action Space
    As `HyvarEnv`.

    ## Observation Space
    As `HyvarEnv`.

    ## Rewards
    As `HyvarEnv`.

    ## Starting State
    As `HyvarEnv`.

    ## Episode End
    Truncated at the first decision after the episode's simulated time, and at most 1 s later. Never terminated.

    ## Arguments
    - `config`: distribution of links and competitors (`ccarena.configs.schema.OrcaEnvConfig`).
    - `scenario`: a scenario document instead, with one flow of scheme `orca` that has no policy.
    - `reward`: parameters of the rewards.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        config: OrcaEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        reward: HyvarReward | None = None,
    ) -> None:
        super().__init__(interface(HYBRID, reward or HyvarReward()), documents(config, scenario, default=OrcaEnvConfig))


class AuroraEnv(WorldEnv[Action]):
    """A rate on packet-level TCP that your action multiplies once per round trip.

    ## Action Space
    `Box(-10, 10, (1,))`: a; the rate becomes 1 + δa times what it is, or 1 / (1 − δa) times for a < 0. The first action
    of an episode has no effect: none was due yet.

    ## Observation Space
    `Box(30,)`, float32: latency gradient, latency ratio and sending ratio of the last 10 monitor intervals, oldest
    first (`ccarena.hyvar.spec.AURORA`).

    ## Rewards
    10 throughput − 1000 latency − 2000 loss (`ccarena.hyvar.AuroraReward`); unscaled.

    ## Starting State
    A flow that has sent nothing: all zeros.

    ## Episode End
    Truncated at the first decision after the episode's simulated time; a flow that stalls ends at most 1 s later. Never
    terminated.

    ## Arguments
    - `config`: distribution of links and competitors (`ccarena.configs.schema.AuroraEnvConfig`).
    - `scenario`: a scenario document instead, with one flow of scheme `aurora` that has no policy.
    - `reward`: parameters of the rewards.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        config: AuroraEnvConfig | None = None,
        scenario: dict[str, Any] | None = None,
        reward: AuroraReward | None = None,
    ) -> None:
        super().__init__(
            interface(AURORA, reward or AuroraReward()), documents(config, scenario, default=AuroraEnvConfig)
        )


class _VectorEnv(WorldsVectorEnv):
    """Many worlds; spaces, rewards and episodes are those of the single environment of the same name.

    Arguments:
        num_envs: number of worlds; `config.worlds` if None.
        config: distribution of links and competitors.
        scenario: a scenario document instead, in which exactly one flow has a learned scheme and no policy.
        seed: of the run; episodes follow from seed, world and episode number alone.
        threads: threads that simulate; results do not depend on it.
        reward: parameters of the rewards.
        copy: return fresh arrays from every step.
    """

    LAYOUT: Layout
    CONFIG: type[EnvConfig]
    REWARD: type[Any]

    def __init__(
        self,
        num_envs: int | None = None,
        config: Any = None,
        scenario: dict[str, Any] | None = None,
        seed: int = 0,
        threads: int = 2,
        reward: Rewards | None = None,
        copy: bool = True,
    ) -> None:
        worlds = (config or self.CONFIG()).worlds if num_envs is None else num_envs
        both = documents(config, scenario, default=self.CONFIG)
        super().__init__(interface(self.LAYOUT, reward or self.REWARD()), both, worlds, seed, threads, copy)


class HyvarVectorEnv(_VectorEnv):
    __doc__ = _VectorEnv.__doc__
    LAYOUT, CONFIG, REWARD = HYBRID, HyvarEnvConfig, HyvarReward


class OrcaVectorEnv(_VectorEnv):
    __doc__ = _VectorEnv.__doc__
    LAYOUT, CONFIG, REWARD = HYBRID, OrcaEnvConfig, HyvarReward


class AuroraVectorEnv(_VectorEnv):
    __doc__ = _VectorEnv.__doc__
    LAYOUT, CONFIG, REWARD = AURORA, AuroraEnvConfig, AuroraReward
