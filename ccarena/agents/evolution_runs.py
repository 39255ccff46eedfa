"""Runs of evolution's candidates and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from ccarena.agents.algorithm import Stats
from ccarena.agents.progress import ReportSums
from ccarena.configs.schema import EvolutionConfig, TrainConfig
from ccarena.envs.trials import Candidate, Trials
from ccarena.policies.spec import Spec

__all__ = ["Evaluator", "LocalEvaluator", "Scored"]


@dataclass(frozen=True)
class Scored:
    """Score of a candidate's runs and their figures."""

    score: float
    stats: Stats


class Evaluator(Protocol):
    """Evaluator that runs candidates in this process or on a cluster."""

    def score(self, candidates: Sequence[Candidate], seed: int) -> list[Scored]:
        """Returns the scores of the candidates over the links of `seed`, in their order."""

    def close(self) -> None:
        """Ends what it has started."""


class LocalEvaluator:
    """Evaluator in threads of this process."""

    def __init__(self, config: TrainConfig, spec: Spec, threads: int) -> None:
        self._links = cast(EvolutionConfig, config.algorithm).links
        self._trials = Trials(config, spec, threads)
        self._sums = ReportSums(spec, config.progress)

    def score(self, candidates: Sequence[Candidate], seed: int) -> list[Scored]:
        """Returns the scores of the candidates over the links of `seed`, in their order."""
        out = []
        for done in self._trials.run(candidates, seed, self._links):
            stats: Stats = {
                "decisions": float(len(done.rewards)),
                "reward": float(done.rewards.sum(dtype=np.float64)),
                "episodes": float(len(done.scores)),
                "return": float(done.rewards.sum(dtype=np.float64)),
                "episode_decisions": float(len(done.rewards)),
            }
            out.append(Scored(done.score, stats | self._sums(done.reports)))
        return out

    def close(self) -> None:
        """Does nothing, since nothing was started."""
