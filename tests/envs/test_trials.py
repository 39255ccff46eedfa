"""Trials of candidates: they are what a scenario with the same policy runs, and their scores what the record says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ccarena import _core
from ccarena.agents.train import train
from ccarena.configs import load_config
from ccarena.configs.link_distribution import distribution_json
from ccarena.configs.schema import TrainConfig
from ccarena.envs.trials import Candidate, Trials
from ccarena.envs.vector import LearnedVectorEnv
from ccarena.errors import ConfigError, PolicyError
from ccarena.policies import export
from ccarena.policies.artifact import Artifact
from ccarena.policies.spec import spec_of
from tests.run_figures import figures_of

LINKS = {"constant": 1, "random_steps": 1, "cellular": 1, "trace": 0}


def record(**changes: Any) -> TrainConfig:
    keys = {"env.link.kinds": LINKS, "env.episode_s": [1, 3], "env.cross_traffic.probability": 0.5}
    return load_config("acct", keys | {name.replace("__", "."): value for name, value in changes.items()})


def test_a_trial_is_the_run_of_its_scenario() -> None:
    config, seed, action = record(), 7, 5
    (outcome,) = Trials(config, spec_of(config), threads=2).run([Candidate(float(action))], seed, 4)
    for world in range(4):
        scenario = json.loads(_core.draw_scenario(distribution_json(config), seed=seed, world=world))
        scenario["flows"][0]["policy"] = {"constant": action}
        scenario["record"] |= {"packets": True, "reports": True}
        found = _core.simulate(json.dumps(scenario))
        row = figures_of(scenario, found, learners=[0])
        conditions = {"duration_s", "base_rtt_ms", "flows", "decisions"}
        for name in set(_core.Trials.figures) - conditions:
            assert outcome.run[name][world] == pytest.approx(row[name], rel=1e-6), name
        assert outcome.run.decisions[world] == found["flows"][0]["decisions"]


def test_flows_of_its_own_share_the_link_in_whole_runs_alone() -> None:
    shared = {"probability": 1, "schemes": ["self"], "flows": 2}
    config = record(env__cross_traffic=shared, env__link__signal=1, env__drawn={"budget_ms": [2, 20]})
    spec = spec_of(config)
    slow, fast = Trials(config, spec, threads=2).run([Candidate(0.0), Candidate(float(len(spec.actions) - 1))], 1, 6)
    assert len(slow.scores) == 6 * 3 and set(slow.run.flows) == {3}
    budgets = slow.run.budget_ms.reshape(6, 3)
    assert np.all(budgets == budgets[:, :1]) and len(set(budgets[:, 0])) == 6
    # Everybody does what the candidate says.
    assert (slow.run.decisions > 0).all()
    assert slow.run.queueing_delay_mean_ms.sum() < fast.run.queueing_delay_mean_ms.sum()
    envs = LearnedVectorEnv(config, 4)
    envs.reset(seed=1)
    assert envs.num_envs == 4
    envs.close()
    with pytest.raises(ConfigError, match=r"env\.cross_traffic\.schemes: self is for evolution.*env\.learners"):
        train(config)


def test_neither_threads_nor_company_change_a_trial() -> None:
    config = record()
    alone = Trials(config, spec_of(config), threads=1).run([Candidate(3.0)], 1, 6)[0]
    beside = Trials(config, spec_of(config), threads=3).run([Candidate(14.0), Candidate(3.0)], 1, 6)[1]
    later = Trials(config, spec_of(config), threads=2).run([Candidate(3.0)], 1, 2, first=4)[0]
    np.testing.assert_array_equal(alone.reports, beside.reports)
    np.testing.assert_array_equal(alone.scores, beside.scores)
    np.testing.assert_array_equal(alone.scores[4:], later.scores)


@pytest.mark.parametrize("learners", [1, 2])
def test_tables_beside_each_other_do_what_each_does_alone(learners: int) -> None:
    # Some links do not come to some of the zones: what a table says of them changes nothing there.
    config = record(env__learners=learners)
    spec, rng = spec_of(config), np.random.default_rng(learners)
    tables = [[9.0, 2.0, 2.0, 2.0]]
    for _ in range(7):
        tables.append(list(tables[-1]))
        tables[-1][int(rng.integers(4))] = float(rng.integers(15))
    candidates = [Candidate(("zone", table)) for table in tables] + [Candidate(("zone", tables[0]), {"budget_ms": 9.0})]
    together = Trials(config, spec, threads=2).run(candidates, 4, 8)
    for candidate, beside in zip(candidates, together, strict=True):
        (alone,) = Trials(config, spec, threads=1).run([candidate], 4, 8)
        np.testing.assert_array_equal(alone.reports, beside.reports)
        np.testing.assert_array_equal(alone.scores, beside.scores)
    assert len({outcome.score for outcome in together}) > 4


def test_without_measuring_rewards_are_the_same_and_figures_are_none() -> None:
    config = record()
    candidates = [Candidate(3.0), Candidate(("zone", [9.0, 1.0, 1.0, 1.0]))]
    measured, bare = (
        Trials(config, spec_of(config), 2, measures=measures).run(candidates, 5, 4) for measures in (True, False)
    )
    for one, other in zip(measured, bare, strict=True):
        np.testing.assert_array_equal(one.reports, other.reports)
        np.testing.assert_array_equal(one.scores, other.scores)
        assert one.taken == other.taken
        assert np.isnan(other.run.throughput_mbps).all() and not np.isnan(one.run.throughput_mbps).any()


def test_each_candidate_runs_trials_of_its_own_and_says_which_actions_mattered() -> None:
    config = record()
    spec = spec_of(config)
    candidates = [Candidate(("zone", [9.0, 1.0, 1.0, 1.0])), Candidate(3.0), Candidate(("zone", [9.0, 1.0, 1.0, 4.0]))]
    whole = Trials(config, spec, 2).run(candidates, 4, 8)
    some = [[0, 1, 5], [6], [1, 2, 7]]
    for all_, own, trials in zip(whole, Trials(config, spec, 2).run_each(candidates, 4, some), some, strict=True):
        np.testing.assert_array_equal(own.scores, all_.scores[trials])
        assert own.taken == [all_.taken[trial] for trial in trials]
    table, constant, other = whole
    assert constant.taken == [[]] * 8
    blue = np.array(table.taken)[:, 3]
    assert 0 < blue.sum() < 8, "some links come to the zone, others do not"
    assert (table.scores == other.scores)[~blue].all() and (table.scores != other.scores)[blue].all()


def test_a_policy_and_a_table_that_always_say_the_same_are_that_constant() -> None:
    config = record()
    spec = spec_of(config)
    network = torch.nn.Linear(spec.size, spec.outputs)
    torch.nn.init.zeros_(network.weight)
    with torch.no_grad():
        network.bias.copy_(torch.arange(15) == 9)
    policy = Artifact(spec.interface, export.to_graph(network, spec.size)).encode()
    table = ("zone", [9.0] * 4)
    constant, *others = Trials(config, spec, threads=2).run([Candidate(a) for a in (9.0, policy, table)], 2, 3)
    for other in others:
        np.testing.assert_array_equal(constant.reports, other.reports)


def test_a_table_acts_by_the_category_of_the_interval_before() -> None:
    config = record(env__link__signal=1)
    spec = spec_of(config)
    (outcome,) = Trials(config, spec, 1).run([Candidate(("zone", [14.0, 0.0, 3.0, 5.0]))], 3, 1)
    zone = outcome.reports[:, spec.report.index("zone")].astype(int)
    alpha = outcome.reports[:, spec.report.index("alpha")]
    expected = np.array([spec.actions[i] for i in (14, 0, 3, 5)])
    assert len(set(zone)) > 1
    np.testing.assert_array_equal(alpha[1:], expected[zone[:-1]])


def test_parameters_are_the_candidates_and_drawn_ones_the_links() -> None:
    config = record(env__drawn={"budget_ms": [2, 20]}, objective={"name": "log_power", "weight": "budget_ms"})
    slack = [Candidate(5.0, {"slack": value}) for value in (0.0, 50.0)]
    first, second = Trials(config, spec_of(config), threads=2).run(slack, 4, 8)
    assert len(set(first.run.budget_ms)) == 8 and np.all((first.run.budget_ms >= 2) & (first.run.budget_ms <= 20))
    np.testing.assert_array_equal(first.run.budget_ms, second.run.budget_ms)
    assert set(first.run.slack) == {0.0} and set(second.run.slack) == {50.0}
    assert first.run.queueing_delay_mean_ms.sum() < second.run.queueing_delay_mean_ms.sum()
    plain = record(env__drawn={"budget_ms": [2, 20]}, objective={"name": "log_power", "weight": 0})
    unweighted = Trials(plain, spec_of(plain), threads=2).run(slack[:1], 4, 8)[0]
    tails = (unweighted.scores - first.scores) / first.run.budget_ms
    one_way = first.run.base_rtt_ms / 2
    p90, p95, p98 = (np.log(first.run[f"signal_delay_to_end_p{q}_ms"] + one_way) for q in (90, 95, 98))
    np.testing.assert_allclose(tails, 0.25 * p90 + 0.5 * p95 + 0.25 * p98)


def test_the_reward_counts_by_the_time_that_it_lasts() -> None:
    config = record(reward="power")
    (outcome,) = Trials(config, spec_of(config), threads=1).run([Candidate(5.0)], 5, 1)
    lengths = outcome.reports[:, spec_of(config).report.index("interval_ms")].astype(float)
    assert outcome.score == pytest.approx(np.average(outcome.rewards, weights=lengths))
    assert lengths.sum() == pytest.approx(1e3 * outcome.run.duration_s[0], rel=0.02), "the last interval counts, too"


def test_an_objective_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def calm(run, price=1.0):\n    return run.throughput_mbps - price * run.loss_share\n"
        "def wrong(run):\n    return run.reward[:1]\n"
        "def infinite(run):\n    return run.reward / 0.0\n"
    )
    config = record(objective={"name": f"{tmp_path}/mine.py:calm", "price": 3})
    (outcome,) = Trials(config, spec_of(config), threads=1).run([Candidate(5.0)], 5, 2)
    np.testing.assert_allclose(outcome.scores, outcome.run.throughput_mbps - 3 * outcome.run.loss_share)
    for name, message in (("wrong", r"shape \(1,\); expected \(2,\)"), ("infinite", "guard divisions")):
        config = record(objective=f"{tmp_path}/mine.py:{name}")
        with np.errstate(all="ignore"), pytest.raises(ConfigError, match=message):
            Trials(config, spec_of(config), threads=1).run([Candidate(5.0)], 5, 2)


def test_known_power_is_nearly_one_only_for_who_takes_the_capacity_without_a_queue() -> None:
    config = record(env__link__kinds={**LINKS, "random_steps": 0, "cellular": 0}, objective="known_power")
    config = load_config(config.model_dump() | {"env": config.env.model_dump() | {"cross_traffic": {"probability": 0}}})
    timid, full = Trials(config, spec_of(config), threads=2).run([Candidate(None), Candidate(9.0)], 5, 4)
    for outcome in (timid, full):
        run = outcome.run
        rtt = run.base_rtt_ms / (run.base_rtt_ms + run.queueing_delay_mean_ms)
        lossless = run.loss_share == 0
        expected = run.throughput_mbps / run.capacity_mbps * rtt
        np.testing.assert_allclose(outcome.scores[lossless], expected[lossless])
        assert (outcome.scores[~lossless] < expected[~lossless]).all() and (outcome.scores < 1).all()


def test_known_power_weighs_delay_and_charges_for_inferences() -> None:
    # Links, seeds and actions of the three are the same: what differs is what they are worth.
    worth = {}
    for name, coefficients in (("plain", {}), ("throughput", {"delay": 0}), ("priced", {"inference_ms": 4})):
        config = record(objective={"name": "known_power", "epsilon": 0, **coefficients})
        (worth[name],) = Trials(config, spec_of(config), threads=2).run([Candidate(9.0)], 5, 4)
    run = worth["plain"].run
    assert (run.decisions > 0).all() and (run.queueing_delay_mean_ms > 0).all()
    np.testing.assert_allclose(worth["throughput"].scores, run.throughput_mbps / run.capacity_mbps)
    rate = run.decisions / run.duration_s
    np.testing.assert_allclose(worth["priced"].scores, worth["plain"].scores - 4e-3 * rate)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("log_powr", 'unknown objective, .*; did you mean "log_power"'),
        ({"name": "log_power", "wait": 1}, 'takes no such argument; did you mean "weight"'),
        ({"name": "log_power", "weight": "prefrence"}, 'there is no column "prefrence" in the figures of a run'),
    ],
)
def test_a_wrong_objective_is_refused(objective: Any, message: str) -> None:
    config = record(objective=objective)
    with pytest.raises(ConfigError, match=message):
        Trials(config, spec_of(config), threads=1).run([Candidate(5.0)], 1, 1)


def test_an_objective_of_ones_own_that_raises_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def broken(run):\n    return 1 / 0\n")
    config = record(objective=f"{tmp_path}/mine.py:broken")
    with pytest.raises(ConfigError, match=r"mine.py:broken: for 1 runs it raised ZeroDivisionError: division by zero"):
        Trials(config, spec_of(config), threads=1).run([Candidate(5.0)], 1, 1)


def test_what_cannot_decide_is_refused() -> None:
    config = record()
    trials = Trials(config, spec_of(config), threads=1)
    with pytest.raises(PolicyError, match="expected an index from 0 to 14"):
        trials.run([Candidate(15.0)], 1, 1)
    with pytest.raises(ConfigError, match=r"env\.drawn: unknown parameter \"budget_mss\""):
        drawn = record(env__drawn={"budget_mss": 5})
        Trials(drawn, spec_of(drawn), threads=1)
