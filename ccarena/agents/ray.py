"""Executor of A3C's workers as Ray actors: gradients are applied as they arrive, from one machine or a cluster.

The order of arrival decides the result. A run is therefore not reproducible, and a resumed one continues with the
checkpoint's weights on fresh episodes. A gradient belongs to the weights that its worker had at its start; gradients
that are too many updates old are dropped (`ray.max_staleness`).
"""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.agents.a3c import Differentiator, Learner, Rollout, Update, Worker
from ccarena.agents.algorithm import Context
from ccarena.agents.collecting import seeds
from ccarena.agents.ray_actors import Crew, Lost
from ccarena.agents.ray_start import wait_for_machines
from ccarena.agents.runs import check_gpu
from ccarena.configs import TrainConfig
from ccarena.configs.schema import A3CConfig
from ccarena.executors.ray import connect, module
from ccarena.executors.shipping import Parcel

_WAIT_S = 0.5
_RECENT = 0.95
"""Weight of an update in the moving mean of staleness."""


class RemoteWorker:
    """Worker as a Ray actor."""

    def __init__(
        self, rows: int, shipped: Parcel[Context], config: A3CConfig, device: str, env_seed: int, sampling_seed: int
    ) -> None:
        import torch

        torch.set_num_threads(1)
        check_gpu(device)
        context = shipped.open()
        self._worker = Worker(context.make_envs(rows, 1), context, config, env_seed, sampling_seed, device)

    def gradient(self, weights: NDArray[np.float32], entropy_weight: float) -> Update:
        """Returns the gradient of a rollout with `weights`."""
        return self._worker.run(weights, entropy_weight)

    def rollout(self, weights: NDArray[np.float32], entropy_weight: float) -> Rollout:
        """Returns a rollout with `weights`, for the learner to differentiate."""
        return self._worker.collect(weights)


def wait_for_gpu(config: TrainConfig) -> None:
    """Waits for the GPU that the workers share, if they learn on one and this process is connected to a cluster.

    Raises ConfigError as `wait_for_machines` does.
    """
    if config.device != "cpu" and config.learns_in is not None and module().is_initialized():
        each = f"the workers, which learn on device = {config.device},"
        wait_for_machines(config, {"GPUs": 1}, each, {"GPUs": "set device to cpu"})


@dataclass(frozen=True)
class _Call:
    """Rollout that an actor is collecting."""

    index: int
    """Index of its worker."""
    updates: int
    """Number of updates in its weights."""
    weights: NDArray[np.float32]


class RayExecutor:
    """Executor that feeds `learner` from `config.workers` Ray actors, with worlds from `context.make_envs` (picklable).

    If an actor or its node dies, an actor with fresh worlds replaces it. A worker that dies `ray.deaths` times in a row
    without a result ends training with a TrainingError. If the cluster has no core for any worker, training waits and
    prints so; after `ray.patience_s` it ends with a TrainingError.
    """

    worker = RemoteWorker

    def __init__(self, learner: Learner, context: Context, config: A3CConfig) -> None:
        settings = context.config.ray
        ray = self._ray = module("executor = ray")
        self._started_ray = connect(settings.address)
        wait_for_gpu(context.config)
        self._learner, self._config, self._shipped = learner, config, Parcel(context)
        self._whole = settings.exchange == "rollouts"
        device = "cpu" if self._whole else context.config.device
        self._differentiator = Differentiator(context, config, context.config.device) if self._whole else None
        self._max_staleness = settings.max_staleness or 4 * config.workers
        # A replaced actor must get other worlds than the ones that its predecessor has played; nor must a resumed run
        # replay the episodes of the run that it continues.
        self._generation = [learner.updates] * config.workers
        gpus = float(device != "cpu") / config.workers
        remote = ray.remote(num_cpus=1, num_gpus=gpus, scheduling_strategy="SPREAD")(self.worker)
        create = functools.partial(self._create_actor, remote, context, device)
        self._crew = Crew(create, config.workers, settings.deaths, settings.patience_s)
        self._calls: dict[Any, _Call] = {}
        self._ready: deque[Any] = deque()
        self._shared: tuple[int, Any] = (-1, None)
        self._stale = 0
        self._staleness = 0.0

    def _create_actor(self, remote: Any, context: Context, device: str, index: int) -> Any:
        drawn = seeds(context.config.seed, index, self._generation[index])
        self._generation[index] += 1
        return remote.remote(context.rows // self._config.workers, self._shipped, self._config, device, *drawn)

    def step(self) -> Update | None:
        """Waits for any worker, applies its gradient and starts its next rollout. Raises TrainingError.

        Returns None if none came within half a second, so that the caller can handle signals.
        """
        if not self._calls:
            for index in range(self._config.workers):
                self._submit(index)
        if not self._ready:
            ready, rest = self._ray.wait(list(self._calls), num_returns=1, timeout=_WAIT_S)
            if ready and rest:
                ready += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
            self._ready.extend(ready)
        self._crew.look()
        if not self._ready:
            return None
        reference = self._ready.popleft()
        call = self._calls.pop(reference)
        try:
            update = self._update(call, self._crew.take(call.index, reference))
        except Lost:
            self._submit(call.index)
            return None
        age = self._learner.updates - call.updates
        if age > self._max_staleness:
            self._stale += 1
            self._submit(call.index)
            return None
        self._staleness = _RECENT * self._staleness + (1 - _RECENT) * age
        self._learner.apply(update)
        self._submit(call.index)
        return update

    def _update(self, call: _Call, result: Update | Rollout) -> Update:
        if isinstance(result, Update):
            return result
        assert self._differentiator is not None
        self._differentiator.load(call.weights)
        # Copies: what comes out of Ray's store is read-only, which PyTorch does not know.
        result = replace(result, observations=result.observations.copy(), actions=result.actions.copy())
        return self._differentiator.update(result, self._learner.entropy_weight)

    def _submit(self, index: int) -> None:
        learner, (version, shared) = self._learner, self._shared
        if version != learner.updates:
            shared = self._ray.put(learner.weights)
            self._shared = (learner.updates, shared)
        actor = self._crew.actors[index]
        work = actor.rollout if self._whole else actor.gradient
        reference = work.remote(shared, learner.entropy_weight)
        self._calls[reference] = _Call(index, learner.updates, learner.weights)

    def figures(self) -> dict[str, float]:
        """Returns the age of gradients, the number of dropped ones, and `Crew.figures`, for the learning curve."""
        own = {"staleness_mean": self._staleness, "stale_gradients": float(self._stale)}
        return {**own, "queued_gradients": float(len(self._ready)), **self._crew.figures()}

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Returns nothing: actors are asynchronous and start anew."""
        return {}, {}

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Does nothing: actors were created after the learner was restored."""

    def close(self) -> None:
        """Ends the actors, and Ray if it was started here."""
        self._calls.clear()
        self._crew.close()
        if self._started_ray:
            self._ray.shutdown()
