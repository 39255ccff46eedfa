"""What Stable-Baselines3 and sb3-contrib train comes out as an artifact that acts as `predict(deterministic=True)`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 IS NOT INSTALLED: not tested (ccarena[train])")
pytest.importorskip("sb3_contrib", reason="SB3-CONTRIB IS NOT INSTALLED: not tested (ccarena[train])")
import sb3_contrib
import stable_baselines3
from stable_baselines3 import PPO

from ccarena.envs.sb3 import Sb3VecEnv
from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.contract import Contract, Normalisation
from ccarena.policies.sb3 import NormalisedObservation, to_artifact
from tests.agents.toy import ToyEnvs
from tests.policies.made import document

core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: inference not compared (run make)")
LENGTH = 9


class Links(gym.Env):
    """An environment of which spaces alone matter: discrete actions, or one continuous in -2..3."""

    def __init__(self, discrete: bool) -> None:
        self.observation_space = gym.spaces.Box(-10, 10, (LENGTH,))
        self.action_space = gym.spaces.Discrete(4) if discrete else gym.spaces.Box(-2, 3, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(LENGTH, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.np_random.random(LENGTH).astype(np.float32), 0.0, False, False, {}


def contract(discrete: bool) -> Contract:
    n = np.ones(LENGTH, np.float32)
    normalisation = Normalisation(0.1 * n, 0.5 * n, -2 * n, 3 * n)
    return Contract(
        *document(), normalisation, (0.0, 1.0, 2.0, 3.0) if discrete else (), None if discrete else (-2.0, 3.0)
    )


def build(name: str, discrete: bool, **settings: Any) -> Any:
    algorithm = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    policy = "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy"
    kwargs = {
        "features_extractor_class": NormalisedObservation,
        "features_extractor_kwargs": {"normalisation": contract(discrete).normalisation},
        **settings.pop("policy_kwargs", {}),
    }
    torch.manual_seed(3)
    return algorithm(policy, Links(discrete), device="cpu", policy_kwargs=kwargs, **settings)


def excite(model: Any) -> None:
    """Gives an untrained policy weights of a size that makes it choose, and batch statistics that are not neutral."""
    with torch.no_grad():
        for parameter in model.policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
        for name, buffer in model.policy.named_buffers():
            if "running_var" in name:
                buffer.uniform_(0.5, 2.0)
            elif "running_mean" in name:
                buffer.uniform_(-0.5, 0.5)


def acts(artifact: Artifact, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Actions by NumPy and by Rust."""
    indices, outputs = core.Policy.of(artifact.encode()).act(observations)
    native = outputs[:, 0] if artifact.contract.bounds else indices
    return artifact.act(observations), native


@pytest.mark.parametrize(
    ("name", "discrete", "settings"),
    [
        ("PPO", True, {}),
        ("PPO", False, {}),
        ("PPO", False, {"use_sde": True, "policy_kwargs": {"squash_output": True}}),
        ("A2C", True, {"policy_kwargs": {"activation_fn": torch.nn.SiLU, "net_arch": [7, 5, 6]}}),
        ("TRPO", False, {}),
        ("TD3", False, {}),
        ("DDPG", False, {}),
        ("SAC", False, {}),
        ("TQC", False, {}),
        ("CrossQ", False, {}),
        ("DQN", True, {}),
        ("QRDQN", True, {}),
    ],
)
def test_the_artifact_acts_as_predict_does(name: str, discrete: bool, settings: dict[str, Any]) -> None:
    model = build(name, discrete, **settings)
    excite(model)
    artifact = to_artifact(model, contract(discrete), training={"note": "test"})
    assert artifact.training == {"algorithm": name, "decisions": 0, "note": "test"}
    observations = np.random.default_rng(0).normal(0, 2, (500, LENGTH)).astype(np.float32)
    expected = np.asarray(model.predict(observations, deterministic=True)[0])
    for actions in acts(artifact, observations):
        if discrete:
            # Where two logits are equal to rounding, either action may come out.
            assert (actions == expected).mean() > 0.995
        else:
            # Before the squashing, sums over layers of up to 400 units that reach the tens.
            np.testing.assert_allclose(actions, expected[:, 0], atol=1e-4)
    assert np.std(expected) > 0.01


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_recurrent_policy_remembers_as_predict_does(discrete: bool, layers: int) -> None:
    model = build("RecurrentPPO", discrete, policy_kwargs={"lstm_hidden_size": 8, "n_lstm_layers": layers})
    excite(model)
    artifact = to_artifact(model, contract(discrete))
    policy = core.Policy.of(artifact.encode())
    assert policy.state_len == artifact.graph.state_len == 2 * 8 * layers
    ours, native = (np.zeros((5, policy.state_len), np.float32) for _ in range(2))
    state: Any = None
    for step in range(12):
        observations = np.random.default_rng(step).normal(0, 2, (5, LENGTH)).astype(np.float32)
        starts = np.full(5, step == 0)
        expected, state = model.predict(observations, state, starts, deterministic=True)
        indices, outputs = policy.act(observations, native)
        if discrete:
            assert np.array_equal(artifact.act(observations, ours), expected) and np.array_equal(indices, expected)
        else:
            np.testing.assert_allclose(artifact.act(observations, ours), expected[:, 0], atol=2e-5)
            np.testing.assert_allclose(outputs, expected, atol=2e-5)


def test_what_follows_the_normalisation_is_exported() -> None:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Wider(BaseFeaturesExtractor):
        def __init__(self, space: gym.spaces.Box, size: int) -> None:
            super().__init__(space, size)
            self.layer = torch.nn.Linear(LENGTH, size)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.layer(x))

    kwargs = {"normalisation": contract(True).normalisation, "then": Wider, "then_kwargs": {"size": 5}}
    model = build("PPO", True, policy_kwargs={"features_extractor_kwargs": kwargs})
    artifact = to_artifact(model, contract(True))
    assert artifact.graph.nodes[1].op == "tanh"
    observations = np.random.default_rng(0).normal(0, 2, (100, LENGTH)).astype(np.float32)
    np.testing.assert_array_equal(artifact.act(observations), model.predict(observations, deterministic=True)[0])


def test_what_is_no_policy_of_a_learned_scheme_is_refused() -> None:
    class Many(Links):
        def __init__(self) -> None:
            super().__init__(discrete=False)
            self.action_space = gym.spaces.Box(-1, 1, (2,))

    with pytest.raises(PolicyError, match=r"actions of shape \(2,\)"):
        to_artifact(PPO("MlpPolicy", Many(), device="cpu"), contract(False))
    with pytest.raises(PolicyError, match=r"output .* of shape \[4\]; expected \[15\]"):
        to_artifact(
            build("PPO", True), Contract(*document(), contract(True).normalisation, tuple(range(15)), None)
        ).encode()


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
