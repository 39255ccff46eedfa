"""Runs evolution's candidates on a Ray cluster: a task each, which Ray repeats where a machine is lost.

Set `RAY_ADDRESS` to use a running cluster (ccarena must be installed on its nodes); otherwise Ray starts on this
machine. A candidate's score does not depend on where it was computed, so that the result is that of one process.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ccarena.agents.algorithm import Context
from ccarena.agents.evolution import LocalEvaluator, Scored
from ccarena.configs.schema import TrainConfig
from ccarena.envs.spec import spec_of
from ccarena.envs.trials import Candidate
from ccarena.errors import MissingDependencyError, TrainingError

__all__ = ["RayEvaluator"]


@functools.lru_cache(maxsize=1)
def _evaluator(config: str) -> LocalEvaluator:
    """Kept by the process of a worker from one candidate to the next, with the traces that it has read."""
    record = TrainConfig.model_validate_json(config)
    return LocalEvaluator(record, spec_of(record), threads=1)


def _score(config: str, candidate: Candidate, seed: int) -> Scored:
    (scored,) = _evaluator(config).score([candidate], seed)
    return scored


class RayEvaluator:
    """The evaluator (`ccarena.agents.evolution.Evaluator`)."""

    def __init__(self, context: Context) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependencyError.for_extra("ray", "ray", "--executor ray") from error
        self._ray = ray
        self._started_ray = not ray.is_initialized()
        if self._started_ray:
            ray.init(log_to_driver=False, include_dashboard=False)
        self._config = context.config.model_dump_json()
        self._task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_score)

    def score(self, candidates: Sequence[Candidate], seed: int) -> list[Scored]:
        """The candidates over the links of `seed`, in their order. Raises TrainingError if one cannot be run."""
        references = [self._task.remote(self._config, candidate, seed) for candidate in candidates]
        try:
            scored: list[Scored] = self._ray.get(references)
        except self._ray.exceptions.RayError as error:
            reason = getattr(error, "cause", None) or error
            raise TrainingError(f"a candidate could not be run on Ray: {reason}; see Ray's logs") from error
        return scored

    def close(self) -> None:
        """Ends Ray if it was started here."""
        if self._started_ray:
            self._ray.shutdown()
