"""Certificates: what is proved holds at every sampled point, and what is refuted is wrong in the native inference."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: certificates are not tested (run make)")

from ccarena import _core, cli
from ccarena.configs import load_config
from ccarena.errors import ConfigError, PolicyError
from ccarena.eval.certify.bounds import forwards
from ccarena.eval.certify.certificate import FORMS, PROVED, REFUTED, certify, summary
from ccarena.eval.certify.floats import FloatForm
from ccarena.eval.certify.properties import read
from ccarena.eval.certify.questions import unrolled
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.graph import OBSERVATION, Graph, Node, State
from ccarena.policies.interface import Normalisation
from ccarena.policies.spec import spec_of
from tests.policies.made import DOCUMENT, constant

SIGNALS = {"history": 2, "signals": ["rtt_ratio", "loss_ratio"]}
CONTINUOUS = {**DOCUMENT, "observe": SIGNALS, "act": {"kind": "window_exp2", "bounds": [-2, 2]}, "base": "cubic"}
DISCRETE = {**CONTINUOUS, "act": {"kind": "window_exp2", "levels": [-2, -1, 0, 1, 2]}}
BOX = {"rtt_ratio": [1, 4], "loss_ratio": [0, 0.2]}


def policy(seed: int, spec: dict[str, Any] = CONTINUOUS, hidden: int = 6, activation: str = "relu") -> Artifact:
    """A random network of one hidden layer."""
    made, rng = spec_of(load_config({"spec": spec})).interface, np.random.default_rng(seed)
    width, outputs = made.observation_len, made.outputs
    shapes = {"a.weight": (hidden, width), "a.bias": (hidden,), "b.weight": (outputs, hidden), "b.bias": (outputs,)}
    tensors = {name: rng.normal(0, 1.0, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = (
        Node("a", "linear", (OBSERVATION,), {"weight": "a.weight", "bias": "a.bias"}),
        Node("f", activation, ("a",)),
        Node("b", "linear", ("f",), {"weight": "b.weight", "bias": "b.bias"}),
    )
    return Artifact.of(Graph(width, nodes, "b", tensors), made)


def recurrent(seed: int, op: str) -> Artifact:
    made, rng = spec_of(load_config({"spec": CONTINUOUS})).interface, np.random.default_rng(seed)
    width, hidden, gates = made.observation_len, 3, 3 if op == "gru" else 4
    state = hidden * (2 if op == "lstm" else 1)
    shapes = {
        "i": (gates * hidden, width),
        "h": (gates * hidden, hidden),
        "bi": (gates * hidden,),
        "bh": (gates * hidden,),
    }
    tensors = {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    tensors |= {"w": rng.normal(0, 1, (1, state)).astype(np.float32)}
    cell = {"weight_ih": "i", "weight_hh": "h", "bias_ih": "bi", "bias_hh": "bh"}
    nodes = (Node("cell", op, (OBSERVATION, "memory"), cell), Node("out", "linear", ("cell",), {"weight": "w"}))
    return Artifact.of(Graph(width, nodes, "out", tensors, (State("memory", (state,), "cell"),)), made)


def claims(policy: Artifact, *claims: dict[str, Any], **top: Any) -> list[Any]:
    listed = [{"name": str(at), "if": BOX, "then": claim} for at, claim in enumerate(claims)]
    return read({"properties": listed, **top}, policy, "file.yaml").properties


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spec", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
def test_answers_hold_at_sampled_points(form: str, spec: dict[str, Any]) -> None:
    """Random networks and claims: no sampled point contradicts a proof, and each counterexample is one."""
    states = set()
    for seed in range(4):
        made = policy(seed, spec)
        listed: list[dict[str, Any]] = [{"action": {"most": 1}}, {"action": {"least": -1.5}}, {"change": {"most": 3}}]
        if spec is CONTINUOUS:
            listed.append({"monotone": {"signal": "rtt_ratio", "action": "falls"}})
        asked = claims(made, *listed, steady=seed % 2 == 0)
        for prop in asked:
            whole = FORMS[form](made)
            found = certify(prop, whole, 600)
            states.add(found.state)
            [question] = prop.questions(whole)
            sampled = question.violated(question.space.sample(np.random.default_rng(1), 3000))
            assert not (found.state == PROVED and sampled.any()), (seed, prop)
            if found.state == REFUTED:
                assert wrong(prop, made, whole, found.counterexample)
    assert {PROVED, REFUTED} <= states


def wrong(prop: Any, made: Artifact, form: Any, counterexample: dict[str, Any] | None) -> bool:
    """Decides anew, by the native inference on the observations of the counterexample alone."""
    assert counterexample is not None
    decisions = counterexample["decisions"]
    rows = np.array([row(decision["observation"]) for decision in decisions], np.float32)
    actions = []
    for each in rows:
        choice, outputs = form.act(each[None, None])
        actions.append(made.interface.actions[int(choice[0, 0])] if made.interface.actions else float(outputs[0, 0, 0]))
    assert actions == pytest.approx([decision["action"] for decision in decisions])
    claim = prop.claim
    if prop.kind == "action":
        return any(action > claim.get("most", np.inf) or action < claim.get("least", -np.inf) for action in actions)
    if prop.kind == "change":
        return abs(actions[1] - actions[0]) > claim["most"]
    assert rows[1][0] >= rows[0][0] and rows[1][2:].tolist() == rows[0][2:].tolist()
    return actions[1] > actions[0]


def row(observation: dict[str, Any]) -> list[float]:
    found: list[float] = []
    for value in observation.values():
        found += value if isinstance(value, list) else [value, value]
    return found


def test_shares_agree_with_a_grid_over_the_box() -> None:
    """A box of two dimensions, on a grid: an independent count of where the claim holds."""
    for seed in range(3):
        made = policy(seed)
        [prop] = claims(made, {"action": {"most": 0.5}})
        found = certify(prop, FloatForm(made), 4000)
        axes = [np.linspace(*ends, 201) for ends in BOX.values()]
        grid = np.array([[rtt, rtt, loss, loss] for rtt, loss in product(*axes)], np.float32)
        share = float((made.outputs(grid)[:, 0] <= 0.5).mean())
        assert (found.state == PROVED) == (share == 1.0)
        assert found.holds - 0.01 <= share <= 1 - found.violated + 0.01
        assert found.undecided <= 0.01


def test_the_exact_maximum_of_a_small_network_is_a_mixed_integer_program() -> None:
    """A solver finds the largest action over a box; a bound just above is proved, one just below is refuted."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    solved_seeds = 0
    for seed in range(3):
        made = policy(seed, hidden=5)
        tensors = {name: tensor.astype(np.float64) for name, tensor in made.graph.tensors.items()}
        offset, scale, low, high = (
            np.asarray(part, np.float64) for part in vars(made.interface.normalisation).values()
        )
        ends = [((np.array([a, a, b, b]) - offset) * scale) for a, b in zip(*BOX.values(), strict=True)]
        x = [np.clip(end, low, high) for end in ends]
        (w, c), big, n = (tensors["a.weight"], tensors["a.bias"]), 100.0, 5
        # Variables: 4 inputs, n rectified sums y, n switches: y >= s, y <= s + big (1 - on), y <= big on.
        zeros, unit = np.zeros((n, n)), np.eye(n)
        rows = np.block([[-w, unit, zeros], [-w, unit, big * unit], [np.zeros((n, 4)), unit, -big * unit]])
        upper = np.concatenate([np.full(n, np.inf), c + big, np.zeros(n)])
        lower = np.concatenate([c, np.full(2 * n, -np.inf)])
        objective = -np.concatenate([np.zeros(4), tensors["b.weight"][0], np.zeros(n)])
        solved = milp(
            objective,
            integrality=np.repeat([0, 1], [4 + n, n]),
            bounds=Bounds([*np.minimum(*x), *[0.0] * 2 * n], [*np.maximum(*x), *[big] * n, *[1.0] * n]),
            constraints=LinearConstraint(rows, lower, upper),
        )
        largest = float(np.clip(-solved.fun + tensors["b.bias"][0], -2, 2))
        if not -1.9 < largest < 1.9:
            continue
        solved_seeds += 1
        for most, state in ((largest + 0.1, PROVED), (largest - 0.1, REFUTED)):
            [prop] = claims(made, {"action": {"most": most}}, steady=False)
            assert certify(prop, FloatForm(made), 4000).state == state, (seed, largest)
    assert solved_seeds > 0


