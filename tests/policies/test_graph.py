"""A network computes the same in PyTorch, in NumPy's reference and in Rust, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from ccarena.policies.artifact import Artifact
from ccarena.policies.export import to_graph
from ccarena.policies.graph import Graph, run
from ccarena.policies.interface import Interface, Normalisation
from tests.policies.made import document
from tests.policies.random_graphs import KINDS, OBSERVATION, Block, Network, Stateful, networks

core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: inference not compared (run make)")

TOLERANCE = 2e-5
"""Of outputs whose scale is 1, relative to their largest. Each float32 operation rounds by 6e-8 of its result; sums are
taken in another order by PyTorch (pairwise, fused) and NumPy (blocked) than by Rust (from first to last), which moves a
sum of n terms by up to n times that of its largest partial sum; a layer normalisation of few entries that are nearly
equal divides by a small deviation and multiplies what came before by up to ten or so."""


def interface(observation_len: int, outputs: int) -> Interface:
    """One that normalises nothing; one output is a continuous action."""
    zeros, ones = np.zeros(observation_len, np.float32), np.ones(observation_len, np.float32)
    normalisation = Normalisation(zeros, ones, -1e9 * ones, 1e9 * ones)
    actions = tuple(float(k) for k in range(outputs)) if outputs > 1 else ()
    return Interface(*document(), normalisation, actions, None if actions else ((-1e9, 1e9),))


def rollout(graph: Graph, observations: np.ndarray, outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs `[steps, N, outputs]` by NumPy and by Rust, and the state after it by Rust."""
    artifact = Artifact.of(graph, interface(observations.shape[2], outputs))
    policy = core.Policy.of(artifact.encode())
    n = observations.shape[1]
    ours, native = (np.zeros((n, graph.state_len), np.float32) for _ in range(2))
    by_numpy = np.stack([artifact.outputs(x, ours) for x in observations])
    by_rust = np.stack([policy.act(x, native)[1] for x in observations])
    np.testing.assert_allclose(ours, native, rtol=0, atol=TOLERANCE * max(1.0, np.abs(ours).max(initial=0)))
    return by_numpy, by_rust, native


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=networks(), seed=st.integers(0, 2**31))
def test_pytorch_numpy_and_rust_agree(drawn: tuple[Stateful, dict[str, tuple[int, ...]], int], seed: int) -> None:
    network, state, outputs = drawn
    graph = to_graph(network, OBSERVATION, state=state)
    observations = np.random.default_rng(seed).normal(0, 1, (5, 4, OBSERVATION)).astype(np.float32)
    by_numpy, by_rust, _ = rollout(graph, observations, outputs)
    expected, states = [], [torch.zeros(4, *shape) for shape in state.values()]
    with torch.no_grad():
        for x in observations:
            y, *states = network(torch.from_numpy(x), *states)
            expected.append(y.numpy())
    atol = TOLERANCE * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(by_numpy, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(by_rust, by_numpy, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
@pytest.mark.parametrize("out", [1, 4])
def test_each_operation_alone(kind: str, out: int) -> None:
    torch.manual_seed(out)
    network = Stateful(Network([(kind, out)], [], 3)).eval()
    graph = to_graph(network, OBSERVATION)
    observations = np.random.default_rng(out).normal(0, 2, (1, 200, OBSERVATION)).astype(np.float32)
    by_numpy, by_rust, _ = rollout(graph, observations, 3)
    with torch.no_grad():
        (expected,) = network(torch.from_numpy(observations[0]))
    np.testing.assert_allclose(by_numpy[0], expected, rtol=0, atol=TOLERANCE * 3)
    np.testing.assert_allclose(by_rust, by_numpy, rtol=0, atol=TOLERANCE * 3)
    assert by_rust.std() > 1e-3


def test_a_state_outlives_a_decision_and_starts_at_zero() -> None:
    torch.manual_seed(0)
    network = Stateful(Network([], [("lstm", 6)], 3)).eval()
    graph = to_graph(network, OBSERVATION, state={"h": (6,), "c": (6,)})
    x = np.ones((1, OBSERVATION), np.float32)
    first, state = run(graph, x)
    second, _ = run(graph, x, state)
    assert graph.state_len == state.shape[1] == 12 and not np.allclose(first, second)
    policy = core.Policy.of(Artifact.of(graph, interface(OBSERVATION, 3)).encode())
    memory = np.zeros((1, policy.state_len), np.float32)
    for expected in (first, second):
        np.testing.assert_allclose(policy.act(x, memory)[1], expected, atol=1e-6)
    np.testing.assert_allclose(policy.act(x)[1], first, atol=1e-6)


def test_a_recurrent_layer_may_have_its_state_given() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(OBSERVATION, 5, 2)

        def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y, h = self.gru(x.unsqueeze(0), h.transpose(0, 1).contiguous())
            return y[0], h.transpose(0, 1)

    torch.manual_seed(1)
    module = Deep()
    graph = to_graph(module, OBSERVATION, state={"h": (2, 5)})
    observations = np.random.default_rng(1).normal(0, 1, (6, 3, OBSERVATION)).astype(np.float32)
    by_numpy, by_rust, after = rollout(graph, observations, 5)
    h = torch.zeros(3, 2, 5)
    with torch.no_grad():
        for x in observations:
            y, h = module(torch.from_numpy(x), h)
    np.testing.assert_allclose(by_numpy[-1], y, atol=TOLERANCE)
    np.testing.assert_allclose(by_rust, by_numpy, atol=TOLERANCE)
    np.testing.assert_allclose(after.reshape(3, 2, 5), h, atol=TOLERANCE)


def test_blocks_have_the_width_that_they_say() -> None:
    for kind in KINDS:
        block = Block(kind, 7, 4).eval()
        assert block(torch.zeros(2, 7)).shape == (2, block.out), kind
