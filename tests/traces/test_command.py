"""`ccarena traces`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ccarena.cli import main
from ccarena.traces import files


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace of 12 Mbit/s for 10 s, the only one that is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path / "found"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return files.save(tmp_path / "found" / "steady", np.arange(1, 10_001))


def test_list_shows_traces_and_sets(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "list"]) == 0
    text = capsys.readouterr().out
    assert "steady" in text
    assert "mahimahi" in text
    assert main(["traces", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["traces"] == [{"name": "steady", "path": str(trace)}]


def test_stats_by_name_and_by_path(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "stats", "steady", str(trace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steady"] == found[str(trace)]
    assert found["steady"]["mean_mbps"] == 12
    assert main(["traces", "stats"]) == 0
    assert "12.00" in capsys.readouterr().out


def test_validate_names_the_fault_and_exits_with_3(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad").write_text("3\n2\n")
    assert main(["traces", "validate", "steady", "bad"]) == 3
    said = capsys.readouterr()
    assert said.out == "steady: valid, 10000 opportunities in 10000 ms\n"
    assert said.err.startswith("error: bad:2: 2 ms comes after 3 ms")


def test_an_unknown_trace_is_one_line_on_stderr(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "stats", "stedy"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert 'did you mean "steady"?' in said.err


def test_convert_writes_a_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("table.tsv").write_text("t\tstate\tkbps\n0\tD\t12000\n1\tI\t500\n2\tD\t24000\n")
    options = ["--rate", "kbps", "--unit", "kbps", "--delimiter", "tab", "--keep", "state=D"]
    assert main(["traces", "convert", "table.tsv", *options]) == 0
    assert files.load("table.trace").size == 3000
    assert "wrote table.trace: 3000 opportunities, 2.0 s, 18.00 Mbit/s" in capsys.readouterr().out
    assert main(["traces", "convert", "table.tsv", "--format", "nyu"]) == 2
    assert main(["traces", "convert", "table.tsv", "--keep", "state"]) == 2


def test_plot_writes_one_page_that_needs_no_network(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "plot", "steady", "--out", "new/plot.html"]) == 0
    page = Path("new/plot.html").read_text(encoding="utf-8")
    assert "12.00 Mbit/s on average" in page and "ccarena traces plot steady --out new/plot.html" in page
    assert main(["traces", "plot", "steady", "--out", "plot.txt"]) == 2
    assert main(["traces", "plot", "steady", "--window-ms", "0"]) == 2
    assert main(["traces", "plot", "steady", "--window-ms", "20000"]) == 3
    assert "less than a window" in capsys.readouterr().err


def test_fetch_copies_from_a_folder(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "fetch", "nyc-lte", "--from", str(tmp_path / "found"), "--to", str(tmp_path / "to")]) == 5
    assert "15 of the 15 files" in capsys.readouterr().err
    assert main(["traces", "fetch", "nyc"]) == 2
