"""Trials: whole runs of a learned scheme, native from the first packet to the last, scored by the configuration's
objective.

Trial i of a seed is the same link for every candidate, so that candidates differ by what they do alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.configs.schema import TrainConfig
from ccarena.envs.objectives import Objective
from ccarena.envs.rewards import Columns, Reward
from ccarena.envs.sources import sources
from ccarena.policies.spec import Spec

__all__ = ["Answers", "Candidate", "Outcome", "Trials"]

Answers = bytes | float | tuple[str, list[float]] | None
"""Who decides: a policy artifact's bytes; one action always (an index, or a continuous value); a column of the report
and such an action for each of its categories 0, 1, ...; or nobody, which leaves the base alone."""

RUNS_AT_ONCE = 512
"""Of the runs whose reports are in memory at a time."""


@dataclass(frozen=True)
class Candidate:
    """What is tried."""

    answers: Answers
    params: Mapping[str, float] = field(default_factory=dict)
    """Parameters of the spec that differ from the configuration's."""


@dataclass(frozen=True)
class Outcome:
    """A candidate's trials, a row per learner of each."""

    scores: NDArray[np.float64]
    """The objective, `[rows]`."""
    run: Columns
    """What the objective is computed from, `[rows]` each."""
    rewards: NDArray[np.float32]
    """Of every interval, `[intervals]`."""
    reports: NDArray[np.float32]
    """Of every interval, `[intervals, columns]`."""

    @property
    def score(self) -> float:
        """The mean objective."""
        return float(self.scores.mean())


class Trials:
    """Runs candidates over the configuration's links, or over one scenario, whose learners have no policy.

    Raises what `distribution_json`, `Reward` and `Objective` do.
    """

    def __init__(
        self, config: TrainConfig, spec: Spec, threads: int, scenario: Mapping[str, Any] | None = None
    ) -> None:
        self._spec = spec
        self._reward, self._objective = Reward(config.reward, spec), Objective(config.objective)
        self._params = spec.values(config.params)
        self._trials = _core.Trials(*sources(config, scenario, whole_runs=True), threads=threads)

    def run(self, candidates: Sequence[Candidate], seed: int, count: int, first: int = 0) -> list[Outcome]:
        """Trials `first`, ..., `first + count - 1` of `seed`, of every candidate. Raises TraceError or PolicyError."""
        given = [(_native(candidate.answers), dict(candidate.params)) for candidate in candidates]
        at_once = max(1, RUNS_AT_ONCE // count)
        out: list[Outcome] = []
        for start in range(0, len(given), at_once):
            out += [
                self._outcome(each) for each in self._trials.run(given[start : start + at_once], seed, count, first)
            ]
        return out

    def _outcome(self, found: Mapping[str, Any]) -> Outcome:
        figures, reports, privileged = (np.asarray(found[key]) for key in ("figures", "reports", "privileged"))
        intervals = np.asarray(found["intervals"]).astype(np.int64)
        row = np.repeat(np.arange(len(figures)), intervals)
        rewards = self._reward(reports, privileged) if len(reports) else np.empty(0, np.float32)
        length_s = self._spec.intervals_s(reports).astype(np.float64)
        total_s = np.bincount(row, length_s, len(figures))
        gained = np.bincount(row, rewards * length_s, len(figures))
        reward = np.divide(gained, total_s, out=np.zeros_like(gained), where=total_s > 0)
        params = [self._params | dict(each) for each in found["params"]]
        columns = {name: figures[:, i] for i, name in enumerate(self._trials.figures)} | {"reward": reward}
        columns |= {name: np.array([each[name] for each in params]) for name in (params[0] if params else {})}
        table = np.stack(list(columns.values()), axis=1)
        run = Columns(table, {name: i for i, name in enumerate(columns)}, "the figures of a run", "objective")
        return Outcome(self._objective(run), run, rewards, reports)


def _native(answers: Answers) -> Any:
    return _core.Policy.of(answers) if isinstance(answers, bytes) else answers
