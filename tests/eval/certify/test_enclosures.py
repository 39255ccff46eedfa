"""Enclosures of every operation contain the native inference, and a search loses no box."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: certificates are not tested (run make)")

from ccarena.configs import load_config
from ccarena.errors import ConfigError, PolicyError
from ccarena.eval.certify import search
from ccarena.eval.certify.bounds import forwards
from ccarena.eval.certify.certificate import FORMS, PROVED, REFUTED, certify, guarded
from ccarena.eval.certify.floats import FloatForm
from ccarena.eval.certify.properties import read
from ccarena.eval.certify.questions import Change
from ccarena.eval.certify.volumes import share_below
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.graph import OBSERVATION, OPERATIONS, Graph, Node
from ccarena.policies.spec import spec_of
from tests.eval.certify.test_certify import CONTINUOUS, DISCRETE, claims, policy, recurrent
from tests.policies.made import linear

WIDE = {**CONTINUOUS, "act": {"kind": "window_exp2", "bounds": [-16, 16]}}
CASES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    *((op, {}, (4,)) for op in ("relu", "leaky_relu", "elu", "silu", "gelu", "sigmoid", "tanh", "softplus", "exp")),
    ("clip", {"low": -0.1, "high": 0.7}, (4,)),
    ("softmax", {"axis": 0}, (4,)),
    ("softmax", {"axis": 1}, (2, 2)),
    ("layer_norm", {"weight": "w4", "bias": "w4"}, (4,)),
    ("layer_norm", {}, (2, 2)),
    ("embedding", {"weight": "rows"}, (4,)),
    ("slice", {"axis": 0, "start": 1, "stop": 3}, (4,)),
    ("transpose", {"axes": [1, 0]}, (2, 2)),
    ("reshape", {"shape": [2, 2]}, (4,)),
    ("mean", {"axis": 0}, (2, 2)),
    ("affine", {"scale": "w4", "shift": 0.1}, (4,)),
    ("linear", {"weight": "w44", "bias": "w4"}, (4,)),
    ("conv1d", {"weight": "kernel", "bias": "w2", "padding": 1}, (2, 2)),
    *((op, {}, (4,)) for op in ("add", "mul", "div")),
    ("concat", {"axis": 0}, (4,)),
]


NEWEST = {"rtt_ratio": [1, 4], "rtt_ratio[-1]": [1, 3]}


def network(op: str, attributes: dict[str, Any], shape: tuple[int, ...], spread: float) -> Artifact:
    """A random layer, the operation on it (with itself shifted if it takes two values), and a random layer."""
    made, rng = spec_of(load_config({"spec": WIDE})).interface, np.random.default_rng(0)
    drawn = {"w4": 4, "w2": 2, "w44": (4, 4), "rows": (3, 2), "kernel": (2, 2, 3)}
    tensors = {name: rng.normal(0, 1, size).astype(np.float32) for name, size in drawn.items()}
    tensors["first"] = rng.normal(0, spread, (4, made.observation_len)).astype(np.float32)
    pair = op in ("add", "mul", "div", "concat")
    nodes = [
        Node("a", "linear", (OBSERVATION,), {"weight": "first", "bias": "w4"}),
        Node("b", "reshape", ("a",), {"shape": list(shape)}),
        Node("c", "affine", ("b",), {"scale": 0.5, "shift": 2.0}),
        Node("f", op, ("b", "c") if pair else ("b",), attributes),
    ]
    size = int(np.prod(Graph(made.observation_len, tuple(nodes), "f", tensors).shapes()["f"]))
    tensors["last"] = rng.normal(0, 0.3, (1, size)).astype(np.float32)
    nodes += [Node("g", "reshape", ("f",), {"shape": [size]}), Node("h", "linear", ("g",), {"weight": "last"})]
    named = {value for node in nodes for value in node.attributes.values() if isinstance(value, str)}
    used = {name: tensor for name, tensor in tensors.items() if name in named}
    return Artifact.of(Graph(made.observation_len, tuple(nodes), "h", used), made)


def enclosed(made: Artifact, form: str, **top: Any) -> None:
    """Compares the bounds of random boxes with the native inference at points of them."""
    [prop] = claims(made, {"action": {"most": 1}}, **top)
    [question] = prop.questions(FORMS[form](made))
    rng = np.random.default_rng(1)
    points, space = question.space.sample(rng, 100), question.space
    width = (space.high - space.low) * rng.choice([0, 1e-6, 0.02, 0.5], (100, 1))
    # Observations are float32: a box contains those that its points are rounded to.
    low, high = ((points + sign * width).astype(np.float32) for sign in (-1, 1))
    low = np.maximum(np.nextafter(low, np.float32(-9)).astype(np.float64) - 1e-7, space.low)
    high = np.minimum(np.nextafter(high, np.float32(9)).astype(np.float64) + 1e-7, space.high)
    forms = forwards(question.network, low, high)
    found = forms.backwards(question.output, np.ones((100, 1, 1)), np.zeros((100, 1)))
    reach = np.abs(found.slopes).sum(axis=2) + found.radius
    for at in (low, high, *(rng.uniform(low, high) for _ in range(10))):
        _, outputs = question.form.act(space.observations(at))
        value = outputs[:, 0].astype(np.float64)
        assert (value >= forms.low[question.output]).all() and (value <= forms.high[question.output]).all()
        assert (np.abs(value - found.centre) <= reach).all()


@pytest.mark.parametrize("spread", [0.3, 8.0])
@pytest.mark.parametrize(("op", "attributes", "shape"), CASES)
def test_every_operation_is_enclosed(
    op: str, attributes: dict[str, Any], shape: tuple[int, ...], spread: float
) -> None:
    made = network(op, attributes, shape, spread)
    enclosed(made, "float", steady=False)
    try:
        FORMS["integer"](made)
    except PolicyError:
        return
    enclosed(made, "integer", steady=False)


def test_no_operation_is_left_out() -> None:
    assert {op for op, _, _ in CASES} | {"gru", "lstm"} == set(OPERATIONS)


def test_a_sum_that_cancels_is_enclosed() -> None:
    """Of normalised values and a bias near -1 times as large, float32 loses most digits."""
    made = network("layer_norm", {"weight": "w4", "bias": "w4"}, (4,), 1.0)
    tensors = {**made.graph.tensors, "w4": np.full(4, 1e4, np.float32)}
    enclosed(replace(made, graph=replace(made.graph, tensors=tensors)), "float")


@pytest.mark.parametrize("op", ["exp", "clip", "elu", "softplus", "tanh", "sigmoid", "leaky_relu"])
def test_slopes_enclose_the_difference_quotients(op: str) -> None:
    from ccarena.eval.certify.functions import CURVES

    function, rng = CURVES[op]({"low": -0.1, "high": 0.7} if op == "clip" else {}), np.random.default_rng(0)
    low = rng.uniform(-3, 2, 200)
    high = low + rng.uniform(0.1, 2, 200)
    if op == "exp":
        low, high = np.append(low, 80.0), np.append(high, 95.0)
    if op == "clip":
        low, high = np.append(low, 0.5), np.append(high, float(np.float32(0.7)) + 1e-9)
    least, greatest = function.slopes(low, high)
    for _ in range(50):
        x = np.sort(rng.uniform(low, high, (2, len(low))), axis=0)
        slope = np.diff(function(x), axis=0)[0] / np.diff(x, axis=0)[0]
        assert (slope >= least - 1e-6 * (1 + abs(least))).all() and (slope <= greatest * (1 + 1e-6) + 1e-6).all()
    if op == "clip":
        assert least[-1] == 0


def test_rows_of_a_change_are_certain_only_where_all_steps_hold() -> None:
    """Random logits of three steps: what is certain by a centre's rows is so at any other outputs, too."""
    [prop] = claims(policy(0, DISCRETE), {"change": {"most": 1}})
    prop = replace(prop, steps=3)
    [question] = prop.questions(FloatForm(prop.policy))
    assert isinstance(question, Change)
    rng = np.random.default_rng(0)
    centres, others = rng.normal(0, 1, (2, 20_000, 15))
    # The others choose as the centres do in two steps.
    others[:, :10] = centres[:, :10]
    asked = question.rows(centres)
    taken = question.values[others.reshape(-1, 3, 5).argmax(axis=2)]
    really = (np.abs(np.diff(taken, axis=1)) <= 1).all(axis=1)
    for (rows, offset), expected in ((asked.holding, True), (asked.violating, False)):
        certain = (np.einsum("nrs,ns->nr", rows, others) + offset <= 0).all(axis=1)
        assert certain.any() and (really[certain] == expected).all()


