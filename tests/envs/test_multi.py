"""Several learners on one bottleneck: PettingZoo's tests, and that they really share it."""

from __future__ import annotations

import numpy as np
import pytest

from ccarena.errors import ActionError, ConfigError

pettingzoo_test = pytest.importorskip("pettingzoo.test", reason="PETTINGZOO NOT INSTALLED: several learners not tested")
from ccarena.envs.multi import LearnedParallelEnv  # noqa: E402
from tests.envs.acct import ACTIONS, REPORT, REPORT_FIELDS, SHORT  # noqa: E402


def test_pettingzoo_accepts_it() -> None:
    pettingzoo_test.parallel_api_test(LearnedParallelEnv("acct", 2, SHORT), num_cycles=200)


def test_pettingzoo_finds_it_deterministic() -> None:
    pettingzoo_test.parallel_seed_test(lambda: LearnedParallelEnv("acct", 2, SHORT), num_cycles=40)


def test_learners_share_the_bottleneck() -> None:
    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10, "router": True}
    env = LearnedParallelEnv(
        "acct",
        scenario={"duration_s": 4, "links": [link], "flows": [{"scheme": "acct", "count": 3}, {"scheme": "cubic"}]},
    )
    assert len(env.possible_agents) == 3
    env.reset(seed=1)
    acked = np.zeros(3)
    while env.agents:
        observations, reward, terminated, truncated, infos = env.step(dict.fromkeys(env.agents, 4))
        assert set(observations) == set(reward) == set(infos) == set(env.possible_agents)
        assert not any(terminated.values())
        for k, agent in enumerate(env.possible_agents):
            assert infos[agent]["columns"] == REPORT_FIELDS
            rows = infos[agent]["reports"]
            assert len(rows) >= 1 and np.isin(rows[:, REPORT.alpha], ACTIONS).all() and np.isfinite(reward[agent])
            acked[k] += rows[:, REPORT.acked_packets].sum()
    assert all(truncated.values())
    rate_mbps = acked * 1448 * 8 / 4e6
    assert rate_mbps.sum() < 24 and rate_mbps.min() > 1


def learners_rate_mbps(*competitors: dict[str, object]) -> float:
    """What a learner with a constant α gets of 24 Mbit/s beside `competitors`, which the scenario decides for."""
    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10}
    flows = [{"scheme": "acct", "desired_mbps": 100}, *competitors]
    env = LearnedParallelEnv("acct", scenario={"duration_s": 6, "links": [link], "flows": flows})
    assert env.possible_agents == ["learner0"]
    env.reset(seed=1)
    acked = 0.0
    while env.agents:
        infos = env.step({"learner0": np.int64(4)})[4]
        acked += infos["learner0"]["reports"][:, REPORT.acked_packets].sum()
    return acked * 1448 * 8 / 6e6


def test_competitors_come_from_the_scenario() -> None:
    alone = learners_rate_mbps()
    light, heavy = (learners_rate_mbps({"scheme": "wcc-ai", "weight": weight}) for weight in (1, 8))
    constant = learners_rate_mbps({"scheme": "acct", "policy": {"constant": 14}, "start_s": 1})
    assert alone > 20 and alone > 1.2 * light and light > 1.2 * heavy
    assert constant < 0.8 * alone


def test_rewards_may_take_what_only_the_simulator_knows() -> None:
    def reward(report, privileged):  # type: ignore[no-untyped-def]
        return report.throughput_mbps / privileged.capacity_mbps.clip(0.01)

    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 1, "router": True}
    flows = [{"scheme": "acct", "base_rtt_ms": rtt_ms} for rtt_ms in (10, 80)]
    env = LearnedParallelEnv("acct", scenario={"duration_s": 3, "links": [link], "flows": flows}, reward=reward)
    env.reset(seed=1)
    intervals: list[int] = []
    while env.agents:
        _, rewards, _, _, infos = env.step(dict.fromkeys(env.agents, 3))
        assert all(0 <= value < 3 for value in rewards.values()), rewards
        intervals += [len(info["reports"]) for info in infos.values()]
    assert max(intervals) > 1, "no learner has finished several intervals in a step"


def test_a_missing_or_wrong_action_moves_nobody() -> None:
    env, other = LearnedParallelEnv("acct", 2, SHORT), LearnedParallelEnv("acct", 2, SHORT)
    env.reset(seed=1), other.reset(seed=1)
    for wrong in ({"learner0": 1}, {"learner0": 1, "learner1": 15}, {"learner0": np.nan, "learner1": 1}, {}):
        with pytest.raises(ActionError, match=r"learner1|actions\[[01]\]"):
            env.step(wrong)
    given = dict.fromkeys(env.agents, 3)
    (one, *_), (two, *_) = env.step(given), other.step(given)
    assert all(np.array_equal(one[agent], two[agent]) for agent in one)


def test_an_episode_that_is_over_has_no_steps() -> None:
    env = LearnedParallelEnv("acct", 2, SHORT)
    env.reset(seed=1)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 3))
    with pytest.raises(ActionError, match="reset"):
        env.step({"learner0": 1, "learner1": 1})


def test_no_learners_are_refused() -> None:
    with pytest.raises(ConfigError, match="learners = 0"):
        LearnedParallelEnv("acct", 0, SHORT)
    with pytest.raises(ConfigError, match="not both"):
        LearnedParallelEnv("acct", 2, SHORT, scenario={})
