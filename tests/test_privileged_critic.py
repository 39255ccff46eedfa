"""The example `privileged`: what its critic is told, its advantages, its noise, and how its trainings resume."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the example was not run (run make)")
pytest.importorskip("torch", reason="TORCH NOT INSTALLED: the example was not run")

import torch

from ccarena.agents.algorithm import Context
from ccarena.agents.worlds import environments
from ccarena.configs import load_config
from ccarena.envs.vector import Seen
from ccarena.policies.spec import spec_of

FOLDER = Path(__file__).parents[1] / "examples" / "privileged"


def loaded() -> ModuleType:
    found = importlib.util.spec_from_file_location("privileged_example", FOLDER / "privileged.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


EXAMPLE = loaded()


class Updates:
    """A training of so many updates."""

    def __init__(self, count: int) -> None:
        self.left, self.stats = count, [{}]

    def rest(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def record(self, stats: dict[str, float], *, updates: int = 0, **now: float) -> None:
        self.stats.append(stats)


@pytest.fixture
def made() -> Iterator[Any]:
    """Makes algorithms of two worlds with short episodes."""
    kept = []

    def make(**arguments: Any) -> Any:
        changes = {"env.worlds": 2, "env.episode_s": 1, "env.cross_traffic.probability": 0, "threads": 1}
        config = load_config(str(FOLDER / "privileged.yaml"), changes)
        context = Context(config, spec_of(config), environments(config))
        kept.append(EXAMPLE.Ppo(context, **{"rollout": 24, "minibatch": 16, "epochs": 2} | arguments))
        return kept[-1]

    yield make
    for each in kept:
        each.close()


def test_the_future_ends_with_the_episode() -> None:
    capacity = np.array([[1.0], [2.0], [3.0], [10.0], [20.0]], np.float32)
    over = np.array([[False], [False], [True], [False], [False]])
    assert EXAMPLE.ahead_of(capacity, over, 2)[:, 0].tolist() == [1.5, 2.5, 3.0, 15.0, 20.0]


def test_advantages_without_bootstrapping_are_returns_less_values() -> None:
    rewards, values = np.ones((3, 1), np.float32), np.zeros((3, 1), np.float32)
    over = np.array([[False], [True], [False]])
    assert EXAMPLE.advantages(rewards, values, over, 0.5, 1.0)[:, 0].tolist() == [1.5, 1.0, 1.0]


def test_a_state_before_a_cut_stands_for_what_would_have_followed() -> None:
    rewards, values = np.zeros((2, 1), np.float32), np.array([[4.0], [8.0]], np.float32)
    cut = np.array([[True], [False]])
    assert EXAMPLE.advantages(rewards, values, cut, 0.5, 1.0)[:, 0].tolist() == [2.0 - 4.0, 4.0 - 8.0]


def test_it_is_told_of_the_step_before_and_of_nothing_before_an_episode(made: Any) -> None:
    ppo = made(ahead=2)
    seen: Seen = ppo.collect()
    assert seen.privileged is not None and seen.truncated.any()
    told = ppo.tell(seen)
    names, begins = ppo.context.spec.privileged, np.flatnonzero(seen.truncated[:-1, 0]) + 1
    assert told.shape == (24, 2, ppo.told()) and not told[0, :, :-1].any() and not told[begins, 0, :-1].any()
    rtt = names.index("base_rtt_ms")
    np.testing.assert_allclose(told[1, 0, rtt], np.log1p(seen.privileged[0, 0, rtt]))
    coming = seen.privileged[:2, :, names.index("capacity_mbps")].mean(axis=0)
    np.testing.assert_allclose(told[0, :, -1], np.log1p(coming), 1e-5)


def test_noise_is_held(made: Any) -> None:
    ppo = made(hold=4)
    ppo.network.actor.out.weight.data.zero_()
    drawn = ppo.collect().drawn.reshape(6, 4, 2)
    assert (drawn == drawn[:, :1]).all() and len(np.unique(drawn)) == 12


def test_the_actor_sees_what_a_sender_sees(made: Any) -> None:
    sizes = {kind: made(privileged=kind).network.critic[0].in_features for kind in (True, False)}
    size = spec_of(load_config(str(FOLDER / "privileged.yaml"))).size
    assert sizes == {True: size + made().told(), False: size}
    assert made().policy()(torch.zeros(3, size)).shape == (3, 1)


def test_a_resumed_training_is_the_same_to_the_bit(made: Any) -> None:
    whole, first, second = made(), made(), made()
    whole.learn(Updates(3))
    first.learn(Updates(2))
    second.restore(*first.state())
    second.learn(Updates(1))
    ours, theirs = whole.state(), second.state()
    assert ours[1] == theirs[1]
    assert all(np.array_equal(ours[0][name], theirs[0][name]) for name in ours[0])
