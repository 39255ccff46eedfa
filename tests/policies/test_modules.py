"""A policy is compared with its model on recorded observations before it is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: policies not compared (run make)")

from ccarena.agents.train import train
from ccarena.configs import load_config
from ccarena.errors import PolicyError
from ccarena.policies import modules
from ccarena.policies.agreement import checked
from ccarena.policies.graph import Graph
from ccarena.policies.networks import Gru
from ccarena.policies.spec import spec_of
from tests.policies.acct import SPEC, network

HYVAR = spec_of(load_config("hyvar"))


def discrete() -> nn.Module:
    torch.manual_seed(2)
    actor_critic = network()
    nn.init.orthogonal_(actor_critic.actor.out.weight, gain=2.0)
    return actor_critic.policy()


def continuous() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(HYVAR.size, 8), nn.Tanh(), nn.Linear(8, 1))


def recurrent() -> Gru:
    torch.manual_seed(2)
    return Gru(SPEC, SPEC.outputs)


def test_a_module_becomes_a_policy_that_decides_as_it_does() -> None:
    for module, spec in ((discrete(), SPEC), (continuous(), HYVAR), (recurrent(), SPEC)):
        made = modules.to_artifact(module, spec.interface, state=getattr(module, "state", None), seed=7)
        assert made.seed == 7 and made.interface.digest == spec.digest


@pytest.mark.parametrize(("make", "spec"), [(discrete, SPEC), (continuous, HYVAR), (recurrent, SPEC)])
def test_a_single_other_decision_is_found(make: Any, spec: Any) -> None:
    module = make()
    state = getattr(module, "state", None)
    made, calls = modules.to_artifact(module, spec.interface, state=state), 0
    decide = modules.deciding(module, spec.interface, state)

    def contrary(observations: np.ndarray, starts: np.ndarray) -> np.ndarray:
        nonlocal calls
        actions, calls = decide(observations, starts).copy(), calls + 1
        if calls == 5:
            actions[3] = (actions[3] + 1) % len(spec.actions) if spec.actions else actions[3] + 0.01
        return actions

    with pytest.raises(PolicyError, match=r"mine: .* otherwise than the model in 1 of 1024 recorded .* decision 5 of "):
        checked(made, contrary, "mine")


def test_a_model_that_forgets_is_found() -> None:
    module = recurrent()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(4)
    made = modules.to_artifact(module, SPEC.interface, state=module.state)
    decide = modules.deciding(module, SPEC.interface, module.state)
    with pytest.raises(PolicyError, match="recorded decisions"):
        checked(made, lambda x, starts: decide(x, np.ones_like(starts)), "mine")


def test_no_number_is_another_decision() -> None:
    made = modules.to_artifact(continuous(), HYVAR.interface)
    with pytest.raises(PolicyError, match="1024 of 1024"):
        checked(made, lambda x, s: np.full(len(x), np.nan), "mine")


ALGORITHMS: dict[str, dict[str, Any]] = {
    "a3c": {"algorithm": {"name": "a3c", "workers": 1}, "spec": "acct"},
    "cma_es": {"algorithm": {"name": "cma_es", "links": 1, "population": 2}, "spec": "hyvar"},
    "PPO": {"algorithm": {"name": "PPO", "n_steps": 8, "batch_size": 16}, "spec": "acct"},
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_training_saves_another_policy_than_it_has_learned(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if algorithm == "PPO":
        pytest.importorskip(
            "stable_baselines3", reason="STABLE-BASELINES3 IS NOT INSTALLED: not tested (ccarena[train])"
        )
    export = modules.to_graph

    def broken(*args: Any, **kwargs: Any) -> Graph:
        """An export that loses a sign, as a mistake in a translation would."""
        graph = export(*args, **kwargs)
        last = graph.nodes[-1] if graph.nodes[-1].op == "linear" else [n for n in graph.nodes if n.op == "linear"][-1]
        name = last.attributes["weight"]
        graph.tensors[name] = -graph.tensors[name] - 1
        return graph

    monkeypatch.setattr(modules, "to_graph", broken)
    config = load_config(
        {
            **ALGORITHMS[algorithm],
            "out": str(tmp_path / "run"),
            "total_decisions": 32,
            "env": {"worlds": 2, "link": {"kinds": {"constant": 1}}},
            "eval": {"link_sets": []},
            "validation": {"kinds": []},
            "network": {"name": "mlp", "hidden": [8]},
        }
    )
    with pytest.raises(PolicyError, match=rf"{algorithm}: .* of \d+ recorded decisions"):
        train(config)
    assert not list((tmp_path / "run").glob("policy*"))
