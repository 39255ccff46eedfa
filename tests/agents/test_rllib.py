"""Training with RLlib: refusals, pieces of episodes, runs with their files, resuming, the same policy everywhere."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: training on it not tested (run make)")
pytest.importorskip("ray.rllib", reason="RLLIB NOT INSTALLED: training with it not tested (ccarena[rllib])")
import torch
from ray.rllib.core.columns import Columns

from bench import nodes
from ccarena import _core
from ccarena.agents.algorithm import Context
from ccarena.agents.algorithms import build
from ccarena.agents.collecting import Steps
from ccarena.agents.rllib import Rllib, _packed, _unpacked
from ccarena.agents.rllib_replay import ArrayReplay
from ccarena.agents.rllib_runner import Runner, _piece
from ccarena.agents.train import train
from ccarena.agents.worlds import environments
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.schema import RllibConfig
from ccarena.errors import INTERRUPTED, ConfigError, MissingDependencyError
from ccarena.executors.ray import connect, module
from ccarena.policies.artifact import load
from ccarena.policies.spec import spec_of
from tests.agents.toy import ToyEnvs, make_toy

# A start of Ray beside other work may take longer than Ray waits.
pytestmark = pytest.mark.alone


def configuration(out: Path | None = None, name: str = "aurora", **algorithm: Any) -> TrainConfig:
    changes = {
        "total_decisions": 384,
        "network": {"name": "mlp", "hidden": [16, 8]},
        "algorithm": {"name": "rllib", "rollout_length": 8, **algorithm},
        "env.worlds": 8,
        "env.episode_s": [0.5, 1],
        "env.link.kinds": {"constant": 1},
        "validation.kinds": [],
        "eval.link_sets": [],
        "checkpoint_every_s": 1000.0,
    }
    return load_config(name, changes if out is None else changes | {"out": str(out)})


def context(config: TrainConfig) -> Context:
    return Context(config, spec_of(config), environments(config))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ({"num_epoch": 3}, r"algorithm\.num_epoch = 3: RLlib's ppo takes no such argument.*num_epochs"),
        ({"minibatch_size": 4096}, "algorithm = rllib, ppo: .*minibatch_size"),
        ({"learners": 2}, r"algorithm\.learners = 2: .*--executor ray"),
        ({"trainer": "sac", "lr": 1e-3}, r"algorithm\.lr = 0\.001: RLlib's sac takes no such argument"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_before_ray_starts(algorithm: dict[str, Any], said: str) -> None:
    import ray

    with pytest.raises(ConfigError, match=said):
        build(context(configuration(**algorithm)))
    assert not ray.is_initialized()


def test_a_network_with_memory_and_an_unknown_trainer_are_refused() -> None:
    config = configuration().model_copy(update={"network": load_config("acct", {"network": {"name": "gru"}}).network})
    with pytest.raises(ConfigError, match="it has memory, and rllib learns without"):
        build(context(config))
    with pytest.raises(ConfigError, match=r"algorithm\.trainer"):
        configuration(trainer="dqn")


def test_without_rllib_the_refusal_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ccarena.agents.rllib")
    monkeypatch.setitem(sys.modules, "ray.rllib.algorithms.ppo", None)
    with pytest.raises(MissingDependencyError, match=r"training with RLlib needs .*rllib"):
        build(context(configuration()))


def test_a_rollout_is_cut_where_episodes_end() -> None:
    """Pieces in order are the rollout, and each ends with the observation that followed its last decision."""
    config = configuration(trainer="impala", reward_scale=0.5, reward_floor=-1)
    length, rows, size = 6, 2, 3
    rng = np.random.default_rng(1)
    truncated = np.zeros((length, rows), np.bool_)
    truncated[[1, 5], 0] = True
    finals = [(t, np.array([0]), rng.normal(size=(1, size)).astype(np.float32)) for t in (1, 5)]
    steps = Steps(
        rng.normal(size=(length, rows, size)).astype(np.float32),
        rng.normal(size=(length, rows, 1)).astype(np.float32),
        np.arange(-6, 6, dtype=np.float32).reshape(length, rows),
        np.zeros_like(truncated),
        truncated,
        None,
        finals,
        rng.normal(size=(rows, size)).astype(np.float32),
    )
    runner = Runner.__new__(Runner)
    logp = np.arange(12, dtype=np.float32).reshape(length, rows)
    runner._columns = lambda steps, settings: {Columns.ACTION_LOGP: logp}  # type: ignore[method-assign]
    pieces = list(runner._pieces(steps, cast(RllibConfig, config.algorithm)))
    assert [len(piece) for piece in pieces] == [2, 4, 6]
    assert [piece.is_truncated for piece in pieces] == [True, True, False]
    assert len({piece.id_ for piece in pieces}) == 3
    for row, parts in ((0, pieces[:2]), (1, pieces[2:])):
        for name in ("observations", "actions", "rewards"):
            whole = np.concatenate([getattr(part, f"get_{name}")(slice(0, len(part))) for part in parts])
            expected = np.maximum(steps.rewards, -1) * 0.5 if name == "rewards" else getattr(steps, name)
            np.testing.assert_array_equal(whole, expected[:, row])
        told = np.concatenate([part.get_extra_model_outputs(Columns.ACTION_LOGP) for part in parts])
        np.testing.assert_array_equal(told, logp[:, row])
    np.testing.assert_array_equal(pieces[0].get_observations(-1), finals[0][2][0])
    np.testing.assert_array_equal(pieces[2].get_observations(-1), steps.following[1])


def test_nested_states_are_packed_without_pickling() -> None:
    state = {"a": {0: {"step": torch.tensor(3.0)}}, "b": [1, None, (True, "x")], "c": np.arange(3), "d": np.float64(2)}
    arrays: dict[str, Any] = {}
    rest = json.loads(json.dumps(_packed(state, "", arrays)))
    back = _unpacked(rest, arrays)
    assert back["a"][0]["step"] == 3 and torch.is_tensor(back["a"][0]["step"])
    assert back["b"] == [1, None, [True, "x"]] and back["c"].tolist() == [0, 1, 2] and back["d"] == 2


@pytest.fixture
def ray_here() -> Iterator[None]:
    """Ray for all trainings of a test: most of a start is its processes."""
    connect("local")
    yield
    module().shutdown()


def test_a_run_is_interrupted_and_resumed_and_its_policy_acts_alike_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_here: None
) -> None:
    iterate, count = Rllib._iterate, 0

    def counted(self: Any, trainer: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return iterate(self, trainer)

    monkeypatch.setattr(Rllib, "_iterate", counted)
    assert train(configuration(tmp_path)) == INTERRUPTED
    before = count
    assert train(configuration(tmp_path), resume=True) == 0
    assert before == 2 and count == 6  # 64 decisions each: none is learned from twice
    curve = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [row["decisions"] for row in curve] == [64, 128, 192, 256, 320, 384]
    updates = [row["updates"] for row in curve]
    assert updates == sorted(set(updates)) and all(np.isfinite(row["policy_loss"]) for row in curve)

    artifact = load(tmp_path / "policy.safetensors")
    assert artifact.training["algorithm"]["trainer"] == "ppo"
    observations = np.random.default_rng(1).normal(1, 2, (500, len(artifact.tensors["normalisation.low"])))
    _, native = _core.Policy(str(tmp_path / "policy.safetensors")).act(observations.astype(np.float32))
    np.testing.assert_allclose(native[:, 0], artifact.act(observations.astype(np.float32)), atol=1e-5)
    assert native.std() > 0


def test_a_cluster_with_too_few_cores_or_gpus_is_refused(
    ray_here: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the numbers: before anything is built if Ray started here, and after `ray.patience_s` on a cluster."""
    cores, gpus = (int(module().cluster_resources().get(name, 0)) for name in ("CPU", "GPU"))

    def asked(learners: int, **changes: Any) -> Context:
        config = configuration(learners=learners)
        settings = config.ray.model_copy(update={"patience_s": 0.1})
        return context(config.model_copy(update={"executor": "ray", "ray": settings, **changes}))

    said = f"ray.workers = 2 and algorithm.learners = {cores} need {cores + 2} cores, and the cluster has {cores}"
    with pytest.raises(ConfigError, match=f"^{said}; lower one of them, or name a larger cluster"):
        build(asked(cores))
    many = f"algorithm.learners = {gpus + 1} need {gpus + 1} GPUs, and the cluster has {gpus}; lower algorithm.learners"
    with pytest.raises(ConfigError, match=many):
        build(asked(gpus + 1, device="cuda"))
    assert not caplog.text
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    with pytest.raises(ConfigError, match=f"{said}; lower one of them, or add a machine"):
        build(asked(cores))
    assert f"{said}; waiting for a machine" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["ppo", "appo", "impala", "sac"])
