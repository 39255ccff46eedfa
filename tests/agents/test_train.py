"""The training run: files, determinism, resuming, interruption, refusals."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ccarena.agents import a3c, checkpoint
from ccarena.agents import train as training
from ccarena.agents.a3c import Differentiator
from ccarena.agents.local import LocalExecutor
from ccarena.agents.runs import STOPPING, check_device, check_gpu
from ccarena.configs import TrainConfig, load_config
from ccarena.errors import CheckpointError, ConfigError, TrainingError, WriteError
from ccarena.policies import tensorfile
from ccarena.policies.artifact import load
from tests.agents.toy import make_toy

ROOT = Path(__file__).parents[2]


def configuration(out: Path, **changes: object) -> TrainConfig:
    settings = {
        "total_decisions": 8192,
        "algorithm.workers": 2,
        "algorithm.rollout_length": 8,
        "network.hidden": 16,
        "network.filters": 2,
        "eval.link_sets": [],
        "validation.kinds": [],
        "checkpoint_every_s": 1000.0,
        "out": str(out),
    }
    return load_config("acct", settings | {name.replace("__", "."): value for name, value in changes.items()})


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]


def without_times(row: dict) -> dict:
    return {name: value for name, value in row.items() if not name.endswith("_s")}


def stop_after(monkeypatch: pytest.MonkeyPatch, updates: int, number: int = signal.SIGINT) -> None:
    """Sends this process a signal during the given update."""
    step, count = LocalExecutor.step, 0

    def counted(self: LocalExecutor) -> object:
        nonlocal count
        count += 1
        if count == updates:
            os.kill(os.getpid(), number)
        return step(self)

    monkeypatch.setattr(LocalExecutor, "step", counted)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nothing disturbed, which tests only read."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert training.train(configuration(out), make_envs=make_toy) == 0
    return out


def test_a_run_leaves_its_files(whole: Path) -> None:
    names = {path.name for path in whole.iterdir()}
    assert names >= {"config.yaml", "policy.safetensors", "progress.jsonl", "checkpoint.safetensors", "tensorboard"}
    assert not [name for name in names if name.endswith(".tmp")]
    artifact = load(whole / "policy.safetensors")
    assert artifact.training["algorithm"]["rollout_length"] == 8
    low, high = (artifact.observed[end] for end in ("low", "high"))
    assert len(low) == artifact.interface.observation_len and any(a < b for a, b in zip(low, high, strict=True))
    assert load_config(whole / "config.yaml") == configuration(whole)

    curve = rows(whole)
    assert curve[-1]["decisions"] == 8192
    assert sum(share for name, share in curve[-1].items() if name.startswith("zone_")) == pytest.approx(1)
    assert [row["decisions"] for row in curve] == sorted({row["decisions"] for row in curve})


def test_same_seed_same_policy(whole: Path, tmp_path: Path) -> None:
    training.train(configuration(tmp_path), make_envs=make_toy)
    a, b = (load(out / "policy.safetensors").tensors for out in (whole, tmp_path))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert [without_times(row) for row in rows(whole)] == [without_times(row) for row in rows(tmp_path)]


@pytest.mark.parametrize(("updates", "number"), [(1, signal.SIGINT), (5, signal.SIGTERM), (6, signal.SIGINT)])
def test_interrupted_and_resumed_equals_uninterrupted(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    updates: int,
    number: int,
) -> None:
    parts = tmp_path / "parts"
    with monkeypatch.context() as patch:
        stop_after(patch, updates, number)
        assert training.train(configuration(parts), make_envs=make_toy) == 130
    said = capsys.readouterr().err
    assert f"--out {parts} --resume" in said and said.count(STOPPING) == 1
    assert not (parts / "policy.safetensors").exists()
    # What a killed process wrote after its last checkpoint is dropped again.
    with open(parts / "progress.jsonl", "a") as file:
        file.write('{"decisions": 1e9}\n')
    assert training.train(configuration(parts), resume=True, make_envs=make_toy) == 0

    a, b = (load(out / "policy.safetensors").tensors for out in (whole, parts))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert [without_times(row) for row in rows(whole)] == [without_times(row) for row in rows(parts)]


def test_checkpoints_do_not_change_the_result(whole: Path, tmp_path: Path) -> None:
    training.train(configuration(tmp_path, checkpoint_every_s=1e-9), make_envs=make_toy)
    a, b = (load(out / "policy.safetensors").tensors for out in (whole, tmp_path))
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    """SIGKILL at an arbitrary moment, with a checkpoint after every update."""
    out = tmp_path / "run"
    script = f"""
from tests.agents.test_train import configuration
from tests.agents.toy import make_toy
from ccarena.agents.train import train
from pathlib import Path
train(configuration(Path({str(out)!r}), total_decisions=100_000_000, checkpoint_every_s=1e-9), make_envs=make_toy)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 180
    while not (out / checkpoint.PREVIOUS).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()

    decisions = checkpoint.load(out).rest["algorithm"]["learner"]["decisions"]
    assert decisions > 0
    total = decisions + 4096
    assert training.train(configuration(out, total_decisions=total), resume=True, make_envs=make_toy) == 0
    assert rows(out)[-1]["decisions"] >= total - total // 400 - 512


def test_an_existing_run_is_not_overwritten(whole: Path) -> None:
    with pytest.raises(ConfigError, match="--resume"):
        training.train(configuration(whole), make_envs=make_toy)


