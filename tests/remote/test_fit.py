"""`ccarena fit`: properties of links that are known come out again, and the simulator is close on them."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: fits are not tested (run make)")

from ccarena.errors import ConfigError
from ccarena.remote.distance import distances, summary
from ccarena.remote.fit import Fit, fit, scenario_of
from ccarena.scenarios.one_run import Run, checked
from tests.remote.measured import measured


def link(rate_mbps: float = 20, delay_ms: float = 15, packets: int = 50, **more: Any) -> dict[str, Any]:
    service = {"type": "constant", "rate_mbps": rate_mbps}
    return {"service": service, "delay_ms": delay_ms, "queue": {"type": "droptail", "packets": packets}, **more}


def simulated(found: Fit, run: Run) -> list[dict[str, Any]]:
    given = {name: run.document[name] for name in ("duration_s", "links", "flows", "record", "seed")}
    given["flows"] = [{key: value for key, value in flow.items() if value is not None} for flow in given["flows"]]
    return distances(found, [(run, given)])


@pytest.mark.parametrize(("rate_mbps", "delay_ms", "packets"), [(20, 15, 50), (5, 50, 40), (80, 5, 100)])
def test_rate_delay_and_buffer_of_a_link_come_out(rate_mbps: float, delay_ms: float, packets: int) -> None:
    run = measured(link(rate_mbps, delay_ms, packets), {"scheme": "cubic"})
    found = fit([run])
    assert found.rate_mbps == pytest.approx(rate_mbps, rel=0.02) and not found.rate_is_bound
    assert found.rtt_ms == pytest.approx(2 * delay_ms, abs=1)
    assert found.buffer_bytes == pytest.approx(packets * 1500, rel=0.1) and not found.buffer_is_bound
    assert found.loss < 1e-4 and not found.has_competitors


def test_the_simulator_is_close_on_the_fitted_link() -> None:
    run = measured(link(), {"scheme": "cubic"})
    rows = simulated(fit([run]), run)
    of = {row["figure"]: (row["measured"], row["simulated"]) for row in rows}
    assert of["throughput_mbps"][1] == pytest.approx(of["throughput_mbps"][0], rel=0.03)
    assert of["queueing_delay_mean_ms"][1] == pytest.approx(of["queueing_delay_mean_ms"][0], rel=0.15)
    assert any(line.startswith("throughput: ") for line in summary(rows))


def test_a_figure_that_one_side_lacks_is_left_out() -> None:
    rows = [
        {"figure": figure, "measured": measured, "simulated": simulated}
        for figure in ("throughput_mbps", "queueing_delay_mean_ms", "loss_share")
        for measured, simulated in ((0.25, 0.5), (0.25, math.nan), (math.nan, 0.5), (0.25, 0.25), (0.25, 1.0))
    ]
    assert summary(rows) == [
        "throughput: 100.0% apart in the median",
        "queueing delay mean: 0.2 ms apart in the median",
        "loss: 25.00 percentage points apart in the median",
    ]


def test_random_loss_is_told_from_a_full_queue() -> None:
    runs = [measured(link(loss=0.01), {"scheme": scheme}, seconds=20) for scheme in ("bbr", "cubic")]
    assert fit(runs).loss == pytest.approx(0.01, rel=0.35)


def test_competitors_are_seen_by_the_rate_that_is_missing() -> None:
    other = {"scheme": "cubic", "app": {"type": "onoff", "rate_mbps": 12, "on_s": 2, "off_s": 2}}
    alone = fit([measured(link(), {"scheme": "cubic"})])
    beside = fit([measured(link(), {"scheme": "cubic"}, other, seconds=20, hidden=1)])
    assert not alone.has_competitors and alone.competing_mbps == 0
    assert beside.has_competitors and beside.missing > 0.1
    assert beside.rate_mbps == pytest.approx(20, rel=0.1)
    document = scenario_of(beside, {"duration_s": 1, "links": [{"name": "path"}], "flows": [{"scheme": "cubic"}]})
    assert [flow["name"] for flow in checked(document)["flows"]] == ["flow0", "competitors"]


def test_a_path_that_was_never_full_gives_bounds() -> None:
    found = fit([measured(link(), {"scheme": "cubic", "app": {"type": "cbr", "rate_mbps": 2}})])
    assert found.rate_is_bound and found.buffer_is_bound
    assert found.rate_mbps == pytest.approx(2, rel=0.15)
    assert "at least" in found.sentences()[0] and "at least" in found.sentences()[2]


def test_nothing_is_fitted_to_nothing() -> None:
    run = measured(link(), {"scheme": "cubic", "start_s": 9.9999})
    with pytest.raises(ConfigError, match="no packet of these runs arrived"):
        fit([run])
