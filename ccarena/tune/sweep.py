"""Trials on Ray Tune: drawn by a search, ended early by a scheduler, and stored so that a sweep can be resumed."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ccarena.agents.ray_start import check_gpus
from ccarena.configs import TrainConfig, load_config, own_files, save_config
from ccarena.configs.link_distribution import with_link_files
from ccarena.configs.located import located
from ccarena.core.files import write_atomically
from ccarena.core.terminal import again
from ccarena.errors import CcarenaError, ConfigError
from ccarena.executors.ray import connect, last_line, module
from ccarena.executors.shipping import Parcel
from ccarena.runs.remote_folder import Kind, is_url, remote_of, shown
from ccarena.tune import population, space_files
from ccarena.tune.packages import check_here, check_machines
from ccarena.tune.space import Space
from ccarena.tune.space import check as check_base
from ccarena.tune.trial import BASE, TRIALS, Base, Trials, advance, follow

log = logging.getLogger(__name__)

__all__ = ["EXPERIMENT", "PLAN", "POPULATION_BASED", "SWEEP", "Plan", "members", "prepare", "read_plan", "sweep"]

POPULATION_BASED = "pbt"
"""Scheduler of a population."""
PLAN, EXPERIMENT = "plan.json", "ray"
"""Files of the sweep's folder: the request, and what Ray Tune needs to resume."""
SWEEP = Kind("sweep", "sweep", PLAN, "ccarena tune", checkpoint="ray.zip", apart=(EXPERIMENT, TRIALS))
"""Kind of a sweep's folder. At a URL, trials send their own folders, and `ccarena.tune.state` packs the state of Ray
Tune.
"""


@dataclass(frozen=True)
class Plan:
    """Arguments that a sweep was started with."""

    name: str
    samples: int
    seeds: int
    search: str
    scheduler: str
    validations: int
    dimensions: dict[str, Any]
    command: str
    """Command that started the sweep."""
    files: dict[str, str] = field(default_factory=dict)
    """Files that the space names, as from `space_files.keep`."""


def read_plan(out: Path) -> Plan:
    """Returns the plan of the sweep in `out`. Raises ConfigError if there is none."""
    try:
        return Plan(**json.loads((out / PLAN).read_text("utf-8")))
    except OSError as error:
        raise ConfigError(f"--resume: {out} holds no sweep ({PLAN}: {error.strerror}); leave --resume out") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"--resume: {out / PLAN} is damaged: {error}; start another sweep") from error


def prepare(place: str, search: str, address: str | None, check: Callable[[], None] | None = None) -> None:
    """Connects to the cluster, and checks for the packages that trials, `search` and a sweep at `place` need.

    `check` is called once this machine has the packages, and before the cluster is asked. Raises what it does,
    MissingDependencyError for a package that a machine lacks, and ConfigError for the cluster's address. Writes
    nothing.
    """
    check_here(search)
    if check is not None:
        check()
    connect(address)
    check_machines(url=place if is_url(place) else None)


