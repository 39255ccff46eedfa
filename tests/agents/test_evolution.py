"""Evolution: strategies find known optima and go on exactly; vectors are networks and parameters; whole trainings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ccarena.agents import train as training
from ccarena.agents.algorithm import Context
from ccarena.agents.es import Es, centred_ranks
from ccarena.agents.evolution import Evolution, Genome, Strategy
from ccarena.agents.evolution_runs import LocalEvaluator
from ccarena.configs import TrainConfig, load_config
from ccarena.configs.schema import CmaEsConfig, EsConfig
from ccarena.core.cma_es import CmaEs
from ccarena.errors import CheckpointError, ConfigError
from ccarena.policies.artifact import load
from ccarena.policies.graph import run as run_graph
from ccarena.policies.spec import spec_of

LINKS = {"constant": 1, "random_steps": 1, "cellular": 0, "trace": 0}
OPTIMUM = np.array([1.0, -2.0, 0.5, 0.25])


def strategies() -> list[Strategy]:
    start = np.array([0.0, 0.0, 0.0, 0.9])
    return [
        CmaEs(start, 3, CmaEsConfig(population=8, sigma=0.3), seed=1),
        Es(start, 3, EsConfig(population=16, sigma=0.1, learning_rate=0.1, learning_rate_end=0.02), seed=1),
    ]


def climb(strategy: Strategy, generations: range, last: int = 150) -> None:
    for generation in generations:
        scores = -np.square(strategy.ask() - OPTIMUM).sum(axis=1)
        strategy.tell(scores, generation / last)


@pytest.mark.parametrize("which", [0, 1], ids=["cma_es", "es"])
def test_a_known_optimum_is_found_and_a_restored_search_goes_on_exactly(which: int) -> None:
    whole, first, second = (strategies()[which] for _ in range(3))
    climb(whole, range(150))
    np.testing.assert_allclose(whole.centre, OPTIMUM, atol=0.05)
    climb(first, range(70))
    second.restore(*first.state())
    climb(second, range(70, 150))
    np.testing.assert_array_equal(second.centre, whole.centre)
    with pytest.raises(ValueError, match="expected 4"):
        second.restore({**first.state()[0], "centre": np.zeros(3)}, {**first.state()[1], "size": 3})


def test_cma_es_keeps_parameters_in_their_range() -> None:
    strategy = CmaEs(np.array([0.0, 0.5]), 1, CmaEsConfig(population=8, sigma=1.0), seed=2)
    for _ in range(30):
        asked = strategy.ask()
        assert asked[:, 1].min() >= 0 and asked[:, 1].max() <= 1
        strategy.tell(asked[:, 1], 0.0)
    assert strategy.centre[1] > 0.95
    single = CmaEs(np.array([0.5]), 0, CmaEsConfig(), seed=2)
    for _ in range(30):
        single.tell(-np.square(single.ask()[:, 0] - 0.3), 0.0)
    np.testing.assert_allclose(single.centre, [0.3], atol=0.02)


def test_cma_es_needs_no_plots_and_does_not_warn_of_them() -> None:
    without = "import sys; sys.modules['matplotlib'] = None; import ccarena.core.cma_es"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_ranks_are_centred_and_shared() -> None:
    np.testing.assert_allclose(centred_ranks(np.array([5.0, 1e9, -3.0])), [0.0, 0.5, -0.5])
    np.testing.assert_allclose(centred_ranks(np.array([1.0, 1.0, 2.0])), [-0.25, -0.25, 0.5])


def record(scheme: str = "orca", **changes: Any) -> TrainConfig:
    keys = {
        "network": {"name": "mlp", "hidden": [8]},
        "algorithm": {"name": "es", "population": 4, "links": 3, "params": {"max_action": [0.1, 1.9]}},
        "env.episode_s": [1, 2],
        "env.link.kinds": LINKS,
        "env.link.rate_mbps": [5, 20],
        "env.link.rtt_ms": [10, 60],
        "eval.link_sets": [],
        "total_decisions": 3000,
        "checkpoint_every_s": 1000.0,
    }
    return load_config(scheme, keys | {name.replace("__", "."): value for name, value in changes.items()})


def genome(config: TrainConfig) -> Genome:
    return Genome(Context(config, spec_of(config), lambda rows, threads: None), config.algorithm)


@pytest.mark.parametrize("scheme", ["orca", "acct"])
def test_a_vector_is_a_network_and_parameters(scheme: str) -> None:
    params = {"max_action": [0.1, 1.9]} if scheme == "orca" else {"slack": [0, 4], "budget_ms": None}
    config = record(scheme, algorithm={"name": "es", "params": params})
    searched = genome(config)
    x = searched.start + np.random.default_rng(0).standard_normal(searched.start.size)
    candidate = searched.candidate(x)
    spec = spec_of(config)
    observations = np.random.default_rng(1).random((5, spec.size), np.float32)
    module = searched.module(x)
    expected = module(torch.from_numpy(observations)).detach().numpy()
    graph = load_bytes(candidate.answers).graph
    np.testing.assert_allclose(run_graph(graph, observations, None)[0], expected, rtol=1e-5, atol=1e-5)
    assert candidate.params == searched.params(x) and candidate.params.keys() == params.keys()
    if scheme == "orca":
        assert 0.1 <= candidate.params["max_action"] <= 1.9
        assert searched.params(searched.start)["max_action"] == pytest.approx(1.0), "the record's"


def load_bytes(data: Any) -> Any:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        Path(file.name).write_bytes(data)
        return load(file.name)


OWN_NETWORK = """
import torch
from torch import nn

