"""Function `ccarena.train`: it takes a configuration and writes a run folder with checkpoints, policy and page."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena.agents import tracking
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.load import DEFAULT
from ccarena.core.files import check_writable
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.runs.remote_folder import is_url, opened
from ccarena.runs.run_folder import CONFIG, POLICY, PROGRESS, free_folder, newest_run, read_progress, resume_command

if TYPE_CHECKING:
    import pandas as pd

    from ccarena.policies.artifact import Artifact

__all__ = ["Training", "check_names", "check_reward", "resumed", "train"]


@dataclass(frozen=True, repr=False)
class Training:
    """Finished or interrupted training: its folder and files."""

    folder: Path
    config: TrainConfig
    """Configuration with every key filled in."""
    finished: bool
    """False if a signal ended it: `ccarena.train(config, out=folder, resume=True)` continues it."""

    def __repr__(self) -> str:
        state = "finished" if self.finished else "interrupted"
        return f"Training {self.config.name} in {self.folder}, {state}: .policy(), .progress(), .config"

    def policy(self) -> Artifact:
        """Returns the trained policy. Raises PolicyError if there is none yet."""
        from ccarena.policies.artifact import load

        return load(self.folder / POLICY)

    def progress(self) -> pd.DataFrame:
        """Returns figures of the training, a row per update: `decisions` so far, `reward_mean`, and the algorithm's
        own.
        """
        from ccarena.core.columns import as_pandas, of_rows

        return as_pandas(of_rows(read_progress(self.folder / PROGRESS)))


def train(
    config: str | os.PathLike[str] | Mapping[str, Any] | TrainConfig = DEFAULT,
    overrides: Mapping[str, Any] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    command: str | None = None,
    until: int | None = None,
) -> Training:
    """Trains a policy, evaluates it as its configuration says, and writes the run's folder (docs/training.md).

    Arguments:
        config: the name of a shipped configuration (acct, hyvar, ...), a YAML file, a mapping, or a loaded one.
        overrides: values by dotted key, such as `{"total_decisions": 100_000, "env.link.rate_mbps": [5, 50]}`.
        out: folder of the run, or a URL that fsspec knows, such as `s3://bucket/run` (docs/cluster.md); `runs/NAME` if
            None, with a number where that holds a run.
        resume: go on with the run in `out` (the newest `runs/NAME` if None), by its own configuration and `overrides`.
        command: the shell line that asked for this, for the run's page; one that does the same if None.
        until: end with a checkpoint, to go on with later, after the first validation at or beyond so many decisions.

    Progress goes to stderr, the verdict to stdout. SIGINT and SIGTERM end it with a checkpoint. Raises ConfigError,
    TraceError or ScenarioError for what cannot be trained before anything is written; CheckpointError if it cannot be
    resumed; TrainingError if learning breaks down; MissingDependencyError without PyTorch.
    """
    if until is not None and until < 1:
        raise ConfigError(f"until = {until}: expected at least 1")
    changes = {**(overrides or {}), **({} if out is None else {"out": os.fspath(out)})}
    # A run goes on with its own configuration, so here the other one only says which run.
    used = {key: value for key, value in changes.items() if key in ("name", "out")} if resume else changes
    given = load_config(config.model_dump(mode="json") if isinstance(config, TrainConfig) else config, used)
    if given.out is not None and is_url(given.out):
        with opened(given.out, resume) as here:
            return train(config, changes, out=here, resume=resume, command=command, until=until)
    chosen = resumed(given, changes) if resume else given
    # The native extension from here on: `--print-config` does without it.
    from ccarena.configs.link_distribution import name_traces

    check_names(chosen)
    if not resume:
        folder = free_folder(chosen.name, chosen.out)
        check_writable(folder)
        chosen = chosen.model_copy(update={"out": str(folder), "env": name_traces(chosen.env)})
        if chosen.env.link.kinds.trace > 0 and chosen.env.link.traces == "auto":
            print("no recorded traces found: training on synthetic capacity alone (`ccarena traces fetch nyc-lte`)")
    tracking.check(chosen)
    if find_spec("torch") is None:
        raise MissingDependencyError.for_extra("torch", "train", "training")
    if "torch" not in sys.modules:
        print("loading PyTorch", file=sys.stderr, flush=True)  # which is silent for seconds
    # Threads of OpenMP cost more than they give on networks this small; torch reads this when it is loaded.
    os.environ["OMP_NUM_THREADS"] = "1"
    from ccarena.agents.ray_start import on_its_cluster

    with on_its_cluster(chosen, meanwhile="ccarena.agents.train"):
        from ccarena.agents.train import train as learn

        code = learn(chosen, resume=resume, command=command or _command(chosen, resume), until=until)
    return Training(Path(str(chosen.out)), chosen, finished=code == 0)


def _command(config: TrainConfig, resume: bool) -> str:
    """Returns the shell line that resumes a run, or trains it again in a new folder."""
    folder = Path(str(config.out))
    if resume:
        return resume_command(folder)
    return shlex.join(["ccarena", "train", "--config", str(folder / CONFIG), "--out", f"{folder}-again"])


def check_names(config: TrainConfig) -> None:
    """Raises ConfigError, TraceError or ScenarioError for what `config` names and this machine does not find, or for
    its arguments: spec, reward, objective, presets, recordings and schemes. Needs no PyTorch.
    """
    from ccarena.configs.link_distribution import distribution_json, heuristics
    from ccarena.envs.objectives import Objective

    check_reward(config)
    Objective(config.objective)
    distribution_json(config)
    heuristics("baselines", config.baselines)


def check_reward(config: TrainConfig) -> None:
    """Raises ConfigError if the reward, or a coefficient of it, does not exist or does not fit the spec."""
    from ccarena.envs.rewards import Reward
    from ccarena.policies.spec import spec_of

    Reward(config.reward, spec_of(config))


def resumed(config: TrainConfig, overrides: Mapping[str, Any]) -> TrainConfig:
    """Loads the configuration of the run that `config` names, and applies `overrides`.

    A run is resumed with its own configuration. Raises ConfigError if there is no run.
    """
    folder = Path(config.out) if config.out else newest_run(config.name)
    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"--resume: {folder} holds no run (no {CONFIG}); give its folder with --out, or leave --resume out"
        )
    return load_config(folder / CONFIG, {**overrides, "out": str(folder)})
