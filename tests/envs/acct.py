"""ACCT's environments and layout for tests, from the shipped record alone."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from ccarena.acct.zones import Zone
from ccarena.configs import load_config
from ccarena.configs.schema import EnvConfig
from ccarena.envs import LearnedEnv, LearnedVectorEnv
from ccarena.envs.rewards import Reward
from ccarena.policies.spec import spec_of

RECORD = load_config("acct")
SPEC = spec_of(RECORD)
ACTIONS, REPORT_FIELDS, OBSERVATION_SIZE = SPEC.actions, SPEC.report, SPEC.size
REPORT = SimpleNamespace(**{name: column for column, name in enumerate(REPORT_FIELDS)})
SERIES = dict(zip(("throughput", "delay", "rtt", "zone", "window"), SPEC.signals.values(), strict=False))
SHORT = EnvConfig(episode_s=(0.3, 0.8))

rewards = Reward(RECORD.reward, SPEC)
AcctEnv = partial(LearnedEnv, "acct")
AcctVectorEnv = partial(LearnedVectorEnv, "acct")

__all__ = [
    "ACTIONS",
    "OBSERVATION_SIZE",
    "RECORD",
    "REPORT",
    "REPORT_FIELDS",
    "SERIES",
    "SHORT",
    "SPEC",
    "AcctEnv",
    "AcctVectorEnv",
    "Zone",
    "rewards",
]
