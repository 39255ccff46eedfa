"""Return that a policy's integer form costs: whole evaluation runs in float32 and in integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.envs.rewards import Reward, built_in
from ccarena.eval.heldout import links as held_out
from ccarena.executors import pool_of
from ccarena.policies import artifact
from ccarena.policies.spec import Spec
from ccarena.policies.trained_by import configuration_of
from ccarena.scenarios import backends
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import of_file

__all__ = ["LOST", "Returns", "returns"]

LOST = 0.01
"""Largest share of the return that the integer form may lose."""


@dataclass(frozen=True)
class Returns:
    """Returns of whole runs: the mean reward of a decision in each, and their mean over the runs."""

    scenarios: int
    float32: float
    integer: float

    @property
    def lost(self) -> float:
        """Returns the share of the return that integers lose; negative if they gain."""
        return (self.float32 - self.integer) / max(abs(self.float32), 1e-9)


def returns(
    policy: Path, link_sets: Sequence[str] | None = None, duration_s: float | None = None, threads: int = 2
) -> Returns | None:
    """Runs `policy` on the evaluation links of its configuration, or on `link_sets`, once in float32 and once in
    integers.

    Returns None if a run's reports do not give the reward: if it is the user's own, which an artifact does not contain,
    or takes privileged state. Raises PolicyError, ConfigError or TraceError.
    """
    trained = artifact.load(policy)
    config, spec = configuration_of(trained), Spec.of(_core.learned(trained.interface.spec))
    reward = Reward(config.reward, spec) if config.reward.name in built_in() else None
    if reward is None or reward.needs_privileged:
        return None
    own = of_file(policy)
    entrants = [own, own.deciding({"integer": own.policy})]
    links = held_out.build(list(link_sets or config.eval.link_sets or held_out.DEFAULT), 1, duration_s)

    def run(link: held_out.Link) -> list[float]:
        return [_return(backends.execute(held_out.scenario(link, entrant), SIM), reward) for entrant in entrants]

    with pool_of(threads) as pool:
        found = np.array(list(pool.map(run, links)))
    means = np.nanmean(found, axis=0)
    return Returns(len(links), float(means[0]), float(means[1]))


def _return(result: dict[str, Any], reward: Reward) -> float:
    """Returns the mean reward of a decision; NaN without decisions."""
    reports = np.asarray(result["flows"][0]["reports"], np.float32)
    return float(reward(reports).mean()) if len(reports) else float("nan")
