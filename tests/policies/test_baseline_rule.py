"""The best rule as a policy does what the rule does, and says what it cannot be made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena import _core, cli
from ccarena.errors import PolicyError
from ccarena.eval.heldout.outcome import evaluate
from ccarena.policies import artifact
from ccarena.policies.baseline_rule import rule_policy
from ccarena.policies.trained_by import configuration_of, rule_of
from ccarena.runs.run_folder import EVALUATION, POLICY
from ccarena.scenarios.entrants import find_policy
from docs.generate.policies import ship
from tests.policies.made import continuous

RULES: dict[str, tuple[str, Any]] = {
    "acct by zone": ("acct", {"by": "zone", "actions": [9.0, 0.0, 2.0, 1.0]}),
    "acct always": ("acct", {"constant": 6.0}),
    "hyvar always": ("hyvar", {"constant": -0.1}),
    "aurora always": ("aurora", {"constant": 0.05}),
}


def with_rule(scheme: str, says: Any) -> artifact.Artifact:
    policy = artifact.load(find_policy(scheme)) if scheme in ("acct", "hyvar") else continuous(scheme, 0.1)
    worse = {"kind": "constant", "label": "worse", "policy": {"constant": 0.0}, "params": policy.params, "score": -1.0}
    return replace(policy, rules=[worse, {**worse, "label": "the rule", "policy": says, "score": 1.0}])


@pytest.mark.parametrize("name", RULES)
def test_it_does_what_the_rule_does(name: str, tmp_path: Path, capsys) -> None:
    scheme, says = RULES[name]
    trained, made = tmp_path / "trained.safetensors", tmp_path / "made.safetensors"
    with_rule(scheme, says).save(trained)
    assert cli.main(["policy", "rule", str(trained), "--out", str(made)]) == 0
    assert "the rule" in capsys.readouterr().out
    made_policy = artifact.load(made)
    scenario = {
        "duration_s": 8,
        "links": [
            {
                "service": {
                    "type": "steps",
                    "steps": [{"at_s": 2 * k, "rate_mbps": 10 + 30 * (k % 2)} for k in range(4)],
                },
                "queue": {"type": "droptail", "packets": 100},
                "delay_ms": 15,
                "router": True,
            }
        ],
        "record": {"reports": True},
    }

    def reports(policy: Any) -> Any:
        flow = {"scheme": made_policy.spec, "params": made_policy.params, "policy": policy}
        return np.asarray(_core.simulate(json.dumps({**scenario, "flows": [flow]}))["flows"][0]["reports"])

    by_policy, by_rule = reports(str(made)), reports(says)
    assert len(by_rule) > 20
    np.testing.assert_allclose(by_policy, by_rule, rtol=1e-5)


def test_it_is_judged_as_the_policy_is() -> None:
    policy = with_rule("acct", {"by": "zone", "actions": [9.0, 0.0, 2.0, 1.0]})
    made = rule_policy(policy)
    assert configuration_of(made) == configuration_of(policy) and configuration_of(made).expectations
    assert (rule_of(made), rule_of(policy)) == ("the rule", "")


def test_its_verdict_does_not_say_that_it_learned(tmp_path: Path) -> None:
    rule_policy(with_rule("acct", {"by": "zone", "actions": [11.0, 2.0, 2.0, 4.0]})).save(tmp_path / POLICY)
    outcome = evaluate(tmp_path, link_sets=["constant"], seeds=1, duration_s=5.0, schemes=[])
    learned, rule = outcome.verdict.answers
    assert learned.headline.startswith(("As expected", "Partly as expected", "Not as expected"))
    assert "earned" not in learned.headline and rule.sentence.startswith("Yes: the policy is itself a rule")


def test_its_card_names_the_rule_and_no_training(tmp_path: Path) -> None:
    run = tmp_path / "table"
    (run / "eval").mkdir(parents=True)
    rule_policy(with_rule("acct", {"constant": 6.0})).save(run / POLICY)
    with pytest.raises(PolicyError, match="it was not evaluated"):
        ship("acct-table", str(run), tmp_path)
    (run / "eval" / EVALUATION).write_text(json.dumps({"verdict": {"expectations": [{"state": "holds"}]}}), "utf-8")
    target = ship("acct-table", str(run), tmp_path)
    said = target.with_suffix(".md").read_text("utf-8")
    assert (
        "| rule | the rule; the best without learning" in said
        and "| learned | Learned: 1 of 1 expectations hold |" in said
    )
    assert "| simple rule | Not measured: " in said
    assert "Learning curve" not in said and "trained by" not in said
    assert artifact.load(target).evaluation


def test_what_has_no_rule_says_so() -> None:
    policy = continuous("aurora", 0.1)
    with pytest.raises(PolicyError, match=r"rules\.links above 0"):
        rule_policy(policy)
    alone = {"kind": "base", "label": "alone", "policy": "none", "params": {}, "score": 1.0}
    with pytest.raises(PolicyError, match="base alone"):
        rule_policy(replace(policy, rules=[alone]))
    by = {**alone, "policy": {"by": "zone", "actions": [0.0] * 4}}
    with pytest.raises(PolicyError, match='goes by "zone"'):
        rule_policy(replace(policy, rules=[by]))
