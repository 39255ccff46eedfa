"""`ccarena reproduce --backend kernel`: a suite over Linux TCP, and what is left of it when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccarena import cli
from tests.privileged.test_foreign import entrant

pytestmark = pytest.mark.usefixtures("kernel")

SUITE = """
title: Two weights
paper: none
summary: A test's suite.
scenario:
  duration_s: ${duration_s}
  links: [{service: {type: constant, rate_mbps: 10000}, queue: {type: droptail, bytes: 40000}, delay_ms: 0.01}]
  flows:
    - for_each: {weight: [1, 2]}
      name: w${weight}
      scheme: wcc-ai
      weight: ${weight}
constants: {duration_s: 1}
claims:
  - claim: The link is busy
    paper: 1
    measured: {value: utilisation}
    holds: {at_least: 0.8}
kernel:
  conditions: [20 Mbit/s instead of 10 Gbit/s and times 500 times as long]
  constants: {duration_s: DURATION}
  seeds: {full: 2}
  scenario:
    links: [{service: {type: constant, rate_mbps: 20}, queue: {type: droptail, bytes: 40000}, delay_ms: 5}]
"""


def test_a_suite_runs_on_linux_tcp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    file.write_text(SUITE.replace("DURATION", "3"), "utf-8")
    words = ["reproduce", str(file), "--backend", "kernel", "--out", str(out)]
    assert cli.main(words) == 0
    folder = out / "own" / "mine" / "kernel"
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["seed"] for row in rows] == [1, 2]
    for row in rows:
        assert row["machine"]["kernel"] == os.uname().release
        # In ms; how late it was is the machine's matter.
        assert 0 < row["machine"]["lateness_p99_ms"] < 50
        assert 16 < row["run"]["total_mbps"] <= 20.1
    digest = json.loads((folder / "claims.json").read_text("utf-8"))
    assert [claim["state"] for claim in digest["claims"]] == ["holds"] and not digest["failed"]
    capsys.readouterr()
    assert cli.main(words) == 0
    assert "2 runs are there already" in capsys.readouterr().err


def test_a_killed_suite_leaves_no_run_behind(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SUITE.replace("DURATION", "600"), "utf-8")
    words = [sys.executable, "-m", "ccarena.cli", "reproduce", str(file), "--backend", "kernel", "--out", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def runs() -> list[str]:
        return [name for name in members(process.pid) if name.startswith("ccarena-kernel")]

    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s and not runs():
        time.sleep(0.05)
    assert runs()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline_s and members(process.pid):
        time.sleep(0.05)
    assert members(process.pid) == []


def members(session: int) -> list[str]:
    """Names of the live processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = tail.split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(head.partition("(")[2])
    return found


def test_a_suite_runs_programs_of_others_and_says_which_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entrant(tmp_path, sender="python3 -c 'raise SystemExit(3)'")
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    text = SUITE.replace("DURATION", "1").replace("seeds: {full: 2}", "seeds: {full: 1}")
    for mark, flow in (
        ("measured: {value: utilisation}", "measured: {value: utilisation, pool: [who]}"),
        ("scheme: wcc-ai\n      weight: ${weight}", "scheme: ${who}"),
        ("{weight: [1, 2]}", "{weight: [1]}"),
    ):
        text = text.replace(mark, flow)
    file.write_text(text.replace("claims:", 'sweep: {who: ["kernel:reno", theirs.yaml]}\nclaims:', 1), "utf-8")
    assert cli.main(["reproduce", str(file), "--backend", "kernel", "--out", str(out)]) != 0
    folder = out / "own" / "mine" / "kernel"
    (row,) = [json.loads(line) for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]
    assert row["cell"]["who"] == "kernel:reno" and 10 < row["run"]["total_mbps"] <= 20.1
    (failed,) = (folder / "failed").glob("*.yaml")
    assert "(theirs): the sender ended with exit status 3" in failed.read_text("utf-8")
    assert "the sender ended with exit status 3" in "".join(capsys.readouterr())
