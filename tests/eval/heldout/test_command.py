"""`ccarena eval`, over a stand-in for the simulator."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from ccarena.commands import eval as command
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import ConfigError, PolicyError
from ccarena.eval.heldout.evaluation import ORACLE
from ccarena.policies.answers import WHY


def run_command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["eval", *words])
    args.words = ["eval", *words]
    return command.run(args)


def test_command_evaluates_a_run(
    simulated: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ccarena.eval.heldout.outcome.count_test", lambda _: None)  # what is simulated is no artifact
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "policy.safetensors").write_bytes(b"")
    assert run_command("mine", "--link-sets", "constant", "--seeds", "1", "--duration-s", "1") == 0
    assert sorted(file.name for file in (folder / "eval").iterdir()) == [
        "evaluation.json",
        "page.html",
        "results.json",
        "rows.csv",
        "summary.csv",
    ]
    *_, learned, rule, why = capsys.readouterr().out.strip().splitlines()
    assert learned.startswith("Did it learn? ") and rule.startswith("Could a simple rule do it? ")
    assert why.endswith(WHY)
    out = tmp_path / "elsewhere"
    words = ("--link-sets", "constant", "--seeds", "1", "--duration-s", "1", "--out", str(out), "--json")
    assert run_command(str(folder), "--suite", *words[1:]) == 0  # the older spelling
    digest = json.loads(capsys.readouterr().out)
    assert digest == json.loads((out / "evaluation.json").read_text())
    assert set(digest["means"]["constant"]) >= {"acct", "cubic", ORACLE}


def test_results_go_beside_ones_own_policy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shipped policy lies in the installed package."""
    monkeypatch.chdir(tmp_path)
    Path("mine").write_bytes(shipped_policies()["acct"].read_bytes())
    assert command._folder(["mine", "cubic"], "sim") == Path("eval")
    assert command._folder(["acct", "cubic"], "sim") == Path("runs", "eval")
    assert command._folder(["acct", "mine"], "kernel") == Path("runs", "eval-kernel")


def test_a_missing_policy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match='unknown "absent": no scheme, run, policy or file'):
        run_command("absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PolicyError, match="no run and no policy is in this folder"):
        run_command("empty")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(PolicyError, match="junk"):
        run_command("junk", "--link-sets", "constant")
