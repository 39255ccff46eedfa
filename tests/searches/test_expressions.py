"""Expressions: their text is the whole expression, and a rule decides as its text computes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: rules not tested (run make)")

from ccarena import _core
from ccarena.errors import ConfigError
from ccarena.policies.artifact import Artifact
from ccarena.policies.spec import Spec
from ccarena.searches import expressions
from ccarena.searches.programs import graph_of, inputs_of
from ccarena.tune.halving import promoted

NAMES = ["rtt", "loss", "last"]
SPEC = {
    "learned": 1,
    "name": "three",
    "clock": "rtt",
    "observe": {
        "signals": [
            {"signal": "rtt_ratio", "history": 3, "as": "rtt", "scale": 1, "offset": 0, "clip": [-4, 4]},
            {"signal": "loss_ratio", "as": "loss", "scale": 1, "clip": [-4, 4]},
            {"signal": "last_action", "as": "last", "scale": 1, "clip": [-4, 4]},
        ]
    },
    "act": {"kind": "window_factor", "bounds": [-1, 1], "delta": 0.5},
    "base": "none",
}


def test_the_text_of_any_tree_is_read_back_and_changes_stay_small() -> None:
    rng = np.random.default_rng(1)
    dotted = ["queue", "self.window"]
    tree: expressions.Tree = "queue"
    for _ in range(500):
        other = expressions.drawn(dotted, rng)
        text = expressions.text(other)
        assert expressions.text(expressions.parse(text, dotted, "test")) == text
        tree = expressions.crossed(expressions.mutated(tree, dotted, rng), other, rng)
        assert expressions.size(tree) <= expressions.MOST_NODES
        assert {part for part in expressions.nodes(tree) if isinstance(part, str)} <= set(dotted)


def test_a_rule_decides_natively_as_python_computes_its_text() -> None:
    spec = Spec.of(_core.learned(json.dumps(SPEC)))
    assert inputs_of(spec) == {"rtt": 2, "loss": 3, "last": 4}, "the newest value of a history"
    rng = np.random.default_rng(2)
    observations = rng.choice([-1.5, -0.25, 0.0, 0.5, 3.0], (40, spec.size)).astype(np.float32)
    for _ in range(60):
        tree = expressions.drawn(NAMES, rng)
        native = _core.Policy.of(Artifact.of(graph_of(tree, spec), spec.interface).encode())
        _, actions = native.act(observations)
        for row, action in zip(observations, actions[:, 0], strict=True):
            values = dict(zip(NAMES, map(float, row[2:]), strict=True))
            expected = eval(expressions.text(tree), {**values, "min": min, "max": max, "float": float})
            assert action == pytest.approx(min(1.0, max(-1.0, expected)), abs=1e-4), expressions.text(tree)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("rtt +", '"rtt [+]" is no expression'),
        ("rtt + los", 'unknown name "los"; did you mean "loss"?'),
        ("rtt ** 2", "expected numbers, rtt, loss, last, "),
        ("__import__('os').system('true')", "expected numbers"),
        ("rtt if loss else 1", "expected numbers"),
        ("True", "expected numbers"),
        ("+".join(["rtt"] * 40), "79 numbers, names and operations; expected at most 31"),
        ("(" * 300 + "rtt" + ")" * 300, "is no expression"),
    ],
)
def test_what_is_no_expression_is_refused(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace("?", r"\?")):
        expressions.parse(source, NAMES, "test")


def test_the_best_third_of_a_batch_goes_on_if_it_is_among_the_best_third_of_all() -> None:
    batch = {"a": 1.0, "b": 3.0, "c": 2.0, "d": -math.inf}
    assert promoted(batch, []) == ["b", "c"]
    assert promoted(batch, [2.5, 9.0, 9.0]) == ["b"], "two of seven scores are 9"
    assert promoted({"a": 1.0}, []) == ["a"] and promoted({"a": 1.0}, [2.0]) == [] and promoted({}, [1.0]) == []
