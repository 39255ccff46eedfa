"""One policy on one link with one seed, measured as the leaderboard measures everyone."""

from __future__ import annotations

from pathlib import Path

from ccarena.eval.leaderboard.cells import cell_of, scenario_digest
from ccarena.eval.leaderboard.entrants import END_TO_END, Ranked
from ccarena.eval.leaderboard.measure import Task, measure
from ccarena.eval.leaderboard.submission import Claim, where
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import of_file

__all__ = ["measure_policy"]


def measure_policy(policy: Path, claim: Claim) -> dict[str, float]:
    """The figures of the policy in a file where `claim` says. Raises PolicyError, ConfigError or ScenarioError."""
    ((place, seed),) = where([claim])
    entrant = Ranked("submitted", "policy", END_TO_END, "submitted", of_file(policy))
    cell = cell_of(place, entrant, None, seed, scenario_digest(place, seed), SIM)
    (measured,) = measure(Task(place, seed, (cell,)))
    return dict(measured.figures)
