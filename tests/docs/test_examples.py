"""The examples train and are evaluated as documented, in short form, and cost what docs/training.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the examples were not run (run make)")
pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 NOT INSTALLED: the examples were not run")

from ccarena.cli import main
from ccarena.policies.artifact import load

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if (path / f"{path.name}.yaml").is_file())
SHORT = "--env.worlds 4 --eval.link_sets [slides] --eval.seeds 1 --eval.duration_s 1 --baselines [cubic]".split()
SHORT += ["--rules.links", "2"]
MORE = {"astraea": ["--algorithm.learning_starts", "64", "--algorithm.gradient_steps", "1"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_trains_resumes_and_is_evaluated(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, out = str(ROOT / "examples" / name / f"{name}.yaml"), str(tmp_path / "run")
    words = ["train", "--config", record, "--out", out, *SHORT, *MORE.get(name, [])]
    assert main([*words, "--total-decisions", "1200"]) == 0
    assert capsys.readouterr().out.strip().splitlines()[-3].startswith("Did it learn? ")
    first = load(tmp_path / "run" / "policy.safetensors")
    assert first.training["name"] == load(tmp_path / "run" / "policy.safetensors").training["name"]
    assert [each["kind"] for each in first.trained_on] == ["distribution"]
    assert main(["train", "--out", out, "--resume", "--total-decisions", "1500"]) == 0
    assert load(tmp_path / "run" / "policy.safetensors").graph.tensors.keys() == first.graph.tensors.keys()


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def test_the_page_tells_what_they_cost() -> None:
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d+ files?, \d+ lines) \|$", page, re.MULTILINE))
    files = {name: [p for p in (ROOT / "examples" / name).iterdir() if p.is_file()] for name in EXAMPLES}
    lines = {name: sum(len(p.read_text("utf-8").splitlines()) for p in paths) for name, paths in files.items()}
    assert told == {name: f"{counted(len(files[name]), 'file')}, {lines[name]} lines" for name in EXAMPLES}
