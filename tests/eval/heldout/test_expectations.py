"""Expectations of an ACCT policy, and the verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccarena.eval.heldout import expectations
from ccarena.eval.heldout.evaluation import ORACLE
from ccarena.eval.heldout.evaluation import Evaluation as Bare
from ccarena.policies.answers import learned, of_several, simple_rule
from tests.envs.acct import RECORD, SPEC

ACCT = SPEC.name
META = {
    "scheme": ACCT,
    "constants": [constant.label for constant in RECORD.constant_actions],
    "expectations": [each.model_dump(mode="json") for each in RECORD.expectations],
    "categories": RECORD.progress.shares["zone"],
    "action_values": list(SPEC.actions),
}


def Evaluation(**fields: Any) -> Bare:  # noqa: N802, as what it makes
    """With the record's expectations about the link sets that there are rows of."""
    ran = {row["link_set"] for row in fields["rows"]}
    about = [each for each in META["expectations"] if ran.intersection(each["links"])]
    return Bare(meta={**META, "expectations": about}, **fields)


def row(scheme: str, **figures: Any) -> dict[str, Any]:
    base = {"link_set": "constant", "group": "constant", "link": "a", "seed": 0, "scheme": scheme}
    return {**base, "share_within_budget": 1.0, "utilisation": 1.0, **figures}


def test_the_constant_expectation_needs_both_delay_and_utilisation() -> None:
    def holds(share: float, use: float) -> bool:
        rows = [row(ACCT, share_within_budget=share, utilisation=use), row("cubic"), row(ORACLE, gain=1.0)]
        return bool(expectations.judge(Evaluation(rows=rows)).learned)

    assert holds(0.99, 0.95)
    assert not holds(0.989, 0.99)
    assert not holds(1.0, 0.949)
    assert not holds(math.nan, 1.0)


def cellular(scheme: str, link: str, delay: float | None, rate: float, **more: Any) -> dict[str, Any]:
    figures = {"queueing_delay_p95_ms": delay, "throughput_mbps": rate, "utilisation": rate / 10}
    return {"link_set": "cellular", "group": "cellular", "link": link, "seed": 0, "scheme": scheme, **figures, **more}


def test_the_cellular_expectation_is_about_the_median_trace() -> None:
    rows = [cellular("cubic", name, 100.0, 10.0) for name in "abc"]
    rows += [cellular(ORACLE, name, d, r, gain=g) for name in "abc" for g, d, r in ((1.0, 10.0, 8.0), (1.5, 30.0, 9.0))]
    rows += [cellular(ACCT, "a", 40.0, 9.0), cellular(ACCT, "b", 50.0, 8.5), cellular(ACCT, "c", None, 0.0)]
    verdict = expectations.judge(Evaluation(rows=rows))
    assert verdict.learned, verdict.learned.sentence
    (item,) = verdict.expectations
    assert item.values == {"queueing_delay_p95_ms_ratio": 0.5, "throughput_mbps_ratio": 0.85}
    # The oracle's first gain is too slow for the target; its second gives what physics leaves.
    in_flight = "(with 1.5 BDP in flight, as the target needs; tables: 1 BDP)"
    assert item.oracle == f"p95 queueing delay 0.30, throughput 0.90 of cubic's {in_flight}"
    rows[-2] = cellular(ACCT, "b", 51.0, 8.5)
    assert not expectations.judge(Evaluation(rows=rows)).learned


def test_a_claim_is_tested_on_a_users_trace_only_under_its_condition() -> None:
    def states(base_rtt_ms: float, buffer: int) -> list[str]:
        about = {"link_set": "traces", "group": "traces", "base_rtt_ms": base_rtt_ms, "buffer_packets": buffer}
        rows = [cellular(scheme, "a", d, 9.0, **about) for scheme, d in ((ACCT, 20.0), ("cubic", 100.0))]
        claims = [each for each in META["expectations"] if "cellular" in each["links"]]
        return [
            each.state
            for each in expectations.judge(Bare(meta={**META, "expectations": claims}, rows=rows)).expectations
        ]

    assert states(40.0, 100) == states(40.0, 1000) == ["holds"]
    assert states(20.0, 100) == states(40.0, 50) == ["not tested"], "the claim is about 20 ms one way"


