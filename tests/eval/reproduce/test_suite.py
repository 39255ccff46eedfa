"""Suites: the shipped ones, errors with their paths, and the expansion into runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccarena.errors import ConfigError
from ccarena.eval.reproduce import runs, suite
from ccarena.eval.reproduce.values import cell_key
from ccarena.scenarios.backends import BACKENDS

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


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Yields the unit that each number's key ends with, such as `s` of `start_s`, and the number."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from leaves(value, str(name).rpartition("_")[2])
    elif isinstance(node, list):
        for value in node:
            yield from leaves(value, key)
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield key, float(node)


def numbers(run: runs.Run) -> set[tuple[str, float]]:
    edges = [run.spec["window"], *run.spec["windows"].values()]
    return {*leaves([run.spec["document"], run.spec["measures"]]), *(("s", float(x)) for pair in edges for x in pair)}


SHORTENED = [
    (name, backend)
    for name in suite.shipped()
    for backend in BACKENDS
    if suite.runs_on(suite.load(name), backend)
    if (found := suite.load(name, backend)).suite.quick.constants and found.suite.scenario
]


@pytest.mark.parametrize(("name", "backend"), SHORTENED)
def test_texts_of_a_quick_run_name_its_own_times(name: str, backend: str) -> None:
    loaded = suite.load(name, backend, quick=True)
    short = runs.expand(loaded, True, 1)
    full = runs.expand(loaded, False, 1, cells={cell_key(run.cell) for run in short})
    assert sum(run.spec["document"]["duration_s"] for run in short) < sum(
        run.spec["document"]["duration_s"] for run in full
    ), "`QUICK: shorter runs` would not be true"
    changed = set().union(*map(numbers, full)) - set().union(*map(numbers, short))
    before, now = loaded.suite.constants, loaded.suite.quick.constants
    changed |= {(key.rpartition("_")[2], before[key]) for key in now if isinstance(before[key], (int, float))}
    changed -= {(key.rpartition("_")[2], value) for key, value in now.items() if isinstance(value, (int, float))}
    file = resources.files("ccarena.eval").joinpath("suites").joinpath(f"{name}.yaml")
    written = yaml.safe_load(file.read_text("utf-8"))
    written |= written.get(backend, {})
    texts = [written["title"], written["summary"], *written.get("conditions", [])]
    texts += [str(claim.get(key, "")) for claim in written["claims"] for key in ("claim", "paper", "differs_in")]
    texts = [re.sub(r"\$\{.*?\}", "…", text) for text in texts]
    allowed = "retransmission timeout of at least 1 s"
    for unit, value in changed:
        if unit in ("s", "ms", "flows"):
            stated = rf"(?<![\d.]){re.escape(f'{value:g}')}(?:(?:,| to| and| or) [\d., andto]+)? {unit}\b"
            wrong = [text for text in texts if re.search(stated, text.replace(allowed, ""))]
            assert not wrong, f"--quick changes {value:g} {unit}: write it as `${{CONSTANT}}` in {wrong}"


def test_texts_take_constants_of_the_run() -> None:
    full, quick = (suite.load("wcc/dynamic", quick=flag) for flag in (False, True))
    for loaded, said in ((full, "after 7 s:"), (quick, "after 1.4 s:")):
        assert any(said in claim.text for claim in loaded.claims)
    assert "0, 5, 10 and 15 s" in " ".join(suite.load("acct/fairness", quick=True).suite.conditions)


@pytest.mark.parametrize("name", suite.shipped())
def test_notes_name_the_claims_that_they_mean_and_not_the_suites_own_command(name: str) -> None:
    for claim in suite.load(name).claims:
        place = re.search(r"claims? (above|below)|next (two )?claim|see above", claim.model.note, re.IGNORECASE)
        assert place is None, f"{claim.text}: notes stand in a list of their own; name the claim"
        assert f"`ccarena reproduce {name}`" not in claim.model.note, claim.text


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
