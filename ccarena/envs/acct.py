"""One ACCT flow on one simulated path, as a Gymnasium environment."""

from __future__ import annotations

from functools import partial
from typing import Any, SupportsInt

import gymnasium as gym

from ccarena.acct.rewards import RewardParams, rewards
from ccarena.acct.spec import ACTIONS, OBSERVATION_ID, OBSERVATION_SIZE, REPORT_FIELDS
from ccarena.configs.schema import AcctEnvConfig
from ccarena.envs.domain import documents
from ccarena.envs.interface import Interface
from ccarena.envs.single import WorldEnv


def acct_interface(reward: RewardParams | None = None) -> Interface:
    """How ACCT is learned, with `reward` as the parameters of the rewards."""
    return Interface(
        observation=OBSERVATION_ID,
        observation_size=OBSERVATION_SIZE,
        action_space=gym.spaces.Discrete(len(ACTIONS)),
        report_fields=REPORT_FIELDS,
        rewards=partial(rewards, params=reward or RewardParams()),
    )


class AcctEnv(WorldEnv[SupportsInt]):
    """ACCT's sender on packet-level TCP: once per window of data your action sets the aggressiveness α.

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
        super().__init__(acct_interface(reward), documents(config, scenario))
