"""Asynchronous successive halving that a sweep can go on with (Li et al. 2020, arXiv:1810.05934).

Ray Tune keeps trials and searchers, but not what a scheduler has seen: after a resumption, a trial would be compared
with later ones alone. The trials' folders have all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ray.tune.schedulers import ASHAScheduler

from ccarena.tune.trial import Trials

__all__ = ["Asha"]


class Asha(ASHAScheduler):
    """By the mean score over `seeds` after validations 1, 3, 9, ...: the best third of each goes on."""

    def __init__(self, trials: Trials, seeds: Sequence[int], last: int) -> None:
        super().__init__(time_attr="validation", max_t=last, grace_period=1, reduction_factor=3)
        self._trials, self._seeds = trials, seeds

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Recalls what a trial of a resumed sweep has shown. What follows from it was decided then."""
        super().on_trial_add(tune_controller, trial)
        (bracket,) = self._brackets
        for number, rows in enumerate(self._trials.validations(trial.trial_id, self._seeds), start=1):
            bracket.on_result(trial, number, fmean(float(row["score"]) for row in rows))