@pytest.mark.parametrize("op", ["gru", "lstm"])
@pytest.mark.parametrize("form", FORMS)
def test_recurrent_policies_are_certified_over_several_decisions(op: str, form: str) -> None:
    made = recurrent(0, op)
    whole = FORMS[form](made)
    asked = read({"properties": [{"if": BOX, "then": {"action": {"most": 2.0}}, "steps": 3}]}, made, "f").properties
    [question] = asked[0].questions(whole)
    rng = np.random.default_rng(0)
    points = question.space.sample(rng, 100)
    network, outputs = unrolled(whole, question.space)
    forms = forwards(network, points - 0.01, points + 0.01)
    # 10,000 flows in 100 boxes.
    inside = points + rng.uniform(-0.0099, 0.0099, (100, *points.shape))
    _, native = whole.act(question.space.observations(inside.reshape(-1, points.shape[1])))
    native = native.reshape(100, 100, *native.shape[1:])
    for step, value in enumerate(outputs):
        assert (native[:, :, step] >= forms.low[value]).all() and (native[:, :, step] <= forms.high[value]).all()
        assert (forms.high[value] - forms.low[value]).mean() < 0.5
    if form == "integer":  # the same search, with tables that take longer
        return
    largest = float(native.max())
    for most, state in ((min(2.0, largest + 0.5), PROVED), (largest - 0.1, REFUTED)):
        [prop] = read(
            {"properties": [{"if": BOX, "then": {"action": {"most": most}}, "steps": 3}]}, made, "f"
        ).properties
        assert certify(prop, whole, 2000).state == state


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "sigmoid", "elu", "silu", "gelu", "softplus"])
def test_bounds_enclose_the_native_inference(activation: str) -> None:
    made = policy(3, activation=activation)
    for name in FORMS:
        form = FORMS[name](made)
        [prop] = claims(made, {"action": {"most": 1}}, steady=False)
        [question] = prop.questions(form)
        rng = np.random.default_rng(0)
        points = question.space.sample(rng, 300)
        width = (question.space.high - question.space.low) * rng.uniform(0, 0.3, (300, 1))
        low, high = np.maximum(points - width, question.space.low), np.minimum(points + width, question.space.high)
        forms = forwards(question.network, low, high)
        linear = forms.backwards(question.output, np.ones((300, 1, 1)), np.zeros((300, 1)))
        reach = np.abs(linear.slopes).sum(axis=2) + linear.radius
        for _ in range(20):
            _, found = form.act(question.space.observations(rng.uniform(low, high)))
            value = found[:, 0].astype(np.float64)
            assert (value >= forms.low[question.output]).all() and (value <= forms.high[question.output]).all()
            assert (np.abs(value - linear.centre) <= reach).all()


