"""The best rules without learning: found where they are known, on training links, and said to be missing elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from ccarena.configs import load_config
from ccarena.configs.schema import TrainConfig
from ccarena.errors import ConfigError
from ccarena.eval.heldout.rules import Rule, search
from ccarena.policies.spec import spec_of

LINKS = {"constant": 1, "random_steps": 0, "cellular": 0, "trace": 0}


def record(scheme: str, **changes: Any) -> TrainConfig:
    keys = {"env.link.kinds": LINKS, "env.episode_s": 2, "env.cross_traffic.probability": 0, "rules.links": 3}
    keys |= {"env.link.rate_mbps": [10, 20], "env.link.rtt_ms": [20, 40], "env.link.loss": 0}
    return load_config(scheme, keys | {name.replace("__", "."): value for name, value in changes.items()})


def test_every_kind_of_rule_is_found() -> None:
    law = {"slack": [0, 50]}
    config = record("acct", env__link__signal=1, env__link__buffer_bdp=4, rules__law=law, rules__law_candidates=8)
    done: list[tuple[int, int]] = []
    constant, table, base, tuned = search(config, spec_of(config), 2, lambda *at: done.append(at))
    assert [rule.kind for rule in (constant, table, base, tuned)] == ["constant", "by category", "base", "law"]
    assert all(rule.found and rule.score is not None for rule in (constant, table, base, tuned))
    # What the reward asks for: much growth in Green, and little at the advertised rate.
    green, yellow, *_ = table.policy["actions"]
    assert table.policy["by"] == "zone" and green > yellow == 0
    assert table.score > constant.score >= base.score - 1e-9
    assert tuned.score >= constant.score
    assert constant.params == spec_of(config).params, "those that it was found with"
    assert "green " in table.label and base.policy == "none"
    assert done[-1] == (4, 4)
    assert Rule.of(table.as_dict()) == table


def test_an_action_is_sought_only_for_cases_in_which_the_learner_is_asked() -> None:
    config = record("hyvar", env__link__lossy=0, env__link__buffer_bdp=4, rules__law_candidates=4)
    _, table, *_ = search(config, spec_of(config), 2)
    assert "queue " in table.label
    assert "falling" not in table.label and "rising" not in table.label, "the base acts alone in these cases"


def test_a_continuous_action_is_searched_with_the_law() -> None:
    keys = {"env__link__lossy": 0, "rules__links": 4, "rules__law_candidates": 40}
    free, given = (
        search(record("hyvar", **keys, **more), spec_of(record("hyvar")), 2)
        for more in ({}, {"rules__law_action": -0.1})
    )
    constant, law = free[0], free[3]
    assert law.score > constant.score and law.policy["constant"] != constant.policy["constant"]
    assert given[3].policy["constant"] == -0.1


def test_what_cannot_be_searched_says_why() -> None:
    config = record("aurora")
    constant, table, base, tuned = search(config, spec_of(config), 2)
    assert constant.found
    assert "names no category" in table.missing
    assert "no base" in base.missing
    assert "no parameters of a law" in tuned.missing


def test_a_law_of_unknown_parameters_is_refused() -> None:
    config = record("acct", rules__law={"slak": None})
    with pytest.raises(ConfigError, match=r"rules\.law: unknown parameter"):
        search(config, spec_of(config), 2)
