"""The training run: an algorithm from the record, checkpoints, progress, policy, evaluation and report."""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from ccarena.agents import checkpoint
from ccarena.agents.algorithm import Algorithm, Context, MakeEnvs, Stats
from ccarena.agents.algorithms import build
from ccarena.agents.progress import Display, Recorder
from ccarena.agents.runs import INTERRUPTED, check_device, fixed, locked, resumable, signals
from ccarena.configs import TrainConfig, save_config
from ccarena.envs.domain import trained_on
from ccarena.envs.spec import spec_of
from ccarena.errors import CheckpointError, ConfigError, MissingDependencyError, PolicyError
from ccarena.policies import export
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.networks import states_of
from ccarena.run_folder import CONFIG, EVALUATION, POLICY, resume_command
from ccarena.terminal import progress_bar

__all__ = ["artifact_of", "check", "environments", "train"]

log = logging.getLogger(__name__)


def train(config: TrainConfig, resume: bool = False, make_envs: MakeEnvs | None = None) -> int:
    """Trains in the folder `config.out` (`runs/NAME` if None), evaluates, and returns the process's exit code.

    The folder gets `config.yaml`, `progress.jsonl`, TensorBoard logs, checkpoints, `policy.safetensors` and what the
    evaluation writes. SIGINT and SIGTERM end it with a checkpoint and 130. With `resume` it goes on from the last
    checkpoint; under the local executor the result is bit for bit that of an uninterrupted run. `make_envs` replaces
    the configured environment.

    Raises ConfigError if the folder holds a run and `resume` is off, or if the record's reward, network or algorithm
    cannot be used; CheckpointError if it cannot be resumed, TrainingError if learning breaks down.
    """
    out = Path(config.out or Path("runs", config.name))
    context = Context(config, spec_of(config), make_envs or environments(config))
    check(context)
    # Networks this small lose more to a thread pool than they gain, and one thread is what makes sums reproducible.
    torch.set_num_threads(1)
    with closing(build(context)) as algorithm, locked(out):
        start = resumable(config, out) if resume else None
        if not resume:
            if (out / CONFIG).exists():
                raise ConfigError(f"{out}: holds a run already; go on with it ({resume_command(out)}), or name another")
            save_config(config, out / CONFIG)
        print(f"training in {out}; if it ends early, go on with: {resume_command(out)}", file=sys.stderr)
        _learn(context, algorithm, out, start)
        if algorithm.decisions < config.total_decisions:
            where = f"after {algorithm.decisions:,} decisions"
            print(f"interrupted {where}; go on with: {resume_command(out)}", file=sys.stderr)
            return INTERRUPTED
        _finish(context, out, algorithm.policy(), found_params(algorithm))
    return 0


def environments(config: TrainConfig) -> MakeEnvs:
    """The configured distribution, in as many rows as are asked for."""
    return functools.partial(_make_envs, config)


def _make_envs(config: TrainConfig, rows: int, threads: int, privileged: bool = False) -> gym.vector.VectorEnv:
    from ccarena.envs import LearnedVectorEnv

    # Without copies: an algorithm puts what it keeps into its own buffers.
    return LearnedVectorEnv(config, rows, threads=threads, copy=False, privileged=privileged)


def check(context: Context) -> None:
    """Raises ConfigError or MissingDependencyError for what the record asks in vain, before anything is written."""
    config = context.config
    check_device(config.device)
    if config.executor == "ray" and importlib.util.find_spec("ray") is None:
        raise MissingDependencyError.for_extra("ray", "ray", "executor = ray")
    for control in config.controls:
        context.spec.constant(control.action)
    # An operation that an artifact cannot say is found now, not after hours.
    network = context.network(context.spec.outputs)
    export.check(network, context.spec.contract, state=states_of(network))


