"""Weights & Biases and MLflow: they get TensorBoard's figures if the configuration names one of them.

W&B copies TensorBoard's files by itself (`sync_tensorboard`); MLflow gets the scalars from here. Their own variables
choose the server: `WANDB_MODE=offline`, `MLFLOW_TRACKING_URI` and so on. A resumed training continues the same run
there.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ccarena.configs import TrainConfig
from ccarena.errors import MissingDependencyError, TrainingError

__all__ = ["Tracker", "check", "tracker"]

PROJECT = "ccarena"
_FILE = "tracking.json"
"""File of the run's folder with the identifier of the run at each service."""


class Tracker(Protocol):
    """Service that receives the learning curve."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Takes figures after `step` decisions."""

    def close(self) -> None:
        """Ends the run at the service."""


def check(config: TrainConfig) -> None:
    """Raises MissingDependencyError if the package of `track` is not installed."""
    if config.track != "none" and importlib.util.find_spec(config.track) is None:
        raise MissingDependencyError.for_extra(config.track, config.track, f"track = {config.track}")


def tracker(config: TrainConfig, out: Path) -> Tracker | None:
    """Starts the configured service and returns its tracker; call it before TensorBoard's writer is made. None without
    a service.

    Raises TrainingError if the service does not answer or refuses.
    """
    if config.track == "none":
        return None
    try:
        return (_Wandb if config.track == "wandb" else _Mlflow)(config, out)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise TrainingError(f"track = {config.track}: {error}; give --track none to train without") from error
    except Exception as error:
        # Each has a tree of errors of its own, which is not there to be named without its package.
        raise TrainingError(
            f"track = {config.track}: {type(error).__name__}: {error}; give --track none to train without"
        ) from error


def flat(config: TrainConfig) -> dict[str, Any]:
    """Returns every leaf of the configuration by its dotted path: numbers, texts and booleans unchanged, the rest as
    JSON.
    """
    found: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Mapping) and value and path != "spec":
            for name, child in value.items():
                walk(child, f"{path}.{name}" if path else str(name))
        else:
            found[path] = value if isinstance(value, (bool, int, float, str)) else json.dumps(value)

    walk(config.model_dump(mode="json"), "")
    return found


def _known(out: Path) -> dict[str, str]:
    path = out / _FILE
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


def _remember(out: Path, service: str, run: str) -> None:
    (out / _FILE).write_text(json.dumps(_known(out) | {service: run}) + "\n", encoding="utf-8")


class _Wandb:
    def __init__(self, config: TrainConfig, out: Path) -> None:
        import wandb

        self._run = wandb.init(
            project=PROJECT,
            name=config.name,
            id=_known(out).get("wandb"),
            resume="allow",
            dir=str(out),
            config=flat(config),
            sync_tensorboard=True,
        )
        _remember(out, "wandb", self._run.id)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Does nothing: W&B reads TensorBoard's files."""

    def close(self) -> None:
        self._run.finish()


class _Mlflow:
    def __init__(self, config: TrainConfig, out: Path) -> None:
        import mlflow

        self._mlflow = mlflow
        mlflow.set_experiment(PROJECT)
        run = mlflow.start_run(run_id=_known(out).get("mlflow"), run_name=config.name)
        if "mlflow" not in _known(out):
            mlflow.log_params(flat(config))
        _remember(out, "mlflow", run.info.run_id)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        self._mlflow.end_run()
