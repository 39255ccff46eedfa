"""Running, killing and resuming suites, through the command line."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ccarena import cli
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.reproduce import costs, runs
from ccarena.runs.journal import Journal

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a browser for each figure takes seconds."""


def keys(folder: Path) -> list[str]:
    return [json.loads(line)["key"] for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]


def test_a_suite_from_the_command_line(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(), tmp_path / "out"
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "2", "--json"]) == 0
    (digest,) = json.loads(capsys.readouterr().out)
    folder = out / "own" / "mine"
    assert digest == json.loads((folder / "claims.json").read_text("utf-8"))
    assert (digest["runs"], digest["seeds"], digest["quick"], digest["failed"]) == (8, 2, False, [])
    assert [claim["state"] for claim in digest["claims"]] == ["holds", "holds"]
    assert "| The link is busy at 8 Mbit/s | 1 |" in (folder / "claims.md").read_text("utf-8")
    lines = (folder / "rows.csv").read_text("utf-8").splitlines()
    assert len(lines) == 1 + 8 * 3 and lines[0].startswith("scheme,rate_mbps,seed,flow,") and "total_mbps" in lines[0]
    scenarios = list(yaml.safe_load_all((folder / "scenarios.yaml").read_text("utf-8")))
    assert len(scenarios) == 4
    _core.validate_scenario(json.dumps(scenarios[0]))
    # Again: nothing runs, and the same comes out.
    before = (folder / "rows.jsonl").read_bytes()
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "1"]) == 0
    shown = capsys.readouterr()
    assert "8 runs are there already" in shown.err and "The link is busy" in shown.out
    assert (folder / "rows.jsonl").read_bytes() == before
    assert json.loads((folder / "claims.json").read_text("utf-8")) == digest


def test_cells_of_the_same_scenario_are_one_run_and_all_judged(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        {"rate_mbps: [8, 16]": "rate_mbps: {low: 8, the same: 8}", "at ${rate_mbps} Mbit/s": "at ${rate_mbps}"}
    )
    assert cli.main(["reproduce", str(path), "--out", str(tmp_path / "out"), "--jobs", "1", "--json"]) == 0
    (digest,) = json.loads(capsys.readouterr().out)
    assert len(keys(tmp_path / "out" / "own" / "mine")) == 4
    low, same = digest["claims"]
    assert low["state"] == same["state"] == "holds" and low["measured"] == same["measured"]


def test_a_quick_run_says_so_and_keeps_the_full_one(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(), tmp_path / "out"
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "1"]) == 0
    full = set(keys(out / "own" / "mine"))
    capsys.readouterr()
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "1", "--quick"]) == 0
    assert "QUICK: few seeds" in capsys.readouterr().out
    folder = out / "own" / "mine"
    assert "**QUICK" in (folder / "claims.md").read_text("utf-8")
    assert json.loads((folder / "claims.json").read_text("utf-8"))["quick"] is True
    assert full < set(keys(folder)) and len(keys(folder)) == 8 + 4


def test_further_seeds_outlive_a_run_with_fewer_and_a_quick_one(write: Write, tmp_path: Path) -> None:
    path, out = write(), tmp_path / "out"
    words = ["reproduce", str(path), "--out", str(out), "--jobs", "1"]
    assert cli.main([*words, "--seeds", "4"]) == 0
    folder = out / "own" / "mine"
    before = set(keys(folder))
    assert len(before) == 4 * 4
    assert cli.main([*words, "--seeds", "1"]) == cli.main([*words, "--quick"]) == 0
    after = set(keys(folder))
    assert before < after and len(after) == 4 * 4 + 4
    # What the suite's file no longer has is dropped.
    write({"rate_mbps: [8, 16]": "rate_mbps: [8]"})
    assert cli.main([*words, "--seeds", "1"]) == 0
    assert len(keys(folder)) == 4 * 2 + 2


def test_claims_that_hold_with_cubic_as_well_are_marked(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a suite of somebody's own CUBIC takes the place of every other scheme."""
    path = write(
        {
            "scheme: [cubic, reno]": "scheme: [reno, vegas]",
            "  links:": "  record: {packets: true}\n  links:",
            "utilisation, along: scheme": "utilisation, where: {scheme: reno}",
            "figure:": "  - claim: Vegas keeps the queue short\n    paper: short\n"
            "    measured: {value: queueing_delay_mean_ms, where: {scheme: vegas, rate_mbps: 16}}\n"
            "    holds: {at_most: 22}\nfigure:",
        }
    )
    out = tmp_path / "out"
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "1", "--discriminate", "--json"]) == 0
    (digest,) = json.loads(capsys.readouterr().out)
    assert [claim["state"] for claim in digest["claims"]] == ["holds"] * 3, digest["claims"]
    assert [claim.get("discriminates") for claim in digest["claims"]] == [False, False, True]
    assert (out / "own" / "mine" / "claims.md").read_text("utf-8").count("does not discriminate") == 2


