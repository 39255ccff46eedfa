"""`ccarena fidelity` on a made-up reference: its rules of counting, its errors, its output."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: fidelity was not tested (run make)")

from ccarena import cli, traces
from ccarena.core.plain_data import plain
from ccarena.errors import ConfigError, ScenarioError, TraceError
from ccarena.eval.fidelity import cases as recorded_cases
from ccarena.eval.fidelity import page, recorded
from ccarena.scenarios import backends
from ccarena.scenarios.backends import ATTEMPTS

CASE: dict[str, Any] = {
    "up": "up",
    "down": "down",
    "owd_ms": 10,
    "queue": "droptail",
    "queue_args": "packets=20",
    "cc": "reno",
    "seconds": 2,
    "result": {"first_data_ms": 100, "throughput_mbps": 11.9, "qdelay_ms": {"mean": 9.0, "p95": 19}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With traces of 12 and 96 Mbit/s."""
    monkeypatch.delenv("CCARENA_TRACE_DIR", raising=False)
    traces.save(tmp_path / "up", np.arange(1, 1001))
    traces.save(tmp_path / "down", np.repeat(np.arange(1, 126), 8))
    return tmp_path


def write(folder: Path, *cases: dict[str, Any]) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps(cases))
    return path


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(CASE), **fields}


def run(throughput: float, mean: float, p95: float) -> dict[str, Any]:
    return {
        "throughput_mbps": throughput,
        "qdelay_ms": {"mean": mean, "p95": p95},
        "drops": 0,
        "per_second": np.zeros((2, 2)),
        "goodput_mbps": [throughput],
    }


