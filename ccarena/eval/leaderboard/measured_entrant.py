"""Measurement of one entrant on one link with one seed, as of every entrant of the leaderboard."""

from __future__ import annotations

from pathlib import Path

from ccarena.errors import ControllerError
from ccarena.eval.leaderboard.cells import cell_of, scenario_digest
from ccarena.eval.leaderboard.entrants import END_TO_END, Ranked
from ccarena.eval.leaderboard.measure import Task, measure
from ccarena.eval.leaderboard.submission import Claim, where
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import of_file

__all__ = ["measure_entrant"]


def measure_entrant(file: Path, claim: Claim) -> dict[str, float]:
    """Returns the figures of the policy or module in a file on the link of `claim`.

    Raises PolicyError, ConfigError or ScenarioError; and ControllerError if the module ends its flow.
    """
    ((place, seed),) = where([claim])
    entrant = Ranked("submitted", "policy", END_TO_END, "submitted", of_file(file))
    cell = cell_of(place, entrant, None, seed, scenario_digest(place, seed), SIM)
    (measured,) = measure(Task(place, seed, (cell,)))
    if measured.error:
        raise ControllerError(measured.error)
    return dict(measured.figures)
