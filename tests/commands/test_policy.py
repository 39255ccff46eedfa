"""`ccarena policy show` prints a page for a person, and nothing of a stranger's file that a terminal obeys."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: policies not read (run make)")

import ccarena
from ccarena import cli, load_policy
from ccarena.agents.api import Training
from ccarena.configs import load_config
from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.terminal import print_table, visible
from ccarena.errors import PolicyError
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.policies import artifact, tensorfile
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.card import card
from ccarena.policies.recording import record
from ccarena.policies.spec import spec_of

ESCAPE = "\x1b]0;owned\x07\x1b[31mred\u202e\x9b2J\r"
"""A title, a colour, text from right to left, a cleared screen and a line that is overwritten."""


def obeyed(text: str) -> list[str]:
    """The characters of `text` that a terminal would not show as themselves."""
    return [c for c in text if c != "\n" and not c.isprintable()]


def show(path: Path | str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(["policy", "show", str(path), *words])
    out = capsys.readouterr()
    return code, out.out + out.err


@pytest.mark.parametrize("name", sorted(shipped_policies()))
def test_the_page_is_one_that_a_person_reads(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text = show(name, capsys)
    lines = text.splitlines()
    assert code == 0 and len(lines) <= 60 and max(len(line.rstrip()) for line in lines) <= 80
    assert not re.search(r"[{}]|': ", text), "the page has nested dictionaries"
    firsts = [line.split()[0] for line in lines if line and line[0] != " "]
    assert firsts[:5] == ["scheme", "signals", "action", "network", "parameters"]
    policy = load_policy(name)
    assert policy.interface.digest in text and "held-out links opened for it" in text
    assert json.loads(show(name, capsys, "--json")[1])["evaluation"] == policy.evaluation


def strange(file: Path, **entries: Any) -> Path:
    """A shipped policy with other entries in its metadata: text as it is, anything else as JSON."""
    tensors, metadata = tensorfile.decode(shipped_policies()["hyvar"].read_bytes())
    metadata.pop(artifact.CHECKSUM)
    metadata |= {key: value if isinstance(value, str) else json.dumps(value) for key, value in entries.items()}
    tensorfile.write_bytes(file, tensorfile.encode(tensors, metadata, artifact.CHECKSUM))
    return file


RULE = {"kind": "constant", "label": ESCAPE, "policy": {"constant": 0.5}, "params": {}, "score": 9.0, "missing": ""}
SHOUTING: dict[str, Any] = {
    "training": {"name": ESCAPE, "algorithm": ESCAPE, "rule": ESCAPE, "out": ESCAPE},
    "versions": {ESCAPE: ESCAPE},
    "trained_on": [{"kind": ESCAPE, "name": ESCAPE, "digest": ESCAPE}],
    "rules": [RULE],
    "evaluation": {
        "verdict": {
            "expectations": [{"state": ESCAPE, "group": ESCAPE, "measured": ESCAPE, "target": ESCAPE}],
            "faults": [ESCAPE],
            "gain": {"best": {"label": ESCAPE, "kind": ESCAPE, "score": 1, "gain": 1, "low": 1, "high": 1}},
            "baseline": ESCAPE,
        },
        "means": {ESCAPE: {"hyvar": {"loss_share": 0.5}, ESCAPE: {}}},
    },
}


def test_a_strangers_control_characters_are_never_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = strange(tmp_path / "strange.safetensors", **SHOUTING)
    for words in (
        ["policy", "show", str(file)],
        ["policy", "show", str(file), "--json"],
        ["policy", "rule", str(file), "--out", str(tmp_path / "rule")],
        ["eval", str(file), "--link-sets", "constant", "--seeds", "1", "--duration-s", "1", "--out", str(tmp_path)],
    ):
        assert cli.main(words) == 0, words
        out = capsys.readouterr()
        assert not obeyed(out.out) and "owned" in out.out, words
    print(repr(load(file)))
    assert (
        cli.main(["policy", "show", str(strange(tmp_path / f"s{ESCAPE}", rules=[{"label": ESCAPE, "kind": 1}]))]) == 3
    )
    assert cli.main(["policy", "show", ESCAPE]) == 3
    out = capsys.readouterr()
    assert not obeyed(out.out + out.err)


DEEP = "[" * 50 + "]" * 50
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "an empty rule": ({"rules": [{}]}, r"`rules\[0\].kind` is null; expected text"),
    "a rule that is none": ({"rules": [3]}, r"`rules\[0\]` is 3; expected a mapping"),
    "a rule's policy": ({"rules": [{**RULE, "policy": {"constant": "x"}}]}, r"`rules\[0\].policy.constant` is \"x\""),
    "a rule's other policy": (
        {"rules": [{**RULE, "policy": "run me"}]},
        r"`rules\[0\].policy` is \"run me\"; expected",
    ),
    "a rule's score": ({"rules": [{**RULE, "score": True}]}, r"`rules\[0\].score` is true; expected a number"),
    "a rule's parameters": ({"rules": [{**RULE, "params": {"a": []}}]}, r"`rules\[0\].params.a` is \[\]"),
    "rules": ({"rules": {"a": 1}}, "`rules` is {.*; expected a list"),
    "training": ({"training": [1]}, r"`training` is \[1\]; expected a mapping"),
    "versions": ({"versions": {"torch": {}}}, "`versions.torch` is {}; expected text"),
    "sources": ({"trained_on": [{"kind": "trace", "name": 1}]}, r"`trained_on\[0\].name` is 1; expected text"),
    "a source": ({"trained_on": ["trace"]}, r"`trained_on\[0\]` is \"trace\"; expected a mapping"),
    "evaluation": ({"evaluation": 3}, "`evaluation` is 3; expected a mapping"),
    "means": ({"evaluation": {"means": {"a": {"b": 3}}}}, "`evaluation.means.a.b` is 3; expected a mapping"),
    "a mean": ({"evaluation": {"means": {"a": {"b": {"c": {}}}}}}, "`evaluation.means.a.b.c` is {}; expected a number"),
    "a verdict": ({"evaluation": {"verdict": [1]}}, r"`evaluation.verdict` is \[1\]; expected a mapping"),
    "faults": ({"evaluation": {"verdict": {"faults": 5}}}, "`evaluation.verdict.faults` is 5; expected a list"),
    "a gain": ({"evaluation": {"verdict": {"gain": 5}}}, "`evaluation.verdict.gain` is 5; expected a mapping"),
    "a gain's rule": (
        {"evaluation": {"verdict": {"gain": {"rules": [5]}}}},
        r"`evaluation.verdict.gain.rules\[0\]` is 5; expected a mapping",
    ),
    "a best rule's label": (
        {"evaluation": {"verdict": {"gain": {"best": {"score": 1, "gain": 1, "low": 1, "high": 1}}}}},
        "`evaluation.verdict.gain.best.label` is null; expected text",
    ),
    "a best rule": (
        {"evaluation": {"verdict": {"gain": {"best": {"label": "x", "score": 1, "gain": "x"}}}}},
        r"`evaluation.verdict.gain.best.gain` is \"x\"; expected a number",
    ),
    "parameters": ({"params": {"alpha": "x"}}, "params"),
    "no number": ({"evaluation": '{"means": {"a": {"b": {"c": NaN}}}}'}, "`evaluation` has nan; expected finite"),
    "infinity": ({"training": '{"a": 1e999}'}, "`training` has inf; expected finite"),
    "depth": ({"training": f'{{"a": {DEEP}}}'}, "`training` is nested more than 32 deep"),
    "far depth": ({"training": f'{{"a": {"[" * 90_000}'}, "`training` is missing or no JSON"),
    "too many": ({"training": {"a": [0] * 200_000}}, "`training` has more than 100,000 values"),
    "no JSON": ({"rules": "{"}, "`rules` is missing or no JSON"),
    "a long number": ({"training": f'{{"a": {"9" * 9000}}}'}, "`training` is missing or no JSON"),
    "seed": ({"seed": "-1"}, '`seed` is "-1"; expected an integer from 0'),
    "a long seed": ({"seed": "9" * 5000}, r"`seed` is .{0,40}\.\.\.; expected an integer from 0"),
    "tests": ({"tests": "\u0663"}, "`tests` is .*; expected an integer from 0"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_malformed_entry_is_refused_with_its_place(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries, message = HOSTILE[what]
    file = strange(tmp_path / "policy.safetensors", **entries)
    with pytest.raises(PolicyError, match=message) as caught:
        load(file)
    assert len(str(caught.value)) < 500
    code, text = show(file, capsys)
    assert code == 3 and text.startswith(f"error: {file}: ") and "internal" not in text


def test_what_an_entry_may_say_is_shown_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for training in ({"env": 3, "algorithm": "x"}, {}, {"name": 7, "total_decisions": "x", "algorithm": {"name": []}}):
        file = strange(tmp_path / "policy.safetensors", training=training, rules=[], evaluation={}, trained_on=[])
        code, text = show(file, capsys)
        assert code == 0 and "not evaluated" in text and "not searched" in text
        assert card(load(file), "strange").startswith("# strange")
        assert len(record(load(file), 16).rows) == 16


def test_text_is_made_visible() -> None:
    assert visible("a\tb\x1b[0m\u202e\u2028\x85 ×µ日\n") == "a\\tb\\x1b[0m\\u202e\\u2028\\x85 ×µ日\n"


def test_tables_show_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ESCAPE, [f"a{ESCAPE}", "b"], [[ESCAPE, "1"], ["x", "2"]], left=1)
    out = capsys.readouterr().out
    assert not obeyed(out) and out.count("owned") == 3


def test_reprs_are_one_screen(tmp_path: Path) -> None:
    policy = load_policy("hyvar")
    scenario = {
        "duration_s": 1,
        "links": [{"service": {"type": "constant", "rate_mbps": 5}}],
        "flows": [{"scheme": "cubic"}],
    }
    result = ccarena.run(scenario, seeds=2)
    outcome = ccarena.evaluate("cubic", link_sets=["constant"], seeds=1, duration_s=1)
    training = Training(tmp_path, load_config("acct"), True)
    shown = {
        "Artifact": policy,
        "hyvar": policy.interface,
        "Normalisation": policy.interface.normalisation,
        "Graph": policy.graph,
        "Recording": record(policy, 16),
        "Results": result,
        "Run": result[0],
        "Outcome": outcome,
        "Evaluation": outcome.evaluation,
        "Competition": ccarena.compete("cubic", "bbr", links=["5mbps,20ms,1bdp"], duration_s=2, seeds=1),
        "Training": training,
        "Spec": spec_of(load_config("orca")),
        "Verdict": outcome.verdict,
    }
    for name, value in shown.items():
        text = repr(value)
        assert text.startswith(name) and len(text) <= 24 * 80 and text.count("\n") < 24, f"{name}: {len(text)}"
        assert "array(" not in text
    assert isinstance(policy, Artifact) and isinstance(outcome.evaluation, Evaluation)
    many = replace(policy, seed=3, training={"name": ESCAPE * 1000})
    assert len(repr(many)) < 400 and not obeyed(repr(many)) and np.isfinite(policy.act(np.zeros((1, 70)))).all()