def compared(folder: Path, runs: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    [case] = recorded_cases.load(write(folder, changed(**fields)))
    return recorded.compare(case, runs)


def test_a_median_within_the_kernels_range_has_no_error(folder: Path) -> None:
    repeats = [{"throughput_mbps": 11.5, "qdelay_ms": {"mean": 12.0, "p95": 20}}]
    case = compared(folder, [run(11.0, 8, 19), run(11.6, 10, 19), run(11.7, 11, 20)], repeats=repeats)
    assert [case[k] for k in ("throughput_rel_error", "qdelay_mean_error_ms", "qdelay_p95_error_ms")] == [0, 0, 0]
    assert case["within"] and not case["chaotic"] and case["misses"] == []
    assert case["measured"]["throughput_mbps"] == [11.5, 11.9]


def test_an_error_is_the_distance_to_the_nearer_end(folder: Path) -> None:
    case = compared(folder, [run(10.71, 15.0, 13.0)])
    assert case["throughput_rel_error"] == pytest.approx(0.1)
    assert (case["qdelay_mean_error_ms"], case["qdelay_p95_error_ms"]) == (6, 6)
    assert case["misses"] == ["throughput_mbps", "mean", "p95"] and not case["within"]


def test_the_bound_of_long_delays_is_relative(folder: Path) -> None:
    result = {"first_data_ms": 0, "throughput_mbps": 12.0, "qdelay_ms": {"mean": 1000.0, "p95": 2000}}
    assert compared(folder, [run(12.0, 1149.0, 1701.0)], result=result)["within"]
    assert compared(folder, [run(12.0, 1151.0, 2000.0)], result=result)["misses"] == ["mean"]
    assert compared(folder, [run(12.0, 1000.0, 1699.0)], result=result)["misses"] == ["p95"]


def test_a_chaotic_case_is_judged_on_throughput_alone(folder: Path) -> None:
    simulated = compared(folder, [run(11.9, 1, 19), run(11.9, 40, 19), run(11.9, 90, 19)])
    assert simulated["chaotic"] and simulated["within"] and simulated["qdelay_mean_error_ms"] == 31
    repeats = [{"throughput_mbps": 11.9, "qdelay_ms": {"mean": 9.0, "p95": 60}}]
    measured = compared(folder, [run(9.0, 99, 99)], repeats=repeats)
    assert measured["chaotic"] and measured["misses"] == ["throughput_mbps"]


def test_the_strict_verdict_allows_for_no_spread_and_no_chaos(folder: Path) -> None:
    repeats = [{"throughput_mbps": 11.9, "qdelay_ms": {"mean": 9.0, "p95": 60}}]
    chaotic = compared(folder, [run(11.9, 9.0, 60)], repeats=repeats)
    assert chaotic["within"] and chaotic["strict_misses"] == ["p95"], "60 against the median of 19 and 60"
    assert compared(folder, [run(11.9, 9.0, 40)], repeats=repeats)["strict_misses"] == []
    kernel, ours = ([{**run(11.9, 9.0, 19), "goodput_mbps": parts}] for parts in ([9.0, 2.0], [7.5, 3.5]))
    assert recorded.judge(["cubic", "reno"], kernel, ours)["strict_misses"] == ["shares"]
    assert recorded.judge(["cubic", "reno"], kernel, kernel)["strict_misses"] == []


def test_one_run_of_many_does_not_make_a_case_chaotic(folder: Path) -> None:
    runs = [run(11.9, 9, 19)] * 29 + [run(11.9, 99, 19)]
    assert not compared(folder, runs)["chaotic"]


def test_it_simulates_what_the_case_says(folder: Path) -> None:
    [case] = recorded_cases.load(write(folder, changed(loss=0.01, cc=["cubic", "bbr"])))
    document = recorded.scenario(case, 7, 3)
    up, down = document["links"]
    assert up["service"] == {"type": "trace", "offset_ms": 107, "file": str(folder / "up")}
    assert (up["queue"], up["delay_ms"], up["loss"]) == ({"type": "droptail", "packets": 20}, 10, 0.01)
    assert (down["queue"]["type"], document["duration_s"], document["seed"]) == ("infinite", 2, 3)
    assert [flow["scheme"] for flow in document["flows"]] == ["cubic", "bbr"]
    assert {flow["base_rtt_ms"] for flow in document["flows"]} == {20}


def test_figures_are_counted_as_mahimahi_counts_them(folder: Path) -> None:
    [case] = recorded_cases.load(write(folder, CASE))
    figures = recorded.simulate(recorded.scenario(case, 0, 1), case.seconds)
    # One packet per millisecond, 1504 bytes each: a full queue of 20 keeps a packet for 20 ms at most.
    assert 11.0 < figures["throughput_mbps"] <= 12.032
    assert figures["qdelay_ms"]["p95"] in range(15, 21)
    assert figures["per_second"].shape == (2, 2)
    assert figures["per_second"][:, 0].mean() == pytest.approx(figures["throughput_mbps"])


def test_it_does_not_depend_on_the_number_of_threads(folder: Path) -> None:
    cases = recorded_cases.load(write(folder, CASE, changed(cc="cubic", loss=0.01)))
    alone, together = (json.dumps(plain(recorded.fidelity(cases, 3, jobs))) for jobs in (1, 2))
    assert alone == together


@pytest.mark.parametrize(
    ("queue", "text", "expected"),
    [
        ("droptail", "packets=400", {"packets": 400}),
        ("droptail", "bytes=15040", {"bytes": 15000}),
        ("infinite", "", {}),
        (
            "codel",
            "packets=400, target=5, interval=100",
            {"compat": "mahimahi", "packets": 400, "target_ms": 5, "interval_ms": 100},
        ),
        (
            "pie",
            "packets=90,qdelay_ref=20,max_burst=150",
            {"compat": "mahimahi", "packets": 90, "target_ms": 20, "burst_ms": 150},
        ),
    ],
)
def test_queue_arguments(folder: Path, queue: str, text: str, expected: dict[str, Any]) -> None:
    [case] = recorded_cases.load(write(folder, changed(queue=queue, queue_args=text)))
    assert case.queue == {"type": queue, **expected}


@pytest.mark.parametrize(
    ("fields", "where", "what"),
    [
        ({"cc": "cubik"}, "cases[1].cc", 'did you mean "cubic"?'),
        ({"cc": ["cubic", 3]}, "cases[1].cc[1]", "found 3"),
        ({"cc": []}, "cases[1].cc", "empty list"),
        ({"cc": None}, "cases[1].cc", "found nothing"),
        ({"owd_ms": "20"}, "cases[1].owd_ms", "expected a delay in ms, found a string"),
        ({"owd_ms": -1}, "cases[1].owd_ms", "at least 0"),
        ({"seconds": 0}, "cases[1].seconds", "above 0"),
        ({"seconds": True}, "cases[1].seconds", "found true or false"),
        ({"loss": 1.5}, "cases[1].loss", "0 up to 1"),
        ({"queue": "fifo"}, "cases[1].queue", "droptail"),
        ({"queue_args": "packets=many"}, "cases[1].queue_args", "KEY=INTEGER"),
        ({"queue_args": "packet=1"}, "cases[1].queue_args", 'did you mean "packets"?'),
        ({"queue_args": ""}, "cases[1].queue_args", "lacks packets or bytes"),
        ({"queue": "codel", "queue_args": "packets=9, target=5"}, "cases[1].queue_args", "lacks interval"),
        ({"result": {}}, "cases[1].result.first_data_ms", "missing"),
        ({"result": {**CASE["result"], "qdelay_ms": {"mean": 1}}}, "cases[1].result.qdelay_ms.p95", "missing"),
        ({"repeats": [{"throughput_mbps": "fast"}]}, "cases[1].repeats[0].throughput_mbps", "found a string"),
        ({"repeats": [7]}, "cases[1].repeats[0]", "found 7"),
    ],
)
def test_a_bad_case_is_refused_with_its_place(folder: Path, fields: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recorded_cases.load(write(folder, CASE, changed(**fields)))
    assert f"cases.json: {where}" in str(caught.value) and what in str(caught.value)


@pytest.mark.parametrize("field", sorted(CASE.keys() - {"queue_args"}))
def test_a_missing_field_is_named(folder: Path, field: str) -> None:
    with pytest.raises(ConfigError, match=rf"cases\[0\]\.{field}"):
        recorded_cases.load(write(folder, {key: value for key, value in CASE.items() if key != field}))


def test_an_impossible_case_is_refused_before_anything_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = recorded_cases.load(write(folder, CASE, changed(queue_args="packets=0")))
    monkeypatch.setattr(recorded, "simulate", lambda *_: pytest.fail("a case was simulated"))
    with pytest.raises(ScenarioError, match=r"cases\[1\]\.queue_args"):
        recorded.fidelity(cases, jobs=1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "[3]", "null"])
def test_what_is_no_list_of_cases_is_refused(folder: Path, text: str) -> None:
    path = folder / "cases.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"cases\.json"):
        recorded_cases.load(path)


def test_a_missing_trace_names_the_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCARENA_TRACE_DIR", "/nowhere")
    with pytest.raises(TraceError) as caught:
        recorded_cases.load(write(folder, changed(up="other")), folder / "given")
    places = (folder / "given", folder / "given" / "mahimahi", folder, "/nowhere")
    assert all(str(place) in str(caught.value) for place in places) and "cases[0].up" in str(caught.value)


def test_traces_are_found_in_the_folder_given(folder: Path) -> None:
    (folder / "given" / "mahimahi").mkdir(parents=True)
    (folder / "up").rename(folder / "given" / "mahimahi" / "up")
    [case] = recorded_cases.load(write(folder, CASE), folder / "given")
    assert case.up == str(folder / "given" / "mahimahi" / "up")


def test_filter_takes_cases_by_the_words_of_their_names(folder: Path) -> None:
    path = write(folder, CASE, changed(cc="cubic"), changed(cc="cubic", queue_args="packets=40"))
    assert [case.name for case in recorded_cases.load(path, only="cubic (40)")] == ["up 10 ms droptail(40) cubic"]
    with pytest.raises(ConfigError, match="no case"):
        recorded_cases.load(path, only="bbr")


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder, CASE, changed(result={**CASE["result"], "throughput_mbps": 3.0}, note="kept"))
    out, picture = folder / "out.json", folder / "out.html"
    options = ["--offsets", "2", "--jobs", "1", "--json", str(out), "--plot", str(picture)]
    assert cli.main(["fidelity", str(path), *options]) == 0
    written = json.loads(out.read_text())
    figures = {"cases", "throughput_rel_error_median", "within_fraction", "strict_fraction"}
    assert written.keys() == figures | {"backend", "bounds", "command", "invalid", "late_runs"}
    assert written["backend"] == "sim" and written["invalid"] == []
    first, second = written["cases"]
    assert {**first, **CASE} == first and second["note"] == "kept"
    assert (first["within"], second["within"], written["within_fraction"]) == (True, False, 0.5)
    assert second["throughput_rel_error"] > 2 and second["misses"] == ["throughput_mbps"]
    assert first["simulated"]["median"].keys() == first["simulated"]["spread"].keys() == first["bounds"].keys()
    shown = capsys.readouterr().out
    assert shown.count("up 10 ms droptail(20) reno") == 2 and "within: 1 of 2 cases (50.0 %)" in shown
    assert "not met: throughput in 1" in shown and shown.endswith(f"\nwrote {out}\nwrote {picture}\n")
    assert "1 of 2 cases are within the bounds" in picture.read_text("utf-8")


