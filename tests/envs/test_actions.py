"""Several actions at once, schemes as bases and choices among schemes, from the spec to the artifact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ccarena import _core
from ccarena.configs import load_config
from ccarena.configs.schema import TrainConfig
from ccarena.envs.vector import LearnedVectorEnv
from ccarena.errors import ActionError, ConfigError, MachineError, PolicyError
from ccarena.eval.heldout.rules import search_constant
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.spec import Spec, spec_of
from ccarena.quic.decide import decide

PAIR = [{"kind": "window_exp2", "bounds": [-1, 1]}, {"kind": "pacing_gain", "bounds": [0.8, 2]}]
LEVELS = [{"kind": "window_exp2", "levels": [-1, 0, 1]}, {"kind": "cap", "levels": [1, 2]}, "choice"]


def config(act: Any, base: Any, **more: Any) -> TrainConfig:
    """A configuration of a small spec on short links."""
    document = {
        "learned": 1,
        "name": "small",
        "clock": {"kind": "rtt", "rtts": 1},
        "observe": {"signals": ["throughput_ratio", "rtt_ratio", "loss_ratio"]},
        "act": act,
        "base": base,
    }
    links = {"kinds": {"constant": 1, "random_steps": 0, "cellular": 0}, "rate_mbps": [5, 20], "rtt_ms": [10, 20]}
    given = {"name": "small", "spec": document, "reward": "power", "env": {"link": links, "episode_s": [1, 1]}}
    return load_config({**given, "rules": {"links": 2}, **more})


def linear(spec: Spec, seed: int = 0) -> Artifact:
    """A policy of one random layer, whose outputs leave the bounds now and then."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(0, 2, (spec.outputs, spec.size)).astype(np.float32)
    nodes = (Node("out", "linear", (OBSERVATION,), {"weight": "out.weight", "bias": "out.bias"}),)
    tensors = {"out.weight": weight, "out.bias": rng.normal(0, 1, spec.outputs).astype(np.float32)}
    return Artifact.of(Graph(spec.size, nodes, "out", tensors), spec.interface)


def test_spaces_are_those_of_the_list() -> None:
    pair, product = spec_of(config(PAIR, "none")), spec_of(config(LEVELS, {"schemes": ["cubic", "bbr"]}))
    low, high = np.array([[-1, 0.8], [1, 2]], np.float32)
    assert pair.action_space == gym.spaces.Box(low, high, dtype=np.float32)
    assert (pair.outputs, pair.numbers, pair.actuators) == (2, 2, ("window_exp2", "pacing_gain"))
    assert pair.report[:2] == ("last_window_exp2", "last_pacing_gain")
    assert product.action_space == gym.spaces.Discrete(12)
    assert product.action_names[:3] == ("-1, 1, cubic", "-1, 1, bbr", "-1, 2, cubic")
    assert product.bases == ("cubic", "bbr")


@pytest.mark.parametrize(
    ("act", "base"), [(PAIR, "none"), (PAIR, {"scheme": "bbr"}), (LEVELS, {"schemes": ["cubic", "copa"]})]
)
def test_rollouts_are_steps(act: Any, base: Any) -> None:
    own = config(act, base)
    spec, envs, twin = spec_of(own), LearnedVectorEnv(own, 3, seed=5), LearnedVectorEnv(own, 3, seed=5)
    rng, policy, bounds = np.random.default_rng(1), linear(spec), spec.bounds
    envs.reset(seed=5)
    observations, _ = twin.reset(seed=5)
    noise = rng.normal(0, 1, (20, 3, spec.outputs)).astype(np.float32)
    spread = np.array([0.5, 0.1], np.float32) if bounds else np.empty(0, np.float32)
    seen = envs.rollout(_core.Policy.of(policy.encode()), noise, spread)
    for step in range(20):
        np.testing.assert_allclose(observations, seen.observations[step], rtol=1e-3, atol=1e-3)
        answer = policy.interface.normalisation(observations) @ policy.graph.tensors["out.weight"].T
        answer = answer + policy.graph.tensors["out.bias"]
        if bounds is None:
            actions = (answer + noise[step]).argmax(axis=1)
        else:
            low, high = np.array(bounds).T
            actions = low + (high - low) * (0.5 + 0.5 * np.tanh(seen.drawn[step]))
            np.testing.assert_allclose(seen.drawn[step], answer + noise[step] * spread, atol=1e-5)
        observations, _, _, _, infos = twin.step(actions.astype(np.float32))
        np.testing.assert_allclose(infos["reports"], seen.reports[step], rtol=1e-3, atol=1e-3)
    state = envs.get_state()
    assert np.array_equal(envs.set_state(state), seen.following)


