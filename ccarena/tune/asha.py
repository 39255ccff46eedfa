"""Asynchronous successive halving for sweeps that can be resumed (Li et al. 2020, arXiv:1810.05934).

Ray Tune stores trials and searchers, but not the scores that a scheduler has seen. After a resumption, a trial would be
compared with later ones alone. The scheduler therefore reads the scores from the trials' folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ray.tune.schedulers import ASHAScheduler

from ccarena.tune.halving import REDUCTION
from ccarena.tune.trial import Trials

__all__ = ["Asha"]


class Asha(ASHAScheduler):
    """Scheduler that compares mean scores over `seeds` after validations 1, 3, 9, ...; the best third of each
    continues.
    """

    def __init__(self, trials: Trials, seeds: Sequence[int], last: int) -> None:
        super().__init__(time_attr="validation", max_t=last, grace_period=1, reduction_factor=REDUCTION)
        self._trials, self._seeds = trials, seeds

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Reads the scores of a resumed trial; decisions that follow from them were made before."""
        super().on_trial_add(tune_controller, trial)
        (bracket,) = self._brackets
        for number, rows in enumerate(self._trials.validations(trial.trial_id, self._seeds), start=1):
            bracket.on_result(trial, number, fmean(float(row["score"]) for row in rows))
