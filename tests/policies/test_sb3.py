"""What Stable-Baselines3 and sb3-contrib train comes out as an artifact that acts as `predict(deterministic=True)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
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
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

from ccarena.envs.sb3 import Sb3VecEnv
from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.interface import Interface, Normalisation
from ccarena.policies.sb3 import NormalisedObservation, predicting, to_artifact
from ccarena.policies.spec import Spec
from tests.agents.toy import ToyEnvs
from tests.policies.made import DOCUMENT

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


def interface(discrete: bool) -> Interface:
    """Returns a interface of nine observed numbers, whose normalisation is another than its document's."""
    act = {"kind": "window", "levels": [2, 10, 30, 60]} if discrete else {"kind": "window_exp2", "bounds": [-2, 3]}
    observe = {"history": 3, "signals": ["srtt_ms", "throughput_mbps", "since_ack_ms"]}
    found = Spec.of(core.learned(json.dumps({**DOCUMENT, "observe": observe, "act": act, "base": "cubic"}))).interface
    n = np.ones(LENGTH, np.float32)
    return replace(found, normalisation=Normalisation(0.1 * n, 0.5 * n, -2 * n, 3 * n))


def build(name: str, discrete: bool, **settings: Any) -> Any:
    algorithm = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    policy = settings.pop("policy", "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy")
    envs = settings.pop("envs", None) or Links(discrete)
    kwargs = {
        "features_extractor_class": NormalisedObservation,
        "features_extractor_kwargs": {"normalisation": interface(discrete).normalisation},
        **settings.pop("policy_kwargs", {}),
    }
    torch.manual_seed(3)
    return algorithm(policy, envs, device="cpu", policy_kwargs=kwargs, **settings)


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
    native = outputs[:, 0] if artifact.interface.bounds else indices
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
    artifact = to_artifact(model, interface(discrete), training={"note": "test"})
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
    artifact = to_artifact(model, interface(discrete))
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

    kwargs = {"normalisation": interface(True).normalisation, "then": Wider, "then_kwargs": {"size": 5}}
    model = build("PPO", True, policy_kwargs={"features_extractor_kwargs": kwargs})
    artifact = to_artifact(model, interface(True))
    assert artifact.graph.nodes[1].op == "tanh"
    observations = np.random.default_rng(0).normal(0, 2, (100, LENGTH)).astype(np.float32)
    np.testing.assert_array_equal(artifact.act(observations), model.predict(observations, deterministic=True)[0])


PLAIN = {"features_extractor_class": FlattenExtractor, "features_extractor_kwargs": {}}


def moments(shape: tuple[int, ...]) -> RunningMeanStd:
    """Statistics as of signals of very different sizes."""
    found = RunningMeanStd(shape=shape)
    found.mean, found.var = np.linspace(0, 60, LENGTH), np.geomspace(1e-3, 1e3, LENGTH)
    return found


def vec_normalised(discrete: bool) -> VecNormalize:
    envs = VecNormalize(DummyVecEnv([lambda: Links(discrete)] * 2), clip_obs=2.5, training=False)
    envs.obs_rms = moments((LENGTH,))
    return envs


def gym_normalised(discrete: bool) -> gym.Env:
    wrapped = gym.wrappers.NormalizeObservation(Links(discrete))
    wrapped.obs_rms, wrapped.update_running_mean = moments((LENGTH,)), False
    return gym.wrappers.RecordEpisodeStatistics(wrapped)


WRAPPED: dict[str, Callable[[bool], Any]] = {
    "bare": Links,
    "VecNormalize": vec_normalised,
    "Monitor and VecNormalize": lambda discrete: VecMonitor(vec_normalised(discrete)),
    "VecNormalize twice": lambda discrete: VecNormalize(vec_normalised(discrete), training=False),
    "NormalizeObservation": gym_normalised,
}


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("extractor", [PLAIN, {}], ids=["FlattenExtractor", "NormalisedObservation"])
@pytest.mark.parametrize(("name", "discrete"), [("PPO", True), ("TD3", False), ("SAC", False), ("RecurrentPPO", True)])
def test_whatever_normalises_is_folded_in(name: str, discrete: bool, extractor: dict[str, Any], wrapped: str) -> None:
    small = {"lstm_hidden_size": 8, "net_arch": [16]} if name == "RecurrentPPO" else {"net_arch": [16]}
    model = build(name, discrete, envs=WRAPPED[wrapped](discrete), policy_kwargs={**small, **extractor})
    excite(model)
    if wrapped == "bare" and extractor is PLAIN:
        # Such a network sees values of every size.
        for parameter in model.policy.parameters():
            parameter.data *= 0.3
    artifact = to_artifact(model, interface(discrete))
    observations = np.random.default_rng(0).normal(20, 20, (300, LENGTH))
    decide = predicting(model)
    expected = decide(observations.astype(np.float32), np.ones(300, np.bool_))
    for actions in acts(artifact, observations.astype(np.float32)):
        if discrete:
            assert (actions == expected).mean() > 0.99
        else:
            np.testing.assert_allclose(actions, expected, atol=2e-4)
    assert np.std(expected) > 0.01