def test_a_trace_on_which_cubic_delivered_nothing_compares_nobody() -> None:
    rows = [cellular("cubic", "a", 100.0, 10.0), cellular("cubic", "dead", None, 0.0)]
    rows += [cellular(ORACLE, name, 10.0, 9.0, gain=1.0) for name in ("a", "dead")]
    rows += [cellular(ACCT, "a", 40.0, 9.0), cellular(ACCT, "dead", None, 0.0)]
    (item,) = expectations.judge(Evaluation(rows=rows)).expectations
    assert item.values == {"queueing_delay_p95_ms_ratio": 0.4, "throughput_mbps_ratio": 0.9}


def test_what_is_not_measured_of_the_oracle_is_not_said_of_it() -> None:
    rows = [cellular(scheme, name, d, 9.0) for name in "abc" for scheme, d in ((ACCT, 20.0), ("cubic", 100.0))]
    late = [cellular(ORACLE, name, 10.0, 9.0, gain=1.0) for name in "abc"]
    for each in late:
        del each["queueing_delay_p95_ms"]
    (item,) = expectations.judge(Evaluation(rows=rows + late)).expectations
    assert item.state == "holds" and item.oracle == ""


def test_what_was_not_tested_counts_neither_for_nor_against() -> None:
    rows = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    verdict = expectations.judge(Bare(meta=META, rows=rows))
    assert verdict.learned.answer == "yes" and verdict.learned.state == "good"
    assert [(e.group, e.state) for e in verdict.expectations] == [
        ("constant", "holds"),
        ("steps", "not tested"),
        ("cellular", "not tested"),
    ]
    assert verdict.learned.sentence == "Learned: 1 of 1 tested expectations hold; without a valid run: steps, cellular"
    failing = expectations.judge(Bare(meta=META, rows=[row(ACCT, utilisation=0.5), row("cubic")]))
    assert (failing.learned.answer, failing.learned.state) == ("no", "bad")
    assert failing.learned.sentence.startswith("Not learned: 0 of 1 tested expectations hold; without a valid run: ")
    assert "utilisation 50.0 %" in failing.learned.sentence
    nothing = expectations.judge(Bare(meta=META, rows=[]))
    assert (nothing.learned.answer, nothing.learned.state) == ("not tested", "neutral")
    assert nothing.learned.headline.startswith("Not tested: without a valid run: constant")


def test_links_that_stand_in_for_recordings_say_nothing_of_the_policy() -> None:
    rows = [cellular("cubic", "a", 100.0, 10.0, synthetic=True), cellular(ACCT, "a", 99.0, 1.0, synthetic=True)]
    better = [cellular(constant, "a", 50.0, 2.0, synthetic=True) for constant in META["constants"]]
    verdict = expectations.judge(Evaluation(rows=rows + better))
    (item,) = verdict.expectations
    assert item.state == "not tested" and item.measured.endswith("(generated links)")
    assert verdict.faults == [] and item.needs == "recordings"
    assert (verdict.learned.answer, verdict.learned.state) == ("not tested", "neutral")
    needed = "1 needs recordings: `ccarena traces fetch mahimahi`"
    assert verdict.learned.sentence == f"Not tested: {needed}"
    tested = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    both = expectations.judge(Evaluation(rows=tested + rows)).learned
    assert both.sentence == f"Learned: 1 of 1 tested expectations hold; {needed}" and both.state == "good"


def test_a_policy_that_meets_some_expectations_has_partly_learned() -> None:
    steps = {"link_set": "steps", "group": "steps", "share_within_5_packets": 1.0}
    rows = [row(ACCT), row("cubic"), row(ACCT, utilisation=0.5, **steps), row("cubic", **steps)]
    found = expectations.judge(Evaluation(rows=rows)).learned
    assert (found.answer, found.state, bool(found)) == ("partly", "partly", False)
    assert found.headline == "Partly learned: 1 of 2 expectations hold"
    (missed,) = found.details
    assert missed.startswith("steps: ") and "utilisation 50.0 %, expected " in missed