class Doubled(nn.Module):
    def __init__(self, spec, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, spec.size))

    def forward(self, x):
        return torch.nn.functional.linear(x, 2.0 * self.weight)

class Memory(nn.Module):
    def __init__(self, spec, outputs):
        super().__init__()
        self.state = {"h": (4,)}
        self.cell, self.out = nn.GRUCell(spec.size, 4), nn.Linear(4, outputs)

    def forward(self, x, h):
        h = self.cell(x, h)
        return self.out(h), h
"""


@pytest.mark.parametrize("name", ["Doubled", "Memory", "gru"])
def test_networks_of_ones_own_and_with_memory_evolve(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OWN_NETWORK)
    network = {"name": name, "hidden": 4} if name == "gru" else f"{tmp_path}/net.py:{name}"
    searched = genome(record(network=network))
    x = searched.start + 0.3
    spec = spec_of(record())
    observations = np.ones((2, spec.size), np.float32)
    artifact = load_bytes(searched.candidate(x).answers)
    module = searched.module(x)
    memory = [] if name == "Doubled" else [torch.zeros(2, 4)]
    answer = module(torch.from_numpy(observations), *memory)
    expected = (answer[0] if memory else answer).detach().numpy()
    np.testing.assert_allclose(run_graph(artifact.graph, observations, None)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["es", "cma_es"])
def test_training_ends_in_the_same_policy_whatever_the_threads_and_interruptions(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"algorithm": {"name": algorithm, "population": 4, "links": 3, "params": {"max_action": [0.1, 1.9]}}}
    assert training.train(record(out=str(tmp_path / "whole"), threads=1, **changes)) == 0
    parts = record(out=str(tmp_path / "parts"), threads=2, **changes)
    with monkeypatch.context() as patch:
        score, count = LocalEvaluator.score, 0

        def interrupted(self: LocalEvaluator, *args: Any) -> Any:
            nonlocal count
            count += 1
            if count == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return score(self, *args)

        patch.setattr(LocalEvaluator, "score", interrupted)
        assert training.train(parts) == training.INTERRUPTED
    assert training.train(parts, resume=True) == 0
    one, two = (load(tmp_path / part / "policy.safetensors") for part in ("whole", "parts"))
    assert all(np.array_equal(one.tensors[name], two.tensors[name]) for name in one.tensors)
    assert one.params == two.params and one.params["max_action"] != 1.0
    curve = (tmp_path / "whole" / "progress.jsonl").read_text()
    assert '"score"' in curve and '"score_best"' in curve and '"sigma"' in curve


def test_a_law_is_tuned_without_a_network(tmp_path: Path) -> None:
    algorithm = {"name": "cma_es", "weights": False, "params": {"slack": [0, 50]}, "action": 100, "links": 4}
    config = record(
        "acct", algorithm=algorithm, objective={"name": "log_power", "weight": 3}, out=str(tmp_path / "run")
    )
    assert training.train(config) == 0
    policy = load(tmp_path / "run" / "policy.safetensors")
    assert policy.params["slack"] < 25, "slack is delay"
    assert set(policy.act(np.random.default_rng(0).random((9, 66), np.float32))) == {14}


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ({"name": "es", "params": {"max_acton": None}}, "max_acton"),
        ({"name": "es", "params": {"max_action": [1, 99]}}, r"algorithm\.params\.max_action is 99"),
        ({"name": "cma_es", "params": {"max_action": [1, 1]}}, "expected low < high"),
        ({"name": "cma_es", "weights": False}, "there is nothing to search"),
        ({"name": "cma_es", "weights": False, "params": {"max_action": None}, "action": 7}, "has no action 7"),
        ({"name": "es", "population": 7}, "population"),
    ],
)
def test_what_cannot_be_searched_is_refused(algorithm: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        genome(record(algorithm=algorithm))


def test_a_checkpoint_of_another_search_is_refused(tmp_path: Path) -> None:
    def evolution(**changes: Any) -> Evolution:
        config = record(**changes)
        return Evolution(Context(config, spec_of(config), lambda rows, threads: None))

    arrays, rest = evolution().state()
    with pytest.raises(ValueError, match="numbers searched"):
        evolution(network={"name": "mlp", "hidden": [9]}).restore(arrays, rest)
    with pytest.raises(CheckpointError):
        config = record(out=str(tmp_path / "none"))
        training.train(config, resume=True)
