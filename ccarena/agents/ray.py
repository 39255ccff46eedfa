"""Runs A3C's workers as Ray actors: gradients are applied as they arrive, from one machine or a cluster.

Set `RAY_ADDRESS` to use a running cluster (ccarena must be installed on its nodes); otherwise Ray starts on this
machine. Order of arrival decides the result, so that a run is not reproducible, and a resumed one continues with the
checkpoint's weights on fresh episodes.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.agents.a3c import Learner, Update, Worker, seeds
from ccarena.agents.algorithm import Context
from ccarena.configs.schema import A3CConfig
from ccarena.errors import MissingDependencyError, TrainingError

log = logging.getLogger(__name__)

_WAIT_S = 0.5


class _RemoteWorker:
    """A worker as a Ray actor."""

    def __init__(self, rows: int, context: Context, config: A3CConfig, env_seed: int, sampling_seed: int) -> None:
        import torch

        torch.set_num_threads(1)
        self._worker = Worker(context.make_envs(rows, 1), context, config, env_seed, sampling_seed)

    def run(self, weights: NDArray[np.float32], entropy_weight: float) -> Update:
        return self._worker.run(weights, entropy_weight)


class RayExecutor:
    """Feeds `learner` from `config.workers` Ray actors, whose worlds come from `context.make_envs` (picklable).

    An actor that dies, or whose node does, is replaced by one with fresh worlds; after `max_restarts` in a row without
    a single gradient in between, training stops with a TrainingError.
    """

    def __init__(self, learner: Learner, context: Context, config: A3CConfig, max_restarts: int = 10) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependencyError.for_extra("ray", "ray", "--executor ray") from error
        self._ray = ray
        self._started_ray = not ray.is_initialized()
        if self._started_ray:
            ray.init(log_to_driver=False, include_dashboard=False)
        self._learner = learner
        self._max_restarts = max_restarts
        self._failures = 0
        self.restarts = 0
        """Actors that were replaced so far."""
        gpus = float(context.config.device != "cpu")
        # Own retries are off: a replaced actor must get other worlds than the ones that its predecessor has played.
        remote = ray.remote(num_cpus=1, num_gpus=gpus / config.workers, scheduling_strategy="SPREAD")
        self._actor_class = remote(_RemoteWorker)
        self._create = functools.partial(self._create_actor, context, config)
        # A resumed run must not replay the episodes of the run that it continues.
        self._generation = [learner.updates] * config.workers
        self._actors = [self._create(index) for index in range(config.workers)]
        self._pending: dict[Any, int] = {}

    def _create_actor(self, context: Context, config: A3CConfig, index: int) -> Any:
        drawn = seeds(context.config.seed, index, self._generation[index])
        return self._actor_class.remote(context.rows // config.workers, context, config, *drawn)

    def step(self) -> Update | None:
        """Waits for any gradient, applies it and starts its worker's next rollout. Raises TrainingError.

        Returns None if none came within half a second, so that the caller can look after signals.
        """
        if not self._pending:
            for index in range(len(self._actors)):
                self._submit(index)
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=_WAIT_S)
        if not ready:
            return None
        index = self._pending.pop(ready[0])
        try:
            update: Update = self._ray.get(ready[0])
        except self._ray.exceptions.RayActorError as error:
            self._replace(index, error)
            return None
        except self._ray.exceptions.RayTaskError as error:
            raise TrainingError(f"worker {index} failed: {error.cause or error}") from error
        self._failures = 0
        self._learner.apply(update)
        self._submit(index)
        return update

    def _submit(self, index: int) -> None:
        reference = self._actors[index].run.remote(self._learner.weights, self._learner.entropy_weight)
        self._pending[reference] = index

    def _replace(self, index: int, error: Exception) -> None:
        self._failures += 1
        self.restarts += 1
        if self._failures > self._max_restarts:
            raise TrainingError(
                f"worker {index} died {self._failures} times in a row: {error}; see Ray's logs, then use --resume"
            ) from error
        log.warning("worker %d died (%s); replacing it with fresh worlds", index, str(error).splitlines()[0])
        self._generation[index] += 1
        self._actors[index] = self._create(index)
        self._submit(index)

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Nothing: actors are asynchronous and start over."""
        return {}, {}

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Nothing to do: actors were created after the learner was restored."""

    def close(self) -> None:
        """Ends the actors, and Ray if it was started here."""
        self._pending.clear()
        for actor in self._actors:
            self._ray.kill(actor)
        if self._started_ray:
            self._ray.shutdown()
