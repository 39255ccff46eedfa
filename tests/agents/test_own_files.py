"""A run's folder stands on its own, an artifact names nothing of this machine, and a finished run stays finished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: training not tested (run make)")

import ccarena
from ccarena import cli
from ccarena.configs import load_config
from ccarena.errors import CheckpointError, ConfigError
from ccarena.policies.artifact import load
from ccarena.runs.run_folder import BEST, CONFIG, EVALUATION, POLICY

MINE = """
from torch import nn


def calm(report, target_ms=10.0):
    return report.throughput_mbps - report.rtt_ms / target_ms


def worth(run):
    return run.throughput_mbps


class Net(nn.Module):
    def __init__(self, spec, outputs):
        super().__init__()
        self.out = nn.Linear(spec.size, outputs)

    def forward(self, x):
        return self.out(x)
"""
DOCUMENT = {
    "learned": 1,
    "name": "mine",
    "clock": {"kind": "timer", "period_ms": 20},
    "observe": {"history": 2, "signals": ["srtt_ms", "throughput_mbps"]},
    "act": {"kind": "window", "levels": [2, 10, 40]},
    "base": "none",
}
SMALL: dict[str, Any] = {
    "name": "mine",
    "spec": "spec.json",
    "reward": {"name": "mine.py:calm", "target_ms": 20},
    "objective": "mine.py:worth",
    "network": "nets/mine.py:Net",
    "algorithm": {"name": "a3c", "workers": 1, "rollout_length": 4},
    "total_decisions": 64,
    "checkpoint_every_s": 1000,
    "env": {"worlds": 2, "link": {"kinds": {"constant": 1}}},
    "validation": {"kinds": []},
    "rules": {"links": 0},
    "baselines": ["cubic"],
    "eval": {"link_sets": ["constant"], "seeds": 1, "duration_s": 1},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a configuration and the files that it names, of which two have one name."""
    folder = tmp_path / "home"
    (folder / "nets").mkdir(parents=True)
    (folder / "mine.py").write_text(MINE)
    (folder / "nets" / "mine.py").write_text(MINE + "\n# another file\n")
    (folder / "spec.json").write_text(json.dumps(DOCUMENT))
    (folder / "mine.yaml").write_text(json.dumps(SMALL))
    monkeypatch.chdir(folder)
    return folder


def train(out: Path, **changes: Any) -> Path:
    overrides = {"eval.link_sets": [], **changes}
    assert ccarena.train("mine.yaml", overrides, out=out).finished
    return out


def test_a_runs_folder_goes_on_where_nothing_else_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(home / "run")
    kept = json.loads((run / "own" / "files.json").read_text())
    assert sorted(kept) == ["mine-2.py", "mine.py", "spec.json"]
    assert (run / "own" / "mine-2.py").read_bytes() == (home / "nets" / "mine.py").read_bytes()
    assert str(home) not in (run / CONFIG).read_text().replace(f"out: {run}", "")
    moved = tmp_path / "elsewhere" / "moved"
    shutil.copytree(run, moved)
    shutil.rmtree(home)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert ccarena.train(out=moved, overrides={"total_decisions": 128}, resume=True).finished
    config = load_config(moved / CONFIG)
    assert config.reward.name == f"{moved}/own/mine.py:calm" and config.network.name == f"{moved}/own/mine-2.py:Net"
    assert ccarena.evaluate(moved, "cubic", link_sets=["constant"], seeds=1, duration_s=1).summary() is not None
    again = ccarena.train(moved / CONFIG, {"total_decisions": 64}, out=tmp_path / "again")
    assert sorted(path.name for path in (again.folder / "own").iterdir()) == [
        *("files.json", "mine-2.py", "mine.py", "spec.json"),
    ]


def test_modules_that_a_file_imports_from_its_folder_belong_to_it(home: Path, tmp_path: Path) -> None:
    """They are found, copied to the run's folder, and compared; those of another folder are others."""
    from ccarena.configs.userfile import find

    text = MINE.replace("report.rtt_ms / target_ms", "delay.cost(report, target_ms)")
    (home / "mine.py").write_text("import delay\n" + text)
    (home / "delay.py").write_text("def cost(report, target_ms):\n    return report.rtt_ms / target_ms\n")
    (home / "nets" / "delay.py").write_text("VALUE = 2\n")
    (home / "nets" / "other.py").write_text("def f():\n    import delay\n    return delay.VALUE\n")
    assert find("nets/other.py:f", "reward")() == 2
    run = train(home / "run")
    kept = json.loads((run / "own" / "files.json").read_text())
    assert sorted(kept) == ["delay.py", "mine-2.py", "mine.py", "spec.json"]
    assert "delay.py" in load(run / POLICY).training["own_files"]
    (home / "nets" / "delay.py").write_text("VALUE = 3\n")
    assert find("nets/other.py:f", "reward")() == 3, "a changed module is imported again"
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    (moved / "own" / "delay.py").write_text("def cost(report, target_ms):\n    return 0\n")
    with pytest.raises(ConfigError, match=r"own/delay.py: it was changed after the run was started with it"):
        ccarena.train(out=moved, overrides={"total_decisions": 96}, resume=True)
    (home / "nets" / "mine.py").write_text("import delay\n" + MINE)
    with pytest.raises(ConfigError, match=r"nets/mine.py: it imports nets/delay.py, and another file of the config"):
        train(home / "again")


