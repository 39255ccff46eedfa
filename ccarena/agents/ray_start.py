"""Connection of a training to its cluster, for the whole training.

Most of a start is spent in processes that import PyTorch, for seconds each. This process imports it while Ray starts;
workers import it while this process checks the configuration and builds the algorithm.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter

from ccarena.configs import TrainConfig
from ccarena.executors.ray import connect, module

__all__ = ["on_its_cluster"]


@contextmanager
def on_its_cluster(config: TrainConfig, meanwhile: str) -> Iterator[None]:
    """Connects to the cluster that `config` names during the block; does nothing for another executor.

    Raises what `connect` does. The module `meanwhile` is imported while Ray starts; errors of this import appear at its
    next import. Ray takes over SIGTERM when it connects, so the training's own handler, which saves a checkpoint, must
    be set later.
    """
    if config.executor != "ray":
        yield
        return
    module("executor = ray")
    threading.Thread(target=_import, args=(meanwhile,), daemon=True).start()
    started = connect(config.ray.address)
    try:
        _warm(config)
        yield
    finally:
        if started:
            module().shutdown()


def _warm(config: TrainConfig) -> None:
    """Has processes on the cluster import what the algorithm's workers need: Ray takes idle ones for its actors."""
    if wanted := config.algorithm.worker_module:
        ray = module()
        task = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(_import)
        # A task without a core would still wait for one when all are taken.
        workers = attrgetter(config.algorithm.workers_key)(config) if config.algorithm.workers_key else 1
        for _ in range(min(workers, int(ray.available_resources().get("CPU", 0)))):
            task.remote(wanted)


def _import(name: str) -> None:
    with suppress(Exception):
        importlib.import_module(name)
