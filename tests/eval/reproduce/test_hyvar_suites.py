"""Hyvar's suites with untrained policies: all of them run, each learned scheme with the policy trained for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccarena import cli, traces
from ccarena.errors import PolicyError, TraceError
from ccarena.eval.reproduce import policy, runs, suite
from ccarena.traces.manifest import manifest
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
    expanded = runs.expand(suite.load("hyvar/mtp-motivation"), True, 1, chosen)
    for run in expanded:
        (flow,) = run.spec["document"]["flows"]
        if run.cell["mtp_ms"] == "aurora":
            assert flow["policy"] == str(chosen["aurora"].file)
            continue
        assert flow["policy"] == str(own.resolve())
        assert flow["params"] == {"mtp_ms": float(run.cell["mtp_ms"]), "max_action": 0.5}, "the flow's own come first"
    by_scheme = {run.cell["scheme"]: run for run in runs.expand(suite.load("hyvar/wired-2"), True, 1, chosen)}
    for scheme, run in by_scheme.items():
        (flow,) = run.spec["document"]["flows"]
        control = {"constant": -0.2} if scheme.startswith("hyvar 2^-0.1") else None
        assert flow.get("policy") == (str(chosen[scheme].file) if scheme in LEARNED else control)


def test_a_control_is_asked_as_the_policy_is(tmp_path: Path) -> None:
    trained = policy.given([str(untrained("hyvar", tmp_path, alpha=1.07, mtp_min_ms=10, max_action=0.5))])
    expanded = runs.expand(suite.load("hyvar/wired-2"), True, 1, trained)
    flows = {run.cell["scheme"]: run.spec["document"]["flows"][0] for run in expanded}
    assert flows["hyvar 2^-0.1"]["params"] == {"alpha": 1.07, "mtp_min_ms": 10, "max_action": 1}
    assert flows["hyvar 2^-0.1, α 1.25"]["params"] == {"alpha": 1.25, "mtp_min_ms": 10, "max_action": 1}
    others = runs.expand(suite.load("hyvar/wired-2"), True, 1, {})
    keys = {run.cell["scheme"]: run.key for run in expanded}
    assert {run.cell["scheme"] for run in others if run.key != keys[run.cell["scheme"]]} == {
        *("hyvar", "hyvar 2^-0.1", "hyvar 2^-0.1, α 1.25")
    }


def test_without_a_policy_its_training_is_named(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(policy, "shipped_of", lambda scheme: {})
    assert cli.main(["reproduce", "hyvar/mtp-insensitivity", "--policy", files[0]]) == PolicyError.exit_code
    shown = capsys.readouterr().err
    assert "no trained policy of orca: no runs/orca/policy.safetensors" in shown
    assert "`ccarena train --config orca`" in shown
    assert cli.main(["reproduce", "hyvar/mtp-insensitivity", *given([files[0], files[0]])]) == PolicyError.exit_code
    shown = capsys.readouterr().err
    assert "a policy of hyvar, as" in shown and "and the same; leave one out" in shown


def test_cellular_links_were_not_trained_on() -> None:
    from ccarena.traces.held_out import HELD_OUT

    used = {name for n in (1, 2) for name in suite.load(f"hyvar/cellular-{n}").suite.sweep["trace"]}
    assert used == set(HELD_OUT)


@pytest.mark.parametrize("name", ["hyvar/ablation", "hyvar/cellular-1", "hyvar/cellular-2"])
def test_every_seed_starts_a_recording_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same stretch again is the same run, which is no further evidence."""
    monkeypatch.setattr(traces, "find", Path)
    lengths_ms = {entry.name: entry.duration_ms for entry in manifest()}
    loaded = suite.load(name)
    most = loaded.suite.seeds.full if loaded.suite.aside else loaded.suite.seeds.most
    starts: dict[str, set[int]] = {}
    for run in runs.expand(loaded, seeds=most):
        service = run.spec["document"]["links"][0]["service"]
        if service["type"] == "trace":
            starts.setdefault(service["file"], set()).add(service["offset_ms"] % lengths_ms[service["file"]])
    assert starts and {len(places) for places in starts.values()} == {most}


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


def test_policies_of_one_scheme_stand_side_by_side_over_traces_that_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, mean in (("one", 0.5), ("two", 0.1)):
        (tmp_path / name).mkdir()
        continuous("hyvar", mean, training={"name": "tiny"}).save(tmp_path / name / "policy.safetensors")
    others = [str(untrained(scheme, tmp_path)) for scheme in ("orca", "aurora")]
    (tmp_path / "mine.trace").write_text("".join(f"{ms}\n" for ms in range(1, 2001)))
    out = tmp_path / "out"
    words = ["reproduce", "hyvar/cellular-1", "--quick", "--seeds", "1", "--jobs", "1", "--out", str(out)]
    words += given([str(tmp_path / "one"), str(tmp_path / "two"), *others])
    words += ["--traces", str(tmp_path / "mine.trace")]
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert "policies side by side" in shown
    digests = [
        json.loads((out / f"policies-{name}/hyvar/cellular-1/claims.json").read_text()) for name in ("one", "two")
    ]
    measured = [[claim["measured"] for claim in digest["claims"]] for digest in digests]
    assert measured[0] != measured[1] and all(all(figures) for figures in measured)
    assert all("over traces that were named (mine.trace)" in digest["conditions"][-1] for digest in digests)
    index = (out / "index.html").read_text()
    assert 'href="policies-one/hyvar/cellular-1/page.html"' in index and "Policies side by side" in index


def test_what_traces_cannot_do_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.trace").write_text("1\n2\n")
    mine = str(tmp_path / "mine.trace")
    assert cli.main(["reproduce", "wcc/buffer", "--traces", mine]) == 2
    assert "--traces has no effect: the suite has no recorded links" in capsys.readouterr().err
    assert cli.main(["reproduce", "pilot/cellular", "--traces", f"{mine},{mine}"]) == 2
    assert "acknowledgements" in capsys.readouterr().err
    assert cli.main(["reproduce", "pilot/cellular", "--traces", mine, "--write-docs", str(tmp_path / "x.md")]) == 2
    assert "--traces beside --write-docs" in capsys.readouterr().err
