"""A policy against simple rules: gains, their intervals, and the answer that they lead to."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from ccarena.core.measurements import Source
from ccarena.core.plain_data import plain
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.expectations import judge
from ccarena.eval.heldout.figures import of_trainings
from ccarena.eval.heldout.gain import bootstrap, gain_of, over_trainings
from ccarena.eval.heldout.rules import Rule
from ccarena.eval.heldout.summary import gain_table, parts_table
from ccarena.policies.answers import of_evaluation

CONSTANT = Rule("constant", "2 always", {"constant": 1}, score=9.0)
TABLE = Rule("by category", "by zone", {"by": "zone", "actions": [1, 0]}, score=10.0)
LAW = Rule("law", "the tuned law", missing="the record names no parameters of a law (rules.law)")


def evaluation(gain: float, seeds: int = 5, logarithmic: bool = False, **meta: Any) -> Evaluation:
    """Scores on eight links: the table's around 10, the constant's one below, the policy's `gain` above the table's."""
    rng = np.random.default_rng(1)
    scores = []
    for link in range(8):
        for seed in range(seeds):
            about = {"policy": "mine", "link_set": "steps", "link": f"{link}", "seed": seed, "throughput_mbps": 5.0}
            base = 10.0 + link + rng.normal(0, 0.3)
            for scheme, score in (
                ("mine", base + gain + rng.normal(0, 0.05)),
                ("2 always", base - 1),
                ("by zone", base),
            ):
                scores.append({**about, "scheme": scheme, "score": score, "signal_delay_to_end_p95_ms": 7.0})
    rules = [rule.as_dict() for rule in (CONSTANT, TABLE, LAW)]
    found = {
        "scheme": "mine",
        "rules": rules,
        "objective": "reward",
        "logarithmic": logarithmic,
        "seeds": seeds,
        **meta,
    }
    return Evaluation(scores=scores, meta=found)


def test_where_a_policy_beats_every_rule_no_rule_could_do_it() -> None:
    gain = gain_of(evaluation(gain=1.0))
    assert gain is not None and gain.better and gain.best is not None
    assert gain.tested == "8 links, 5 seeds"
    assert gain.best.label == "by zone", "the best on the tested links"
    assert gain.best.gain == pytest.approx(1 / 13.5, rel=0.05)
    assert gain.best.low < gain.best.gain < gain.best.high
    assert gain.answer.answer == "no" and gain.answer.state == "neutral"
    assert gain.answer.sentence.startswith("No: the network earns +7.")
    assert gain.answer.sentence.endswith("over the best rule (by zone)")
    verdict = judge(evaluation(gain=1.0))
    assert verdict.simple_rule == gain.answer and verdict.learned.answer == "not tested"


@pytest.mark.parametrize(
    ("gain", "noise", "seeds", "answer", "says"),
    [
        (0.0, 0.0, 5, "yes", r"Yes: a rule of two numbers does as well \(by zone\); the network earns \+0\.\d % \["),
        (0.1, 0.0, 5, "yes", r"Yes: a rule of two numbers does nearly as well \(by zone\); the network earns \+0\."),
        (-2.0, 0.0, 5, "yes", r"Yes: a rule of two numbers does better \(by zone\); the network earns −1\d % \["),
        (1.0, 0.0, 5, "no", r"No: the network earns \+7\.\d % \[.*\] over the best rule \(by zone\)$"),
        (
            3.0,
            9.0,
            5,
            "undecided",
            r"Undecided: the network earns .* % \[−\d.*, \d.*\] over the best rule \(by zone\)$",
        ),
        (
            1.0,
            0.0,
            2,
            "undecided",
            r"Undecided: the network earns .* over the best rule \(by zone\); 2 seeds, 5 decide$",
        ),
    ],
)
def test_could_a_simple_rule_do_it(gain: float, noise: float, seeds: int, answer: str, says: str) -> None:
    result, rng = evaluation(gain=gain, seeds=seeds), np.random.default_rng(7)
    for row in result.scores:
        row["score"] += rng.normal(0, noise) if row["scheme"] == "mine" else 0.0
    found = judge(result).simple_rule
    assert found.answer == answer and re.match(says, found.sentence), found.sentence
    assert found.state == ("partly" if answer == "undecided" else "neutral"), "never red"


@pytest.mark.parametrize(
    ("gain", "answer", "says"),
    [
        (3.0, "no", r"No: the network earns \+[23][.\d]* \[[\d.]+, [\d.]+\] in score over the best rule \(by zone\)$"),
        (-3.0, "yes", r"Yes: .* does better \(by zone\); the network earns −[23][.\d]* \[−.*, −.*\] in score$"),
    ],
)
def test_a_gain_over_a_score_that_may_be_negative_is_no_percentage(gain: float, answer: str, says: str) -> None:
    result = evaluation(gain=gain)
    for row in result.scores:
        row["score"] -= 14.1
    found = judge(result)
    assert found.gain is not None and found.gain.best is not None and not found.gain.best.relative
    assert found.gain.best.gain == pytest.approx(gain, abs=0.1)
    assert found.simple_rule.answer == answer and re.match(says, found.simple_rule.sentence), found.simple_rule.sentence
    stored = json.loads(json.dumps(plain({"verdict": found.as_dict()})))
    assert tuple(of_evaluation(stored)) == found.answers


def test_a_policy_whose_reward_did_not_rise_shows_no_need_of_a_network() -> None:
    falling = [{"reward_mean": 0.9 - 0.01 * at, "entropy": 1.0} for at in range(20)]
    result = evaluation(gain=3.0)
    result.rows = [{"group": "steps", "link_set": "steps", "link": "0", "scheme": "mine", "seed": 1}]
    verdict = judge(result, falling)
    answer = verdict.simple_rule
    assert answer.answer == "undecided" and answer.headline.startswith("Undecided: the network earns +")
    assert answer.details == ("but the reward did not rise during training: 0.90 at first, 0.72 at the end",)
    assert judge(result, falling[::-1]).simple_rule.answer == "no"
    stored = json.loads(json.dumps(plain({"verdict": verdict.as_dict()})))
    assert tuple(of_evaluation(stored)) == verdict.answers


def test_the_rules_stand_beside_the_policy() -> None:
    verdict = judge(evaluation(gain=0.0))
    assert verdict.gain is not None and not verdict.gain.better
    head, rows = gain_table(verdict.gain)
    assert [row[0] for row in rows] == ["mine (policy)", "2 always", "by zone", "the tuned law"]
    assert rows[3][head.index("policy's gain [95 %]")] == LAW.missing
    data = verdict.as_dict()
    assert data["gain"]["better"] is False
    assert data["simple_rule"] == {"answer": "yes", "sentence": verdict.simple_rule.sentence}
    assert data["learned"] == {"answer": "not tested", "sentence": verdict.learned.sentence}


def test_an_artifact_has_the_same_answers_as_its_evaluation() -> None:
    for result in (evaluation(gain=1.0), evaluation(gain=0.0), evaluation(gain=1.0, rules=[LAW.as_dict()])):
        verdict = judge(result)
        stored = json.loads(json.dumps(plain({"verdict": verdict.as_dict()})))
        assert tuple(of_evaluation(stored)) == verdict.answers
    assert of_evaluation({}) == of_evaluation({"verdict": "learned"}) == []


def test_every_rule_has_to_be_beaten() -> None:
    # Worse than the table on the mean, but on some links far better than the policy, and on others far worse.
    law = Rule("law", "the law", {"constant": 1}, score=8.0)
    result = evaluation(gain=1.0, rules=[rule.as_dict() for rule in (CONSTANT, TABLE, law)])
    for row in [row for row in result.scores if row["scheme"] == "by zone"]:
        swing = 9.0 if int(row["link"]) % 2 else -10.0
        result.scores.append({**row, "scheme": "the law", "score": row["score"] + swing})
    gain = gain_of(result)
    assert gain is not None and not gain.better and gain.best is not None and gain.best.label == "the law"
    assert gain.best.gain > 0 > gain.best.low
    assert gain.answer.answer == "undecided"
    assert gain.answer.sentence.endswith("over a rule that is worse on the mean, but not surely (the law)")


def test_tested_training_links_are_said() -> None:
    seen = ["Verizon-LTE-short.down"]
    (note,) = judge(evaluation(gain=1.0, tested_in_training=seen)).notes
    assert "not held out" in note and seen[0] in note


def test_where_nothing_could_be_searched_nothing_is_measured() -> None:
    gain = gain_of(evaluation(gain=1.0, rules=[LAW.as_dict()]))
    assert gain is not None and gain.best is None
    assert gain.answer.sentence == f"Not measured: no rule was found (law: {LAW.missing})"
    bare = Evaluation(meta={"scheme": "mine"})
    assert gain_of(bare) is None
    for answer in (gain.answer, judge(bare).simple_rule):
        assert (answer.answer, answer.state) == ("not measured", "neutral")


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng, covered = np.random.default_rng(3), 0
    for trial in range(60):
        links = rng.normal(20, 2, 12)
        theirs = [link + rng.normal(0, 1, 5) for link in links]
        ours = [each * 1.05 + rng.normal(0, 1, 5) for each in theirs]
        _, low, high, _ = bootstrap(ours, theirs, logarithmic=False, seed=trial)
        covered += low <= 0.05 <= high
    assert 50 <= covered <= 60


def test_differences_of_logarithms_are_relative_changes() -> None:
    theirs = [np.zeros(3), np.ones(2)]
    gain, low, high, _ = bootstrap([each + np.log(1.07) for each in theirs], theirs, logarithmic=True)
    assert (gain, low, high) == pytest.approx((0.07, 0.07, 0.07))


def on_two_kinds(result: Evaluation, labels: list[str]) -> Evaluation:
    """The same with every link again as a constant one, on which policies have the table's scores at half its delay."""
    table = {(row["policy"], row["link"], row["seed"]): row for row in result.scores if row["scheme"] == "by zone"}
    for row in list(result.scores):
        again = {**row, "link_set": "constant"}
        if row["scheme"] in labels:
            score = table[row["policy"], row["link"], row["seed"]]["score"]
            again |= {"score": score, "signal_delay_to_end_p95_ms": 3.5}
        result.scores.append(again)
    return result