def test_a_killed_suite_goes_on_where_it_was(write: Write, tmp_path: Path) -> None:
    path = write({"rate_mbps: [8, 16]": "rate_mbps: [50, 60, 70, 80, 90]", "{duration_s: 2}": "{duration_s: 20}"})
    out = tmp_path / "out"
    journal = out / "own" / "mine" / "rows.jsonl"
    words = [sys.executable, "-m", "ccarena.cli", "reproduce", str(path), "--out", str(out), "--jobs", "2"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s and not (journal.is_file() and journal.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = journal.read_bytes()
    assert 3 <= finished.count(b"\n") < 20
    whole = finished[: finished.rfind(b"\n") + 1].splitlines()
    again = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert f"{len(whole)} runs are there already" in again.stderr
    rows = {json.loads(line)["key"]: line for line in journal.read_bytes().splitlines()}
    assert len(rows) == 20
    assert all(rows[json.loads(line)["key"]] == line for line in whole)


@pytest.mark.linux
def test_workers_end_with_a_killed_parent(write: Write, tmp_path: Path) -> None:
    path, out = write({"{duration_s: 2}": "{duration_s: 20000}"}), tmp_path / "out"
    words = [sys.executable, "-m", "ccarena.cli", "reproduce", str(path), "--out", str(out), "--jobs", "2"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def members() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == process.pid and fields[0] != "Z":  # its session
                    found.append(int(entry.name))
        return found

    deadline_s = time.monotonic() + 60
    # The command, the fork server with its resource tracker, and two workers.
    while time.monotonic() < deadline_s and len(members()) < 5:
        time.sleep(0.05)
    assert len(members()) >= 5
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline_s and members():
        time.sleep(0.05)
    assert members() == []


def test_a_failing_run_is_reported_and_the_rest_goes_on(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write({"[cubic, reno]": "[cubic, cubik]"}), tmp_path / "out"
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "2"]) == 1
    shown = capsys.readouterr()
    assert 'FAILED own/mine, scheme cubik, rate_mbps 8, seed 1: flows[0].scheme: unknown scheme "cubik"' in shown.err
    folder = out / "own" / "mine"
    assert len(keys(folder)) == 4
    claims = json.loads((folder / "claims.json").read_text("utf-8"))
    assert len(claims["failed"]) == 4 and {claim["state"] for claim in claims["claims"]} == {"not tested"}
    aside = sorted((folder / "failed").glob("*.yaml"))
    assert len(aside) == 4 and str(aside[0]) in shown.err
    assert yaml.safe_load(aside[0].read_text("utf-8"))["flows"][0]["scheme"] == "cubik"
    # A failed run is tried again: here it still fails.
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "2"]) == 1
    assert "4 runs are there already" in capsys.readouterr().err


def test_a_worker_that_dies_costs_its_own_run_only(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "timed", deadly)
    path, out = write(), tmp_path / "out"
    # A number of seeds that is given stays: the claim that lost a run would ask for more.
    assert cli.main(["reproduce", str(path), "--out", str(out), "--jobs", "2", "--seeds", "2"]) == 1
    assert "FAILED own/mine, scheme reno, rate_mbps 8, seed 1: its process was killed" in capsys.readouterr().err
    assert len(keys(out / "own" / "mine")) == 7


def deadly(run: runs.Run) -> tuple[dict[str, object], float]:
    """Kills its process in one run."""
    if run.cell == {"scheme": "reno", "rate_mbps": "8"} and run.seed == 1:
        os._exit(9)
    return runs.perform(run), 0.0


def test_a_torn_line_is_dropped_and_a_wrong_one_refused(tmp_path: Path) -> None:
    with Journal(tmp_path, "ccarena reproduce") as journal:
        journal.append({"key": "a", "x": 1})
        journal.append({"key": "b", "x": 2})
        with pytest.raises(ConfigError, match="another `ccarena reproduce` writes here"):
            Journal(tmp_path, "ccarena reproduce")
    path = tmp_path / "rows.jsonl"
    path.write_bytes(path.read_bytes() + b'{"key":"c","x"')
    with Journal(tmp_path, "ccarena reproduce") as journal:
        assert list(journal.rows) == ["a", "b"]
        journal.append({"key": "d"})
    assert [json.loads(line)["key"] for line in path.read_text("utf-8").splitlines()] == ["a", "b", "d"]
    path.write_bytes(b'{"key":"a"}\nnonsense\n{"key":"b"}\n')
    with pytest.raises(ConfigError, match=r"rows.jsonl:2: not a row of `ccarena reproduce`"):
        Journal(tmp_path, "ccarena reproduce")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.write, 40

    def short(handle: int, data: bytes) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = real(handle, data[:room])
        room -= taken
        return taken

    with Journal(tmp_path, "ccarena reproduce") as journal:
        journal.append({"key": "a", "x": 1})
        monkeypatch.setattr(os, "write", short)
        with pytest.raises(
            CcarenaError, match="No space left on device; the 1 finished runs are kept: free some space"
        ):
            journal.append({"key": "b", "text": "x" * 100})
    monkeypatch.undo()
    with Journal(tmp_path, "ccarena reproduce") as journal:
        assert list(journal.rows) == ["a"]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_disk_that_is_full_after_the_runs_loses_no_claims(
    more: list[str], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ccarena.core.files.replacing", full)
    assert cli.main(["reproduce", str(write()), "--out", str(tmp_path / "out"), "--jobs", "1", *more]) == 1
    out, err = capsys.readouterr()
    assert "The link is busy" in out and "claims.json: cannot write: No space left on device; give another" in err
    assert "claims.md" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no suite: give PAPER/NAME"),
        (["--all", "wcc"], "--all beside wcc"),
        (["wcc/akc"], 'unknown suite "wcc/akc"; did you mean "wcc/ack"?'),
        (["wcc/ack", "--seeds", "0"], "--seeds 0: expected 1 to 10000"),
        (["--write-docs", "x.md", "--out", "nothing"], "nothing: holds no results"),
    ],
)
def test_wrong_commands(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_list_has_every_suite(capsys: pytest.CaptureFixture[str]) -> None:
    from ccarena.eval.reproduce import suite

    assert cli.main(["reproduce", "--list", "--json"]) == 0
    assert [entry["suite"] for entry in json.loads(capsys.readouterr().out)] == suite.shipped()
    assert cli.main(["reproduce", "--list"]) == 0
    shown = f"This code:\n  computed: {runs.software(computed=True)}\n  simulator: {runs.software()}\n"
    assert shown in capsys.readouterr().out
