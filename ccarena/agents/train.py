"""The training run: learner and executor from a configuration, checkpoints, policy, evaluation and report."""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import shlex
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import torch
from numpy.typing import NDArray

from ccarena.agents import checkpoint
from ccarena.agents.a3c import EnvFactory, Learner, Update, Worker, seeds
from ccarena.agents.local import LocalExecutor
from ccarena.agents.progress import Display, Recorder
from ccarena.agents.runs import CONFIG, EVALUATION, INTERRUPTED, POLICY, check_device, fixed, resumable, signals
from ccarena.configs import TrainConfig, save_config
from ccarena.errors import CheckpointError, ConfigError, MissingDependencyError
from ccarena.policies.networks import ActorCritic, Architecture, to_artifact

log = logging.getLogger(__name__)


class Executor(Protocol):
    """Who runs the workers: `LocalExecutor` or `RayExecutor`."""

    def step(self) -> Update | None:
        """Applies one more gradient; None if none has come for a while."""

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """What `restore` needs, as arrays and as JSON."""

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Back to a `state()`."""

    def close(self) -> None:
        """Ends the workers."""


def train(config: TrainConfig, resume: bool = False, make_envs: EnvFactory | None = None) -> int:
    """Trains in the folder `config.out` (`runs/NAME` if None), evaluates, and returns the process's exit code.

    The folder gets `config.yaml`, `progress.jsonl`, TensorBoard logs, checkpoints, `policy.safetensors` and what the
    evaluation writes. SIGINT and SIGTERM end it with a checkpoint and 130. With `resume` it goes on from the last
    checkpoint; under the local executor the result is bit for bit that of an uninterrupted run. `make_envs` replaces
    the configured environment.

    Raises ConfigError if the folder holds a run and `resume` is off, CheckpointError if it cannot be resumed,
    TrainingError if learning breaks down.
    """
    out = Path(config.out or Path("runs", config.name))
    _check_machine(config)
    start = resumable(config, out) if resume else None
    if start is None:
        if (out / CONFIG).exists():
            raise ConfigError(f"out = {out}: holds a run already; go on with it by --resume, or name another folder")
        save_config(config, out / CONFIG)
    learner = _learn(config, out, start, make_envs or environments(config))
    if not learner.done:
        command = shlex.join(["ccarena", "train", "--out", str(out), "--resume"])
        print(f"interrupted after {learner.decisions:,} decisions; go on with: {command}", file=sys.stderr)
        return INTERRUPTED
    _finish(config, out, learner.network())
    return 0


def environments(config: TrainConfig) -> EnvFactory:
    """Each worker's share of the configured worlds."""
    return functools.partial(_make_envs, config)


def _make_envs(config: TrainConfig, worker: int, threads: int) -> gym.vector.VectorEnv:
    from ccarena.envs import AcctVectorEnv

    # Without copies: a worker puts what it keeps into its own buffers.
    return AcctVectorEnv(config.env.worlds // config.agent.workers, config.env, threads=threads, copy=False)


def _check_machine(config: TrainConfig) -> None:
    """Raises ConfigError or MissingDependencyError for what the configuration asks of this machine in vain."""
    check_device(config.device)
    if config.executor == "ray" and importlib.util.find_spec("ray") is None:
        raise MissingDependencyError.for_extra("ray", "ray", "executor = ray")


def _learn(config: TrainConfig, out: Path, start: checkpoint.Checkpoint | None, make_envs: EnvFactory) -> Learner:
    """Trains to the end, or until a signal; the last checkpoint is that of the returned state."""
    # Networks this small lose more to a thread pool than they gain, and one thread is what makes sums reproducible.
    torch.set_num_threads(1)
    architecture = Architecture(config.network.filters, config.network.hidden)
    learner = Learner(config.agent, architecture, config.total_decisions, config.seed)
    recorder = Recorder(out, config.total_decisions)
    elapsed_s = 0.0
    if start is not None:
        try:
            learner.restore(start.part("learner"), start.rest["learner"])
            recorder.restore(start.rest["recorder"])
            elapsed_s = start.rest["elapsed_s"]
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{out}: the checkpoint does not fit this configuration: {error}") from error
    if learner.done:
        return learner

    with ExitStack() as stack:
        executor = stack.enter_context(closing(_executor(config, learner, architecture, make_envs)))
        if start is not None:
            try:
                executor.restore(start.part("executor"), start.rest["executor"])
            except (KeyError, ValueError) as error:
                raise CheckpointError(f"{out}: the checkpoint does not fit this configuration: {error}") from error
        stack.enter_context(closing(recorder))
        interrupted = stack.enter_context(signals())
        display = stack.enter_context(closing(Display(config.total_decisions, learner.decisions)))
        began_s = saved_s = time.monotonic()

        def save() -> None:
            arrays = {f"learner.{name}": array for name, array in learner.state()[0].items()}
            executor_arrays, executor_rest = executor.state()
            arrays |= {f"executor.{name}": array for name, array in executor_arrays.items()}
            rest = {
                "config": fixed(config),
                "learner": learner.state()[1],
                "executor": executor_rest,
                "recorder": recorder.state(),
                "elapsed_s": elapsed_s + time.monotonic() - began_s,
            }
            checkpoint.save(out, checkpoint.Checkpoint(arrays, rest))

        while not learner.done and not interrupted.is_set():
            update = executor.step()
            now_s = time.monotonic()
            if update is not None:
                recorder.add(
                    update.stats,
                    decisions=learner.decisions,
                    updates=learner.updates,
                    elapsed_s=round(elapsed_s + now_s - began_s, 3),
                    entropy_weight=learner.entropy_weight,
                )
                display.update(learner.decisions, update.stats)
            if now_s - saved_s >= config.checkpoint_every_s:
                saved_s = now_s
                try:
                    save()
                except CheckpointError as error:
                    log.warning("%s; training goes on", error)
        save()
    return learner


def _executor(config: TrainConfig, learner: Learner, architecture: Architecture, make_envs: EnvFactory) -> Executor:
    if config.executor == "ray":
        from ccarena.agents.ray import RayExecutor

        return RayExecutor(learner, make_envs, config.agent, architecture, config.seed, config.device)
    side_by_side = min(config.threads, config.agent.workers)
    workers = [
        Worker(
            make_envs(index, config.threads // side_by_side),
            config.agent,
            architecture,
            *seeds(config.seed, index),
            device=config.device,
        )
        for index in range(config.agent.workers)
    ]
    return LocalExecutor(learner, workers, side_by_side)


def _finish(config: TrainConfig, out: Path, network: ActorCritic) -> None:
    """Saves the policy, evaluates it, and saves the figures with it."""
    training = config.model_dump(mode="json")
    to_artifact(network, training, config.seed).save(out / POLICY)
    print(f"policy: {out / POLICY}")
    if not config.eval.suites:
        return
    from ccarena.eval.evaluate import evaluate_run

    verdict = evaluate_run(out, config)
    if (out / EVALUATION).exists():
        figures = json.loads((out / EVALUATION).read_text(encoding="utf-8"))
        to_artifact(network, training, config.seed, figures).save(out / POLICY)
    print(verdict)
