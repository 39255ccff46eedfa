"""Training run: algorithm from the configuration, checkpoints, progress, policy, evaluation and page."""

from __future__ import annotations

import importlib.util
import json
import logging
import random
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ccarena.agents import checkpoint, curriculum, tracking
from ccarena.agents.algorithm import Algorithm, Context, MakeEnvs, Stats
from ccarena.agents.algorithms import build
from ccarena.agents.curriculum import Curriculum
from ccarena.agents.observed import observed_range
from ccarena.agents.progress import Display, Recorder, ReportSums
from ccarena.agents.runs import JUDGING, check_device, check_sources, fixed, locked, resumable, signals, sources
from ccarena.agents.tracking import flat, tracker
from ccarena.agents.validation import Best, Validator, kinds_of
from ccarena.agents.worlds import environments
from ccarena.configs import TrainConfig, load_config, own_files, save_config
from ccarena.configs.link_distribution import OWN, param_bounds, trained_on
from ccarena.configs.ranges import Ranges
from ccarena.core.terminal import progress_bar, remember
from ccarena.envs.trials import Candidate, Trials
from ccarena.errors import (
    INTERRUPTED,
    CheckpointError,
    ConfigError,
    MissingDependencyError,
    WriteError,
    cannot_write,
)
from ccarena.eval.heldout.expectations import check_figures
from ccarena.eval.heldout.links import check_recordings
from ccarena.eval.heldout.summary import print_answers
from ccarena.executors.ray_metrics import Gauges
from ccarena.policies import artifact, export, modules, tensorfile
from ccarena.policies.agreement import Decide
from ccarena.policies.answers import of_evaluation
from ccarena.policies.artifact import Artifact
from ccarena.policies.curve import of_progress
from ccarena.policies.networks import states_of
from ccarena.policies.spec import spec_of
from ccarena.runs.remote_folder import remote_of, shown
from ccarena.runs.run_folder import (
    BEST,
    CONFIG,
    EVALUATION,
    LAST,
    POLICY,
    PROGRESS,
    read_commands,
    read_progress,
    resume_command,
    write_commands,
)

__all__ = ["artifact_of", "check", "check_elsewhere", "train"]

log = logging.getLogger(__name__)

VALIDATIONS, LEAST_BETWEEN = 10, 100_000
"""Defaults of validation: their number in a training, and the least number of decisions between two of them."""


def train(
    config: TrainConfig,
    resume: bool = False,
    make_envs: MakeEnvs | None = None,
    command: str | None = None,
    until: int | None = None,
) -> int:
    """Trains in the folder `config.out` (`runs/NAME` if None), evaluates, and returns the process's exit code.

    The folder gets `config.yaml`, `progress.jsonl`, TensorBoard logs, checkpoints, `policy.safetensors` and the
    evaluation's files. SIGINT and SIGTERM end the training with a checkpoint and 130.

    `resume`: continue from the last checkpoint; under the local executor the result equals that of an uninterrupted run
    bit for bit. `make_envs` replaces the configured environment. `command` is the shell line for the run's page.

    Raises:
        ConfigError: the folder holds a run and `resume` is off, the reward, network or algorithm cannot be used, or
            `make_envs` is given beside `env.link.attack`.
        CheckpointError: the run cannot be resumed.
        TrainingError: learning breaks down.
        WriteError: the disk is full.
    """
    if make_envs is not None and config.env.link.attack is not None:
        raise ConfigError(
            "env.link.attack: finds join the configured environment, and make_envs replaces it; leave out make_envs, "
            "or set env.link.attack to null"
        )
    out = Path(config.out or Path("runs", config.name))
    context = Context(config, spec_of(config), make_envs or environments(config))
    check(context)
    # Networks this small lose more to a thread pool than they gain, and one thread is what makes sums reproducible.
    torch.set_num_threads(1)
    with closing(build(context)) as algorithm, locked(out):
        curriculum.check(config, algorithm)
        start = resumable(context.portable, out) if resume else None
        if not resume:
            if (out / CONFIG).exists():
                raise ConfigError(f"{out}: holds a run already; go on with it ({resume_command(out)}), or name another")
            config = own_files.keep(config, out)
            save_config(own_files.inside(config), out / CONFIG)
            # What is edited from now on changes nothing of this run.
            context = replace(context, config=config)
        for line in own_files.changed(out):
            print(line, file=sys.stderr)
        remember(resume_command(out), lambda: f"the run is kept in {shown(out)}")
        if command is not None:
            write_commands(out, [*read_commands(out), command])
        print(f"training in {shown(out)}; if it ends early, go on with: {resume_command(out)}", file=sys.stderr)
        attacks = None if config.env.link.attack is None else Curriculum(context, config.env.link.attack, out)
        best = _learn(context, algorithm, out, start, attacks, until)
        if stopped_early(config, best):
            print(f"stopped after {best.worse} validations without a better policy", file=sys.stderr)
        elif algorithm.decisions < config.total_decisions:
            where = f"after {algorithm.decisions:,} decisions"
            print(f"interrupted {where}; go on with: {resume_command(out)}", file=sys.stderr)
            return INTERRUPTED
        _finish(context, out, learned(context, algorithm, attacks), best)
    return 0


