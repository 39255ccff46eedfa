"""Connection of a training to its cluster, for the whole training.

Most of a start is spent in processes that import PyTorch, for seconds each. This process imports it while Ray starts;
workers import it while this process checks the configuration and builds the algorithm.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any

from ccarena.configs import TrainConfig
from ccarena.core.terminal import heartbeat
from ccarena.errors import ConfigError
from ccarena.executors.ray import connect, module, reason_of

__all__ = ["check_gpus", "on_its_cluster", "wait_for_machines"]

log = logging.getLogger(__name__)

_RESOURCES = {"cores": "CPU", "GPUs": "GPU"}
_LITTLE = 0.01
"""Share of a GPU that a look at it takes, so that it also fits beside trainings which share one."""
_ANSWERS_WITHIN_S = 60.0
"""Longest time in which a busy machine imports PyTorch, s. A machine whose GPUs are all in use does not answer."""
_looked_at: set[str] = set()
"""Machines whose GPU PyTorch has found."""


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


def wait_for_machines(config: TrainConfig, needed: Mapping[str, int], each: str, less: Mapping[str, str]) -> None:
    """Waits until the cluster has the `needed` cores and GPUs, which the settings `each` ask for.

    Raises ConfigError if it has not: at once where no machine can join, else after `ray.patience_s`. `less` says how to
    need less of each. Raises what `check_gpus` does if GPUs are needed.
    """
    alone = not (config.ray.address or os.environ.get("RAY_ADDRESS"))
    began_s, said = time.monotonic(), False
    while True:
        has = module().cluster_resources()
        there = {name: int(has.get(_RESOURCES[name], 0)) for name in needed}
        lacking = [name for name in needed if there[name] < needed[name]]
        if not lacking:
            if needed.get("GPUs"):
                check_gpus(config.device)
            return
        lack = "; ".join(f"{each} need {needed[name]} {name}, and the cluster has {there[name]}" for name in lacking)
        lower = less[lacking[-1]]
        if alone:
            raise ConfigError(f"{lack}; {lower}, or name a larger cluster (--ray-address)")
        if time.monotonic() - began_s > config.ray.patience_s:
            raise ConfigError(f"{lack}; {lower}, or add a machine (`ray start --address ...`)")
        if not said:
            log.warning(
                "%s; waiting for a machine (`ray start --address ...`), %.0f s at most", lack, config.ray.patience_s
            )
            said = True
        time.sleep(min(1.0, config.ray.patience_s))


def check_gpus(device: str) -> None:
    """Raises ConfigError for a machine of the cluster that declares a GPU which PyTorch does not find there.

    Ray believes what `ray start --num-gpus` says, and would send a learner there.
    """
    ray = module()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked: dict[Any, Any] = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("GPU", 0) > 0 and node["NodeID"] not in _looked_at:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, num_gpus=_LITTLE, max_retries=1, scheduling_strategy=there)(_gpu_here)
            asked[task.remote()] = node
    if not asked:
        return
    with heartbeat(lambda: "looking for the GPUs of the cluster's machines"):
        answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWERS_WITHIN_S)
    for reference in silent:
        ray.cancel(reference)
    for reference in answered:
        node = asked[reference]
        name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        try:
            lack = ray.get(reference)
        except ray.exceptions.RayError as error:
            lack = f"cannot be asked ({reason_of(error)})"
        if lack is not None:
            raise ConfigError(
                f"device = {device}: the machine {name} declares num_gpus = {node['Resources']['GPU']:g} to Ray, "
                f"and PyTorch {lack} there; install the GPU's driver and a PyTorch with CUDA on it (`ccarena doctor` "
                "there says what is missing), start Ray there with --num-gpus 0, or set device to cpu"
            )
        _looked_at.add(node["NodeID"])


def _gpu_here() -> str | None:
    """Returns what PyTorch lacks on the machine that runs this; None if it finds the GPU that Ray gave it."""
    try:
        import torch
    except ImportError as error:
        return f"cannot be imported ({error})"
    return None if torch.cuda.is_available() else f"{torch.__version__} finds no CUDA GPU"


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
