"""Runs of evolution's candidates on a Ray cluster: one piece of work each, repeated if a machine is lost.

A candidate's score does not depend on the machine, so the result is that of one process.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ccarena.agents.algorithm import Context
from ccarena.agents.evolution_runs import LocalEvaluator, Scored
from ccarena.configs.link_distribution import with_link_files
from ccarena.configs.schema import TrainConfig
from ccarena.envs.trials import Candidate
from ccarena.errors import TrainingError, WorkerError
from ccarena.executors.ray import OnRay, connect, module
from ccarena.policies.spec import spec_of

__all__ = ["RayEvaluator"]


@functools.lru_cache(maxsize=1)
def _evaluator(configuration: str) -> LocalEvaluator:
    """Returns the evaluator of a worker process, which keeps it, and the traces it has read, between candidates."""
    config = TrainConfig.model_validate_json(configuration)
    return LocalEvaluator(config, spec_of(config), threads=1)


def _score(candidate: Candidate, config: TrainConfig, seed: int) -> Scored:
    (scored,) = _evaluator(config.model_dump_json()).score([candidate], seed)
    return scored


class RayEvaluator:
    """Evaluator on a Ray cluster (`ccarena.agents.evolution.Evaluator`)."""

    def __init__(self, context: Context) -> None:
        self._started_ray = connect(context.config.ray.address)
        self._config = with_link_files(context.config)

    def score(self, candidates: Sequence[Candidate], seed: int) -> list[Scored]:
        """Returns the scores of the candidates over the links of `seed`, in their order. Raises TrainingError if one
        fails.
        """
        scored: dict[int, Scored] = {}
        try:
            for done in OnRay().run(functools.partial(_score, config=self._config, seed=seed), candidates):
                scored[done.index] = done.result()
        except WorkerError as error:
            raise TrainingError(f"a candidate could not be run on Ray: {error}; see Ray's logs") from error
        return [scored[index] for index in range(len(candidates))]

    def close(self) -> None:
        """Ends Ray if it was started here."""
        if self._started_ray:
            module().shutdown()