def check(context: Context) -> None:
    """Raises ConfigError or MissingDependencyError for settings that cannot be used, before anything is written."""
    config = context.config
    check_device(config)
    if config.executor == "ray" and importlib.util.find_spec("ray") is None:
        raise MissingDependencyError.for_extra("ray", "ray", "executor = ray")
    tracking.check(config)
    _check_settings(context)


def check_elsewhere(config: TrainConfig) -> None:
    """Raises what `train` does before it writes anything, for a training on another machine.

    That machine has the device and the packages of trackers.
    """
    here = config.model_copy(update={"device": "cpu"})
    if config.algorithm.steps_together or config.algorithm.whole_runs:
        here = here.model_copy(update={"executor": "local"})  # else building it starts processes on a cluster
    context = Context(here, spec_of(here), environments(here))
    _check_settings(context)
    with closing(build(context)) as algorithm:
        curriculum.check(here, algorithm)


def _check_settings(context: Context) -> None:
    """Raises ConfigError for settings that no machine can use."""
    config = context.config
    if OWN in config.env.cross_traffic.schemes and config.algorithm.even_learners:
        raise ConfigError(
            f"env.cross_traffic.schemes: {OWN} is for evolution (cma_es, es), which runs whole episodes; "
            f"{config.algorithm.name} steps as many learners in every world: take it out, and set env.learners"
        )
    for constant in config.constant_actions:
        context.spec.constant(constant.action)
    # An operation that an artifact cannot say is found now, not after hours.
    network = context.network(context.spec.outputs)
    export.check(network, context.spec.interface, state=states_of(network))
    _check_judging(context)


def _check_judging(context: Context) -> None:
    """Raises ConfigError for settings that would fail only when the trained policy is judged, at the end."""
    config, spec = context.config, context.spec
    kinds_of(config)
    ReportSums(spec, config.progress)
    check_recordings(config.eval.recordings)
    Ranges.of(param_bounds(config), config.rules.law, "rules.law")
    check_figures(config.expectations)
    # An objective of one's own is known by what it answers. Of one run, which takes a fraction of a second.
    answer = 0.0 if spec.bounds is None else [low for low, _ in spec.bounds]
    Trials(config, spec, 1).run([Candidate(answer)], config.seed, 1)


