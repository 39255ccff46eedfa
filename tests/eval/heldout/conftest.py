"""Evaluations over a stand-in for the simulator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lindley
import pytest

from ccarena.eval.heldout import evaluate
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.scenarios import backends
from ccarena.scenarios.entrants import of_file

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.envs.acct import RECORD, SPEC

LOADS = {"cubic": (0.97, 80), "bbr": (0.9, 20), "reno": (0.95, 40), "acct": (0.5, 0), "fixed": (0.8, 0)}


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """No simulator, any file is a policy (two are here), there is one recorded trace; gives the documents run."""
    documents: list[dict[str, Any]] = []

    def fake(document: dict[str, Any]) -> dict[str, Any]:
        documents.append(document)
        load, standing = LOADS[document["flows"][0]["scheme"]]
        return lindley.simulate(document, load, standing, seed=document["seed"])

    class Trained:
        seed = 7
        versions: dict[str, str] = {}  # noqa: RUF012
        training = RECORD.model_dump(mode="json")
        interface = SPEC.interface
        params: dict[str, float] = {}  # noqa: RUF012
        trained_on: list[dict[str, str]] = []  # noqa: RUF012
        rules: list[dict[str, Any]] = []  # noqa: RUF012
        tests = 0

    monkeypatch.setattr(backends, "simulate", fake)
    monkeypatch.setattr("ccarena.policies.artifact.load", lambda path: Trained)
    monkeypatch.setattr("ccarena.policies.artifact.count_test", lambda path: None)
    for name in ("policy.safetensors", "p"):
        (tmp_path / name).touch()
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "Verizon-LTE-short.down").write_text("".join(f"{ms}\n" for ms in range(2, 9000, 2)))
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return documents


@pytest.fixture
def evaluated(simulated: list[dict[str, Any]], tmp_path: Path) -> Evaluation:
    return evaluate.evaluate([of_file(tmp_path / "policy.safetensors")], seeds=1, duration_s=1.0)
