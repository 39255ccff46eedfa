"""The environments on real TCP: a few seconds of random actions, alone and side by side."""

from __future__ import annotations

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: kernel TCP is not tested (run make)")


import ccarena.envs  # noqa: F401, registers them
from ccarena.envs.kernel import LearnedKernelEnv
from tests.envs.acct import ACTIONS, REPORT_FIELDS

pytestmark = pytest.mark.usefixtures("kernel")

SCENARIO: dict[str, Any] = {
    "duration_s": 3,
    "links": [{"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10, "router": True}],
    "flows": [{"scheme": "cubic", "start_s": 1.5}, {"scheme": "acct"}],
}
ALONE = {**SCENARIO, "flows": [{"scheme": "acct"}]}


def test_an_episode_of_random_actions() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Gymnasium's checker warns of what it does not like
        env = gymnasium.make("ccarena/AcctKernel-v0", scenario=SCENARIO)
        env.action_space.seed(1)
        env.reset(seed=1)
        begun_s, played, in_force = time.monotonic(), [], []
        while not played or not played[-1][3]:
            action = env.action_space.sample()
            played.append(env.step(action))
            in_force.append(played[-1][4]["alpha"] == ACTIONS[action])
        took_s = time.monotonic() - begun_s
        env.close()
    assert 2.9 < took_s < 5 and 3 <= played[-1][4]["time_s"] < 4.1
    # Not all: an interval may end while an action is on its way.
    assert np.mean(in_force) > 0.9
    assert len(played) > 40 and np.isfinite([reward for _, reward, *_ in played]).all()
    throughput = [info["throughput_mbps"] for *_, info in played]
    assert np.median(throughput[10 : len(throughput) // 3]) > 15, "alone on 24 Mbit/s"
    assert all(set(info) == {*REPORT_FIELDS, "interval_s", "missed_intervals"} for *_, info in played)


def an_episode(name: str) -> list[tuple[Any, ...]]:
    """The steps of an episode of a continuous scheme under one action."""
    link = {
        "service": {"type": "constant", "rate_mbps": 24},
        "delay_ms": 15,
        "queue": {"type": "droptail", "packets": 60},
    }
    scenario = {"duration_s": 3, "links": [link], "flows": [{"scheme": name.lower()}]}
    env = gymnasium.make(f"ccarena/{name}Kernel-v0", scenario=scenario)
    simulated = gymnasium.make(f"ccarena/{name}-v0", scenario=scenario)
    assert env.action_space == simulated.action_space and env.observation_space == simulated.observation_space
    env.reset(seed=1)
    played: list[tuple[Any, ...]] = []
    while not played or not played[-1][3]:
        played.append(env.step(np.array([-0.1 if name != "Aurora" else 1.0], np.float32)))
    env.close()
    assert all(observation.shape == env.observation_space.shape for observation, *_ in played)
    return played


def test_episodes_of_continuous_schemes_at_once() -> None:
    names = ("Hyvar", "Orca", "Aurora")
    with ThreadPoolExecutor(len(names)) as at_once:
        episodes = dict(zip(names, at_once.map(an_episode, names), strict=True))
    for name, played in episodes.items():
        assert len(played) > 5 and np.isfinite([reward for _, reward, *_ in played]).all(), name
        assert sum(info["interval_s"] for *_, info in played) == pytest.approx(3, abs=1.1), name
    infos = [info for *_, info in episodes["Hyvar"]]
    assert {info["case"] for info in infos[:-1]} <= {3.0, 4.0}, "asked when there is a queue or a loss"
    assert np.mean([info["throughput_mbps"] for info in infos]) > 18


def test_leaving_in_the_middle_and_coming_back() -> None:
    env = LearnedKernelEnv("acct", scenario=ALONE)
    for _ in range(2):
        env.reset(seed=2)
        for _ in range(5):
            observation, *_ = env.step(3)
        assert observation.shape == env.observation_space.shape
    runner = env._runner
    assert runner is not None
    begun_s = time.monotonic()
    env.close()
    assert time.monotonic() - begun_s < 1 and not Path(f"/proc/{runner.pid}").exists()


def test_two_side_by_side_in_processes_of_their_own() -> None:
    envs = gymnasium.make_vec("ccarena/AcctKernel-v0", num_envs=2, vectorization_mode="async", scenario=ALONE)
    try:
        envs.reset(seed=3)
        reports = [envs.step(np.array([4, 4]))[4] for _ in range(40)]
        rates = np.array([report["throughput_mbps"] for report in reports[20:]])
        # Each has a link of its own.
        assert (np.median(rates, axis=0) > 15).all(), rates
    finally:
        envs.close()


def test_fine_tuning_with_stable_baselines3() -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: fine-tuning was not tried")
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: LearnedKernelEnv("acct", scenario=ALONE) for _ in range(2)])
    model = sb3.A2C("MlpPolicy", envs, n_steps=8, device="cpu", seed=1)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(32)
    envs.close()
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
