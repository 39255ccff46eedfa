"""ACCT's suites: all of them run with the shipped policy, and say which one it was."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.errors import PolicyError
from ccarena.eval.reproduce import policy, runs, suite

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")
pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: no policy to run ACCT's suites with (ccarena[train])")
from tests.policies.acct import network, to_artifact

TRAINING = {
    "name": "tiny",
    "env": {"link": {"kinds": {"constant": 1.0, "random_steps": 2.0, "cellular": 0.0}}},
}


def untrained(file: Path, seed: int = 3) -> Path:
    """A policy of random weights."""
    import torch

    file.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    replace(to_artifact(network(2, 8), TRAINING, seed), params={"slack": 0.5}).save(file)
    return file


def keys(file: Path) -> list[str]:
    return [run.key for run in runs.expand(suite.load("acct/friendliness"), True, 1, policy.given([str(file)]))]


def test_every_suite_runs_and_measures_each_claim_from_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert cli.main(["reproduce", "acct", "--quick", "--seeds", "1", "--jobs", "2", "--out", str(out)]) == 0
    folders = sorted(out.glob("acct/*"))
    assert [f"acct/{folder.name}" for folder in folders] == suite.find(["acct"]) and len(folders) >= 6
    for folder in folders:
        digest = json.loads((folder / "claims.json").read_text("utf-8"))
        assert digest["runs"] > 0 and not digest["failed"]
        assert [claim for claim in digest["claims"] if claim["state"] == "not tested"] == []
        (about,) = digest["policies"]
        assert (about["scheme"], about["shipped"], about["config"]) == ("acct", "acct-wired", "acct-wired")
        assert set(about["links"]) == {"constant", "random_steps"}, "as in the paper, wired links alone"
        shown = (folder / "claims.md").read_text("utf-8")
        assert f"`acct-wired`, shipped, configuration acct-wired, seed {about['seed']}, trained on" in shown
        assert f"SHA-256 {about['sha256'][:12]}." in shown
        name = f"acct/{folder.name}"
        assert f"`ccarena reproduce {name} --quick --seeds 1`, software {digest['software']}." in shown


def test_a_row_depends_on_the_policy_and_not_on_its_place(tmp_path: Path) -> None:
    file, other = untrained(tmp_path / "policy.safetensors"), untrained(tmp_path / "other.safetensors", seed=4)
    copy = tmp_path / "elsewhere.safetensors"
    shutil.copy(file, copy)
    assert keys(file) == keys(copy)
    assert not set(keys(file)) & set(keys(other))


def test_learned_flows_get_the_file_and_what_it_was_trained_with(tmp_path: Path) -> None:
    file = untrained(tmp_path / "policy.safetensors")
    run = runs.expand(suite.load("acct/friendliness"), True, 1, policy.given([str(file)]))[0]
    learned, rival = run.spec["document"]["flows"]
    assert learned["policy"] == str(file.resolve()) and learned["params"] == {"slack": 0.5}
    assert rival.get("policy") is None and "params" not in rival


def test_without_a_policy_the_training_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(policy, "shipped_of", lambda scheme: {})
    assert cli.main(["reproduce", "acct/friendliness"]) == PolicyError.exit_code
    shown = capsys.readouterr().err
    assert "no trained policy" in shown and "ccarena train --config acct-wired" in shown and "--policy FILE" in shown
    assert not list(tmp_path.iterdir())


def test_all_suites_run_without_a_policy_but_those_that_need_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(policy, "shipped_of", lambda scheme: {})
    monkeypatch.setattr(suite, "shipped", lambda *_: ["acct/friendliness", "hercules/objectives"])
    assert cli.main(["reproduce", "--all", "--quick"]) == 0
    shown = capsys.readouterr().err
    assert "LEFT OUT acct/friendliness: no trained policy" in shown and "ccarena train --config acct-wired" in shown
    assert [path.name for path in (tmp_path / "runs/reproduce-quick").iterdir() if path.is_dir()] == ["hercules"]
    assert cli.main(["reproduce", "--all", "--quick", "--policy", "nothing"]) == PolicyError.exit_code


def test_the_shipped_one_is_taken_or_the_newest_run_and_wired_ones_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    untrained(tmp_path / "runs/acct-wired/policy.safetensors")
    ours = policy.shipped_of("acct")
    assert policy.choose(["acct"])["acct"].file == ours["acct-wired"].resolve()
    monkeypatch.setattr(policy, "shipped_of", lambda scheme: {"acct": ours["acct"]})
    assert policy.choose(["acct"])["acct"].file == ours["acct"].resolve()
    monkeypatch.setattr(policy, "shipped_of", lambda scheme: {})
    shutil.rmtree(tmp_path / "runs")
    default = untrained(tmp_path / "runs/acct/policy.safetensors")
    assert policy.choose(["acct"])["acct"].file == default.resolve()
    untrained(tmp_path / "runs/acct-wired/policy.safetensors")
    newest = untrained(tmp_path / "runs/acct-wired-2/policy.safetensors")
    assert policy.choose(["acct"])["acct"].file == newest.resolve()


def test_suites_say_whether_they_need_one() -> None:
    assert all(suite.load(name).suite.policies == ["acct"] for name in suite.find(["acct"]))
    assert suite.load("wcc/ack").suite.policies == []
