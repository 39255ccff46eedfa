"""`ccarena traces`, as a user calls it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ccarena.cli import main
from ccarena.errors import TraceError
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


def test_generate_writes_a_conditions_trace_of_a_model(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "generate", "starlink", "--duration-s", "20", "--seed", "3"]) == 0
    assert capsys.readouterr().out.startswith("wrote starlink-3.csv: 200 rows, 20.0 s, ")
    first = Path("starlink-3.csv").read_bytes()
    assert main(["traces", "generate", "starlink", "--duration-s", "20", "--seed", "3", "--out", "again.csv"]) == 0
    assert Path("again.csv").read_bytes() == first
    assert main(["traces", "generate", "starlnk"]) == 2
    assert 'unknown cellular preset or link model "starlnk"; did you mean "starlink"?' in capsys.readouterr().err


def test_compare_prints_a_model_beside_a_table(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"2023-04-12 10:{k // 60:02}:{k % 60:02} CDT,{100 + k % 7}" for k in range(200)]
    later = [line.replace("04-12", "04-13") for line in lines[:150]]
    Path("table.csv").write_text("\n".join(["time,throughput", *lines, *later]) + "\n")
    assert main(["traces", "compare", "5g-midband", "table.csv"]) == 0
    text = capsys.readouterr().out
    assert "5g-midband and 2 sessions, 350 s" in text and "autocorrelation 15 s" in text
    assert "figures of the tables lie between the 5th and 95th percentile of 40 draws" in text
    assert main(["traces", "compare", "5g-midband", "table.csv", "--sessions", "even", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sessions"] == 1 and found["duration_s"] == 150
    assert next(f for f in found["figures"] if f["name"] == "mean rate")["table"] == pytest.approx(102.94, abs=0.1)


def test_convert_writes_a_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("table.tsv").write_text("t\tstate\tkbps\n0\tD\t12000\n1\tI\t500\n2\tD\t24000\n")
    options = ["--rate", "kbps", "--unit", "kbps", "--delimiter", "tab", "--keep", "state=D"]
    assert main(["traces", "convert", "table.tsv", *options]) == 0
    assert files.load("table.trace").size == 3000
    assert "wrote table.trace: 3000 opportunities, 2.0 s, 18.00 Mbit/s" in capsys.readouterr().out
    assert main(["traces", "convert", "table.tsv", "--format", "nyu"]) == 2
    assert main(["traces", "convert", "table.tsv", "--keep", "state"]) == 2


def test_convert_keeps_what_all_conditions_keep(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("net,run,rate_mbps\n5G,1,12\n5G,2,24\nLTE,1,36\nLTE,2,48\n")
    assert main(["traces", "convert", "t.csv", "--keep", "net=LTE", "--keep", "run=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_mbps"] == 48
    assert main(["traces", "convert", "t.csv", "--keep", "net=LTE", "--drop", "run=2", "--drop", "run<2"]) == 3
    assert "no rows with net=LTE and not run=2 and not run<2" in capsys.readouterr().err


def test_times_in_place_of_a_formats_intervals(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.log").write_text("1289406399 1 59.8 10.7 215500 1000\n1289406401 2 59.8 10.7 3000 1000\n")
    for options, duration in (([], 2.0), (["--time", "0"], 4.0), (["--interval-s", "3"], 6.0)):
        assert main(["traces", "convert", "t.log", "--format", "hsdpa", *options, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["duration_s"] == duration


def test_a_formats_condition_stays_unless_its_column_is_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("00", "D", "A", 12000), ("01", "I", "A", 24000), ("02", "D", "B", 36000)]
    text = "".join(f"2020.01.01_10.00.{second},{state},{cell},{kbps}\n" for second, state, cell, kbps in rows)
    Path("t.csv").write_text("Timestamp,State,CellID,DL_bitrate\n" + text)
    for keep, mbps in ((["CellID=A"], 12), (["State=I"], 24), (["State!=X", "CellID=A"], 18)):
        words = [word for one in keep for word in ("--keep", one)]
        assert main(["traces", "convert", "t.csv", *words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["mean_mbps"] == mbps


def test_convert_writes_a_trace_per_session(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("when,rate_mbps\n10:00:00,12\n10:00:01,12\n09:00:00,24\n09:00:01,24\n08:00:00,0\n")
    assert main(["traces", "convert", "t.csv", "--time", "when"]) == 3
    assert "t.csv:4: time goes back by 3601 s" in capsys.readouterr().err
    assert main(["traces", "convert", "t.csv", "--time", "when", "--gaps", "split"]) == 0
    assert [files.load(f"t-{number}.trace").size for number in (1, 2)] == [2000, 4000]
    assert "left out the session from line 6: it carries less than one packet" in capsys.readouterr().out
    assert not Path("t-3.trace").exists()


def test_convert_writes_rates_that_a_scenario_takes(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: a service was not run")
    Path("t.csv").write_text("rate_mbps\n2500\n2500\n900\n0\n")
    assert main(["traces", "convert", "t.csv", "--out", "t.json"]) == 0
    assert "wrote t.json: 3 rates, 4.0 s, 1475.00 Mbit/s (read as mbps-csv)" in capsys.readouterr().out
    service = json.loads(Path("t.json").read_text())
    assert service["steps"][1:] == [{"at_s": 2, "rate_mbps": 900}, {"at_s": 3, "rate_mbps": 0}]
    _core.validate_scenario(json.dumps({"links": [{"service": service}], "flows": [{"scheme": "reno"}]}))


def test_sigterm_ends_a_conversion_and_leaves_nothing(trace: Path) -> None:
    Path("t.csv").write_text("rate_mbps\n" + "9000\n" * 1000)
    words = [sys.executable, "-m", "ccarena.cli", "traces", "convert", "t.csv"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as running:
        while not list(Path().glob("t.trace.*")):
            assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 128 + signal.SIGTERM
    assert [path.name for path in Path().glob("t*")] == ["t.csv"]


@pytest.mark.parametrize(
    "text", ["t,rate_mbps\n0,1\n", "t\trate\r\n", "délai\n", "0.0 1.5\n", '{"start": 1}\n', "# x\n"]
)
@pytest.mark.parametrize("action", ["validate", "stats", "plot"])
def test_a_table_is_told_from_a_trace(trace: Path, text: str, action: str, capsys) -> None:
    Path("t.csv").write_text(text, encoding="utf-8")
    assert main(["traces", action, "t.csv"]) == 3
    said = capsys.readouterr().err
    assert "t.csv:1: " in said and "this is a table or a log" in said and "`ccarena traces convert t.csv`" in said


def test_a_scenario_says_of_a_table_what_makes_a_trace_of_it(trace: Path) -> None:
    _core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: a table was not given as a trace")
    Path("t.csv").write_text("t,rate_mbps\n0,1\n")
    link = {"service": {"type": "trace", "file": "t.csv"}}
    with pytest.raises(TraceError, match=r"t.csv:1: .* this is a table or a log, .* `ccarena traces convert`"):
        _core.simulate(json.dumps({"links": [link], "flows": [{"scheme": "reno"}]}))


def test_a_trace_of_any_length_costs_little(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bin for each 100 ms of 49 days takes a gigabyte."""
    Path("long.trace").write_text(f"{2**32 - 1}\n")
    tracemalloc.start()
    try:
        for words in (["stats", "long.trace"], ["validate", "long.trace"], ["plot", "long.trace"]):
            assert main(["traces", *words]) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    assert main(["traces", "plot", "long.trace", "--window-ms", "100"]) == 2
    assert "expected at least 42950 for a trace of" in capsys.readouterr().err


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
