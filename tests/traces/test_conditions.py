"""Conditions traces: files, scenarios that replay them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: conditions traces not tested (run make)")

import ccarena
from ccarena.errors import ScenarioError, TraceError
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