def test_actions_of_another_shape_move_nothing() -> None:
    envs = LearnedVectorEnv(config(PAIR, "none"), 2, seed=1)
    envs.reset(seed=1)
    with pytest.raises(ActionError, match=r"actions have shape \(2,\); expected \(2, 2\)"):
        envs.step(np.zeros(2, np.float32))
    with pytest.raises(
        ActionError, match=r"actions\[1\]: action 3 is outside the action space: expected a number from 0.8"
    ):
        envs.step(np.array([[0, 1], [0, 3]], np.float32))


def test_an_artifact_keeps_every_number(tmp_path: Path) -> None:
    spec = spec_of(config(PAIR, {"scheme": "copa", "delta": 0.1}))
    policy = linear(spec)
    policy.save(tmp_path / "two.safetensors")
    again = load(tmp_path / "two.safetensors")
    np.testing.assert_allclose(again.interface.bounds or (), ((-1, 1), (0.8, 2)))
    seen = np.random.default_rng(2).normal(0, 3, (50, spec.size)).astype(np.float32)
    acted = again.act(seen)
    low, high = np.array(spec.bounds, np.float32).T
    assert acted.shape == (50, 2)
    assert (acted >= low).all() and (acted <= high).all()
    _, native = _core.Policy.of(again.encode()).act(seen)
    np.testing.assert_allclose(native, acted, atol=1e-6)
    with pytest.raises(PolicyError, match="a continuous action of several numbers; expected one number, or discrete"):
        IntegerPolicy.of(again)


def test_onnx_has_every_number() -> None:
    pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    from ccarena.policies.onnx import to_onnx

    policy = linear(spec_of(config(PAIR, "none")))
    seen = np.random.default_rng(3).normal(0, 3, (20, policy.interface.observation_len)).astype(np.float32)
    [answers] = reference.ReferenceEvaluator(to_onnx(policy)).run(["output"], {OBSERVATION: seen})
    np.testing.assert_allclose(answers, policy.act(seen), atol=1e-5)


def test_quic_decides_every_number() -> None:
    policy, rng = linear(spec_of(config(PAIR, "none"))), np.random.default_rng(4)
    seen = rng.normal(0, 3, (5, 2, policy.interface.observation_len)).astype(np.float32)
    try:
        answers, _ = decide(policy.encode(), seen, np.ones((5, 2), np.bool_))
    except MachineError as error:
        pytest.skip(f"NO QUIC PROGRAM ({error}): its decisions were not compared")
    np.testing.assert_allclose(answers, policy.act(seen.reshape(10, -1)), atol=1e-6)


def test_the_best_constant_action_has_every_number() -> None:
    own = config(PAIR, "none")
    rule = search_constant(own, spec_of(own), 1)
    found = rule.policy["constant"]
    assert len(found) == 2 and all(low <= x <= high for x, (low, high) in zip(found, ((-1, 1), (0.8, 2)), strict=True))
    assert rule.label == f"small {', '.join(f'{x:.3g}' for x in found)} always"


def simulated(scheme: Any, policy: Any = None) -> Any:
    """The figures of a flow alone on a link of 20 Mbit/s."""
    flow = {"scheme": scheme, "policy": policy}
    links = [
        {
            "service": {"type": "constant", "rate_mbps": 20},
            "delay_ms": 20,
            "queue": {"type": "droptail", "packets": 60},
        }
    ]
    done = _core.simulate(json.dumps({"version": 1, "duration_s": 5, "seed": 3, "links": links, "flows": [flow]}))
    return {
        key: value for key, value in done["flows"][0].items() if key.startswith(("delivered", "sent", "lost", "retr"))
    }


@pytest.mark.parametrize("scheme", ["bbr", "bbr3", "copa", "cubic", "pilot", "vivace"])
def test_a_base_without_actions_is_the_scheme(scheme: str) -> None:
    spec = json.loads(spec_of(config("window_exp2", {"scheme": scheme})).canonical)
    assert simulated(spec, "none") == simulated(scheme)


def test_a_constant_choice_is_its_scheme() -> None:
    spec = json.loads(spec_of(config("choice", {"schemes": ["cubic", "bbr"]})).canonical)
    assert simulated(spec, {"constant": 1}) == simulated("bbr")
    assert simulated(spec, {"constant": 0}) == simulated(spec, "none") != simulated("bbr")


def test_a_constant_of_several_numbers_decides_a_flow() -> None:
    spec = json.loads(spec_of(config(PAIR, {"scheme": "cubic"})).canonical)
    held, halved = simulated(spec, {"constant": [0, 1]}), simulated(spec, {"constant": [-1, 1]})
    assert halved["delivered_bytes"] < held["delivered_bytes"] / 2
    with pytest.raises(Exception, match="an action of 1 numbers: the scheme takes 2, one for each of its actuators"):
        simulated(spec, {"constant": 0})


def test_the_environment_on_kernel_tcp_takes_one_number() -> None:
    from ccarena.envs.kernel import LearnedKernelEnv

    with pytest.raises(ConfigError, match="its continuous actions have 2 numbers"):
        LearnedKernelEnv(config(PAIR, "none"))
