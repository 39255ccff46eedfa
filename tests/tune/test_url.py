"""A sweep that is kept at a URL: what is sent there, what others send, and how it goes on."""

from __future__ import annotations

import csv
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ccarena import cli
from ccarena.errors import CheckpointError, ConfigError, TrainingError
from ccarena.extras import how_to_add
from ccarena.runs import remote_folder
from ccarena.runs.remote_folder import RemoteFolder, opened, remote_of
from ccarena.tune.sweep import SWEEP
from ccarena.tune.trial import Trials
from tests.tune.test_tune import NO_TUNE, SMALL, space

fsspec = pytest.importorskip("fsspec", reason="FSSPEC IS NOT INSTALLED: sweeps on other file systems are not tested")
pytest.importorskip("ray.tune", exc_type=ImportError, reason=NO_TUNE)

from ccarena.tune.state import Sender, pack, unpack  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {"RENEW_S": 0.1, "LEASE_S": 0.5, "_SETTLE_S": 0.05}.items():
        monkeypatch.setattr(remote_folder, name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}/sweep"


def test_what_trials_send_is_neither_fetched_nor_overwritten(url: str, tmp_path: Path) -> None:
    run = RemoteFolder(f"{url}/trials/a/seed-1", tmp_path / "node")
    with opened(url, False, SWEEP) as here:
        for name in ("plan.json", "ray/tuner.pkl", "trials/a/seed-1/validation.jsonl"):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_text("the driver's")
        run.here.mkdir()
        (run.here / "validation.jsonl").write_text("the trial's")
        run.push()
    assert run.read("validation.jsonl") == b"the trial's"
    assert not RemoteFolder(url, tmp_path).has("ray/tuner.pkl"), "it is packed"
    with opened(url, True, SWEEP) as again:
        assert [path.name for path in again.iterdir() if not path.name.startswith(".")] == ["plan.json"]


