"""`ccarena/Acct-v0`: what Gymnasium and Stable-Baselines3 ask of an environment, and what its docstring promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from ccarena.configs.schema import EnvConfig, RewardConfig
from ccarena.envs.rewards import Reward
from ccarena.errors import ActionError, CcarenaError, ConfigError, PolicyError, ScenarioError
from tests.envs.acct import ACTIONS, OBSERVATION_SIZE, REPORT_FIELDS, SERIES, SPEC, AcctEnv, AcctVectorEnv, Zone

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "crates" / "ccarena-cc" / "tests" / "data" / "golden.safetensors"
SHORT = EnvConfig(episode_s=(0.5, 1.0))


def scenario(**changes: Any) -> dict[str, Any]:
    """A learner among CUBIC flows."""
    document: dict[str, Any] = {
        "duration_s": 2,
        "links": [{"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10, "router": True}],
        "flows": [{"scheme": "cubic"}, {"scheme": "acct"}, {"scheme": "cubic", "start_s": 0.5}],
    }
    return {**document, **changes}


def play(env: gymnasium.Env, seed: int | None, actions: int = 7) -> tuple[np.ndarray, list[float]]:
    """One episode of constant action: its observations and rewards."""
    observation, _ = env.reset(seed=seed)
    observations, given = [observation], []
    over = False
    while not over:
        observation, reward, _, over, _ = env.step(actions)
        observations.append(observation)
        given.append(reward)
    return np.array(observations), given


def test_stable_baselines3_accepts_it() -> None:
    checker = pytest.importorskip(
        "stable_baselines3.common.env_checker", reason="STABLE-BASELINES3 NOT INSTALLED: its checker was not run"
    )
    checker.check_env(AcctEnv(distribution=SHORT), warn=True)


def test_spaces_and_starting_state() -> None:
    env = AcctEnv(distribution=SHORT)
    assert env.observation_space.shape == (OBSERVATION_SIZE,) and env.action_space.n == len(ACTIONS)
    observation, info = env.reset(seed=1)
    assert info == {}
    assert not observation[:-1].any(), "a flow that has sent nothing has nothing to observe"
    assert observation[-1] in ACTIONS


def test_a_reward_may_take_what_only_the_simulator_knows() -> None:
    env = AcctEnv(
        distribution=SHORT,
        reward=lambda report, privileged: report.throughput_mbps / privileged.capacity_mbps.clip(0.01),
    )
    env.reset(seed=1)
    rewards = [env.step(3)[1] for _ in range(10)]
    assert all(0.0 <= reward < 1.5 for reward in rewards) and max(rewards) > 0.1


def test_the_report_explains_observation_and_reward() -> None:
    env = AcctEnv(distribution=SHORT, reward={"name": "acct", "omega": 3})
    env.reset(seed=5)
    for action in (3, 14, 0, 9):
        observation, reward, _, _, info = env.step(action)
        assert tuple(info) == (*REPORT_FIELDS, "interval_s")
        row = np.array([list(info.values())], np.float32)
        assert reward == pytest.approx(float(Reward(RewardConfig(name="acct", omega=3), SPEC)(row)[0]))
        zone = observation[SERIES["zone"]].reshape(len(Zone), -1)[:, -1]
        assert zone.argmax() == info["zone"] and zone.sum() == 1
        assert observation[SERIES["delay"]][-1] == pytest.approx(info["delay_ratio"])
        assert info["alpha"] == ACTIONS[action] == observation[-1]


def test_episodes_follow_from_the_seed() -> None:
    one, two = AcctEnv(distribution=SHORT), AcctEnv(distribution=SHORT)
    first, second = play(one, seed=3), play(one, seed=None)
    assert len(first[0]) != len(second[0]) or not np.array_equal(first[0], second[0])
    again = play(two, seed=3)
    assert np.array_equal(first[0], again[0]) and first[1] == again[1]
    # An episode that is left in the middle counts as one.
    two.reset(seed=3)
    two.step(0)
    assert np.array_equal(play(two, seed=None)[0], second[0])


def test_it_is_the_first_world_of_the_vector_environment() -> None:
    vector, one = AcctVectorEnv(3, SHORT, threads=2), AcctEnv(distribution=SHORT)
    observations, rewarded = play(one, seed=11)
    row, _ = vector.reset(seed=11)
    assert np.array_equal(row[0], observations[0])
    for k, reward in enumerate(rewarded, start=1):
        row, given, _, truncated, infos = vector.step(np.full(3, 7))
        over = k == len(rewarded)
        assert bool(truncated[0]) == over and given[0] == np.float32(reward)
        assert np.array_equal(infos["final_obs"][0] if over else row[0], observations[k])


@pytest.mark.parametrize("action", [np.nan, np.inf, -1, len(ACTIONS), 1.5, [1], [1, 2], "two", None])
def test_an_impossible_action_moves_nothing(action: Any) -> None:
    env, other = AcctEnv(distribution=SHORT), AcctEnv(distribution=SHORT)
    env.reset(seed=2), other.reset(seed=2)
    with pytest.raises(ActionError, match="action"):
        env.step(action)
    for given in (4, 8):
        assert np.array_equal(env.step(given)[0], other.step(given)[0])


def test_one_learner_among_cubic_flows() -> None:
    env = AcctEnv(scenario=scenario())
    observations, rewarded = play(env, seed=1, actions=2)
    assert len(rewarded) > 10 and np.isfinite(observations).all()
    alone = AcctEnv(scenario=scenario(flows=[{"scheme": "acct"}]))
    alone.reset(seed=1)
    throughput = [alone.step(2)[4]["throughput_mbps"] for _ in range(40)]
    assert max(throughput[10:]) > 1.3 * max(observations[10:, SERIES["throughput"]][:, -1] * 8)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (scenario(flows=[{"scheme": "cubic"}]), "0 flows"),
        (scenario(flows=[{"scheme": "acct"}, {"scheme": "acct"}]), r"2 flows.*LearnedParallelEnv"),
        (scenario(flows=[{"scheme": "akct"}]), 'did you mean "acct"'),
        (scenario(flows=[{"scheme": "acct", "path": ["bottelneck"]}]), r"flows\[0\]\.path"),
        (scenario(flows=[{"scheme": "acct", "policy": {"constant": 3}}]), "0 flows"),
        ({}, "links"),
    ],
)
def test_a_scenario_that_does_not_fit_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        AcctEnv(scenario=document)


def test_a_policy_file_decides_for_a_competitor() -> None:
    competitor = {"scheme": "acct", "policy": str(GOLDEN)}
    env = AcctEnv(scenario=scenario(flows=[{"scheme": "acct"}, competitor]))
    env.reset(seed=1)
    observations = [env.step(0)[0] for _ in range(20)]
    alone = AcctEnv(scenario=scenario(flows=[{"scheme": "acct"}]))
    alone.reset(seed=1)
    assert any(not np.array_equal(a, alone.step(0)[0]) for a in observations), "the competitor takes its share"
    with pytest.raises(PolicyError, match="cannot be read"):
        AcctEnv(scenario=scenario(flows=[{"scheme": "acct"}, {"scheme": "acct", "policy": "some.safetensors"}]))
    with pytest.raises(CcarenaError, match="has no policy"):
        AcctEnv(scenario=scenario(flows=[competitor]))


def test_a_config_or_a_scenario() -> None:
    for kind in (AcctEnv, AcctVectorEnv):
        with pytest.raises(ConfigError, match="not both"):
            kind(distribution=SHORT, scenario=scenario())