def sweep(out: Path, plan: Plan, space: Space, config: TrainConfig | None) -> tuple[list[dict[str, Any]], int]:
    """Runs the unfinished trials, and returns a row per trial: `trial`, `setting`, `error` and figures.

    Also returns the number of unfinished trials, which is above 0 after Ctrl-C. `config` is the configuration of a new
    sweep; None resumes the one in `out`. Call `prepare` first.

    Raises ConfigError if trials learn on GPUs that the cluster or one of its machines lacks, TrainingError if another
    sweep has resumed the one at this URL.
    """
    gpus = _gpus_each(load_config(out / BASE) if config is None else config)
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    # What is not kept when the sweep is killed is drawn anew: by default the trials of the last ten seconds.
    os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1")
    remote, trials = remote_of(out), Trials(shown(out))
    if config is not None:
        save_config(own_files.inside(own_files.keep(_located(config), out)), out / BASE)
        plan = replace(plan, files=space_files.keep(space, out))
        write_atomically(out / PLAN, json.dumps(asdict(plan), indent=1) + "\n")
    if remote is not None:
        remote.push()
    begun = load_config(out / BASE)
    check_base(begun)
    print(f"sweep in {shown(out)}; if it ends early, {again()}", file=sys.stderr)
    from ray import tune
    from ray.tune.experiment import Trial
    from ray.tune.search.basic_variant import BasicVariantGenerator

    from ccarena.tune.state import Sender, pack, unpack

    searcher = _searcher(plan, space)
    seeds = list(range(1, plan.seeds + 1))
    base = Parcel(Base.of(begun, space, plan.files, out))
    work = functools.partial(_trial, trials=trials, base=base, seeds=seeds)
    if plan.scheduler == POPULATION_BASED:
        from ccarena.tune.copying import complete

        for each in population.read(out)[-1:]:
            complete(trials, each, seeds)
        every = begun.validation.every_decisions or 1  # `ccarena tune` sets it
        work = functools.partial(_member, trials=trials, base=base, seeds=seeds, every=every, last=plan.validations)
    trainable = tune.with_resources(work, {"cpu": _cores_each(plan.seeds), "gpu": gpus})
    logging.getLogger("ray.tune").setLevel(logging.WARNING)
    # It warns of every trial that was killed before its first validation.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    logging.getLogger("ray.tune.execution.tune_controller").addFilter(_on_one_line)
    # Of steps that took long, as sending does.
    logging.getLogger("ray.tune.utils.util").setLevel(logging.ERROR)
    # Of Ctrl-C, and how to go on in Python; and a list of the trials that failed, which are in the report.
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)
    experiment = out / EXPERIMENT
    if remote is not None and config is None:
        unpack((out / SWEEP.checkpoint, out / SWEEP.previous), experiment)
    if config is None and tune.Tuner.can_restore(str(experiment)):
        tuner = tune.Tuner.restore(str(experiment), trainable, resume_unfinished=True, resume_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={} if searcher is not None else _param_space(tune, space),
            tune_config=tune.TuneConfig(
                metric="score",
                mode="max",
                num_samples=plan.samples,
                search_alg=searcher or BasicVariantGenerator(random_state=1),
                scheduler=_scheduler(plan, trials, space),
                trial_dirname_creator=_identifier,
            ),
            run_config=tune.RunConfig(
                name=EXPERIMENT,
                storage_path=str(out),
                failure_config=tune.FailureConfig(max_failures=3),
                verbose=0,
                callbacks=None if remote is None else [Sender(remote.url, EXPERIMENT)],
            ),
        )
    found = []
    try:
        results = tuner.fit()
    except Exception as error:
        if remote is not None:
            remote.check()
        if isinstance(error.__cause__, CcarenaError):  # of a callback or a scheduler of ours
            raise error.__cause__ from error
        raise
    comparisons = population.read(out)
    if remote is not None:
        pack((experiment,), out / SWEEP.checkpoint)
    for result in (results[number] for number in range(len(results))):
        figures = {name: (result.metrics or {}).get(name) for name in ("validation", "decisions", "score")}
        found.append(
            {
                # A trial that failed early has not even reported its identifier, but has its folder.
                "trial": Path(result.path).name,
                "setting": population.settings(comparisons, Path(result.path).name, result.config or {}),
                "error": None if result.error is None else str(result.error).strip().splitlines()[-1],
                **figures,
            }
        )
    # As they were kept: after Ctrl-C, Ray Tune ends trials that are not over, and calls them terminated.
    kept = tune.ExperimentAnalysis(str(experiment)).trials or []
    return found, sum(trial.status not in (Trial.TERMINATED, Trial.ERROR) for trial in kept)


def _on_one_line(record: logging.LogRecord) -> bool:
    """Replaces the traceback of a failed trial, which Ray Tune tries again, by its last line."""
    if record.exc_info and record.exc_info[1] is not None:
        record.msg, record.args = f"{record.getMessage()}: {last_line(record.exc_info[1])}", ()
        record.exc_info = record.exc_text = None
    return True


def members(plan: Plan, space: Space) -> int:
    """Returns the number of trials: a grid multiplies the samples."""
    return plan.samples * math.prod(len(each.values) for each in space.dimensions.values() if each.kind == "grid")


def _cores_each(seeds: int) -> int:
    """Returns the cores of a trial: one per seed on one machine, or all of the largest machine if that has fewer."""
    largest = max((int(each["Resources"].get("CPU", 0)) for each in module().nodes() if each["Alive"]), default=0)
    if 0 < largest < seeds:
        log.warning("no machine has %d cores: the %d seeds of a trial share %d", seeds, seeds, largest)
    return min(seeds, largest or seeds)