@pytest.mark.parametrize(("name", "learners"), [("acct", 1), ("aurora", 2)])
def test_every_trainer_learns_and_goes_on_on_a_cluster(trainer: str, name: str, learners: int, tmp_path: Path) -> None:
    """Discrete and continuous actions, two workers, and one learner process or two; SAC also learns from arrays."""
    more: dict[str, Any] = {"learners": learners}
    if trainer == "sac":
        more |= {"num_steps_sampled_before_learning_starts": 64, "training_intensity": 2}
        more |= {"learners": 0} if learners == 1 else {}
    config = configuration(tmp_path, name, trainer=trainer, **more).model_copy(update={"executor": "ray"})
    cluster = nodes.started(num_cpus=4)
    try:
        module().init(address=cluster.address, log_to_driver=False)
        assert train(config) == 0
        assert train(config.model_copy(update={"total_decisions": 768}), resume=True) == 0
    finally:
        module().shutdown()
        cluster.shutdown()
    curve = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    decisions, updates = ([row[key] for row in curve] for key in ("decisions", "updates"))
    assert decisions == sorted(set(decisions)) and decisions[-1] >= 768 and updates == sorted(updates)
    assert 0 < updates[[each >= 384 for each in decisions].index(True)] < updates[-1], "it went on learning"
    assert curve[-1]["workers"] == 2 and all(np.isfinite(row.get("policy_loss", 0.0)) for row in curve)
    assert any("policy_loss" in row for row in curve)
    artifact = load(tmp_path / "policy.safetensors")
    assert artifact.training["algorithm"]["trainer"] == trainer
    observations = np.random.default_rng(1).normal(1, 2, (500, len(artifact.tensors["normalisation.low"])))
    assert len(set(np.ravel(artifact.act(observations.astype(np.float32))))) > 1


