"""Suites: the shipped ones, errors with their paths, and the expansion into runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ccarena.errors import ConfigError
from ccarena.eval.reproduce import runs, suite

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not tested (run make)")

Write = Callable[..., Path]


@pytest.mark.parametrize("name", suite.shipped())
def test_every_cell_of_a_shipped_suite_is_a_valid_scenario(name: str) -> None:
    loaded = suite.load(name)
    assert loaded.suite.conditions or loaded.suite.compute, "say how the conditions differ from the paper's"
    for quick in (False, True):
        for run in runs.expand(loaded, quick, seeds=1):
            if "document" in run.spec:
                _core.validate_scenario(json.dumps(runs.located(run.spec["document"])))


def test_suites_are_found_by_name_paper_and_path() -> None:
    assert "hercules/objectives" in suite.find(["hercules"])
    assert suite.find(["wcc/ack", "wcc/ack", "mine.yaml"]) == ["wcc/ack", "mine.yaml"]
    with pytest.raises(ConfigError, match='unknown suite "hercules/objective"; did you mean "hercules/objectives"'):
        suite.find(["hercules/objective"])
    with pytest.raises(ConfigError, match='did you mean "wcc/ack"'):
        suite.find(["ack"])
    with pytest.raises(ConfigError, match=r"nothere.yaml: cannot read the suite"):
        suite.load("nothere.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[cubic, reno]", "[cubic, [reno]]", "sweep.scheme[1]: ['reno']: expected a number or a word"),
        ("[cubic, reno]", "[cubic, cubic]", "sweep.scheme[1]: cubic is there twice"),
        ("[8, 16]", "[]", "sweep.rate_mbps: has no values"),
        ("title:", "titel:", 'titel: unknown key; did you mean "title"?'),
        ("seeds: {full: 2", "seeds: {full: 0", "seeds.full: input should be greater than or equal to 1, got 0"),
        ("{value: utilisation,", "{value: utilization,", 'claims[0].measured.value: unknown measure "utilization"'),
        ("along: scheme}", "along: schem}", 'claims[0].measured.along: unknown axis "schem"; did you mean "scheme"?'),
        (", along: scheme}", "}", "claims[0].measured: the axis scheme is not chosen"),
        (
            "{value: utilisation,",
            "{value: utilisation, flow: w1,",
            "claims[0].measured.value: utilisation is the run's",
        ),
        ("{within: 40 %}", "{wihin: 40 %}", "claims[0].holds: expected one of within, within_absolute"),
        ("{within: 40 %}", "{within: many}", "claims[0].holds.within: 'many': expected a share"),
        ("{within: 40 %}", "{order: up}", "claims[0].holds.order: 'up': expected increasing or decreasing"),
        ("{rate_mbps: all}", "{rate_mbps: [9]}", 'claims[0].for_each.rate_mbps: unknown value "9"'),
        ("paper: 1", "paper: [1, 2, 3]", "claims[0].paper: expected 2 numbers, one for each of `for_each`"),
        ("x: rate_mbps", "x: rate", 'figure.x: unknown axis "rate"; did you mean "rate_mbps"?'),
        ("by: scheme, ", "", "figure.y: the axis scheme is not chosen"),
        ("${duration_s}", "${duration}", 'scenario.duration_s: ${duration}: unknown name "duration"'),
        ("scenario:", "compute: objectives\nscenario:", "expected one of `scenario` and `compute`"),
        ("conditions: [short]", "window: {from_s: 5}", "window: from 5 s to 2 s: expected a part of the run's 2 s"),
        ("conditions: [short]", "skip: [{scheme: bbr}]", 'skip[0].scheme: unknown value "bbr"'),
        ("conditions: [short]", "overrides: [{where: {x: 1}, scenario: {}}]", 'overrides[0].where: unknown axis "x"'),
        (
            "conditions: [short]",
            "measures: {m: {kind: convergenc}}",
            'measures.m.kind: unknown "convergenc"; did you mean "convergence"?',
        ),
        ("constants: {duration_s: 1}", "constants: {durations: 1}", 'quick.constants: unknown constant "durations"'),
    ],
)
def test_errors_name_file_and_path(write: Write, old: str, new: str, message: str) -> None:
    path = write({old: new})
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        runs.expand(suite.load(str(path)))
    assert str(caught.value).startswith(f"{path}: ")


def test_the_sweep_is_expanded(write: Write) -> None:
    loaded = suite.load(str(write()))
    expanded = runs.expand(loaded)
    assert [(r.cell["scheme"], r.cell["rate_mbps"], r.seed) for r in expanded] == [
        (scheme, rate, seed) for scheme in ("cubic", "reno") for rate in ("8", "16") for seed in (1, 2)
    ]
    document = expanded[2].spec["document"]
    assert document["links"][0]["service"]["rate_mbps"] == 16 and document["seed"] == 1
    assert [flow["name"] for flow in document["flows"]] == ["w1", "w2"]
    # Every scheme starts at the same random times, every seed at others.
    starts = {(r.cell["scheme"], r.seed): [f["start_s"] for f in r.spec["document"]["flows"]] for r in expanded}
    assert starts["cubic", 1] == starts["reno", 1] != starts["cubic", 2]
    quick = runs.expand(loaded, quick=True)
    assert len(quick) == 4 and {run.spec["document"]["duration_s"] for run in quick} == {1}
    assert len(runs.expand(loaded, seeds=5)) == 20


def test_skipped_cells_and_overrides(write: Write) -> None:
    skip = "skip: [{scheme: reno, rate_mbps: [8]}]\noverrides: [{where: {scheme: reno}, scenario: {duration_s: 3}}]"
    expanded = runs.expand(suite.load(str(write({"conditions: [short]": skip}))), seeds=1)
    assert [(r.cell["scheme"], r.cell["rate_mbps"]) for r in expanded] == [
        ("cubic", "8"),
        ("cubic", "16"),
        ("reno", "16"),
    ]
    assert [r.spec["document"]["duration_s"] for r in expanded] == [2, 2, 3]


def test_a_key_is_made_of_all_that_a_row_depends_on(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(**changes: tuple[str, str]) -> list[str]:
        path = write(dict(changes.values()))
        return [run.key for run in runs.expand(suite.load(str(path)))]

    first = keys()
    assert len(set(first)) == len(first)
    assert keys() == first
    assert keys(title=("title: Two", "title: 2")) == first
    assert keys(claim=("within: 40 %", "within: 1 %")) == first
    assert not set(keys(queue=("packets: 50", "packets: 51"))) & set(first)
    assert not set(keys(window=("conditions: [short]", "window: {from_s: 1}"))) & set(first)
    monkeypatch.setattr(runs, "software", lambda *_: "another")
    assert not set(keys()) & set(first)