def test_the_gain_on_each_kind_of_links_stands_beside_that_on_all() -> None:
    assert gain_of(evaluation(gain=1.0)).parts == [], "one kind of links needs no second table"
    gain = gain_of(on_two_kinds(evaluation(gain=1.0), ["mine"]))
    assert gain is not None and gain.best is not None and gain.links == 16
    steps, constant = gain.parts
    assert (steps.link_set, steps.links, constant.link_set, constant.links) == ("steps", 8, "constant", 8)
    assert steps.gain == pytest.approx(1 / 13.5, rel=0.05) and steps.low < steps.gain < steps.high
    assert (constant.gain, constant.low, constant.high) == (0, 0, 0) and constant.said == "+0.0 %"
    assert constant.gain < gain.best.gain < steps.gain
    assert (constant.throughput, constant.signal_delay_p95) == (1.0, 0.5)
    assert gain.notes == []
    head, rows = parts_table(gain.parts)
    assert rows[1] == ["constant (8)", "+0.0 %", "1", "0.5"] and len(head) == 4


def test_a_kind_of_links_on_which_the_rule_does_better_is_said() -> None:
    result = on_two_kinds(evaluation(gain=4.0), ["mine"])
    for row in result.scores:
        if row["scheme"] == "mine" and row["link_set"] == "constant":
            row["score"] -= 0.8
    gain = gain_of(result)
    assert gain is not None and gain.better and gain.parts[1].high < 0
    assert gain.notes == [f"on constant links by zone does better: {gain.parts[1].said}"]


