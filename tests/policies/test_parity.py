"""Rust and PyTorch take the same actions on the same observations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ccarena.agents.actor_critic import ActorCritic
from ccarena.errors import PolicyError
from tests.policies.acct import SPEC, to_artifact
from tests.policies.acct import network as make

core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: inference not compared (run make)")


@pytest.fixture(params=[(8, 128), (3, 17), (128, 128)], ids=lambda size: f"{size[0]}x{size[1]}")
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, ActorCritic]:
    torch.manual_seed(4)
    network = make(*request.param)
    # Training's initial actor is nearly uniform, which would make the comparison of actions a matter of rounding.
    torch.nn.init.orthogonal_(network.actor.out.weight, gain=2.0)
    torch.nn.init.normal_(network.actor.out.bias)
    path = tmp_path / "policy.safetensors"
    to_artifact(network, {}, 0).save(path)
    return path, network


def test_same_actions_and_logits(saved: tuple[Path, ActorCritic]) -> None:
    path, network = saved
    rng = np.random.default_rng(7)
    raw = (10 ** rng.uniform(-3, 3, (4096, SPEC.size))).astype(np.float32)
    raw[:100] = 0
    with torch.no_grad():
        expected = network.act(torch.from_numpy(raw)).numpy()
    actions, logits = core.Policy(str(path)).act(raw)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)
    # Where two actions are equal to rounding, either may come out on top.
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 2e-4
    assert clear.mean() > 0.99
    assert np.array_equal(np.asarray(actions)[clear], expected.argmax(axis=1)[clear])


def test_a_truncated_file_is_refused(saved: tuple[Path, ActorCritic]) -> None:
    path, _ = saved
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(PolicyError):
        core.Policy(str(path))