def test_validations_are_read_where_trials_send_them(url: str, tmp_path: Path) -> None:
    trials = Trials(url)
    assert trials.validations("a", [1, 2]) == []
    for seed, scores in ((1, [0.0, 1.0, 2.0]), (2, [0.0, 3.0])):
        run = RemoteFolder(trials.run("a", seed), tmp_path / str(seed))
        run.here.mkdir()
        rows = [{"decisions": 100 * number, "score": score} for number, score in enumerate(scores)]
        (run.here / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        run.push()
    assert [[row["score"] for row in rows] for rows in trials.validations("a", [1, 2])] == [[1.0, 3.0]]


def test_a_sweep_goes_on_from_what_was_packed(tmp_path: Path) -> None:
    staging, stored, target = tmp_path / "staging", tmp_path / "stored", tmp_path / "ray.zip"
    for path, text in (
        (staging / "experiment_state-1.json", "new"),
        (stored / "experiment_state-1.json", "half"),
        (stored / "tuner.pkl", "tuner"),
        (stored / "a_00000" / "result.json", "of a trial"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pack((staging, stored), target)
    previous = tmp_path / "ray.previous.zip"
    previous.write_bytes(target.read_bytes())
    # Damaged on its way, the last one gives way to the one before.
    for data in (target.read_bytes(), target.read_bytes()[:-30], b""):
        target.write_bytes(data)
        (stored / "left").write_text("of a killed sweep")
        unpack((target, previous), stored)
        found = {path.name: path.read_text() for path in stored.iterdir()}
        assert found == {"experiment_state-1.json": "new", "tuner.pkl": "tuner"}
    previous.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"ray\.zip: damaged, and so is the one before it"):
        unpack((target, previous), stored)
    unpack((tmp_path / "none",), stored)
    assert not stored.exists(), "a sweep that was killed before its first checkpoint"


def sends(here: Path, text: str) -> Any:
    """A step of a sweep in the folder `here`, by what Ray Tune has pickled."""
    staging = here.parent / "staging"
    staging.mkdir(exist_ok=True)
    (staging / "experiment_state-1.json").write_text(text)
    folder = remote_of(here)
    assert folder is not None
    sender = pickle.loads(pickle.dumps(Sender(folder.url, "ray")))
    sender.on_step_end(1, [SimpleNamespace(storage=SimpleNamespace(experiment_driver_staging_path=str(staging)))])


def test_a_store_that_takes_nothing_ends_no_sweep(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def gone(*_: object) -> None:
        raise OSError("the store is gone")

    with opened(url, False, SWEEP) as here:
        folder = remote_of(here)
        assert folder is not None
        (here / "plan.json").write_text("{}")
        sends(here, "first")
        first = folder.read("ray.zip")
        with monkeypatch.context() as patch:
            patch.setattr(folder._files, "pipe_file", gone)
            sends(here, "second")
            assert "the store is gone" in caplog.text and "the sweep goes on" in caplog.text
    assert folder.read("ray.zip") != first and folder.read("ray.previous.zip") == first


def test_a_sweep_whose_lease_is_taken_ends(url: str) -> None:
    theirs = json.dumps({"id": "theirs", "who": "process 1 on another", "renewed": time.time()}).encode()
    with pytest.raises(TrainingError, match=r"process 1 on another has gone on with this sweep, because this sweep"):
        with opened(url, False, SWEEP) as here:
            folder = remote_of(here)
            assert folder is not None
            folder._files.pipe_file(folder._path("lease.json"), theirs)
            sends(here, "mine")
    assert not folder.has("ray.zip") and folder.read("lease.json") == theirs


def test_what_is_at_the_url_decides(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", "--out", url, "--resume"]) == 2
    assert f"--resume: {url} holds no sweep (no plan.json); leave --resume out" in capsys.readouterr().err
    with opened(url, False, SWEEP) as here:
        (here / "plan.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"holds a sweep already; go on with it .ccarena tune --out {url} --resume"):
        with opened(url, False, SWEEP):
            pass
    assert cli.main(["tune", "--out", url, "--resume"]) == 2
    assert "plan.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        (
            "nonsense://sweep",
            2,
            lambda: "nonsense://sweep: Protocol not known: nonsense; expected a folder, or a URL",
        ),
        ("s3://bucket/sweep", 4, lambda: how_to_add("remote")),
    ],
)
def test_a_url_that_cannot_be_used_is_said_before_anything_is_written(
    place: str,
    code: int,
    message: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.setattr("ccarena.commands.tune.prepare", None)
    monkeypatch.chdir(tmp_path)
    words = ["tune", "--out", place, "--space", str(space(tmp_path, "algorithm.gamma: [0.5, 0.9]")), *SMALL]
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(words) == code
    assert message() in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


DEADLINE_S = 900
"""Longest time of one sweep, for machines that other work makes slow."""


class Sweep:
    """`ccarena tune` in a process of its own, on a machine that nobody else works on; killed after the block."""

    def __init__(self, url: str, cache: Path, *words: str) -> None:
        environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
        command = [sys.executable, "-m", "ccarena.cli", "tune", "--out", url, *words]
        self._said = cache.with_suffix(".said")
        with open(self._said, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, stderr=file, env=environment)
        self._deadline_s = time.monotonic() + DEADLINE_S

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text("utf-8")

    def wait(self, condition: Callable[[], Any]) -> None:
        while not condition():
            assert self.process.poll() is None, f"it ended with {self.process.poll()}: {self.said}"
            assert time.monotonic() < self._deadline_s, f"still at it after {DEADLINE_S} s: {self.said}"
            time.sleep(0.2)

    def ended(self) -> tuple[int, str]:
        try:
            return self.process.wait(self._deadline_s - time.monotonic()), self.said
        except subprocess.TimeoutExpired:
            pytest.fail(f"still at it after {DEADLINE_S} s: {self.said}")


def trials_over(store: Path) -> list[str]:
    """Returns the trials that the sweep's checkpoint calls finished."""
    try:
        with zipfile.ZipFile(store / "ray.zip") as archive:
            (state,) = [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("experiment_")]
    except (OSError, zipfile.BadZipFile):  # not there yet, or being written
        return []
    trials = [json.loads(about) for about, _ in state["trial_data"]]
    return [trial["trial_id"] for trial in trials if trial["status"] == "TERMINATED"]


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT])
def test_another_machine_goes_on_with_a_sweep(ended_by: signal.Signals, tmp_path: Path) -> None:
    store = tmp_path / "store"
    url = f"file://{store}"
    words = ["--space", str(space(tmp_path, "algorithm.gamma: {grid: [0.5, 0.6, 0.7, 0.8, 0.9]}")), "--samples", "1"]
    words += ["--seeds", "1", "--validations", "2", *SMALL]
    with Sweep(url, tmp_path / "one", *words) as first:
        first.wait(lambda: trials_over(store))
        first.process.send_signal(ended_by)
        code, said = first.ended()
    go_on = f"ccarena tune --out {url} --resume"
    if ended_by == signal.SIGINT:
        assert code == cli.INTERRUPTED and "Traceback" not in said
        assert said.splitlines()[-1].startswith("interrupted, ") and said.endswith(f"; go on with: {go_on}\n")
    else:
        assert f"sweep in {url}; if it ends early, go on with: {go_on}\n" in said
    runs = [store / "trials" / trial / "seed-1" for trial in trials_over(store)]
    over = {path: path.stat().st_mtime_ns for run in runs for path in run.glob("*.jsonl")}
    assert 0 < len(runs) < 5 and over
    with Sweep(url, tmp_path / "another", "--resume") as second:
        code, said = second.ended()
    assert code == 0, said
    assert {path: path.stat().st_mtime_ns for path in over} == over, "whole trials are kept"
    folders = {path.name for path in (store / "trials").iterdir()}
    rows = (store / "trials.csv").read_text("utf-8").splitlines()[1:]
    assert {row.split(",")[0] for row in rows} == folders and len(folders) == 5
    best = json.loads((store / "best.json").read_text("utf-8"))
    assert best["runs"] == [f"{url}/trials/{best['trial']}/seed-1"] and (store / "page.html").is_file()
    assert not list(store.rglob("lease*")) and not (store / "ray").exists()


REWARD = """
from shares import of_capacity


def plain(report, privileged):
    return of_capacity(report.throughput_mbps, privileged)


def doubled(report, privileged):
    return 2 * plain(report, privileged)
"""
SHARES = """
def of_capacity(rate_mbps, privileged):
    return rate_mbps / privileged.capacity_mbps.clip(0.01)
"""


@pytest.mark.slow
def test_files_that_a_space_names_go_on_with_a_killed_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own files are the sweep's from its start, however they change; a recording stays where it is."""
    mine, store = tmp_path / "mine", tmp_path / "store"
    mine.mkdir()
    monkeypatch.chdir(mine)
    Path("own.py").write_text(REWARD)
    Path("shares.py").write_text(SHARES)
    for name in ("one", "two"):
        Path(f"{name}.trace").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    text = "reward: {grid: [{name: own.py:plain}, {name: own.py:doubled}]}\n"
    text += "env.link.traces: {grid: [[one.trace], [two.trace]]}"
    words = ["--space", str(space(mine, text)), "--samples", "1", "--seeds", "1", "--validations", "2", *SMALL]
    words += ["--env.link.kinds", '{"trace": 1}', "--validation.kinds", '["constant"]', "--scheduler", "none"]
    url = f"file://{store}"
    with Sweep(url, tmp_path / "first", *words) as first:
        first.wait(lambda: trials_over(store))
    assert 0 < len(trials_over(store)) < 4
    Path("own.py").write_text("def plain(report):\n    raise ValueError('changed')")
    Path("shares.py").unlink()
    monkeypatch.chdir(tmp_path)
    with Sweep(url, tmp_path / "second", "--resume") as second:
        code, said = second.ended()
    assert code == 0, said
    rows = list(csv.DictReader((store / "trials.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 4 and {row["state"] for row in rows} == {"whole"}
    for run in (store / "trials").glob("*/seed-1"):
        kept = {path.name: path.read_text("utf-8") for path in (run / "own").glob("*.py")}
        assert kept == {"own.py": REWARD, "shares.py": SHARES}
