"""A run's row against an independent count."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from ccarena.errors import ConfigError, ScenarioError
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.eval.measure.sample import percentile
from ccarena.eval.measure.signal_delay import signal_delay_ms
from ccarena.eval.reproduce import measures
from ccarena.eval.reproduce.measures import Window
from ccarena.scenarios.one_run import checked

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: measures not tested (run make)")


def simulated(**more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    document = {
        "duration_s": 6,
        "links": [{"service": {"type": "constant", "rate_mbps": 24}, "queue": {"type": "droptail", "packets": 60}}],
        "flows": [
            {"scheme": "cubic", "count": 2, "requirement": {"min_mbps": 10, "max_mbps": 20}},
            {"scheme": "reno", "start_s": 2, "stop_s": 4, "app": {"type": "cbr", "rate_mbps": 3}, "weight": 2},
        ],
        "record": {"series": True, "packets": True, "reports": True, "bin_ms": 100},
        **more,
    }
    return checked(document), _core.simulate(json.dumps(document))


@pytest.fixture(scope="module")
def example() -> tuple[dict[str, Any], dict[str, Any]]:
    return simulated()


def test_windows_against_the_packet_log(example: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, result = example
    row = measures.row(document, result, Window(0, 6), {"late": Window(3, 6)}, {}, series=False)
    log = result["links"][0]["log"]
    # What left the link reached the receiver 10 ms later.
    reached_s = log["departure_ns"] / 1e9 + 0.01
    for index, flow in enumerate(row["flows"]):
        mine = log["flow"] == index
        until_s, from_s = (4, 2) if index == 2 else (6, 0)
        whole = log["bytes"][mine & (reached_s <= 6)].sum() * 8e-6 / (until_s - from_s)
        late = log["bytes"][mine & (reached_s > 3) & (reached_s <= 6)].sum() * 8e-6 / (until_s - 3)
        assert flow["received_mbps"] == pytest.approx(whole, rel=1e-3)
        assert flow["received_mbps@late"] == pytest.approx(late, rel=1e-3)
    first, second, third = row["flows"]
    assert first["satisfaction_goodput"] == pytest.approx(first["goodput_mbps"] / 10)
    assert math.isnan(third["satisfaction_goodput"])
    assert second["relative"] == pytest.approx(second["received_mbps"] / first["received_mbps"])
    assert sum(flow["received_share"] for flow in row["flows"]) == pytest.approx(1)
    assert third["goodput_mbps"] == pytest.approx(3, rel=0.02)
    run = row["run"]
    assert run["worst_satisfaction"] == min(first["satisfaction_goodput"], second["satisfaction_goodput"])
    assert run["utilisation"] == pytest.approx(log["bytes"].sum() / (24e6 / 8 * 6), rel=1e-3)
    assert run["utilisation_goodput"] == pytest.approx(run["utilisation"] * 1448 / 1500, rel=0.02)
    left = (log["departure_ns"] > 3e9) & (log["departure_ns"] <= 6e9)
    assert run["utilisation@late"] == pytest.approx(log["bytes"][left].sum() / (24e6 / 8 * 3), rel=1e-3)
    delay = (log["departure_ns"] - log["arrival_ns"] - log["serialisation_ns"]) / 1e6
    assert run["queueing_delay_mean_ms"] == pytest.approx(delay.mean(), rel=1e-3)
    assert run["queueing_delay_p95_ms"] == pytest.approx(np.quantile(delay, 0.95), rel=1e-2)


def test_every_promised_measure_is_there(example: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, result = example
    declared = {name: {"kind": name} for name in measures.KINDS}
    row = measures.row(document, result, Window(0, 6), {"late": Window(3, 6)}, declared, series=True)
    promised = measures.names(declared, ["late"])
    assert {name for name, of in promised.items() if of == "run"} == set(row["run"])
    assert {name for name, of in promised.items() if of == "flow"} == set(row["flows"][0]) - {
        "name",
        "scheme",
    }
    series = row["series"]
    rates = np.array(list(series["received_mbps"].values()))
    assert rates.shape[1] == len(series["capacity_mbps"]) == len(series["queueing_ms"])
    assert rates.sum() * series["bin_s"] / 8e-6 == pytest.approx(
        sum(f["wire_bytes"] for f in result["flows"]), rel=1e-3
    )
    assert set(series["capacity_mbps"]) == {24}


def test_figures_of_applications_are_those_of_the_whole_run() -> None:
    apps = [{"type": "media"}, {"type": "video", "chunk_s": 1}, {"type": "transfers", "sizes_bytes": [9000]}]
    document, result = simulated(flows=[{"scheme": "cubic", "app": app} for app in apps])
    flows = measures.row(document, result, Window(3, 6), {}, {}, series=False)["flows"]
    own = ("media_mbps", "video_qoe", "fct_finished")
    known = [[name for name in own if not math.isnan(flow[name])] for flow in flows]
    assert known == [["media_mbps"], ["video_qoe"], ["fct_finished"]]
    assert flows[2]["fct_finished"] == 1.0


def hyvar(period_ms: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Hyvar that always pushes its window up, so that the learner is asked at the end of every period."""
    return simulated(
        flows=[
            {
                "scheme": "hyvar",
                "policy": {"constant": 0.5},
                "params": {"mtp_ms": period_ms, "mtp_min_ms": period_ms, "mtp_max_ms": period_ms},
            },
            {"scheme": "cubic", "start_s": 3},
        ]
    )


