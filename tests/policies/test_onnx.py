"""The exported ONNX model gives what the artifact gives, by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings

pytest.importorskip("onnx", reason="ONNX IS NOT INSTALLED: not tested (ccarena[onnx])")
pytest.importorskip("onnxruntime", reason="ONNX RUNTIME IS NOT INSTALLED: not tested (ccarena[test])")

import onnxruntime

from ccarena.cli import main
from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.export import to_graph
from ccarena.policies.onnx import to_onnx
from tests.policies.acct import SPEC, to_artifact
from tests.policies.acct import network as make
from tests.policies.random_graphs import OBSERVATION, Network, Stateful, networks
from tests.policies.test_graph import interface


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=networks())
def test_onnx_runtime_agrees(drawn: tuple[Stateful, dict[str, tuple[int, ...]], int]) -> None:
    network, state, outputs = drawn
    assume(all(block.kind != "lstm" for block in network.network.blocks))
    artifact = Artifact.of(to_graph(network, OBSERVATION, state=state), interface(OBSERVATION, outputs))
    session = onnxruntime.InferenceSession(to_onnx(artifact).SerializeToString(), providers=["CPUExecutionProvider"])
    memory = np.zeros((4, artifact.graph.state_len), np.float32)
    states = {name: np.zeros((4, *shape), np.float32) for name, shape in state.items()}
    for step in range(3):
        x = np.random.default_rng(step).normal(0, 1, (4, OBSERVATION)).astype(np.float32)
        expected = artifact.outputs(x, memory)
        found, *after = session.run(None, {"observation": x, **states})
        states = dict(zip(states, after, strict=True))
        atol = 1e-4 * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_an_lstm_over_a_history_is_refused_with_its_node() -> None:
    artifact = Artifact.of(to_graph(Stateful(Network([("lstm", 4)], [], 3)), OBSERVATION), interface(OBSERVATION, 3))
    with pytest.raises(PolicyError, match=r'graph node "network_blocks_0_layer.*" \(lstm\): ONNX gives the cell state'):
        to_onnx(artifact)


def test_the_command_shows_and_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(1)
    network = make()
    torch.nn.init.orthogonal_(network.actor.out.weight, gain=2.0)
    policy, model = tmp_path / "policy.safetensors", tmp_path / "policy.onnx"
    to_artifact(network, {"name": "tried"}, 5).save(policy)
    assert main(["policy", "show", str(policy)]) == 0
    shown = capsys.readouterr().out
    assert SPEC.digest in shown and "linear 128" in shown and "configuration tried, seed 5" in shown
    assert main(["export", str(policy), "--to", "onnx", "--out", str(tmp_path), "--name", "policy"]) == 0
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    raw = (20 * np.random.default_rng(0).random((64, 66)) ** 3).astype(np.float32)
    with torch.no_grad():
        expected = network.act(torch.from_numpy(raw)).numpy()
    np.testing.assert_allclose(session.run(None, {"observation": raw})[0], expected, atol=1e-5)
    assert main(["export", str(policy), "--to", "onnx", "--out", str(policy)]) == 2
