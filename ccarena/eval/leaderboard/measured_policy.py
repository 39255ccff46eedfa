"""One policy on one link with one seed, measured as the leaderboard measures everyone."""

from __future__ import annotations

from pathlib import Path

from ccarena.backends import SIM
from ccarena.eval.heldout.links import Sender
from ccarena.eval.leaderboard.cells import cell_of, scenario_digest
from ccarena.eval.leaderboard.entrants import END_TO_END, Entrant
from ccarena.eval.leaderboard.measure import Task, measure
from ccarena.eval.leaderboard.submission import Claim, where
from ccarena.policies import artifact
from ccarena.policies.record import scheme_of

__all__ = ["measure_policy"]


def measure_policy(policy: Path, claim: Claim) -> dict[str, float]:
    """The figures of the policy in a file where `claim` says. Raises PolicyError, ConfigError or ScenarioError."""
    ((place, seed),) = where([claim])
    trained = artifact.load(policy)
    sender = Sender("submitted", scheme_of(trained), str(policy), {"params": dict(trained.params)})
    entrant = Entrant("submitted", "policy", END_TO_END, "submitted", sender)
    cell = cell_of(place, entrant, None, seed, scenario_digest(place, seed), SIM)
    (measured,) = measure(Task(place, seed, (cell,)))
    return dict(measured.figures)
