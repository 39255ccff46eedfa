"""Weights & Biases and MLflow get the learning curve, offline; without their packages a training says so at once."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from ccarena.agents import train as training
from ccarena.agents.tracking import flat
from ccarena.errors import MissingDependencyError
from ccarena.extras import how_to_add
from tests.agents.test_train import configuration
from tests.agents.test_validation import validating
from tests.agents.toy import make_toy


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package.upper()} IS NOT INSTALLED: track = {package} is untested (ccarena[{package}])")


@pytest.mark.parametrize("service", ["wandb", "mlflow"])
def test_a_missing_package_is_said_before_anything_is_written(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == service else find(name))
    with pytest.raises(MissingDependencyError, match=f"track = {service} needs ") as error:
        training.train(configuration(tmp_path / "run", track=service), make_envs=make_toy)
    assert how_to_add(service) in str(error.value)
    assert not (tmp_path / "run").exists()


def test_mlflow_has_parameters_and_every_scalar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("mlflow")
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    mlflow.set_tracking_uri(None)
    config = validating(tmp_path / "run", track="mlflow")
    assert training.train(config, make_envs=make_toy) == 0
    # Going on with it is the same run there.
    longer = validating(tmp_path / "run", track="mlflow", total_decisions=10_240)
    assert training.train(longer, resume=True, make_envs=make_toy) == 0
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("ccarena").experiment_id])
    assert json.loads((tmp_path / "run" / "tracking.json").read_text()) == {"mlflow": run.info.run_id}
    assert run.data.params["algorithm.gamma"] == str(flat(config)["algorithm.gamma"])
    steps = [metric.step for metric in client.get_metric_history(run.info.run_id, "validation/reward")]
    assert steps == [2048, 4096, 6144, 8192, 10_240]
    assert "train/reward_mean" in run.data.metrics and run.info.status == "FINISHED"


def test_wandb_copies_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert training.train(validating(tmp_path / "run", track="wandb"), make_envs=make_toy) == 0
    (log,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    data = log.read_bytes()
    assert b"validation/reward" in data and b"train/reward_mean" in data
    assert json.loads((tmp_path / "run" / "tracking.json").read_text())["wandb"] in log.name