@pytest.mark.slow
def test_ppo_solves_the_toy(tmp_path: Path) -> None:
    config = load_config(
        "acct",
        {
            "algorithm": {"name": "rllib", "trainer": "ppo", "gamma": 0.9, "learning_rate": 3e-3}
            | {"reward_scale": 0.05, "rollout_length": 16, "entropy_coeff": 0.01},
            "network": {"name": "mlp", "hidden": [32]},
            "env.worlds": 64,
            "total_decisions": 60_000,
            "validation.kinds": [],
            "eval.link_sets": [],
            "out": str(tmp_path),
        },
    )
    assert train(config, make_envs=make_toy) == 0
    rewards = [json.loads(line)["reward_mean"] for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert np.mean(rewards[-5:]) > 10 * ToyEnvs.RANDOM


def piece(first: int, length: int, terminated: bool, truncated: bool) -> Any:
    """Returns decisions `first`, `first` + 1, ..., with what they are in every column."""
    numbers = np.arange(first, first + length + 1, dtype=np.float32)
    return _piece(numbers[:, None], -numbers[:-1, None], numbers[:-1] / 2, {}, terminated, truncated)


def test_replay_draws_decisions_with_what_followed_them() -> None:
    replay = ArrayReplay(capacity=8, seed=1)
    replay.add([piece(0, 3, terminated=True, truncated=False), piece(10, 2, terminated=False, truncated=True)])
    replay.add([piece(20, 4, terminated=False, truncated=False)])  # the first decision gives way
    (drawn,) = replay.sample(1000, gamma=0.9)
    assert len(drawn) == 1000
    columns = drawn.columns
    seen = columns[Columns.OBS][:, 0]
    assert sorted(set(seen)) == [1, 2, 10, 11, 20, 21, 22, 23]
    np.testing.assert_array_equal(columns[Columns.NEXT_OBS][:, 0], seen + 1)
    np.testing.assert_array_equal(columns[Columns.ACTIONS][:, 0], -seen)
    np.testing.assert_array_equal(columns[Columns.REWARDS], seen / 2)
    np.testing.assert_array_equal(columns[Columns.TERMINATEDS], seen == 2)
    np.testing.assert_array_equal(columns[Columns.TRUNCATEDS], seen == 11)


def test_sac_learns_from_arrays_and_a_checkpoint_goes_on_at_another_rate(ray_here: None) -> None:
    def begun(rate: float) -> Any:
        settings = {"trainer": "sac", "num_steps_sampled_before_learning_starts": 1, "train_batch_size_per_learner": 32}
        return build(context(configuration(learning_rate=rate, training_intensity=2, **settings)))

    first = begun(1e-3)
    figures = first._iterate(first.start())["learners"]["default_policy"]
    assert all(np.isfinite(float(figures[name])) for name in ("policy_loss", "qf_loss", "alpha_value"))
    assert isinstance(first.start().local_replay_buffer, ArrayReplay)
    state = first.state()
    first.close()
    second = begun(1e-2)
    second.restore(*state)
    rates = next(each.get() for each in second.start().learner_group.foreach_learner(rates_of))
    second.close()
    assert rates and all(5e-3 < rate <= 1e-2 for rate in rates), "not those of the optimisers in the checkpoint"


def rates_of(learner: Any) -> list[float]:
    return [group["lr"] for each in learner._optimizer_parameters for group in each.param_groups]