def _gpus_each(config: TrainConfig) -> int:
    """Returns the GPUs of a trial: one for all its seeds if they learn on one. Raises ConfigError without any, and as
    `check_gpus` does.
    """
    if config.device == "cpu" or config.learns_in is not None:
        return 0
    if not module().cluster_resources().get("GPU", 0):
        raise ConfigError(
            f"device = {config.device}: each trial takes a GPU, and no machine of the cluster has one; expected cpu, "
            "or a cluster with GPUs (--ray-address; `ray start --address ... --num-gpus 1` adds a machine)"
        )
    check_gpus(config.device)
    return 1


def _identifier(trial: Any) -> str:
    """Returns the name of a trial's folder, for Ray Tune and for us."""
    return str(trial.trial_id)


def _located(config: TrainConfig) -> TrainConfig:
    """Returns `config` with files in place of names, and absolute: a trial runs in a folder of its own."""
    files = with_link_files(config)
    absolute = {
        key: [os.path.abspath(each) if os.path.exists(each) else each for each in names]
        for key, names in located(files).items()
    }
    return load_config(files.model_dump(mode="json"), absolute)


def _trial(setting: Mapping[str, Any], trials: Trials, base: Parcel[Base], seeds: Sequence[int]) -> None:
    from ray import tune

    follow(trials, str(tune.get_context().get_trial_id()), base.open(), setting, seeds, tune.report)


def _member(
    setting: Mapping[str, Any], trials: Trials, base: Parcel[Base], seeds: Sequence[int], every: int, last: int
) -> None:
    """Trains a member of a population to its next validation, and reports it; Ray Tune calls it again after a pause."""
    from ray import tune

    with trials.sweep_folder(population.POPULATION) as folder:
        known = population.read(folder)
    next_one = 1 + max((each.validation for each in known), default=0)
    trial = str(tune.get_context().get_trial_id())
    for validation in range(next_one, last + 1):
        until = every * validation if validation < last else None
        tune.report(advance(trials, trial, base.open(), setting, seeds, validation, until))


def _param_space(tune: Any, space: Space) -> dict[str, Any]:
    makers: dict[str, Callable[..., Any]] = {
        "choice": lambda *values: tune.choice(list(values)),
        "uniform": tune.uniform,
        "log_uniform": tune.loguniform,
        "int": lambda low, high: tune.randint(low, high + 1),
        "log_int": lambda low, high: tune.lograndint(low, high + 1),
    }
    grid = {key: tune.grid_search(list(each.values)) for key, each in space.dimensions.items() if each.kind == "grid"}
    return grid | {key: makers[each.kind](*each.values) for key, each in space.dimensions.items() if key not in grid}


def _searcher(plan: Plan, space: Space) -> Any:
    """Returns the searcher; None lets Ray draw the settings."""
    if plan.search != "optuna":
        return None
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    kinds = optuna.distributions
    makers: dict[str, Callable[..., Any]] = {
        "choice": lambda *values: kinds.CategoricalDistribution(list(values)),
        "grid": lambda *values: kinds.CategoricalDistribution(list(values)),
        "uniform": kinds.FloatDistribution,
        "log_uniform": functools.partial(kinds.FloatDistribution, log=True),
        "int": kinds.IntDistribution,
        "log_int": functools.partial(kinds.IntDistribution, log=True),
    }
    drawn = {key: makers[each.kind](*each.values) for key, each in space.dimensions.items()}
    return OptunaSearch(drawn, metric="score", mode="max", seed=1)


def _scheduler(plan: Plan, trials: Trials, space: Space) -> Any:
    from ray.tune.schedulers import FIFOScheduler

    if plan.scheduler == "none":
        return FIFOScheduler()
    if plan.scheduler == POPULATION_BASED:
        from ccarena.tune.pbt import Population

        return Population(trials, range(1, plan.seeds + 1), space, members(plan, space), plan.validations)
    from ccarena.tune.asha import Asha

    # A trial that gets to its last validation ends by itself, with its runs' policies written.
    return Asha(trials, range(1, plan.seeds + 1), plan.validations + 1)
