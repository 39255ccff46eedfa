"""Scheduler of a population on Ray Tune: members wait for each other at every validation, and are then compared.

Ray Tune's own scheduler keeps scores and copies in memory, and loses them with the sweep. This one pauses members and
leaves comparisons and copies to `ccarena.tune.population`, whose file says how far a sweep has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from ccarena.runs.remote_folder import remote_at
from ccarena.tune import population
from ccarena.tune.copying import complete
from ccarena.tune.space import Space
from ccarena.tune.trial import Trials

__all__ = ["Population"]


class Population(FIFOScheduler):
    """Scheduler of `members` trials, each with all `seeds`, which are compared before validation `last`."""

    def __init__(self, trials: Trials, seeds: Sequence[int], space: Space, members: int, last: int) -> None:
        super().__init__()
        self._trials, self._seeds, self._space = trials, list(seeds), space
        self._members, self._last = members, last
        self._scores: dict[str, tuple[int, float]] = {}

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Pauses a member until all have reached its validation."""
        if result["validation"] < self._last:
            self._scores[trial.trial_id] = result["validation"], float(result["score"])
            tune_controller.pause_trial(trial, should_checkpoint=False)
            return str(TrialScheduler.NOOP)
        return str(TrialScheduler.CONTINUE)

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Returns the next member that does not wait for others. Compares the members when all of them wait."""
        trials = tune_controller.get_trials()
        self._compare(trials)
        for status in (Trial.PENDING, Trial.PAUSED):
            for trial in trials:
                if trial.status == status and trial.trial_id not in self._scores:
                    return trial
        return None

    def _compare(self, trials: Sequence[Any]) -> None:
        living = [trial for trial in trials if not trial.is_finished()]
        if len(trials) < self._members or not living or any(each.trial_id not in self._scores for each in living):
            return
        remote = remote_at(self._trials.sweep)
        folder = Path(self._trials.sweep) if remote is None else remote.here
        known = population.read(folder)
        now = {trial.trial_id: population.settings(known, trial.trial_id, trial.config) for trial in living}
        scores = {trial.trial_id: self._scores[trial.trial_id][1] for trial in living}
        validation = max(self._scores[trial.trial_id][0] for trial in living)
        compared = population.compare(validation, scores, now, self._space)
        population.add(folder, compared)
        if remote is not None:
            remote.push()
        complete(self._trials, compared, self._seeds)
        self._scores.clear()