REFUSED = [
    ({"properties": []}, r"f\.yaml: properties is \[\]; expected a list"),
    ({"properties": [{"then": {"action": {"most": 1}}}], "more": 1}, r'f\.yaml: unknown key "more"'),
    (
        {"properties": [{"if": {"rtt": [1, 2]}, "then": {}}]},
        r'properties\[0\]\.if: the policy observes no "rtt".*rtt_ratio',
    ),
    ({"properties": [{"if": {"rtt_ratio": [2, 1]}, "then": {}}]}, r"if\.rtt_ratio is \[2, 1\]; expected LOW <= HIGH"),
    ({"properties": [{"if": {"rtt_ratio": "x"}, "then": {}}]}, r'if\.rtt_ratio is "x"; expected \[LOW, HIGH\]'),
    ({"properties": [{"if": {"rtt_ratio[2]": 1}, "then": {}}]}, r"if\.rtt_ratio\[2\]: expected a place from -2"),
    ({"properties": [{"then": {"actions": {}}}]}, r'then: unknown key "actions".*action'),
    ({"properties": [{"then": {}}]}, r"then has 0 claims; expected one of action, monotone and change"),
    ({"properties": [{"then": {"action": {}}}]}, r"then\.action: expected least, most or both"),
    ({"properties": [{"then": {"action": {"most": -3}}}]}, r"no action of the policy, -2 to 2, is -inf to -3"),
    ({"properties": [{"then": {"action": {"most": 0, "number": 1}}}]}, r"number is 1; expected 0 to 0"),
    ({"properties": [{"then": {"change": {}}}]}, r"then\.change\.most is missing; expected a number of 0 or more"),
    (
        {"properties": [{"then": {"monotone": {"signal": "x"}}}]},
        r'signal is "x".*expected one of rtt_ratio, loss_ratio',
    ),
    ({"properties": [{"then": {"action": {"most": 0}}, "steps": 0}]}, r"steps is 0; expected a whole number from 1"),
    ({"properties": [{"then": {"action": {"most": 0}}, "steady": 1}]}, r"steady is 1; expected true or false"),
    ({"properties": [{"name": "a", "then": {"action": {"most": 0}}}] * 2}, r'"a" is used twice'),
    ({"properties": [{"then": {"action": {"most": float("nan")}}}]}, r"most is NaN; expected a finite number"),
]