def test_a_changed_file_is_noticed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(home / "run")
    capsys.readouterr()
    (home / "mine.py").write_text(MINE.replace("target_ms=10.0", "target_ms=11.0"))
    more = {"total_decisions": 96}
    assert ccarena.train(out=run, overrides=more, resume=True).finished
    said = capsys.readouterr().err
    assert (
        f"{home / 'mine.py'} has changed since the run began; the run goes on with its copy, {run}/own/mine.py" in said
    )
    assert "nets/mine.py" not in said
    with pytest.raises(CheckpointError, match=r"started with other values of .*own_files\.mine\.py"):
        ccarena.train(out=run, overrides={**more, "reward.name": "mine.py:calm"}, resume=True)
    (home / "mine.py").write_text(MINE)
    assert ccarena.train(out=run, overrides={**more, "reward.name": "mine.py:calm"}, resume=True).finished
    copy = run / "own" / "mine-2.py"
    copy.write_text(copy.read_text() + "\n")
    with pytest.raises(
        ConfigError, match=r"own/mine-2.py: it was changed after the run was started with it .*put the f"
    ):
        ccarena.train(out=run, overrides=more, resume=True)
    copy.unlink()
    with pytest.raises(ConfigError, match=r"own/mine-2.py: No such file"):
        ccarena.train(out=run, overrides=more, resume=True)


@pytest.mark.parametrize("algorithm", [{"name": "a3c", "workers": 1, "rollout_length": 4}, "es"])
def test_the_same_training_gives_the_same_artifact_wherever_it_is(
    home: Path, tmp_path: Path, algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "mine.yaml").write_text(json.dumps({**SMALL, "algorithm": algorithm}))
    runs = [train(home / "run", **{"eval.link_sets": ["constant"]})]
    other = tmp_path / "another" / "home"
    shutil.copytree(home, other, ignore=shutil.ignore_patterns("run"))
    monkeypatch.chdir(other)
    runs.append(train(Path("../deeper/run"), **{"eval.link_sets": ["constant"]}))
    first, second = ((run / POLICY).read_bytes() for run in runs)
    assert first == second
    for part in (str(tmp_path), "/home", "nets/", "deeper"):
        assert part.encode() not in first
    training = load(runs[0] / POLICY).training
    assert training["network"]["name"] == "mine-2.py:Net" and sorted(training["own_files"]) == [
        *("mine-2.py", "mine.py", "spec.json"),
    ]
    if algorithm == "es":  # a key that the default configuration lacks, as it was
        given = {"algorithm.sigma": training["algorithm"]["sigma"]}
        assert ccarena.train(out=runs[0], overrides=given, resume=True).finished


def test_a_finished_run_keeps_its_verdict_and_its_count(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(home / "run", **{"eval.link_sets": ["constant"]})
    files = {name: (run / name).read_bytes() for name in (POLICY, EVALUATION)}
    verdict = load(run / POLICY).evaluation["verdict"]["learned"]["sentence"]
    capsys.readouterr()

    def resume(*words: str) -> str:
        assert cli.main(["train", "--out", str(run), "--resume", *words]) == 0
        return capsys.readouterr().out

    assert verdict in (said := resume()) and "trained and judged before" in said
    assert {name: (run / name).read_bytes() for name in files} == files
    ccarena.evaluate(run, link_sets=["constant"], seeds=1, duration_s=1)
    assert load(run / POLICY).tests == 2
    # Without links to judge it on, and with others.
    resume("--eval.link_sets", "[]")
    kept = load(run / POLICY)
    assert (kept.tests, kept.evaluation["verdict"]["learned"]["sentence"]) == (2, verdict)
    resume("--eval.seeds", "2")
    judged = load(run / POLICY)
    assert judged.tests == 3 and judged.evaluation["meta"]["seeds"] == 2
    # Another network has no verdict of before, but the links were opened.
    resume("--total_decisions", "96", "--eval.link_sets", "[]")
    other = load(run / POLICY)
    assert (other.tests, other.evaluation) == (3, {})
    assert not (run / BEST).exists()


def test_an_evaluation_that_is_broken_off_keeps_the_verdict(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ccarena.eval.heldout import training_run

    run = train(home / "run", **{"eval.link_sets": ["constant"]})
    before = load(run / POLICY)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training_run, "evaluate", killed)
    with pytest.raises(KeyboardInterrupt):
        ccarena.train(out=run, overrides={"eval.seeds": 2}, resume=True)
    after = load(run / POLICY)
    assert after.evaluation == before.evaluation and after.tests == before.tests + 1
