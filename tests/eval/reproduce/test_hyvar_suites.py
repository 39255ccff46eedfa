"""Hyvar's suites with untrained policies: all of them run, each learned scheme with the policy trained for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccarena import cli, traces
from ccarena.errors import PolicyError, TraceError
from ccarena.eval.reproduce import policy, runs, suite
from tests.policies.made import continuous

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")

LEARNED = ("hyvar", "orca", "aurora")


def untrained(scheme: str, folder: Path, **params: float) -> Path:
    """A policy of random weights."""
    file = folder / f"{scheme}.safetensors"
    continuous(scheme, 0.5, params=params, training={"name": "tiny"}).save(file)
    return file


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [str(untrained(scheme, tmp_path)) for scheme in LEARNED]


def given(files: list[str]) -> list[str]:
    return [word for file in files for word in ("--policy", file)]


def test_every_suite_runs_and_measures_each_claim(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Starting a browser for each figure takes seconds.
    words = ["reproduce", "hyvar", "--quick", "--seeds", "1", "--jobs", "2", "--out", str(tmp_path / "out")]
    assert cli.main([*words, *given(files)]) == 0
    folders = sorted((tmp_path / "out").glob("hyvar/*"))
    assert [f"hyvar/{folder.name}" for folder in folders] == suite.find(["hyvar"]) and len(folders) == 7
    for folder in folders:
        digest = json.loads((folder / "claims.json").read_text("utf-8"))
        assert digest["runs"] > 0 and not digest["failed"]
        assert [claim for claim in digest["claims"] if claim["state"] == "not tested"] == []
        wanted = suite.load(f"hyvar/{folder.name}").suite.policies
        assert [about["scheme"] for about in digest["policies"]] == wanted
        shown = (folder / "claims.md").read_text("utf-8")
        assert all(f"Policy of {scheme}: configuration tiny" in shown for scheme in wanted)


def test_each_scheme_has_its_policy_with_its_trainings_parameters(tmp_path: Path, files: list[str]) -> None:
    own = untrained("orca", tmp_path, mtp_ms=30, max_action=0.5)
    chosen = policy.choose(LEARNED, policy.given([files[0], str(own), files[2]]))
    expanded = runs.expand(suite.load("hyvar/mtp-motivation"), True, 1, {"orca": chosen["orca"]})
    for run in expanded:
        (flow,) = run.spec["document"]["flows"]
        assert flow["policy"] == str(own.resolve())
        assert flow["params"] == {"mtp_ms": float(run.cell["mtp_ms"]), "max_action": 0.5}, "the flow's own come first"
    by_scheme = {run.cell["scheme"]: run for run in runs.expand(suite.load("hyvar/wired-2"), True, 1, chosen)}
    for scheme, run in by_scheme.items():
        (flow,) = run.spec["document"]["flows"]
        assert flow.get("policy") == (str(chosen[scheme].file) if scheme in LEARNED else None)


def test_without_a_policy_its_training_is_named(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "hyvar/mtp-insensitivity", "--policy", files[0]]) == PolicyError.exit_code
    shown = capsys.readouterr().err
    assert "no trained policy of orca: no runs/orca/policy.safetensors" in shown
    assert "`ccarena train --config orca`" in shown
    assert cli.main(["reproduce", "hyvar/mtp-insensitivity", *given([files[0], files[0]])]) == PolicyError.exit_code
    assert "a policy of hyvar, as" in capsys.readouterr().err


def test_cellular_links_were_not_trained_on() -> None:
    from ccarena.traces.held_out import HELD_OUT

    used = {name for n in (1, 2) for name in suite.load(f"hyvar/cellular-{n}").suite.sweep["trace"]}
    assert used == set(HELD_OUT)


def test_made_up_capacity_stands_in_for_missing_traces_and_says_so(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def nothing(name: str) -> Path:
        raise TraceError(f"{name}: not here")

    monkeypatch.setattr(traces, "find", nothing)
    chosen = policy.choose(LEARNED, policy.given(files))
    expanded = runs.expand(suite.load("hyvar/cellular-2"), True, 1, chosen)
    services = [run.spec["document"]["links"][0]["service"] for run in expanded]
    assert {service["type"] for service in services} == {"cellular"}
    assert {tuple(run.spec["missing"]) for run in expanded} == {(run.cell["trace"],) for run in expanded}
    words = ["reproduce", "hyvar/cellular-2", "--quick", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert cli.main([*words, *given(files)]) == 0
    shown = (tmp_path / "out/hyvar/cellular-2/claims.md").read_text("utf-8")
    assert "Made-up capacity in the place of recorded traces that are not here: ATT-LTE-driving.up, " in shown