class _Run:
    """Training loop of one run (`ccarena.agents.algorithm.Run`): it records, validates, saves and stops."""

    def __init__(
        self,
        context: Context,
        algorithm: Algorithm,
        out: Path,
        recorder: Recorder,
        display: Display,
        interrupted: threading.Event,
        elapsed_s: float,
        best: Best,
        attacks: Curriculum | None,
        until: int | None,
    ) -> None:
        self._context, self._config, self._algorithm, self._out = context, context.config, algorithm, out
        self._recorder, self._display, self._interrupted = recorder, display, interrupted
        self._sources = sources(self._config)
        self._began_s = self._saved_s = time.monotonic()
        self._elapsed_s = elapsed_s
        self._has_checkpoint = checkpoint.exists(out)
        self._best, self._attacks, self._until = best, attacks, until
        self._remote = remote_of(out)
        self._gauges = Gauges(shown(out)) if self._config.executor == "ray" else None
        self._validator = Validator(context) if self._config.validation.kinds else None

    def record(self, stats: Stats, *, updates: int = 0, **now: float) -> None:
        decisions = self._algorithm.decisions
        elapsed_s = round(self._elapsed_s + time.monotonic() - self._began_s, 3)
        row = self._recorder.add(stats, decisions=decisions, updates=updates, elapsed_s=elapsed_s, **now)
        if self._gauges is not None:
            self._gauges.set(decisions, {**now, **(row or {})})
        self._display.update(decisions, stats)

    def rest(self) -> bool:
        if self._remote is not None:
            self._remote.check()
        if self._interrupted.is_set():
            self._save()
            return False
        over = self._algorithm.decisions >= self._config.total_decisions
        if self._validator is not None and self._is_due(over):
            self._validate(self._validator)
        paused = self._until is not None and self._best.validated >= self._until
        if over or paused or stopped_early(self._config, self._best):
            self._save()
            return False
        if self._attacks is not None and self._attacks.is_due(self._algorithm.decisions):
            self._attack(self._attacks)
        if not self._has_checkpoint:
            self._save()  # a folder that cannot hold a checkpoint is found now, not after hours
            self._has_checkpoint = True
            return True
        now_s = time.monotonic()
        if now_s - self._saved_s >= self._config.checkpoint_every_s:
            self._saved_s = now_s
            try:
                self._save()
            except (ConfigError, WriteError) as error:
                log.warning("%s; training goes on", error)
        return True

    def _is_due(self, over: bool) -> bool:
        """Returns whether a validation is due: at regular intervals, and at the end.

        Evolution is also judged at its start, which is often the base alone, so that the chosen policy is no worse.
        """
        decisions, last = self._algorithm.decisions, self._best.validated
        if decisions == 0:
            return self._config.algorithm.whole_runs and not self._best.policy
        every = self._config.validation.every_decisions or max(
            self._config.total_decisions // VALIDATIONS, LEAST_BETWEEN
        )
        return decisions // every > last // every or (over and decisions > last)

    def _attack(self, attacks: Curriculum) -> None:
        """Attacks the current policy, and goes on with the finds among the links."""
        self._algorithm.state()  # as for a validation
        decisions = self._algorithm.decisions
        with _random_state_kept():
            found = attacks.refresh(learned(self._context, self._algorithm, attacks), decisions)
        self._algorithm.move(attacks.context())  # type: ignore[attr-defined]
        self._display.note(f"attacked after {decisions:,} decisions: {found} links on which the policy fails")

    def _validate(self, validator: Validator) -> None:
        # Its workers have finished what they were at: PyTorch traces a network by patching all of them meanwhile.
        self._algorithm.state()
        with _random_state_kept():
            policy = learned(self._context, self._algorithm, self._attacks)
            result = validator(policy)
        decisions, data = self._algorithm.decisions, policy.encode()
        is_best = self._best.offer(data, result.score, decisions)
        if is_best:
            _write(self._out, BEST, data)
        self._recorder.validated(result.row(), result.actions, decisions)
        best = "the best so far" if is_best else f"best {self._best.score:.3f}, after {self._best.decisions:,}"
        self._display.note(f"validated after {decisions:,} decisions: score {result.score:.3f} ({best})")
        self._send()  # a sweep compares trials by their validations

    def _save(self) -> None:
        arrays, rest = self._algorithm.state()
        best_arrays, best = self._best.state()
        whole = {
            "config": fixed(self._context.portable),
            "sources": self._sources,
            "algorithm": rest,
            "recorder": self._recorder.state(),
            "validation": best,
            "attacks": None if self._attacks is None else self._attacks.state(),
            "elapsed_s": self._elapsed_s + time.monotonic() - self._began_s,
        }
        parts = {f"algorithm.{k}": a for k, a in arrays.items()} | {f"best.{k}": a for k, a in best_arrays.items()}
        made = checkpoint.Checkpoint(parts, whole)
        checkpoint.save(self._out, made, self._config.checkpoints_kept, self._algorithm.decisions)
        self._send()

    def _send(self) -> None:
        if self._remote is not None:
            try:
                self._remote.push()
            except ConfigError as error:
                log.warning("%s; training goes on, and the next checkpoint tries again", error)


def stopped_early(config: TrainConfig, best: Best) -> bool:
    """Returns whether `validation.patience` is used up."""
    return config.validation.patience is not None and best.worse >= config.validation.patience


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Restores the global random generators after the block, which then does not change the training."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _learn(
    context: Context,
    algorithm: Algorithm,
    out: Path,
    start: checkpoint.Checkpoint | None,
    attacks: Curriculum | None,
    until: int | None,
) -> Best:
    """Trains to the end, or until a signal; the last checkpoint has the final state.

    Returns the best policy of all validated.
    """
    config, shares, best = context.config, context.config.progress.shares, Best()
    recorder, elapsed_s = Recorder(out, config.total_decisions, shares), 0.0
    if start is not None:
        try:
            if attacks is not None:
                attacks.restore(start.rest["attacks"])
                algorithm.move(attacks.context())  # type: ignore[attr-defined]
            algorithm.restore(start.part("algorithm"), start.rest["algorithm"])
            recorder.restore(start.rest["recorder"])
            best.restore(start.part("best"), start.rest["validation"])
            elapsed_s = start.rest["elapsed_s"]
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{out}: the checkpoint does not fit this configuration: {error}") from error
        if best.policy:
            _write(out, BEST, best.policy)
    else:
        recorder.clear()
    if algorithm.decisions >= config.total_decisions or stopped_early(config, best):
        return best
    if start is not None:
        check_sources(config, start, out)
    with ExitStack() as stack:
        recorder.board(flat(config), tracker(config, out))
        stack.enter_context(closing(recorder))
        display = stack.enter_context(closing(Display(config.total_decisions, algorithm.decisions, shares)))
        interrupted = stack.enter_context(signals(display.note))
        algorithm.learn(_Run(context, algorithm, out, recorder, display, interrupted, elapsed_s, best, attacks, until))
    return best


