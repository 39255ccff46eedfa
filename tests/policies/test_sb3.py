"""The networks under Stable-Baselines3, and back out as an artifact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 IS NOT INSTALLED: not tested (ccarena[train])")
from stable_baselines3 import A2C, PPO

from ccarena.acct import spec
from ccarena.envs.sb3 import Sb3VecEnv
from ccarena.errors import PolicyError
from ccarena.policies.artifact import load
from ccarena.policies.sb3 import AcctPolicy, to_artifact
from tests.agents.toy import ToyEnvs


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        (A2C, {"n_steps": 8, "learning_rate": 2e-3}),
        (PPO, {"n_steps": 32, "batch_size": 256, "n_epochs": 4, "learning_rate": 1e-3}),
    ],
)
def test_learns_and_converts(algorithm: type, settings: dict, tmp_path: Path) -> None:
    envs = Sb3VecEnv(ToyEnvs(), reward_scale=0.01)
    model = algorithm(
        AcctPolicy, envs, gamma=0.9, seed=3, device="cpu", policy_kwargs={"filters": 4, "hidden": 32}, **settings
    )
    model.learn(30_000)

    path = tmp_path / "policy.safetensors"
    to_artifact(model, {"note": "test"}).save(path)
    artifact = load(path)
    assert artifact.training["algorithm"] == algorithm.__name__
    raw = torch.rand(64, spec.OBSERVATION_SIZE)
    logits, values = artifact.network()(raw)
    # SB3's distribution holds normalised logits.
    torch.testing.assert_close(torch.log_softmax(logits, 1), model.policy.get_distribution(raw).distribution.logits)
    assert np.array_equal(logits.argmax(1).numpy(), model.predict(raw.numpy(), deterministic=True)[0])
    torch.testing.assert_close(values, model.policy.predict_values(raw).squeeze(1))

    returns = [episode["r"] for episode in model.ep_info_buffer]
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert sum(returns) / sum(lengths) > 10 * ToyEnvs.RANDOM


def test_sb3_saves_and_loads_its_own(tmp_path: Path) -> None:
    model = A2C(AcctPolicy, Sb3VecEnv(ToyEnvs(4)), device="cpu", policy_kwargs={"filters": 4, "hidden": 32})
    model.save(tmp_path / "model")
    again = A2C.load(tmp_path / "model", device="cpu")
    raw = np.random.default_rng(0).random((8, spec.OBSERVATION_SIZE), dtype=np.float32)
    assert np.array_equal(model.predict(raw, deterministic=True)[0], again.predict(raw, deterministic=True)[0])


def test_other_policies_are_refused() -> None:
    with pytest.raises(PolicyError, match="expected AcctPolicy"):
        to_artifact(A2C("MlpPolicy", Sb3VecEnv(ToyEnvs(4)), device="cpu"), {})


def test_ended_worlds_show_where_they_ended() -> None:
    envs, plain = Sb3VecEnv(ToyEnvs(16)), ToyEnvs(16)
    envs.seed(5)
    envs.reset()
    plain.reset(seed=5)
    ended = 0
    for step in range(60):
        actions = np.full(16, step % 15)
        _, _, dones, infos = envs.step(actions)
        _, _, _, truncated, expected = plain.step(actions)
        assert np.array_equal(dones, truncated)
        for world in np.flatnonzero(dones):
            ended += 1
            assert np.array_equal(infos[world]["terminal_observation"], expected["final_obs"][world])
            assert infos[world]["TimeLimit.truncated"]
    assert ended > 16