def test_faults_of_the_policy() -> None:
    rows = [row(ACCT, utilisation=0.96), row("cubic"), row(ORACLE, gain=1.0), row("acct α=1", utilisation=0.97)]
    counts = np.zeros((4, 15), int)
    counts[1, 3] = 1000
    verdict = expectations.judge(Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}}))
    assert any("constant: 4 in 100.0 %" in fault for fault in verdict.faults)
    assert any("learning brought nothing: acct α=1 always" in fault for fault in verdict.faults)
    # The expectation holds, so there is no red.
    assert (verdict.learned.answer, verdict.learned.state) == ("partly", "partly")
    assert verdict.learned.details == tuple(verdict.faults)


def test_continuous_actions_counted_to_one_value_are_no_constant() -> None:
    rows = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    counts = np.zeros((4, 15), int)
    counts[1, 3] = 1000
    result = Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}})
    certain = [{"reward_mean": float(k), "entropy": -3.0} for k in range(50)]
    assert len(expectations.judge(result, certain).faults) == 2
    result.meta["continuous"] = True
    assert expectations.judge(result, certain).faults == []


def test_a_certain_policy_that_tells_zones_apart_is_no_constant() -> None:
    rows = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    counts = np.zeros((4, 15), int)
    counts[1, 0], counts[0, 14] = 10_000, 60
    certain = [{"reward_mean": float(k), "entropy": 0.001} for k in range(50)]
    assert expectations.judge(Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}}), certain).learned
    counts[0, 14] = 5  # by chance
    faults = expectations.judge(Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}}), certain).faults
    assert len(faults) == 2 and "is constant" in faults[0] and "collapsed" in faults[1]


def test_a_constant_alpha_that_is_better_somewhere_is_a_note() -> None:
    rows = [row(ACCT, utilisation=0.96), row("cubic"), row(ORACLE, gain=1.0), row("acct α=1", utilisation=0.97)]
    steps = {"link_set": "steps", "group": "steps", "share_within_5_packets": 1.0}
    rows += [{**one, **steps} for one in rows]
    rows[-1]["utilisation"] = 0.9
    verdict = expectations.judge(Evaluation(rows=rows))
    assert verdict.learned and verdict.notes == ["constant: acct α=1 always does better than the policy"]


def test_faults_of_the_training() -> None:
    rows = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    healthy = [{"reward_mean": float(k), "entropy": 1.0} for k in range(50)]
    assert expectations.judge(Evaluation(rows=rows), healthy).learned
    falling = [{"reward_mean": -float(k), "entropy": 0.001} for k in range(50)]
    faults = expectations.judge(Evaluation(rows=rows), falling).faults
    assert len(faults) == 2 and "collapsed" in faults[0] and "did not rise" in faults[1]
    # Evolution climbs the objective, whatever the reward does meanwhile.
    climbing = [{"reward_mean": -float(k), "score": float(k)} for k in range(50)]
    assert expectations.judge(Evaluation(rows=rows), climbing).learned


@given(st.floats(0, 1))
def test_a_share_is_never_rounded_up(share: float) -> None:
    assert float(expectations._percent(share).split()[0]) / 100 <= share + 1e-12


def test_without_expectations_nothing_is_tested() -> None:
    found = expectations.judge(Bare()).learned
    assert (found.state, found.sentence) == ("neutral", "Not tested: the configuration expects nothing")


def test_a_fault_without_a_tested_expectation_leaves_it_undecided() -> None:
    found = learned([], ["the reward did not rise during training"])
    assert (found.answer, found.state) == ("undecided", "partly")
    assert found.sentence.endswith("; the reward did not rise during training")


def test_a_rule_has_not_learned_whatever_it_meets() -> None:
    held, missed = {"state": "holds"}, {"state": "does not hold", "group": "steps", "measured": "1", "target": "2"}
    for items, start in (([held], "As expected, without"), ([held, missed], "Partly as"), ([missed], "Not as")):
        assert learned(items, [], is_rule=True).sentence.startswith(start)


def test_the_answers_of_several_policies_are_one_if_they_agree() -> None:
    yes, no = simple_rule(None, is_rule=True), simple_rule(None)
    both = of_several({"a": yes, "b": yes})
    assert (both.answer, both.state) == ("yes", "neutral") and both.details == tuple(
        f"{name}: {yes.sentence}" for name in "ab"
    )
    assert of_several({"a": yes, "b": no}).answer == "undecided"
