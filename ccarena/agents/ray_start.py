"""A training's connection to its cluster, made before anything slow: workers import what they need meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from ccarena.configs import TrainConfig
from ccarena.configs.schema import A3CConfig, EvolutionConfig
from ccarena.executors.ray import connect, module

__all__ = ["on_its_cluster"]


@contextmanager
def on_its_cluster(config: TrainConfig) -> Iterator[None]:
    """Connected to the cluster that `config` names, whose processes begin to import; nothing under another executor.

    PyTorch takes each process seconds to import: here, they pass in all of them at once. Raises what `connect` does.
    """
    if config.executor != "ray":
        yield
        return
    started = connect(config.ray.address)
    try:
        _import_there(config)
        yield
    finally:
        if started:
            module().shutdown()


def _import_there(config: TrainConfig) -> None:
    """Has as many processes of the cluster as there will be workers, and are cores, import what workers run."""
    ray = module()
    free = int(ray.available_resources().get("CPU", 0))
    if isinstance(config.algorithm, A3CConfig):
        name, count = "ccarena.agents.ray", config.algorithm.workers
    elif isinstance(config.algorithm, EvolutionConfig):
        name, count = "ccarena.agents.ray_evolution", free
    else:
        name, count = "ccarena.envs", config.ray.workers
    # Ray gives a process that is over with a task to the next actor or task.
    task = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(_import)
    for _ in range(min(count, free)):
        task.remote(name)


def _import(name: str) -> None:
    import_module(name)