def test_discrete_actions_are_not_certified_as_monotone() -> None:
    """Float32 may choose either of two actions that tie, whatever the exact function does."""
    with pytest.raises(
        ConfigError, match=r"f\.yaml: properties\[0\]\.then\.monotone: the actions are discrete; where two"
    ):
        read({"properties": [{"then": {"monotone": {"signal": "rtt_ratio"}}}]}, policy(0, DISCRETE), "f.yaml")


@pytest.mark.parametrize(("data", "message"), REFUSED)
def test_properties_that_cannot_be_asked_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(data, policy(0), "f.yaml")


def test_a_space_without_a_limit_is_refused() -> None:
    made = policy(0)
    scale = np.ones(4, np.float32)
    far = Normalisation.of(0 * scale, scale, -np.inf * scale, np.inf * scale)
    endless = replace(made, interface=replace(made.interface, normalisation=far))
    wide = {"properties": [{"if": {"rtt_ratio": [-1e30, 1e30]}, "then": {"action": {"most": 1}}}]}
    with pytest.raises(ConfigError, match=r"rtt_ratio has no limit: the policy clips it nowhere"):
        read(wide, endless, "f.yaml")


def test_the_command_prints_counterexamples_and_writes_a_guard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = policy(0)
    file, out, asked = tmp_path / "p.safetensors", tmp_path / "g.safetensors", tmp_path / "f.yaml"
    replace(made, graph=constant(made.interface, 0.5)).save(file)
    asked.write_text(
        "space: {rtt_ratio: [1, 4]}\nguard: {least: -1, most: 0.75}\n"
        "properties:\n- {name: grows, if: {loss_ratio: 0}, then: {action: {least: 0.25}}}\n",
        encoding="utf-8",
    )
    assert cli.main(["certify", str(file), str(asked), "--guard", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["proved"], told["refuted"], told["decided"]) == (4, 0, 1.0)
    written = load(out)
    assert written.guard["action"] == {"low": [-1.0], "high": [0.75]}
    assert written.guard["observation"]["low"] == [1.0, 1.0, None, None]
    assert [each["state"] for each in written.certificate] == [PROVED] * 4
    asked.write_text("properties: [{then: {action: {most: 0}}}]", encoding="utf-8")
    assert cli.main(["certify", str(file), str(asked), "--form", "float"]) == 1
    assert "0 proved, 1 refuted" in (text := capsys.readouterr().out) and "action 0.5 for rtt_ratio" in text


def test_the_decided_share_is_the_mean_of_all_properties() -> None:
    made = policy(0)
    answers = [
        certify(prop, FloatForm(made), 300)
        for prop in claims(made, {"action": {"most": 2}}, {"action": {"most": -1.9}})
    ]
    assert [each.state for each in answers] == [PROVED, REFUTED]
    undecided = answers[1].undecided
    assert 0 < undecided < 1
    assert summary(answers) == {"proved": 1, "refuted": 1, "undecided": 0, "decided": 1 - undecided / 2}


def test_a_policy_without_an_integer_form_says_so() -> None:
    made = policy(0)
    nodes = (*made.graph.nodes[:1], Node("f", "exp", ("a",)), made.graph.nodes[2])
    with pytest.raises(PolicyError, match="integer form of graph node"):
        FORMS["integer"](replace(made, graph=replace(made.graph, nodes=nodes)))
    assert _core.Policy.of(made.encode()).state_len == 0


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["certify", "acct-table"]) == 0
    page = (Path(__file__).parents[3] / "docs/certify.md").read_text("utf-8")
    assert capsys.readouterr().out.strip().splitlines()[-1] in page.splitlines()