class Doubling(gym.ObservationWrapper):
    def observation(self, observation: np.ndarray) -> np.ndarray:
        return 2 * observation


class Passing(VecEnvWrapper):
    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        return self.venv.step_wait()


class Contrary(ActorCriticPolicy):
    """It takes another action than its network says, for some observations."""

    def _predict(self, observation: torch.Tensor, deterministic: bool = False) -> torch.Tensor:
        action = super()._predict(observation, deterministic)
        return torch.where(observation[:, 0] > 60, 3 - action, action)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an observation's wrapper": (lambda: build("PPO", True, envs=Doubling(Links(True))), "Doubling: this wrapper may"),
    "an action's wrapper": (
        lambda: build("TD3", False, envs=gym.wrappers.RescaleAction(Links(False), np.float32(-2), np.float32(3))),
        "RescaleAction: this wrapper may",
    ),
    "a wrapper of one's own": (
        lambda: build("PPO", True, envs=Passing(DummyVecEnv([lambda: Links(True)]))),
        "Passing: this wrapper may",
    ),
    "a stack of frames": (
        lambda: build("PPO", True, envs=VecFrameStack(DummyVecEnv([lambda: Links(True)]), 2), policy_kwargs=PLAIN),
        r"it observes Box\(.*\(18,\).*expected a vector of the scheme's 9 numbers",
    ),
    "worlds in other processes": (
        lambda: build("PPO", True, envs=SubprocVecEnv([lambda: Doubling(Links(True))], "fork")),
        "worlds in other processes have a ObservationWrapper",
    ),
    "statistics of each world": (
        lambda: build("PPO", True, envs=DummyVecEnv([lambda: gym_normalised(True)] * 2)),
        "each of the 2 environments has statistics of its own",
    ),
    "other bounds": (
        lambda: build("TD3", False, envs=gym.wrappers.RescaleAction(Links(False), np.float32(-1), np.float32(1))),
        r"its actions are Box\(-1.0, 1.0, \(1,\), float32\); expected .* from -2 to 3",
    ),
    "a policy of one's own": (
        lambda: build("PPO", True, policy=Contrary, seed=4),
        r"PPO: the policy would decide otherwise than the model in \d+ of 1024 recorded decisions",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_artifact_would_lack_is_refused(what: str) -> None:
    make, message = REFUSED[what]
    model = make()
    with pytest.raises(PolicyError, match=message):
        to_artifact(model, interface("TD3" not in type(model).__name__))
    model.get_env().close()


def test_a_model_without_its_environment_is_refused(tmp_path: Path) -> None:
    model = build("PPO", True)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", device="cpu")
    with pytest.raises(PolicyError, match=r"PPO has no environment, .*model.set_env\(env\)"):
        to_artifact(loaded, interface(True))
    loaded.set_env(model.get_env())
    assert to_artifact(loaded, interface(True)).encode() == to_artifact(model, interface(True)).encode()


def test_what_is_no_policy_of_a_learned_scheme_is_refused() -> None:
    class Many(Links):
        def __init__(self) -> None:
            super().__init__(discrete=False)
            self.action_space = gym.spaces.Box(-1, 1, (2,))

    with pytest.raises(PolicyError, match=r"its actions are Box\(.*\(2,\)"):
        to_artifact(PPO("MlpPolicy", Many(), device="cpu"), interface(False))
    with pytest.raises(PolicyError, match=r"its actions are Discrete\(4\); expected .* Discrete\(15\)"):
        to_artifact(build("PPO", True), replace(interface(True), actions=tuple(range(15))))


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