def _write(out: Path, name: str, data: bytes) -> None:
    """Writes a policy's file. Raises ConfigError or WriteError, which says how to continue."""
    try:
        tensorfile.write_bytes(out / name, data)
    except OSError as error:
        advice = f"free some space, then go on with: {resume_command(out)}"
        raise cannot_write(out / name, error, advice, "the policy") from error


def learned(context: Context, algorithm: Algorithm, attacks: Curriculum | None = None) -> Artifact:
    """Returns the artifact of the current policy of `algorithm`. Raises PolicyError as `artifact_of` does."""
    params: Callable[[], dict[str, float]] = getattr(algorithm, "params", dict)
    model: Callable[[], Decide | None] = getattr(algorithm, "model", lambda: None)
    finds = () if attacks is None else attacks.finds
    return artifact_of(context, algorithm.policy(), params(), model(), finds)


def artifact_of(
    context: Context,
    policy: torch.nn.Module,
    found: Mapping[str, float] | None = None,
    model: Decide | None = None,
    finds: Sequence[Path] = (),
) -> Artifact:
    """Returns the artifact of a trained `policy`: its network, interface and provenance.

    `found` are learned parameters, `finds` scenarios of attacks that it was trained on. Raises PolicyError if the
    artifact decides otherwise than `model` (default: the policy itself) on recorded observations.
    """
    config, spec = context.config, context.spec
    return modules.to_artifact(
        policy,
        spec.interface,
        state=states_of(policy),
        model=model,
        name=config.algorithm.name,
        params=spec.values({**config.params, **(found or {})}),
        training=context.portable,
        seed=config.seed,
        trained_on=trained_on(config, finds),
    )


def _finish(context: Context, out: Path, chosen: Artifact, best: Best) -> None:
    """Saves the policy, evaluates it, and saves its figures in the artifact.

    A run that was finished before keeps its verdict, and the count of tests on its tested links.
    """
    config = context.config
    before = artifact.load(out / POLICY) if (out / POLICY).is_file() else None
    tests = before.tests if before is not None else 0
    last = chosen = replace(chosen, curve=of_progress(read_progress(out / PROGRESS)), tests=tests)
    if best.policy:
        _write(out, BEST, best.policy)
        if config.validation.policy == "best":
            chosen = replace(artifact.load(out / BEST), curve=chosen.curve, tests=tests)
            print(f"the best policy of all validated is that after {best.decisions:,} decisions")
    if before is not None and before.evaluation and _is_same_network(before, chosen):
        chosen = replace(chosen, evaluation=before.evaluation, rules=before.rules)
        if not _is_to_be_judged(config, out):
            print(
                f"policy: {out / POLICY}, trained and judged before; to train on, give a larger total_decisions; to "
                f"judge it again: {shlex.join(['ccarena', 'eval', str(out)])}"
            )
            print_answers(of_evaluation(before.evaluation))
            return
    if best.policy:
        _write(out, LAST, last.encode())
    chosen = replace(chosen, observed=observed_range(config, chosen))
    _write(out, POLICY, chosen.encode())
    print(f"policy: {out / POLICY}")
    if config.eval.link_sets:
        _judge(context, out, chosen)


def _is_same_network(one: Artifact, other: Artifact) -> bool:
    mine, theirs = one.tensors, other.tensors
    same = one.graph.to_json() == other.graph.to_json() and mine.keys() == theirs.keys()
    return same and all(np.array_equal(mine[name], theirs[name]) for name in mine)


def _is_to_be_judged(config: TrainConfig, out: Path) -> bool:
    """Returns whether to judge a policy again: its settings differ from the run's, or its files are gone."""
    was = load_config(out / CONFIG)
    return any(getattr(was, key) != getattr(config, key) for key in JUDGING) or not (out / EVALUATION).is_file()


def _judge(context: Context, out: Path, chosen: Artifact) -> None:
    """Evaluates the policy in `out`, given as `chosen`, and saves rules and figures in its artifact."""
    from ccarena.eval.heldout.rules import search
    from ccarena.eval.heldout.training_run import evaluate_run

    config, rules = context.config, []
    if config.rules.links:
        with progress_bar("searching rules") as progress:
            rules = [rule.as_dict() for rule in search(config, context.spec, config.threads, progress)]
    # Counted before the links are opened; the verdict of before stands until there is another.
    chosen = replace(chosen, rules=rules, tests=chosen.tests + 1)
    _write(out, POLICY, chosen.encode())
    verdict = evaluate_run(out, config)
    if (out / EVALUATION).exists():
        figures = json.loads((out / EVALUATION).read_text(encoding="utf-8"))
        _write(out, POLICY, replace(chosen, evaluation=figures).encode())
    print_answers(verdict.answers)