class _Run:
    """The training as an algorithm sees it (`ccarena.agents.algorithm.Run`): records, shows, saves and stops."""

    def __init__(
        self,
        config: TrainConfig,
        algorithm: Algorithm,
        out: Path,
        recorder: Recorder,
        display: Display,
        interrupted: threading.Event,
        elapsed_s: float,
    ) -> None:
        self._config, self._algorithm, self._out = config, algorithm, out
        self._recorder, self._display, self._interrupted = recorder, display, interrupted
        self._began_s = self._saved_s = time.monotonic()
        self._elapsed_s = elapsed_s
        self._has_checkpoint = checkpoint.exists(out)

    def record(self, stats: Stats, *, updates: int = 0, **now: float) -> None:
        decisions = self._algorithm.decisions
        elapsed_s = round(self._elapsed_s + time.monotonic() - self._began_s, 3)
        self._recorder.add(stats, decisions=decisions, updates=updates, elapsed_s=elapsed_s, **now)
        self._display.update(decisions, stats)

    def rest(self) -> bool:
        if self._algorithm.decisions >= self._config.total_decisions or self._interrupted.is_set():
            self._save()
            return False
        if not self._has_checkpoint:
            self._save()  # a folder that cannot hold a checkpoint is found now, not after hours
            self._has_checkpoint = True
            return True
        now_s = time.monotonic()
        if now_s - self._saved_s >= self._config.checkpoint_every_s:
            self._saved_s = now_s
            try:
                self._save()
            except CheckpointError as error:
                log.warning("%s; training goes on", error)
        return True

    def _save(self) -> None:
        arrays, rest = self._algorithm.state()
        whole = {
            "config": fixed(self._config),
            "algorithm": rest,
            "recorder": self._recorder.state(),
            "elapsed_s": self._elapsed_s + time.monotonic() - self._began_s,
        }
        checkpoint.save(self._out, checkpoint.Checkpoint({f"algorithm.{k}": a for k, a in arrays.items()}, whole))


def _learn(context: Context, algorithm: Algorithm, out: Path, start: checkpoint.Checkpoint | None) -> None:
    """Trains to the end, or until a signal; the last checkpoint is that of the algorithm's state then."""
    config, shares = context.config, context.config.progress.shares
    recorder, elapsed_s = Recorder(out, config.total_decisions, shares), 0.0
    if start is not None:
        try:
            algorithm.restore(start.part("algorithm"), start.rest["algorithm"])
            recorder.restore(start.rest["recorder"])
            elapsed_s = start.rest["elapsed_s"]
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{out}: the checkpoint does not fit this configuration: {error}") from error
    else:
        recorder.clear()
    if algorithm.decisions >= config.total_decisions:
        return
    with ExitStack() as stack:
        stack.enter_context(closing(recorder))
        interrupted = stack.enter_context(signals())
        display = stack.enter_context(closing(Display(config.total_decisions, algorithm.decisions, shares)))
        algorithm.learn(_Run(config, algorithm, out, recorder, display, interrupted, elapsed_s))


def found_params(algorithm: Algorithm) -> dict[str, float]:
    """The document's parameters that `algorithm` has found, if it searches any (`Algorithm`)."""
    params: Callable[[], dict[str, float]] = getattr(algorithm, "params", dict)
    return params()


def artifact_of(
    context: Context,
    policy: torch.nn.Module,
    found: Mapping[str, float] | None = None,
) -> Artifact:
    """The artifact of a trained `policy`: what it computes, what it is for and where it comes from.

    `found` are parameters that were learned, too.
    """
    config, spec = context.config, context.spec
    return Artifact.of(
        export.to_graph(policy, spec.size, state=states_of(policy)),
        spec.contract,
        params=spec.values({**config.params, **(found or {})}),
        training=config.model_dump(mode="json"),
        seed=config.seed,
        trained_on=trained_on(config),
    )


def _finish(context: Context, out: Path, policy: torch.nn.Module, found: Mapping[str, float]) -> None:
    """Saves the policy, evaluates it, and saves the figures with it."""
    config = context.config
    # Of a run that was finished before and then went on: its links have been opened.
    tests = load(out / POLICY).tests if (out / POLICY).is_file() else 0
    artifact = artifact_of(context, policy, found=found)
    try:
        artifact.save(out / POLICY)
    except PolicyError as error:
        raise PolicyError(f"{error}; the training itself is saved, then go on with: {resume_command(out)}") from error
    print(f"policy: {out / POLICY}")
    if not config.eval.link_sets:
        return
    from ccarena.eval.heldout.rules import search
    from ccarena.eval.heldout.training_run import evaluate_run

    rules: list[dict[str, Any]] = []
    if config.rules.links:
        with progress_bar("searching rules") as progress:
            rules = [rule.as_dict() for rule in search(config, context.spec, config.threads, progress)]
    artifact = replace(artifact, rules=rules, tests=tests + 1)
    artifact.save(out / POLICY)
    verdict = evaluate_run(out, config)
    if (out / EVALUATION).exists():
        figures = json.loads((out / EVALUATION).read_text(encoding="utf-8"))
        replace(artifact, evaluation=figures).save(out / POLICY)
    print(verdict)