@pytest.mark.parametrize("spec", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
def test_rows_of_a_bound_show_both_sides_from_any_centre(spec: dict[str, Any]) -> None:
    [prop] = claims(policy(0, spec), {"action": {"least": -1, "most": 1}})
    [question] = prop.questions(FloatForm(prop.policy))
    centres, others = np.random.default_rng(0).normal(0, 1.5, (2, 20_000, 5 if spec is DISCRETE else 1))
    actions = question.values[others.argmax(axis=1)] if spec is DISCRETE else others[:, 0]
    asked, really = question.rows(centres), (actions >= -1) & (actions <= 1)
    for (rows, offset), expected in ((asked.holding, True), (asked.violating, False)):
        certain = (np.einsum("nrs,ns->nr", rows, others) + offset <= 0).all(axis=1)
        assert (really[certain] == expected).all()
        assert set(asked.holds[certain].tolist()) == {True, False}, "each side is shown from centres of both"


@pytest.mark.parametrize("sides", [1, 2, 7, 12])
def test_the_share_of_a_half_space_is_never_too_large(sides: int) -> None:
    """Against 20,000 points; slopes from 0 to 1000, and levels with all of the cube, none, or a part."""
    rng = np.random.default_rng(sides)
    slopes = rng.normal(0, 1, (40, sides)) * rng.choice([0.0, 1e-3, 1.0, 1e3], (40, sides))
    level = rng.uniform(-1.1, 1.1, 40) * np.abs(slopes).sum(axis=1)
    points = rng.uniform(-1, 1, (20_000, sides))
    counted = (points @ slopes.T + level <= 0).mean(axis=0)
    found = share_below(slopes, level)
    assert (found <= counted + 0.02).all() and (found >= counted - 0.1).all()
    assert share_below(np.zeros((2, sides)), np.array([-1.0, 1.0])).tolist() == [1.0, 0.0]
    assert share_below(np.full((1, sides), np.nan), np.zeros(1)).tolist() == [0.0]


def test_a_rest_too_small_for_a_float_is_not_lost() -> None:
    """Volumes of 1e-400 are 0 as floats: a corner of 128 sides violates the claim all the same."""
    spec = {**CONTINUOUS, "observe": {"history": 64, "signals": ["rtt_ratio", "loss_ratio"]}}
    made = policy(0, spec)
    entries = made.interface.observation_len
    graph = linear(made.interface, {(0, at): 0.001 for at in range(entries)}, [0.0])
    made = replace(made, graph=graph)
    top = made.outputs(np.repeat(np.float32([4, 0.2]), 64)[None])[0, 0]
    rest = made.outputs(np.repeat(np.float32([1, 0.0]), 64)[None])[0, 0]
    [prop] = claims(made, {"action": {"most": float(top - 1e-4 * (top - rest))}}, steady=False)
    answer = certify(prop, FloatForm(made), 5000)
    assert answer.state == REFUTED
    [prop] = claims(made, {"action": {"most": float(top + 1e-3 * (top - rest))}}, steady=False)
    assert certify(prop, FloatForm(made), 5000).state == PROVED


def test_a_bound_that_is_no_number_cuts_nothing_off() -> None:
    nan = np.full((1, 1), np.nan)
    first, last = search._hull(nan, np.ones((1, 1, 2)), np.full((1, 1), 2.0))
    assert (first == -1).all() and (last == 1).all()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    [prop] = claims(policy(0), {"action": {"most": 1}})
    monkeypatch.setattr(search, "MOST_BYTES", 100)
    with pytest.raises(PolicyError, match="bounds of one box take"):
        certify(prop, FloatForm(policy(0)), 10)


def test_a_rising_signal_is_moved_in_all_steps_and_may_not_be_one_number() -> None:
    made = recurrent(0, "gru")
    claim = {"monotone": {"signal": "rtt_ratio", "action": "falls"}}
    [prop] = read({"properties": [{"if": {**NEWEST, "loss_ratio": 0}, "then": claim}]}, made, "f").properties
    [question] = prop.questions(FloatForm(made))
    moved = dict(zip(question.space.names, question.direction, strict=True))
    assert prop.steps == 3 and moved["rtt_ratio[-1]'2"] == moved["rtt_ratio"] == 1 and moved["loss_ratio"] == 0
    points = question.space.sample(np.random.default_rng(0), 200)
    step = question.moved(points, 1.0) - points
    side = question.direction * (question.space.high - question.space.low)
    # Along one direction, the one of the proof.
    assert np.allclose(step, (step @ side / (side @ side))[:, None] * side)
    with pytest.raises(ConfigError, match=r"if: rtt_ratio is one number; expected \[LOW, HIGH\]"):
        read({"properties": [{"if": {"rtt_ratio": 1}, "then": claim}]}, made, "f")


def test_a_guard_bounds_the_number_that_it_names(tmp_path: Path) -> None:
    two = [{"kind": "window_exp2", "bounds": [-1, 1]}, {"kind": "pacing_gain", "bounds": [1.5, 2]}]
    made = policy(0, {**CONTINUOUS, "act": two})
    listed = [{"then": {"action": {"most": 1}}}]
    document = read({"properties": listed, "guard": {"number": 1, "most": 1.75}}, made, "f")
    assert document.bound == [(-1, 1), (1.5, 1.75)]
    guarded(made, document.space, document.bound).save(tmp_path / "p.safetensors")
    assert load(tmp_path / "p.safetensors").guard["action"] == {"low": [-1, 1.5], "high": [1, 1.75]}
