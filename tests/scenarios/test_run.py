"""Scenarios over seeds: what `ccarena.run` takes, refuses and gives."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: ccarena.run not tested (run make)")

import ccarena
from ccarena import _core
from ccarena.core.columns import as_pandas
from ccarena.errors import ConfigError, MissingDependencyError, PolicyError, ScenarioError, TraceError
from ccarena.eval.measure.record import PACKETS
from ccarena.eval.measure.table import FIGURES
from ccarena.extras import how_to_add
from ccarena.scenarios.results import Results
from ccarena.scenarios.tables import TABLES, flow_rows

LINK: ccarena.Link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10}
LOSSY: ccarena.Link = {**LINK, "loss": 0.001}
SHORT = ccarena.Scenario(duration_s=2, links=[LOSSY], flows=[ccarena.Flow(scheme="cubic"), ccarena.Flow(scheme="bbr")])


def rows_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return flow_rows(ccarena.run(document))


@pytest.fixture(scope="module")
def results() -> Results:
    """Two scenarios, three seeds."""
    return ccarena.run([SHORT, {**SHORT, "flows": [{"scheme": "copa", "count": 2}]}], seeds=3, threads=2)


def test_runs_are_those_of_the_simulator_in_any_number_of_threads(results: Results) -> None:
    again = ccarena.run([SHORT, {**SHORT, "flows": [{"scheme": "copa", "count": 2}]}], seeds=[1, 2, 3], threads=1)
    assert [(run.scenario, run.seed) for run in results] == [(f"scenario {k}", s) for k in (0, 1) for s in (1, 2, 3)]
    for one, other in zip(results, again, strict=True):
        native = _core.simulate(json.dumps({**one.document, "seed": one.seed}))
        for flow, same, alone in zip(one.result["flows"], other.result["flows"], native["flows"], strict=True):
            assert flow["delivered_bytes"] == same["delivered_bytes"] == alone["delivered_bytes"] > 0
    assert results[0].result["flows"][0]["delivered_bytes"] != results[1].result["flows"][0]["delivered_bytes"]


def test_tables_agree_with_each_other_and_with_the_counters(results: Results) -> None:
    flows, links, packets = (results.columns(name) for name in ("flows", "links", "link_packets"))
    assert flows["flow"].tolist()[:2] == ["flow0", "flow1"] and flows["scheme"].tolist()[-1] == "copa"
    assert len(flows["seed"]) == 12 and len(links["seed"]) == 6
    assert packets["bytes"].sum() == sum(run.result["links"][0]["delivered_bytes"] for run in results)
    per_run = flows["throughput_mbps"].reshape(6, 2).sum(axis=1)
    assert per_run == pytest.approx(links["throughput_mbps"], rel=1e-3)
    assert flows["goodput_mbps"] == pytest.approx(flows["delivered_bytes"] * 8e-6 / 2)
    series = results.columns("flow_series")
    first = (series["scenario"] == "scenario 0") & (series["seed"] == 1) & (series["flow"] == "flow0")
    payload = series["goodput_mbps"][first].sum() * 0.01 / 8e-6
    assert payload == pytest.approx(flows["delivered_bytes"][0], rel=1e-6)
    capacity = results.columns("link_series")["capacity_mbps"]
    assert np.unique(capacity).tolist() == [24.0]


def test_the_summary_is_students_interval_over_seeds(results: Results) -> None:
    flows, summary = results.columns("flows"), results.columns("summary")
    mine = flows["goodput_mbps"][(flows["scenario"] == "scenario 0") & (flows["flow"] == "flow0")]
    chosen = (
        (summary["scenario"] == "scenario 0") & (summary["flow"] == "flow0") & (summary["figure"] == "goodput_mbps")
    )
    (mean,), (high,) = summary["mean"][chosen], summary["high"][chosen]
    assert mean == pytest.approx(mine.mean())
    assert high - mean == pytest.approx(4.303 * mine.std(ddof=1) / math.sqrt(3), rel=1e-3)
    assert summary["n"][chosen].tolist() == [3]


def test_tables_are_data_frames(results: Results) -> None:
    pd = pytest.importorskip("pandas", reason="PANDAS IS NOT INSTALLED: data frames not tested (ccarena[frames])")
    for frame, name in ((results.flows(), "flows"), (results.links(), "links"), (results.summary(), "summary")):
        assert isinstance(frame, pd.DataFrame) and list(frame.columns) == list(results.columns(name))
    assert results.series("links").groupby("seed").capacity_mbps.mean().tolist() == [24.0] * 3
    assert len(results.packets()) == len(results.columns("packets")["bytes"])
    with pytest.raises(ConfigError, match='"flows" or "links"'):
        results.series("flow")  # type: ignore[arg-type]


def test_texts_in_data_frames_are_those_of_the_columns(results: Results) -> None:
    pandas = pytest.importorskip("pandas")
    for name in ("flows", "flow_series", "summary"):
        columns = results.columns(name)
        pandas.testing.assert_frame_equal(as_pandas(columns), pandas.DataFrame(columns))
        nothing = {key: values[:0] for key, values in columns.items()}
        assert list(as_pandas(nothing).columns) == list(columns) and as_pandas(nothing).empty


def test_tables_are_polars_frames(results: Results) -> None:
    pytest.importorskip("polars", reason="POLARS IS NOT INSTALLED: its data frames not tested (ccarena[polars])")
    for name in TABLES:
        frame = results.polars(name)
        assert frame.columns == list(results.columns(name)) and frame.height == len(results.columns(name)["scenario"])


def test_without_packets_the_figures_that_need_them_are_not_known() -> None:
    results = ccarena.run(SHORT, packets=False)
    (row, _) = flow_rows(results)
    of_packets = [name for name, figure in FIGURES.items() if name in row and PACKETS in figure.needs]
    assert len(of_packets) > 10 and all(math.isnan(row[name]) for name in of_packets)
    whole = flow_rows(ccarena.run(SHORT))[0]
    assert row["goodput_mbps"] == whole["goodput_mbps"] and row["utilisation"] == pytest.approx(whole["utilisation"])
    with pytest.raises(ConfigError, match="no packets were recorded; run it with packets=True"):
        results.columns("packets")
    assert "throughput_mbps" in results.columns("link_series") and results.columns("links")["loss_share"].size == 1


def test_files_folders_and_names(tmp_path: Path) -> None:
    text = "links: [{service: {type: constant, rate_mbps: 9}}]\nflows: [{scheme: reno}]\nduration_s: 1\nseed: 4\n"
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    one = ccarena.run(path)
    assert [(run.scenario, run.seed) for run in one] == [("mine.yaml", 4)]
    both = ccarena.run([path, {**one[0].document}], names=["file", "document"], seeds=2, duration_s=0.5)
    assert [(run.scenario, run.seed) for run in both] == [("file", 4), ("file", 5), ("document", 4), ("document", 5)]
    assert both[0].result["duration_s"] == 0.5
    written = both.write(tmp_path / "out")
    head, *rows = (tmp_path / "out" / "flows.csv").read_text().splitlines()
    assert written[0].name == "flows.csv" and head.startswith("scenario,seed,backend,flow")
    assert len(rows) == 4 and ",nan" not in rows[0]
    with pytest.raises(ScenarioError, match=r"cannot read the scenario: it is a folder"):
        ccarena.run(tmp_path)


@pytest.mark.parametrize(
    ("scenario", "options", "message"),
    [
        ({**SHORT, "flows": []}, {}, "scenario: flows: got"),
        ({**SHORT, "flowz": 1}, {}, 'scenario: .*flowz.*did you mean "flows"'),
        ([SHORT, {**SHORT, "links": [{**LINK, "delay": 3}]}], {}, r"scenario 1: links\[0\].*delay_ms"),
        ({**SHORT, "record": 3}, {}, "record"),
        ([], {}, "no scenario was given"),
        ([3], {}, "scenario 0: found int; expected a document"),
        (SHORT, {"seeds": 0}, "seeds = 0: expected the number"),
        (SHORT, {"seeds": [1, 1]}, "different whole numbers"),
        (SHORT, {"backend": "kernle"}, 'unknown backend "kernle"; did you mean "kernel"'),
        (SHORT, {"threads": 0}, "threads = 0: expected at least 1"),
        (SHORT, {"duration_s": -1}, "duration_s = -1: expected a time above 0"),
        ([SHORT], {"names": ["a", "b"]}, "expected 1 different names"),
    ],
)
def test_what_cannot_be_run_is_refused(scenario: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ScenarioError), match=message):
        ccarena.run(scenario, **options)


def test_a_missing_trace_is_refused_before_anything_runs() -> None:
    calls: list[int] = []
    gone = {**SHORT, "links": [{"service": {"type": "trace", "file": "gone.trace"}}]}
    with pytest.raises(TraceError, match=r"gone\.trace"):
        ccarena.run([SHORT, gone], progress=lambda done, total: calls.append(done))
    assert calls == []


def test_progress_counts_every_run() -> None:
    calls: list[tuple[int, int]] = []
    ccarena.run(SHORT, seeds=3, duration_s=0.2, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_policies_decide_for_their_scheme_and_no_other(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: no policy to run (ccarena[train])")
    from tests.policies.acct import RECORD, network, to_artifact

    policy = tmp_path / "policy.safetensors"
    made = to_artifact(network(), RECORD.model_dump(mode="json"), 3)
    made.save(policy)
    mine = {**SHORT, "flows": [{"scheme": "acct"}, {"scheme": "cubic"}]}
    kept = json.dumps(mine)
    by_file, in_memory = (
        flow_rows(ccarena.run(mine, policies=given)) for given in (policy, ccarena.load_policy(policy))
    )
    assert by_file[0]["decisions"] > 10
    assert [row["delivered_bytes"] for row in by_file] == [row["delivered_bytes"] for row in in_memory]
    assert json.dumps(mine) == kept, "the caller's document was changed"
    with pytest.raises(ScenarioError, match=r"scenario: no flow is for the policy .*expected one of scheme acct"):
        ccarena.run(SHORT, policies=policy)
    with pytest.raises(PolicyError, match='unknown "absent"'):
        ccarena.run(mine, policies=["absent"])


def test_the_page_shows_capacity_rates_and_queue(results: Results, tmp_path: Path) -> None:
    page = results.page(tmp_path / "plot.html", run=1)
    (drawn,) = page.sections[0].blocks
    names = [trace["name"] for chart in drawn.charts for trace in chart.traces]
    assert names == ["capacity", "flow0 (cubic)", "flow1 (bbr)", "queue of link0"]
    for chart in drawn.charts:
        assert all(len(t["y"]) in (20, 21) and any(y is not None for y in t["y"]) for t in chart.traces)
    assert 'aria-label="scenario 0, seed' in (tmp_path / "plot.html").read_text("utf-8")
    assert "<iframe" in page._repr_html_()
    with pytest.raises(ConfigError, match="run = 6: expected 0 to 5"):
        results.page(run=6)


def test_a_missing_library_is_named_with_its_extra(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=re.escape(how_to_add("frames"))):
        results.flows()


def test_types_name_every_key_that_the_native_code_knows() -> None:
    chance = {"probability": 0.1, "late_ms": 1}
    impaired = {**SHORT["links"][0], "reorder": chance, "duplicate": 0.1, "corrupt": 0.1}
    impaired["conditions"] = {"file": "drive.csv"}
    impaired["policer"] = impaired["shaper"] = {"rate_mbps": 9, "burst_bytes": 9000}
    flow = {"scheme": "cubic", "ecn": "accurate", "peer_ecn": True, "l4s": True}
    whole = {**SHORT, "links": [impaired], "flows": [flow], "record": {"trajectories": "aurora"}}
    known = json.loads(_core.validate_scenario(json.dumps(whole)))
    assert set(get_type_hints(ccarena.Scenario)) == set(known)
    assert set(get_type_hints(ccarena.Link)) == set(known["links"][0])
    assert set(get_type_hints(ccarena.Flow)) == set(known["flows"][0])
    assert set(get_type_hints(get_type_hints(ccarena.Scenario)["record"])) == set(known["record"])


def test_a_scenario_of_many_flows() -> None:
    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10}
    flows = [
        {"scheme": "reno", "count": 2},
        {"scheme": "bbr", "app": {"type": "cbr", "rate_mbps": 2}, "requirement": {"min_mbps": 1, "max_mbps": 3}},
    ]
    rows = rows_of({"duration_s": 8, "links": [link], "flows": flows})
    assert [row["scheme"] for row in rows] == ["reno", "reno", "bbr"]
    assert rows[2]["goodput_mbps"] == pytest.approx(2, rel=0.1)
    assert rows[2]["satisfaction_goodput"] == pytest.approx(rows[2]["goodput_mbps"], rel=1e-6)
    assert sum(row["throughput_mbps"] for row in rows) == pytest.approx(24, rel=0.06)


def test_flows_with_requirements_are_held_against_both_optima() -> None:
    def flow(a: float) -> dict[str, object]:
        return {"scheme": "hercules", "requirement": {"min_mbps": a, "max_mbps": 1.5 * a}}

    document = {
        "duration_s": 20,
        "links": [{"service": {"type": "constant", "rate_mbps": 60}, "queue": {"type": "droptail", "packets": 100}}],
        "flows": [flow(10), flow(30)],
    }
    rows = rows_of(document)
    assert all(row["hrf_distance"] == rows[0]["hrf_distance"] for row in rows)
    # 15 and 45 Mbit/s are fair by requirement; 30 and 30 by max-min, which is half a capacity away.
    assert rows[0]["hrf_distance"] < 0.2
    assert 0.4 < rows[0]["max_min_distance"] < 0.6
    unbound = [{"scheme": "reno"}, {"scheme": "reno", "app": {"type": "cbr", "rate_mbps": 6}}]
    rows = rows_of({**document, "flows": unbound})
    assert math.isnan(rows[0]["hrf_distance"])
    assert rows[0]["max_min_distance"] < 0.1


def test_seeds_start_a_recorded_trace_elsewhere_unless_it_names_its_start(tmp_path: Path) -> None:
    # As long as a run, so that only a start that goes over its end is another one.
    trace = tmp_path / "trace"
    trace.write_text("".join(f"{ms}\n" for ms in range(1, 1001) if ms % 7 < 5 or ms > 600))
    service = {"type": "trace", "file": str(trace)}
    document: dict[str, Any] = {"duration_s": 1, "links": [{"service": service}], "flows": [{"scheme": "cubic"}]}

    def starts(document: dict[str, Any], seeds: Any) -> list[float]:
        runs = ccarena.run(document, seeds=seeds)
        return [run.document["links"][0]["service"]["offset_ms"] for run in runs]

    assert starts(document, None) == [0]
    first, *others = starts(document, 4)
    assert first == 0 and len(set(others)) == 3 and all(0 < start < 1000 for start in others)
    assert starts(document, [3]) == [others[1]], "a start depends on the seed alone"
    assert starts({**document, "links": [{"service": {**service, "offset_ms": 0}}]}, 3) == [0, 0, 0]
    rows = ccarena.run(document, seeds=3).columns("summary")
    assert np.isfinite(rows["low"][rows["figure"] == "throughput_mbps"]).all()


def test_loss_counts_what_queues_drop_and_what_links_lose_on_the_whole_path() -> None:
    links = [
        {"name": "a", "service": {"type": "constant", "rate_mbps": 12}, "loss": 0.02, "queue": {"packets": 20}},
        {"name": "b", "service": {"type": "constant", "rate_mbps": 100}, "outages": {"on_s": 1, "off_s": 0.02}},
    ]
    for link in links:
        link["queue"] = {"type": "droptail", "packets": 20}
    flow = {"scheme": "fixed", "params": {"window": 90}}
    results = ccarena.run({"duration_s": 10, "links": links, "flows": [flow]})
    (row,) = flow_rows(results)
    gone = [(link["dropped_packets"], link["lost_packets"]) for link in results[0].result["links"]]
    dropped, lost = (sum(each) for each in zip(*gone, strict=True))
    assert min(dropped, gone[0][1], gone[1][1]) > 0
    came = dropped + lost + results[0].result["links"][1]["delivered_packets"]
    assert row["loss_share"] == pytest.approx((dropped + lost) / came)
    assert row["queue_drop_share"] == pytest.approx(dropped / came)
    whole = results.columns("links")
    assert whole["loss_share"][0] > whole["queue_drop_share"][0] > 0 == whole["queue_drop_share"][1]


def test_figures_of_one_scheme_are_in_no_table_without_it() -> None:
    assert "share_within_budget" not in flow_rows(ccarena.run(SHORT))[0]
    acct = {"scheme": "acct", "policy": {"constant": 1}}
    assert "share_within_budget" in flow_rows(ccarena.run({**SHORT, "flows": [acct, {"scheme": "reno"}]}))[1]


def test_an_idle_application_has_no_signal_delay() -> None:
    link = {"service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 20}
    apps: list[dict[str, Any]] = [
        {"type": "onoff", "rate_mbps": 5, "on_s": 0.5, "off_s": 3},
        {"type": "transfers", "sizes_bytes": [20_000, 100_000], "gap_s": 3},
    ]
    flows = [{"scheme": "cubic", "app": app} for app in apps]
    rows = flow_rows(ccarena.run({"duration_s": 15, "links": [link], "flows": flows}))
    assert all(0 <= row["signal_delay_p95_ms"] < 100 for row in rows)


@pytest.mark.parametrize(
    "link",
    [
        {**LINK, "loss": 1},
        {**LINK, "outages": {"on_s": 0.001, "off_s": 1e6}},
        {"service": {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 0}]}},
        {"service": {"type": "trace", "file": "late.trace"}},
    ],
    ids=["loss", "outage", "no capacity", "a late opportunity"],
)
@pytest.mark.parametrize("packets", [True, False])
def test_a_run_that_delivers_nothing_has_a_page_that_says_so(
    tmp_path: Path, link: dict[str, Any], packets: bool
) -> None:
    (tmp_path / "late.trace").write_text("4294967295\n")
    scenario = tmp_path / "own.json"
    flows = [{"scheme": "cubic", "start_s": 0.1}, {"scheme": "bbr", "start_s": 0.1}]
    scenario.write_text(json.dumps({"duration_s": 2, "links": [link], "flows": flows}))
    results = ccarena.run(scenario, packets=packets, seeds=2)
    results.write(tmp_path / "out")
    assert {row["goodput_mbps"] for row in flow_rows(results)} == {0.0}
    page = (tmp_path / "out" / "page.html").read_text("utf-8")
    said = "No packet of flow0 (cubic) left link0" if packets else "flow0 (cubic) got 0.00 Mbit/s of payload over link0"
    assert said in page


def test_the_page_of_many_flows_shows_the_first_of_them(tmp_path: Path) -> None:
    results = ccarena.run({"duration_s": 0.1, "links": [LINK], "flows": [{"scheme": "cubic", "count": 2000}]})
    results.write(tmp_path)
    page = tmp_path / "page.html"
    assert page.stat().st_size < 2_000_000
    text = page.read_text("utf-8")
    assert "Shown are the first 100 of 2,000 flows; flows.csv has all." in text
    assert "The first 24 flows are drawn." in text
    assert len((tmp_path / "flows.csv").read_text().splitlines()) == 2001