def test_resuming_needs_a_checkpoint_of_this_configuration(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no run"):
        training.train(configuration(tmp_path / "none"), resume=True, make_envs=make_toy)
    training.train(configuration(tmp_path / "run"), make_envs=make_toy)
    with pytest.raises(CheckpointError, match=r"other values of algorithm\.gamma, seed"):
        changed = configuration(tmp_path / "run", algorithm__gamma=0.5, seed=2)
        training.train(changed, resume=True, make_envs=make_toy)
    # A run of before a key was added has not that key; without a value nothing is different.
    kept = checkpoint.load(tmp_path / "run")
    assert kept.rest["config"]["env"]["link"].pop("attack") is None
    checkpoint.save(tmp_path / "run", kept)
    # One of a version in which a key could not change has the key, and its value then.
    kept.rest["config"]["device"] = "cuda"
    checkpoint.save(tmp_path / "run", kept)
    # A finished run may be given more to do.
    longer = configuration(tmp_path / "run", total_decisions=10_000)
    assert training.train(longer, resume=True, make_envs=make_toy) == 0


def test_a_run_with_a_gpu_is_resumed_without_one(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine stands for both: the networks of `cuda` are on its CPU."""
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(training, "check_device", lambda _: None)
        patch.setattr(a3c, "Differentiator", lambda context, config, _: Differentiator(context, config, "cpu"))
        stop_after(patch, 3)
        assert training.train(configuration(out, device="cuda"), make_envs=make_toy) == 130
    assert load_config(out / "config.yaml").device == "cuda"
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="expected --device cpu"):
            training.train(configuration(out, device="cuda"), resume=True, make_envs=make_toy)
    assert training.train(configuration(out), resume=True, make_envs=make_toy) == 0
    a, b = (load(each / "policy.safetensors").tensors for each in (whole, out))
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_recording_that_was_changed_meanwhile_is_refused_by_name(tmp_path: Path) -> None:
    """A run has no copy of it, and its policy would say that it was trained on the new one alone."""
    trace, run = tmp_path / "link.trace", tmp_path / "run"
    trace.write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    links = {"env.link.kinds": {"trace": 1}, "env.link.traces": [str(trace)]}
    training.train(configuration(run, **links), make_envs=make_toy)
    longer = configuration(run, total_decisions=10_000, **links)
    before = trace.read_bytes()
    trace.write_text("1\n")
    with pytest.raises(CheckpointError, match=r"run: the trace link\.trace was changed after the run began .*put"):
        training.train(longer, resume=True, make_envs=make_toy)
    trace.write_bytes(before)
    assert training.train(longer, resume=True, make_envs=make_toy) == 0


def test_a_full_disk_does_not_stop_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, calls = checkpoint.save, []

    def sometimes(directory: Path, state: checkpoint.Checkpoint, *rest: Any) -> None:
        calls.append(state)
        if len(calls) == 2:
            raise WriteError("No space left on device")
        save(directory, state, *rest)

    monkeypatch.setattr(checkpoint, "save", sometimes)
    assert training.train(configuration(tmp_path / "run", checkpoint_every_s=1e-9), make_envs=make_toy) == 0
    assert len(calls) > 2


def test_no_room_for_the_policy_is_the_disk_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exit code 1, as everywhere; 3 would say that the policy is no policy."""
    write = tensorfile.write_bytes

    def full(path: Path, data: bytes) -> None:
        if path.name == "policy.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(tensorfile, "write_bytes", full)
        with pytest.raises(
            WriteError, match=r"cannot write the policy: No space .* go on with: ccarena train"
        ) as raised:
            training.train(configuration(tmp_path / "run"), make_envs=make_toy)
    assert raised.value.exit_code == 1
    assert training.train(configuration(tmp_path / "run"), resume=True, make_envs=make_toy) == 0


def test_a_failing_environment_ends_the_run_with_its_error(tmp_path: Path) -> None:
    class Broken(type(make_toy(1, 1))):
        def step(self, actions: np.ndarray) -> object:
            raise TrainingError("the world has ended")

    with pytest.raises(TrainingError, match="the world has ended"):
        training.train(configuration(tmp_path / "run"), make_envs=lambda rows, threads: Broken(rows))


def test_no_gpu_is_said_at_once(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("THIS MACHINE HAS A GPU: its absence cannot be tested")
    with pytest.raises(ConfigError, match=f"finds no CUDA GPU on the machine {socket.gethostname()}, where the train"):
        training.train(configuration(tmp_path / "run", device="cuda"), make_envs=make_toy)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"executor": "ray"}, "workers"),
        ({"executor": "ray", "ray.exchange": "rollouts"}, None),
        ({"executor": "ray", "algorithm": {"name": "rllib", "learners": 1}}, "learners"),
        ({"executor": "ray", "algorithm": {"name": "rllib"}}, None),
        ({"executor": "ray", "algorithm": {"name": "PPO"}}, None),
        ({}, None),
    ],
)
def test_a_gpu_is_looked_for_where_the_training_learns(
    changes: dict[str, Any], where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    config = load_config("acct", {"device": "cuda", **changes})
    assert config.learns_in == where
    if where is None:
        with pytest.raises(ConfigError, match=r"device = cuda: PyTorch .* finds no CUDA GPU"):
            check_device(config)
    else:
        check_device(config)
        with pytest.raises(ConfigError, match=f"device = cuda:1: the {where} on the cluster learn, and Ray chooses"):
            check_device(config.model_copy(update={"device": "cuda:1"}))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    check_gpu("cuda:1")
    with pytest.raises(ConfigError, match="has 2 CUDA GPUs; expected cuda:0 to cuda:1"):
        check_gpu("cuda:2")