def test_the_emulated_link_is_held_to_narrower_bounds(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Simulated runs in the kernel's place; the first of them comes late, and so do all of CUBIC."""
    ran: list[str] = []

    def in_real_time(document: dict[str, Any], backend: str) -> dict[str, Any]:
        scheme = document["flows"][0]["scheme"]
        ran.append(scheme)
        late = ran == ["reno"] or scheme == "cubic"
        machine = {"valid": not late, "lateness": {"p99_ms": 3.0 if late else 0.1}}
        return {**backends.simulate(document), "machine": machine}

    monkeypatch.setattr(backends, "execute", in_real_time)
    result = {**CASE["result"], "throughput_mbps": 12.3, "qdelay_ms": {"mean": 11.0, "p95": 20}}
    path = write(folder, changed(result=result), changed(cc="cubic"))
    out = folder / "out.json"
    assert cli.main(["fidelity", str(path), "--backend", "kernel", "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    [case] = written["cases"]
    assert case["misses"] == ["throughput_mbps"], "4 % below, which the simulator may be"
    assert written["bounds"] == {"throughput_rel": 0.03, "delay_rel": 0.1, "delay_ms": 3.0}
    assert written["invalid"] == ["up 10 ms droptail(20) cubic"] and written["late_runs"] == 1 + ATTEMPTS
    assert (written["backend"], ran.count("reno")) == ("kernel", 2)
    shown = capsys.readouterr()
    assert "emulated" in shown.out and "2 cases in real time: 4 s" in shown.err
    assert cli.main(["fidelity", str(path), "--backend", "kernel", "--limit", "1", "--offsets", "2"]) == 0
    assert ran.count("reno") == 4


@pytest.mark.parametrize("options", [["--offsets", "0"], ["--jobs", "0"], ["--traces", "/nowhere"]])
def test_bad_options(folder: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fidelity", str(write(folder, CASE)), *options]) == ConfigError.exit_code
    assert options[0] in capsys.readouterr().err


def test_a_picture_of_another_kind_is_refused_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded, "simulate", lambda *_: pytest.fail("a case was simulated"))
    assert cli.main(["fidelity", str(write(folder, CASE)), "--plot", "a.gif", "--jobs", "1"]) == ConfigError.exit_code
    assert "a.gif" in capsys.readouterr().err


def test_the_picture_has_a_row_per_case(folder: Path) -> None:
    cases = recorded_cases.load(write(folder, CASE, changed(cc="cubic")))
    result = recorded.fidelity(cases, 2, 1)
    for figure in page.figures(result["cases"], result["bounds"]):
        (chart,) = figure.charts
        assert {name for trace in chart.traces for name in trace["y"]} == {case.name for case in cases}