def test_trainings_together_have_a_gain_on_each_kind_of_links() -> None:
    labels = [f"mine-{seed}" for seed in range(1, 6)]
    (several,) = over_trainings(on_two_kinds(trainings(1.0, 1.1, 0.9, 1.0, 1.0), labels))
    steps, constant = several.parts
    assert steps.gain == pytest.approx(1 / 13.5, rel=0.05) and steps.low < steps.gain < steps.high
    assert (constant.gain, constant.throughput, constant.signal_delay_p95) == (0, 1.0, 0.5)
    whole, first, second = of_trainings(several, Source("ccarena eval", "0.1.0", "2026-01-01"))
    assert whole.name == "learned/mine/gain" and first.name == "learned/mine/gain/steps"
    assert first.what == "mine, training seeds 1, 2, 3, 4, 5: links of the set `steps`"
    assert second.value == "+0.0 %; throughput 1 ×, p95 signal delay 0.5 × the rule's"


def trainings(*gains: float) -> Evaluation:
    """An evaluation of a policy per gain over the table, all of one record."""
    scores, about = [], []
    for seed, gain in enumerate(gains, start=1):
        one = evaluation(gain=gain)
        label = f"mine-{seed}"
        about.append({**one.meta, "scheme": label, "record": "mine", "policy_seed": seed})
        names = {"mine": label}
        scores += [{**row, "policy": label, "scheme": names.get(row["scheme"], row["scheme"])} for row in one.scores]
    return Evaluation(scores=scores, meta={"policies": about})


def test_one_lucky_training_is_no_proof_where_others_fail() -> None:
    (alike,) = over_trainings(trainings(1.0, 1.1, 0.9, 1.0, 1.0))
    assert alike.best.low > 0 and alike.best.label == "by zone" and alike.seeds == [1, 2, 3, 4, 5]
    assert alike.line.startswith("No: ") and alike.line.endswith("over the best rule (by zone); 5 trainings")
    (mixed,) = over_trainings(trainings(3.0, -1.0, 0.1, -0.5, 0.0))
    assert mixed.best.gain > 0 > mixed.best.low, "the mean is above the rule's, the interval is not"
    assert mixed.answer.answer == "undecided" and mixed.line.startswith("Undecided: the network earns +")
    (few,) = over_trainings(trainings(1.0, 1.0))
    assert few.answer.answer == "undecided" and few.line.endswith("over the best rule (by zone); 2 trainings, 5 decide")
    assert over_trainings(evaluation(gain=1.0)) == []


def test_trainings_of_which_one_was_not_scored_are_not_compared() -> None:
    result = trainings(1.0, 1.0)
    result.scores[:] = [row for row in result.scores if row["policy"] == "mine-1"]
    assert over_trainings(result) == []
