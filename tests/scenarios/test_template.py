"""Expressions and repeated items of a suite's YAML."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.errors import ConfigError
from ccarena.scenarios import template

NAMES: dict[str, Any] = {
    "rate": 24,
    "level": {"min_mbps": 0.5, "name": "low"},
    "many": [1, 10, 100],
    **template.seeded(7),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${rate}", 24),
        ("${rate * 1.5}", 36.0),
        ("${int(rate * 125)}", 3000),
        ("${level.min_mbps}", 0.5),
        ("${many[1:]}", [10, 100]),
        ("${level.name if rate > 20 else 'none'}", "low"),
        ("${rate in many or not (rate == 24)}", False),
        ("${range(3)}", [0, 1, 2]),
        ("${max(many) - len(many)}", 97),
        ("at ${rate} and ${level.min_mbps}", "at 24 and 0.5"),
    ],
)
def test_expressions_keep_their_type(text: str, value: Any) -> None:
    assert template.expand(text, NAMES, "x") == value
    assert type(template.expand(text, NAMES, "x")) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${rat}", 'flows[0].x: ${rat}: unknown name "rat"; did you mean "rate"?'),
        ("${level.min}", 'no field "min"; known: min_mbps, name'),
        ("${rate.x}", "24 has no fields"),
        ("${rate +}", "not an expression"),
        ("${rate / 0}", "ZeroDivisionError"),
        ("${many[9]}", "IndexError"),
        ("${open('x')}", 'unknown function "open"'),
        ("${().__class__}", "has no fields"),
        ("${[x for x in many]}", "only names, fields"),
        ("${many * 10000000}", "at most 10000"),
        ("${rate", "without its"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_its_path(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        template.expand({"flows": [{"x": text}]}, NAMES, "")
    assert str(caught.value).startswith("flows[0].x: ")


def test_items_are_repeated() -> None:
    flows = [{"for_each": {"w": "${many}"}, "weight": "${w}", "name": "f${index}"}, {"weight": 5}]
    assert template.expand(flows, NAMES, "") == [
        {"weight": 1, "name": "f0"},
        {"weight": 10, "name": "f1"},
        {"weight": 100, "name": "f2"},
        {"weight": 5},
    ]
    for wrong in ([1, 2], {"a": [1], "b": [2]}, {"a": 5}):
        with pytest.raises(ConfigError, match=r"flows\[0\].for_each"):
            template.expand({"flows": [{"for_each": wrong}]}, NAMES, "")


def test_draws_depend_on_the_seed_alone() -> None:
    drawn = [template.expand(["${uniform(0, 1)}"] * 3, template.seeded(seed), "") for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 3


@given(st.text(max_size=60))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    for given_text in (text, f"${{{text}}}"):
        try:
            template.expand(given_text, NAMES, "x")
        except ConfigError as error:
            assert str(error).startswith("x: ")
