"""All suites with few seeds from a folder without runs: what anybody can repeat from a clone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.eval.reproduce import policy, runs, suite
from ccarena.eval.reproduce.checks import Claim
from ccarena.scenarios.sweep import label_of

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")


def needed() -> list[str]:
    """The learned schemes whose policies suites need."""
    return sorted({scheme for name in suite.shipped() for scheme in suite.load(name).suite.policies})


def test_the_policies_that_suites_need_are_shipped() -> None:
    assert needed() == ["acct", "aurora", "hyvar", "orca"]
    missing = [scheme for scheme in needed() if not set(policy.configurations(scheme)) & set(policy.shipped_of(scheme))]
    assert missing == []


def leaves_out(claim: Claim, cells: Sequence[Mapping[str, str]]) -> bool:
    """Returns whether a claim needs a label that none of the cells of a quick run has."""
    wanted = [{axis: [label] for axis, label in claim.chosen.items()}]
    todo: list[Any] = [claim.model.model_dump()]
    while todo:
        node = todo.pop()
        todo += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        if isinstance(node, dict) and isinstance(node.get("where"), dict):
            where = node["where"].items()
            wanted.append({axis: given if isinstance(given, list) else [given] for axis, given in where})
    present = {(axis, label) for cell in cells for axis, label in cell.items()}
    return any((axis, label_of(label)) not in present for each in wanted for axis in each for label in each[axis])


@pytest.mark.slow
def test_every_suite_runs_from_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "--all", "--quick"]) == 0
    assert "LEFT OUT" not in capsys.readouterr().err
    out = tmp_path / "runs/reproduce-quick"
    for name in suite.shipped():
        loaded = suite.load(name)
        cells = [run.cell for run in runs.expand(loaded, quick=True)]
        digest = json.loads((out / name / "claims.json").read_text("utf-8"))
        assert digest["runs"] > 0 and not digest["failed"], name
        assert all("shipped" in about for about in digest["policies"]), name
        # In the seconds of a quick run nobody settles beside a full queue.
        left = {claim.text for claim in loaded.claims if leaves_out(claim, cells)}
        untested = {claim["claim"] for claim in digest["claims"] if claim["state"] == "not tested"}
        assert {text for text in untested - left if not text.startswith("Duration beside ")} == set(), name
