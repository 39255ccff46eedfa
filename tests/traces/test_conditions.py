"""Conditions traces: files, scenarios that replay them, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: conditions traces not tested (run make)")

import ccarena
from ccarena.cli import main
from ccarena.errors import ScenarioError, TraceError
from ccarena.eval.reproduce import runs
from ccarena.scenarios.scenario import resolve
from ccarena.traces import conditions

ALL = "time_ms,rate_mbps,delay_ms,loss\n0,10,20,0\n1000,5,40.5,0.1\n2000,8,15,0\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "drive.csv"
    path.write_text(ALL)
    return path


def of(link: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"duration_s": 8, "links": [link], "flows": [{"scheme": "cubic"}], **fields}


def test_a_trace_reads_back_as_it_was_written(trace: Path, tmp_path: Path) -> None:
    read = conditions.load(trace)
    assert (read.period_ms, read.least_delay_ms) == (3000, 15)
    assert read.columns["delay_ms"].tolist() == [[0, 20], [1000, 40.5], [2000, 15]]
    again = conditions.load(conditions.write(tmp_path / "b.csv", [0, 1000, 2000], delay_ms=[20, 40.5, 15]))
    assert set(again.columns) == {"delay_ms"} and np.array_equal(again.columns["delay_ms"], read.columns["delay_ms"])
    with pytest.raises(TraceError, match=r"c\.csv:3: time 0\.000 ms comes after"):
        conditions.write(tmp_path / "c.csv", [0, 0], loss=[0, 1])
    assert not list(tmp_path.glob("c.csv*"))


@given(
    st.lists(
        st.tuples(st.floats(0.001, 1e4), st.floats(0, 1e4), st.floats(0, 1e5), st.floats(0, 1)), min_size=1, max_size=20
    )
)
def test_whatever_is_in_bounds_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    gaps, rates, delays, losses = (np.array(column) for column in zip(*rows, strict=True))
    times = np.round(np.cumsum(gaps) - gaps[0], 3)
    times = (
        np.where(np.diff(times, prepend=-1) > 0, times, np.arange(times.size) * 10.0) if gaps.min() < 0.01 else times
    )
    if (np.diff(times) < 0.001).any() or rates.max() < 1e-5:
        return
    path = tmp_path_factory.mktemp("conditions") / "a.csv"
    read = conditions.load(conditions.write(path, times, rate_mbps=rates, delay_ms=delays, loss=losses))
    for name, given_ in (("rate_mbps", rates), ("delay_ms", delays), ("loss", losses)):
        at, values = read.columns[name].T
        held = values[np.searchsorted(at, times + 1e-6, "right") - 1]
        assert np.allclose(held, given_, rtol=1e-8, atol=1e-5)


def test_parquet_is_the_same_trace(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow", reason="PYARROW NOT INSTALLED: Parquet not tested")
    from pyarrow import parquet

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    columns = {"time_ms": [0, 1000, 2000], "rate_mbps": [10.0, 5, 8], "delay_ms": [20, 40.5, 15], "loss": [0, 0.1, 0]}
    parquet.write_table(pa.table(columns), tmp_path / "drive.parquet")
    frames = [
        ccarena.run(of({"conditions": {"file": str(file)}})).flows() for file in (trace, tmp_path / "drive.parquet")
    ]
    assert frames[0].equals(frames[1])
    parquet.write_table(pa.table({**columns, "loss": [0, 2.0, 0]}), tmp_path / "bad.parquet")
    with pytest.raises(TraceError, match=r"bad\.parquet:3: loss is \"2\"; expected a number from 0 to 1"):
        conditions.load(tmp_path / "bad.parquet")
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"no\.parquet: .*expected columns of numbers"):
        conditions.load(tmp_path / "no.parquet")


def test_the_least_delay_is_the_base_of_rtts(trace: Path) -> None:
    run = ccarena.run(of({"conditions": {"file": str(trace)}})).runs[0]
    link, flow = run.document["links"][0], run.document["flows"][0]
    assert link["service"] == {"type": "conditions"} and link["delay_ms"] == 15
    assert flow["base_rtt_ms"] == 30
    rtts = ccarena.run(of({"conditions": {"file": str(trace)}})).flows()
    assert rtts["rtt_min_ms"].item() >= 30
    again = resolve(dict(run.document))  # a finished run's document is a scenario
    assert ccarena.run(again).flows()["goodput_mbps"].item() == rtts["goodput_mbps"].item()


def test_a_random_start_depends_on_the_seed_and_links_share_it(trace: Path) -> None:
    def reached(seed: int, start: Any) -> float:
        link = {"conditions": {"file": str(trace), "offset_ms": start}}
        return float(ccarena.run(of(link, duration_s=1, seed=seed)).flows()["throughput_mbps"].item())

    assert reached(1, "random") == reached(1, "random")
    assert len({reached(seed, "random") for seed in range(4)}) == 4
    assert len({reached(seed, 2500) for seed in range(4)}) <= 2  # the loss of its end alone
    assert reached(1, 1500) == pytest.approx(reached(1, 4500))


def test_the_path_is_found_beside_the_scenario(trace: Path) -> None:
    scenario = trace.parent / "one.yaml"
    scenario.write_text("links: [{conditions: {file: drive.csv}}]\nduration_s: 2\nflows: [{scheme: cubic}]\n")
    assert ccarena.run(scenario).flows()["throughput_mbps"].item() > 5
    with pytest.raises(TraceError, match="no trace"):
        ccarena.run(of({"conditions": {"file": "absent.csv"}}))


@pytest.mark.parametrize(
    ("columns", "link", "message"),
    [
        (None, {"service": {"type": "constant", "rate_mbps": 5}}, "the trace has rates; expected a link without `serv"),
        (None, {"loss": 0.1}, "the trace has losses; expected a link without `loss`"),
        (None, {"delay_ms": 5}, r"the trace has delays, the least of 15 ms"),
        (None, {"delay_ms": {"steps": [{"at_s": 0, "delay_ms": 15}]}}, "the trace has delays"),
        ("time_ms,delay_ms\n0,1\n", {}, r"links\[0\]\.service: .*no column rate_mbps; expected one, or `service`"),
    ],
)
def test_what_the_trace_gives_is_not_given_twice(
    trace: Path, columns: str | None, link: dict[str, Any], message: str
) -> None:
    trace.write_text(columns or ALL)
    with pytest.raises(ScenarioError, match=message):
        ccarena.run(of({"conditions": {"file": str(trace)}, **link}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the conditions trace is empty"),
        (
            "time_ms,delay_ms\n0,1\n10,2\n5,1\n",
            r"drive\.csv:4: time 5\.000 ms comes after 10\.000 ms; expected times that",
        ),
        ("time_ms,delay_ms\n0,-1\n", r'drive\.csv:2: delay_ms is "-1"; expected a number from 0 to 100000'),
        ("time_ms,loss\n0,1.5\n", r'drive\.csv:2: loss is "1\.5"; expected a number from 0 to 1'),
        ("time_ms,loss\n0,nan\n", r'drive\.csv:2: loss is "nan"'),
        ("delay_ms\n1\n", r"drive\.csv:1: there is no column time_ms"),
    ],
)
def test_faulty_traces_are_refused_with_line_and_expectation(trace: Path, text: str, message: str) -> None:
    trace.write_text(text)
    with pytest.raises(TraceError, match=message):
        ccarena.run(of({"conditions": {"file": str(trace)}, "service": {"type": "constant", "rate_mbps": 5}}))


TABLE = "t,rate,ping,lost\n0,10,40,0\n1,12,-,1.5\n2,0,60,100\n4,8,50,0\n"


def converted(tmp_path: Path, *options: str) -> str:
    (tmp_path / "table.csv").write_text(TABLE)
    out = tmp_path / "out.csv"
    assert main(["traces", "convert", str(tmp_path / "table.csv"), "--out", str(out), *options]) == 0
    return out.read_text()


def test_a_table_becomes_a_conditions_trace_of_its_length(tmp_path: Path) -> None:
    every = ["--rate", "rate", "--rtt", "ping", "--loss", "lost", "--loss-unit", "percent", "--time", "t", "--fill"]
    assert converted(tmp_path, *every) == (
        "time_ms,rate_mbps,delay_ms,loss\n0,10,20,0\n1000,12,20,0.015\n2000,0,30,1\n4000,8,25,0\n4500,8,25,0\n"
    )
    alone = converted(tmp_path, "--delay", "ping", "--delay-unit", "us", "--time", "t", "--drop", "ping=-")
    assert alone == "time_ms,delay_ms\n0,0.04\n1000,0.06\n3000,0.05\n3500,0.05\n"
    assert converted(tmp_path, "--rate", "rate").startswith("time_ms,rate_mbps\n0,10\n1000,12\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--delay", "ping"], r'table\.csv:3: column "ping" is "-"; expected a number, 0 or more .*--fill takes'),
        (["--loss", "lost"], r"table\.csv:3: loss is 1\.5; expected 0 to 1 .*--loss-unit"),
        (["--delay", "ping", "--fill", "--delay-unit", "s"], None),
        (["--delay", "rate", "--delay-unit", "s", "--keep", "rate=12", "--out", "x.trace"], "a trace has no delays"),
        (["--delay", "absent"], r'there is no column "absent"; columns here: t, rate, ping, lost'),
    ],
)
def test_tables_with_faults_are_refused_by_line(
    options: list[str], message: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    out = ["--out", str(tmp_path / "x.csv")]
    code = main(["traces", "convert", str(tmp_path / "table.csv"), *out, *options])
    assert (code == 0) is (message is None)
    assert re.search(message or "", capsys.readouterr().err)


def test_folders_of_leocc_and_cellreplay_become_conditions_traces(tmp_path: Path) -> None:
    leo, cell = tmp_path / "3", tmp_path / "driving"
    leo.mkdir()
    (leo / "bw_3.txt").write_text("0\n0\n5\n12\n12\n12\n20\n")
    (leo / "delay_3.txt").write_text("24\n18\n")
    assert main(["traces", "convert", str(leo)]) == 0
    assert (tmp_path / "3.conditions.csv").read_text() == "time_ms,rate_mbps,delay_ms\n0,3.6,24\n10,4.8,18\n"
    cell.mkdir()
    for way in ("down", "up"):
        (cell / f"{way}-pdo").write_text("1\n2\n1000\n1500\n")
        (cell / f"{way}-delay-light-pdo").write_text("5 20 1 2 3\n505 30 1\n1505 25 2\n")
    assert main(["traces", "convert", str(cell), "--out", str(tmp_path / "c.csv")]) == 0
    expected = "time_ms,rate_mbps,delay_ms\n0,0.048,20\n500,0.012,30\n1500,0.048,25\n"
    assert (tmp_path / "c.up.csv").read_text() == (tmp_path / "c.down.csv").read_text() == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("delay_3.txt", "24\n-1\n", r'delay_3\.txt:2: "-1" in column 0; expected a whole number of milliseconds'),
        ("delay_3.txt", "", r"delay_3\.txt: the file is empty; expected a delay"),
        ("delay_3.txt", "200000\n", r"delay_ms is 200000; expected 0 to 100000"),
        ("bw_3.txt", "5\n4\n", r"bw_3\.txt:2: 4 ms comes after 5 ms"),
        ("down-delay-light-pdo", "5 20\n5 30\n", r"down-delay-light-pdo:2: time 5 ms comes after 5 ms"),
        ("down-delay-light-pdo", "5\n", r'down-delay-light-pdo:1: "" in column 1; expected a whole number'),
        ("other", "5\n", r"a folder without recordings; expected bw_N\.txt and delay_N\.txt"),
    ],
)
def test_faulty_folders_are_refused(
    name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"3": {"bw_3.txt": "1\n20\n", "delay_3.txt": "3\n"}, "d": {"down-pdo": "1\n", "down-delay-light-pdo": ""}}
    kind = "3" if name in files["3"] else "d"
    for file, sound in {**(files[kind] if name != "other" else {}), name: text}.items():
        (tmp_path / file).write_text(sound)
    assert main(["traces", "convert", str(tmp_path)]) == 3
    assert re.search(message, capsys.readouterr().err)


def test_commands_describe_conditions_traces(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces", "stats", "--json", str(trace)]) == 0
    (about,) = json.loads(capsys.readouterr().out).values()
    assert about["duration_s"] == 3 and about["loss"]["greatest"] == 0.1
    assert about["delay_ms"]["mean"] == pytest.approx((20 + 40.5 + 15) / 3) and about["delay_ms"]["p50"] == 20
    assert main(["traces", "plot", str(trace), "--out", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text("utf-8")
    assert all(column in page for column in conditions.VALUES) and "40.5" in page
    assert main(["traces", "validate", str(trace)]) == 0
    trace.write_text("time_ms,delay_ms\n0,-1\n")
    assert main(["traces", "validate", str(trace)]) == 3
    assert main(["traces", "stats", str(trace), "lte-bus"]) == 2
    assert "expected one kind at a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    "entrant", ["acct", "hyvar", "aurora=0", "orca=0", "abc", "xcp", "bbr", "copa", "vivace", "ledbat"]
)
def test_every_kind_of_controller_answers_finitely_where_the_delay_varies(entrant: str, trace: Path) -> None:
    router = entrant if entrant in ("abc", "xcp") else entrant == "acct"
    link = {"conditions": {"file": str(trace)}, "router": router}
    rows = ccarena.run({"duration_s": 6, "links": [link], "flows": [{"scheme": entrant}]}).flows()
    for figure in ("throughput_mbps", "rtt_mean_ms", "rtt_min_ms", "signal_delay_p95_ms"):
        assert np.isfinite(rows[figure].item()), figure
    assert rows["throughput_mbps"].item() > 0.05 and rows["rtt_min_ms"].item() >= 30


def test_a_run_is_the_same_wherever_its_trace_lies_and_another_with_another(trace: Path, tmp_path: Path) -> None:
    def key(file: Path) -> str:
        document = {"links": [{"conditions": {"file": str(file)}, "service": {"type": "conditions"}}], "flows": []}
        return runs._key({"document": document})

    (tmp_path / "copy.csv").write_text(ALL)
    (tmp_path / "other.csv").write_text(ALL.replace("40.5", "41"))
    assert key(trace) == key(tmp_path / "copy.csv") != key(tmp_path / "other.csv")
    (link,) = runs.located({"links": [{"conditions": {"file": str(trace)}}]})["links"]
    assert link["delay_ms"] == 15 and link["service"] == {"type": "conditions"}
