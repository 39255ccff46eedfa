"""Stable-Baselines3 with time in its discounts; its runs: files, determinism, resuming, the same policy everywhere."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: training on it not tested (run make)")
pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: training with it not tested")
import torch

from ccarena import _core
from ccarena.agents import sb3_buffers
from ccarena.agents.algorithm import Context
from ccarena.agents.sb3 import Sb3
from ccarena.agents.semi_markov import discounted
from ccarena.agents.train import artifact_of, train
from ccarena.agents.worlds import environments
from ccarena.cli import main
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.schema import Sb3Config
from ccarena.envs import LearnedVectorEnv
from ccarena.errors import INTERRUPTED, CheckpointError, ConfigError
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.spec import spec_of

OFF_POLICY = {"learning_starts": 64, "buffer_size": 400, "batch_size": 32, "gradient_steps": 1, "train_freq": 1}
ALGORITHMS = {
    "TD3": {**OFF_POLICY, "noise": 0.2},
    "SAC": {**OFF_POLICY, "noise": 0},
    "PPO": {"n_steps": 8, "batch_size": 32, "n_epochs": 2},
}
PAIRS = (("hyvar", "TD3"), ("orca", "SAC"), ("aurora", "PPO"))
BALANCED = ("hyvar", "balanced")
ALGORITHMS["balanced"] = {**ALGORITHMS["TD3"], "balance": "case"}


def configuration(out: Path, name: str = "hyvar", algorithm: str = "TD3", **changes: Any) -> TrainConfig:
    settings = {
        "total_decisions": 640,
        "network.hidden": [16, 8],
        "algorithm": {"name": "TD3" if algorithm == "balanced" else algorithm, **ALGORITHMS[algorithm]},
        "env.worlds": 8,
        "env.episode_s": [0.5, 1],
        "env.link.rate_mbps": [6, 24],
        "env.link.rtt_ms": [4, 40],
        "env.link.kinds": {"constant": 1},
        "eval.link_sets": [],
        "checkpoint_every_s": 1000.0,
        "out": str(out),
    }
    return load_config(name, settings | {key.replace("__", "."): value for key, value in changes.items()})


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]


def policy(out: Path) -> Artifact:
    return load(out / "policy.safetensors")


def same(one: Path, two: Path) -> bool:
    a, b = policy(one).tensors, policy(two).tensors
    return all(np.array_equal(a[name], b[name]) for name in a)


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Sends this process SIGINT during the given step of all worlds."""
    step, count = LearnedVectorEnv.step, 0

    def counted(self: Any, actions: Any) -> Any:
        nonlocal count
        count += 1
        if count == steps:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, actions)

    monkeypatch.setattr(LearnedVectorEnv, "step", counted)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folders of trainings that nothing disturbed, by configuration and algorithm; tests only read them."""
    base = tmp_path_factory.mktemp("whole")

    def trained(name: str, algorithm: str) -> Path:
        out = base / f"{name}-{algorithm}"
        if not out.exists():
            assert train(configuration(out, name, algorithm)) == 0
        return out

    return trained


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_a_run_leaves_its_files_and_its_policy_acts_alike_everywhere(
    name: str, algorithm: str, whole: Callable[[str, str], Path]
) -> None:
    out = whole(name, algorithm)
    names = {path.name for path in out.iterdir()}
    assert names >= {"config.yaml", "policy.safetensors", "progress.jsonl", "checkpoint.safetensors", "tensorboard"}
    assert load_config(out / "config.yaml") == configuration(out, name, algorithm)
    curve = rows(out)
    assert curve[-1]["decisions"] >= 640 and curve[-1]["interval_ms"] > 0
    assert any("critic_loss" in row or "value_loss" in row for row in curve)

    artifact = policy(out)
    assert artifact.training["algorithm"]["name"] == algorithm
    assert sorted(len(t) for n, t in artifact.graph.tensors.items() if n.endswith("bias")) == [1, 8, 16]
    observations = np.random.default_rng(1).normal(1, 2, (500, len(artifact.tensors["normalisation.low"])))
    observations = observations.astype(np.float32)
    _, native = _core.Policy(str(out / "policy.safetensors")).act(observations)
    np.testing.assert_allclose(native[:, 0], artifact.act(observations), atol=1e-5)
    assert native.std() > 0


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_the_artifact_is_the_models_deterministic_policy(name: str, algorithm: str, tmp_path: Path) -> None:
    config = configuration(tmp_path, name, algorithm, total_decisions=160)
    context = Context(config, spec_of(config), environments(config))
    made = Sb3(context)
    made._model.learn(160)
    observations = np.random.default_rng(2).normal(1, 2, (200, context.spec.size)).astype(np.float32)
    expected, _ = made._model.predict(observations, deterministic=True)
    artifact = artifact_of(context, made.policy())
    np.testing.assert_allclose(artifact.act(observations), expected[:, 0], atol=1e-5)


@pytest.mark.parametrize(("name", "algorithm"), [*PAIRS, BALANCED])
def test_interrupted_and_resumed_equals_uninterrupted(
    name: str,
    algorithm: str,
    whole: Callable[[str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    undisturbed, parts = whole(name, algorithm), tmp_path / "parts"
    with monkeypatch.context() as patch:
        stop_after(patch, 43)
        assert train(configuration(parts, name, algorithm, threads=1)) == INTERRUPTED
    assert f"--out {parts} --resume" in capsys.readouterr().err
    assert not (parts / "policy.safetensors").exists()
    # What others draw from the global generators meanwhile does not matter.
    np.random.random(7)
    torch.rand(7)
    assert train(configuration(parts, name, algorithm), resume=True) == 0
    assert same(undisturbed, parts)
    without_times = [
        [{k: v for k, v in row.items() if k != "elapsed_s"} for row in rows(out)] for out in (undisturbed, parts)
    ]
    assert without_times[0] == without_times[1]


def test_same_seed_same_policy_and_another_seed_another(tmp_path: Path) -> None:
    for run, seed, threads in (("a", 1, 1), ("b", 1, 2), ("c", 2, 1)):
        train(configuration(tmp_path / run, total_decisions=320, seed=seed, threads=threads))
    assert same(tmp_path / "a", tmp_path / "b") and not same(tmp_path / "a", tmp_path / "c")


def test_runs_are_not_overwritten_and_other_configurations_not_resumed(tmp_path: Path) -> None:
    config = configuration(tmp_path, total_decisions=160)
    train(config)
    with pytest.raises(ConfigError, match="holds a run already"):
        train(config)
    with pytest.raises(CheckpointError, match=r"other values of algorithm\.gamma"):
        train(configuration(tmp_path, total_decisions=160, algorithm__gamma=0.9), resume=True)


def test_rewards_and_discounts_count_by_time(tmp_path: Path) -> None:
    def worlds(**agent: Any) -> sb3_buffers.TimedVecEnv:
        envs = sb3_buffers.TimedVecEnv(environments(configuration(tmp_path))(8, 1), Sb3Config(**agent))
        envs.seed(3)
        envs.reset()
        return envs

    timed, plain = worlds(gamma=0.9, discount_unit_s=0.05), worlds(gamma=0.9, discount="step", reward_scale=2.0)
    spread = set()
    for _ in range(20):
        action = np.full((8, 1), -0.2, np.float32)
        _, rewards, _, infos = timed.step(action)
        assert timed.rewards.min() >= -1
        intervals = np.array([info["interval_s"] for info in infos])
        worth, discount = discounted(timed.rewards * 0.1, intervals, 0.9, 0.05)
        np.testing.assert_allclose(rewards, worth, rtol=1e-5)
        np.testing.assert_allclose([info["discount"] for info in infos], discount, rtol=1e-6)
        spread |= set(discount.tolist())
        _, rewards, _, infos = plain.step(action)
        np.testing.assert_allclose(rewards, plain.rewards * 0.2, rtol=1e-5)
        np.testing.assert_allclose([info["discount"] for info in infos], 0.9)
    assert len(spread) > 20


def test_a_training_says_once_how_many_rewards_its_floor_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said(floor: float | None) -> list[str]:
        caplog.clear()
        out = tmp_path / str(floor)
        train(configuration(out, "orca", "PPO", total_decisions=1_920, algorithm__reward_floor=floor))
        return [message for message in caplog.messages if "reward_floor" in message]

    (message,) = said(0.0)
    assert re.match(
        r"\d+ % of the first 1,0\d\d rewards were below algorithm\.reward_floor = 0 and count as 0", message
    )
    assert said(-1e6) == said(None) == []


def test_the_replay_buffer_returns_each_transitions_own_discount() -> None:
    space, action = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    buffer = sb3_buffers.TimedReplayBuffer(8, space, action, "cpu", n_envs=2)
    for k in range(4):
        rows = np.full((2, 2), k, np.float32) + np.array([[0], [0.5]], np.float32)
        infos = [{"discount": 0.1 * k}, {"discount": 0.1 * k + 0.05, "TimeLimit.truncated": True}]
        buffer.add(rows, rows, np.zeros((2, 1)), rows[:, 0], np.array([False, True]), infos)
    sample = buffer.sample(200)
    assert sample.discounts is not None
    np.testing.assert_allclose(sample.discounts[:, 0], 0.1 * sample.rewards[:, 0], atol=1e-6)
    assert float(sample.dones.sum()) == 0, "a truncated episode would have gone on"
    assert len(sample.rewards[:, 0].unique()) == 8


def test_a_balanced_replay_buffer_gives_every_group_alike() -> None:
    space, action = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    buffer = sb3_buffers.BalancedReplayBuffer(800, space, action, "cpu", n_envs=2)
    np.random.seed(1)
    for k in range(300):
        # One transition of fifty is of group 3, the rest of group 4; rewards say which.
        groups = [3 if k % 25 == 0 else 4, 4]
        infos = [{"discount": 0.9, "group": group} for group in groups]
        rows = np.full((2, 2), k, np.float32)
        buffer.add(rows, rows, np.zeros((2, 1)), np.array(groups, np.float32), np.zeros(2, np.bool_), infos)
    rewards = torch.cat([buffer.sample(256).rewards[:, 0] for _ in range(10)])
    assert set(rewards.tolist()) == {3.0, 4.0}, "nothing but what is there"
    assert 0.45 < float((rewards == 3).float().mean()) < 0.55


def test_groups_are_those_in_which_the_learner_was_asked(tmp_path: Path) -> None:
    config = configuration(tmp_path, algorithm="balanced")
    context = Context(config, spec_of(config), environments(config))
    column = context.spec.report.index("case")
    worlds = sb3_buffers.TimedVecEnv(context.make_envs(8, 1), config.algorithm, column)
    worlds.reset()
    before, met = np.zeros(8), set()
    for _ in range(200):
        _, _, dones, infos = worlds.step(np.zeros((8, 1), np.float32))
        assert [info["group"] for info in infos] == before.tolist()
        before = np.where(dones, 0, worlds.infos["reports"][:, column])
        met |= set(before.tolist())
    assert {0.0, 4.0} <= met


def test_advantages_with_equal_discounts_are_sb3s() -> None:
    from stable_baselines3.common.buffers import RolloutBuffer

    space, action = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    common = {"n_envs": 3, "gamma": 0.9, "gae_lambda": 0.8}
    plain = RolloutBuffer(6, space, action, "cpu", **common)
    worlds = SimpleNamespace(discounts=np.full(3, 0.9, np.float32))
    timed = sb3_buffers.TimedRolloutBuffer(6, space, action, "cpu", discounts=worlds, **common)
    rng = np.random.default_rng(1)
    for _ in range(6):
        observation, rewards, starts = rng.normal(size=(3, 2)), rng.normal(size=3), rng.random(3) < 0.3
        values, logs = torch.from_numpy(rng.normal(size=(3, 1))), torch.zeros(3)
        for buffer in (plain, timed):
            buffer.add(observation, np.zeros((3, 1)), rewards, starts, values, logs)
    last, dones = torch.from_numpy(rng.normal(size=(3, 1))), np.array([True, False, False])
    for buffer in (plain, timed):
        buffer.compute_returns_and_advantage(last, dones)
    np.testing.assert_allclose(timed.advantages, plain.advantages, atol=1e-5)
    np.testing.assert_allclose(timed.returns, plain.returns, atol=1e-5)


def test_the_command_trains_evaluates_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    words = ["train", "--config", "hyvar", "--total-decisions", "320", "--env.worlds", "8", "--out", str(out)]
    words += ["--env.episode_s", "1", "--algorithm.learning_starts", "64", "--eval.link_sets", "[slides]"]
    words += ["--eval.seeds", "1", "--eval.duration_s", "2", "--baselines", "[]", "--rules.links", "2"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert shown.strip().splitlines()[-3].startswith("Did it learn? ")
    assert {"page.html", "results.json", "evaluation.json"} <= {path.name for path in out.iterdir()}
    evaluation = policy(out).evaluation
    assert set(evaluation["means"]["slides"]) == {"hyvar", "cubic", "hyvar 2^-0.1", "best fixed window", "oracle"}
    assert policy(out).params["max_action"] == 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithm.gama", "0.9"], 'TD3 takes no such argument; did you mean "gamma"?'),
        (["--algorithm.name", "TD4"], 'FILE.py:CLASS of your own; did you mean "TD3"?'),
        (["--algorithm", "PPO", "--algorithm.noise", "0.1"], "algorithm.noise = 0.1: it is for off-policy"),
        (
            ["--algorithm.balance", "caze"],
            'algorithm.balance = caze: hyvar reports no such column; did you mean "case"?',
        ),
        (["--algorithm", "PPO", "--algorithm.balance", "case"], "algorithm.balance = case: it is for off-policy"),
        (["--params", "{alfa: 1}"], 'unknown parameter "alfa"; did you mean "alpha"?'),
        (["--network.filters", "8"], "network.filters = 8: mlp takes no such argument"),
        (["--reward.epsilom", "8"], 'reward.epsilom = 8: hyvar takes no such argument; did you mean "epsilon"?'),
        (["--baselines", "[acct]"], 'baselines: unknown scheme "acct"'),
    ],
)
def test_wrong_keys_are_refused_before_anything_starts(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--config", "hyvar", "--out", str(tmp_path / "run"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
