"""Trials: whole runs of a scheme, native from the first packet to the last, scored by an objective.

Trial i of a seed is the same link for every candidate, so that scores differ only by the candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.configs.schema import ObjectiveConfig, TrainConfig
from ccarena.configs.spec_files import Action
from ccarena.envs.objectives import Objective
from ccarena.envs.rewards import Columns, Reward
from ccarena.envs.sources import sources
from ccarena.policies.spec import Spec

__all__ = ["Answers", "Candidate", "Outcome", "SchemeTrials", "Trials"]

Answers = bytes | Action | tuple[str, list[Action]] | None
"""Decider of a trial: a policy artifact's bytes, a constant action, a rule, or None for the base alone.

A constant action is an index, or a continuous value or several. A rule is a column of the report and an action for each
of its categories 0, 1, ....
"""

RUNS_AT_ONCE = 512
"""Most runs whose reports are in memory at a time."""


@dataclass(frozen=True)
class Candidate:
    """Candidate of a trial: a decider, and parameters of the spec."""

    answers: Answers
    params: Mapping[str, float] = field(default_factory=dict)
    """Parameters of the scheme that differ from those that all candidates have."""


@dataclass(frozen=True)
class Outcome:
    """Results of a candidate's trials, a row per learner of each."""

    scores: NDArray[np.float64]
    """Scores by the objective, `[rows]`."""
    learners: NDArray[np.int64]
    """Rows of each trial, `[trials]`."""
    run: Columns
    """Figures from which the objective is computed, `[rows]` each."""
    rewards: NDArray[np.float32]
    """Rewards of every interval, `[intervals]`."""
    reports: NDArray[np.float32]
    """Reports of every interval, `[intervals, columns]`."""
    taken: list[list[bool]]
    """Flags of each trial: which actions of a rule were taken; empty for other candidates."""

    @property
    def score(self) -> float:
        """Returns the mean objective."""
        return float(self.scores.mean())

    @property
    def by_trial(self) -> NDArray[np.float64]:
        """Returns the mean objective of each trial's learners, `[trials]`."""
        row = np.repeat(np.arange(len(self.learners)), self.learners)
        return np.bincount(row, self.scores, len(self.learners)) / np.maximum(self.learners, 1)


class SchemeTrials:
    """Runner of candidates of any scheme, learned or not, without a reward.

    `source` is a link distribution or a scenario, as JSON, the other one None; `params` are what candidates have
    unless they say otherwise. `measures`: False leaves all figures of `run` NaN, which takes less time; only for the
    objective `reward`. Raises what `Objective` does.
    """

    def __init__(
        self,
        source: tuple[str | None, str | None],
        objective: ObjectiveConfig,
        params: Mapping[str, float],
        threads: int,
        measures: bool = True,
    ) -> None:
        self._objective, self._params = Objective(objective), dict(params)
        self._trials = _core.Trials(*source, threads=threads, measures=measures)

    def run(self, candidates: Sequence[Candidate], seed: int, count: int, first: int = 0) -> list[Outcome]:
        """Runs trials `first`, ..., `first + count - 1` of `seed`, of every candidate. Raises TraceError or
        PolicyError.
        """
        return self.run_each(candidates, seed, [range(first, first + count)] * len(candidates))

    def run_each(self, candidates: Sequence[Candidate], seed: int, trials: Sequence[Sequence[int]]) -> list[Outcome]:
        """Runs for each candidate its own trials of `seed`, rising numbers, at least one. Raises as `run` does."""
        given = [(_native(candidate.answers), dict(candidate.params)) for candidate in candidates]
        at_once = max(1, RUNS_AT_ONCE // max(map(len, trials), default=1))
        out: list[Outcome] = []
        for start in range(0, len(given), at_once):
            some = slice(start, start + at_once)
            out += [self._outcome(each) for each in self._trials.run(given[some], seed, [*map(list, trials[some])])]
        return out

    def _outcome(self, found: Mapping[str, Any]) -> Outcome:
        figures, reports, privileged = (np.asarray(found[key]) for key in ("figures", "reports", "privileged"))
        intervals = np.asarray(found["intervals"]).astype(np.int64)
        rewards, reward = self._rewards(
            reports, privileged, np.repeat(np.arange(len(figures)), intervals), len(figures)
        )
        params = [self._params | dict(each) for each in found["params"]]
        columns = {name: figures[:, i] for i, name in enumerate(self._trials.figures)} | reward
        columns |= {name: np.array([each[name] for each in params]) for name in (params[0] if params else {})}
        table = np.stack(list(columns.values()), axis=1)
        run = Columns(table, {name: i for i, name in enumerate(columns)}, "the figures of a run", "objective")
        learners = np.asarray(found["learners"]).astype(np.int64)
        return Outcome(self._objective(run), learners, run, rewards, reports, found["taken"])

    def _rewards(
        self, reports: NDArray[np.float32], privileged: NDArray[np.float32], row: NDArray[np.int64], rows: int
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float64]]]:
        """Returns the reward of every interval, which is of the run `row`, and the column `reward` of `rows` runs."""
        return np.empty(0, np.float32), {}


class Trials(SchemeTrials):
    """Runner of candidates over the configuration's links, or over one scenario, whose learners have no policy.

    Raises what `distribution_json`, `Reward` and `Objective` do.
    """

    def __init__(
        self,
        config: TrainConfig,
        spec: Spec,
        threads: int,
        scenario: Mapping[str, Any] | None = None,
        measures: bool = True,
    ) -> None:
        self._spec, self._reward = spec, Reward(config.reward, spec)
        source = sources(config, scenario, whole_runs=True)
        super().__init__(source, config.objective, spec.values(config.params), threads, measures)

    def _rewards(
        self, reports: NDArray[np.float32], privileged: NDArray[np.float32], row: NDArray[np.int64], rows: int
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float64]]]:
        rewards = self._reward(reports, privileged) if len(reports) else np.empty(0, np.float32)
        length_s = self._spec.intervals_s(reports).astype(np.float64)
        total_s = np.bincount(row, length_s, rows)
        gained = np.bincount(row, rewards * length_s, rows)
        return rewards, {"reward": np.divide(gained, total_s, out=np.zeros_like(gained), where=total_s > 0)}


def _native(answers: Answers) -> Any:
    return _core.Policy.of(answers) if isinstance(answers, bytes) else answers