def test_inferences_and_periods_are_those_of_the_reports() -> None:
    document, result = hyvar(40)
    declared = {
        "shorter": {"kind": "period_share", "below_ms": 40},
        "about": {"kind": "period_share", "least_ms": 40, "below_ms": 45},
        "late": {"kind": "period_share", "least_ms": 40, "from_s": 3, "until_s": 4},
        "cubic": {"kind": "period_share", "flow": 1},
    }
    row = measures.row(document, result, Window(0, 6), {}, declared, series=True)
    learned, cubic = row["flows"]
    assert learned["inferences_per_s"] == len(result["flows"][0]["reports"]) / 6 and cubic["inferences_per_s"] == 0
    # A period ends with the first acknowledgement after its end: here within 1 ms.
    assert 15 < learned["inferences_per_s"] <= 25
    assert (row["run"]["shorter"], row["run"]["about"], row["run"]["late"]) == (0, 1, 1)
    assert math.isnan(row["run"]["cubic"]) and math.isnan(row["run"]["daemon_cpu_percent"])
    (periods,) = row["series"]["period_ms"].values()
    assert len(periods) == len(row["series"]["capacity_mbps"])
    assert all(40 <= x < 45 for x in periods[:-1])


def test_power_is_throughput_over_signal_delay(example: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, result = example
    run = measures.row(document, result, Window(0, 6), {}, {}, series=False)["run"]
    signal = signal_delay_ms(PacketLog.from_arrays(result["links"][0]["log"]))
    assert run["signal_delay_p95_ms"] == percentile(signal, 0.95)
    assert run["power"] == pytest.approx(run["utilisation"] * 24 / run["signal_delay_p95_ms"] * 1e3)
    # The initial windows of two flows, 20 packets of 0.5 ms each, are all that leaves in the first 20 ms.
    first = measures.row(document, result, Window(0, 0.02), {}, {}, series=False)["run"]
    assert first["signal_delay_p95_ms"] <= 10 < run["signal_delay_p95_ms"]


def test_cpu_times_are_shares_of_the_run(example: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, result = example
    machine = {"daemon_cpu_s": 0.3, "datapath_cpu_s": None}
    run = measures.row(document, {**result, "machine": machine}, Window(0, 6), {}, {}, series=False)["run"]
    assert run["daemon_cpu_percent"] == pytest.approx(5)
    assert math.isnan(run["datapath_cpu_percent"])


def stepped(rates: list[list[float]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record in which each flow has a rate per second, in bins of 100 ms."""
    entries = [{"weight": w + 1, "count": 1, "path": ["link0"]} for w in range(len(rates))]
    document = {"links": [{}], "flows": entries, "record": {"bin_ms": 100}}
    flows = []
    for index, per_second in enumerate(rates):
        series = np.repeat(per_second, 10) * 12_500
        flows.append(
            {"name": f"f{index}", "scheme": "x", "start_s": 0, "stop_s": None, "series": {"wire_bytes": series}}
        )
    return document, {"duration_s": len(rates[0]), "flows": flows, "links": [{"name": "link0"}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, 3.0),
        ({"event_s": 2}, 1.0),
        ({"event_s": 2, "hold_s": 4}, math.nan),
        ({"target": [4, 8], "event_s": 0}, 5.0),
        ({"target": "weights", "event_s": 5, "hold_s": 1}, 0.0),
        ({"target": 6, "flows": ["f1"], "event_s": 0}, 3.0),
        ({"target": 6, "flows": ["f0"], "tolerance": 0.5}, 2.0),
        ({"until_s": 4, "event_s": 0}, math.nan),
        ({"target": "settled"}, 5.0),
        ({"target": "settled", "until_s": 6, "tolerance": 0.9}, 1.0),
        ({"target": [4, 5], "above_is_near": True}, 3.0),
    ],
)
def test_convergence(spec: dict[str, Any], expected: float) -> None:
    """Two flows: alone, then one each, equal from 3 s to 5 s, then 1:2."""
    document, result = stepped([[12, 10, 9, 6, 6, 4, 4, 4], [0, 2, 3, 6, 6, 8, 8, 8]])
    view = measures._View(document, result, Window(0, result["duration_s"]))
    full = {**measures.KINDS["convergence"][0], **spec}
    assert view.convergence(full) == pytest.approx(expected, nan_ok=True)


def test_variation_is_that_of_the_most_varying_flow() -> None:
    document, result = stepped([[0, 12, 6, 6, 6, 6], [5, 5, 5, 5, 5, 5]])
    view = measures._View(document, result, Window(0, result["duration_s"]))
    full = {**measures.KINDS["variation"][0], "kind": "variation"}
    assert view.declared(full) == pytest.approx(np.std([0, 12, 6, 6, 6, 6]) / 6)
    assert view.declared({**full, "flows": ["f1"]}) == pytest.approx(0)
    assert view.declared({**full, "from_s": 2}) == pytest.approx(0)


def test_what_was_not_recorded_is_asked_for() -> None:
    document, result = simulated(record={}, duration_s=1)
    measures.row(document, result, Window(0, 1), {}, {}, series=False)
    with pytest.raises(ScenarioError, match=r"record.series: false"):
        measures.row(document, result, Window(0.5, 1), {}, {}, series=False)
    with pytest.raises(ScenarioError, match=r"record.packets: false"):
        measures.row(document, result, Window(0, 1), {}, {"m": {"kind": "share_within_delay"}}, series=False)
    with pytest.raises(ConfigError, match=r'measures.m: unknown key "budget"'):
        measures.check({"kind": "share_within_delay", "budget": 1}, "measures.m")
    with pytest.raises(ScenarioError, match=r"record.reports: false"):
        measures.row(document, result, Window(0, 1), {}, {"m": {"kind": "period_share"}}, series=False)
