"""`gcc` on test cases of RFC 8867, "Test Cases for Evaluating Congestion Control for Interactive Real-Time Media".

It meets the expectations of cases 5.1, 5.2 and 5.4, and not that of 5.6.

Reference capacity 1 Mbit/s, 50 ms one way, a drop-tail queue of 300 ms at it, encoders from 0.15 to 1.5 Mbit/s. The
jitter that the cases allow is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: test cases are not run (run make)")

import ccarena

MEDIA = {"type": "media", "min_mbps": 0.15, "max_mbps": 1.5}
CALL: dict[str, Any] = {"scheme": "gcc", "app": MEDIA}


def run(duration_s: float, steps: list[tuple[float, float]], *flows: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of flows on a bottleneck with capacities in Mbit/s from times on."""
    service = {"type": "steps", "steps": [{"at_s": at, "rate_mbps": rate} for at, rate in steps]}
    queue = {"type": "droptail", "bytes": round(0.3 * steps[0][1] * 125_000)}
    document = {"duration_s": duration_s, "links": [{"service": service, "delay_ms": 50, "queue": queue}]}
    return ccarena.run({**document, "flows": list(flows)})[0].result


def rate_mbps(flow: dict[str, Any], from_s: float, to_s: float) -> float:
    """Returns the encoder's mean rate in a part of the run, in Mbit/s."""
    captured, size = (np.asarray(flow["application"][name]) for name in ("captured_s", "frame_bytes"))
    at = captured + flow["start_s"]
    return float(size[(at >= from_s) & (at < to_s)].sum()) * 8e-6 / (to_s - from_s)


def delays_ms(flow: dict[str, Any], from_s: float, to_s: float) -> NDArray[np.float64]:
    """Returns the delays of frames captured in a part of the run that have arrived."""
    application = flow["application"]
    captured, size = (np.asarray(application[name]) for name in ("captured_s", "frame_bytes"))
    sent, arrived = captured[size > 0][: len(application["arrived_s"])], np.asarray(application["arrived_s"])
    at = sent + flow["start_s"]
    chosen = (arrived >= 0) & (at >= from_s) & (at < to_s)
    return (arrived - sent)[chosen] * 1e3


def test_5_1_variable_available_capacity_with_a_single_flow() -> None:
    """The flow converges to each capacity without standing queue, and leaves the old one after it falls."""
    (flow,) = run(100, [(0, 1), (40, 2.5), (60, 0.6), (80, 1)], CALL)["flows"]
    assert 0.6 < rate_mbps(flow, 25, 40) < 1.0
    assert 0.9 < rate_mbps(flow, 50, 60) <= 1.6
    assert 0.3 < rate_mbps(flow, 65, 80) < 0.6
    assert 0.45 < rate_mbps(flow, 90, 100) < 1.0
    for from_s, to_s in ((25, 40), (45, 60), (65, 80), (85, 100)):
        assert np.percentile(delays_ms(flow, from_s, to_s), 95) < 300, from_s


def test_5_2_variable_available_capacity_with_multiple_flows() -> None:
    """Two flows share each capacity, and together do not exceed it."""
    flows = run(125, [(0, 4), (25, 2), (50, 3.5), (75, 1), (100, 2)], CALL, CALL)["flows"]
    for from_s, to_s, capacity in ((35, 50, 2), (85, 100, 1), (110, 125, 2)):
        rates = [rate_mbps(flow, from_s, to_s) for flow in flows]
        assert 0.5 * capacity < sum(rates) < capacity, (from_s, rates)
        assert max(rates) < 3 * min(rates), (from_s, rates)


def test_5_4_competing_media_flows_with_the_same_algorithm() -> None:
    """Flows that start later get a share; none starves."""
    flows = run(120, [(0, 3.5)], CALL, {**CALL, "start_s": 20}, {**CALL, "start_s": 40})["flows"]
    rates = [rate_mbps(flow, 90, 120) for flow in flows]
    assert sum(rates) > 0.5 * 3.5 and min(rates) > 0.2 * max(rates), rates


def test_5_6_a_long_tcp_flow_takes_nearly_all() -> None:
    """The case expects a share for the call. Beside CUBIC, which fills the queue, this expectation is not met."""
    result = run(120, [(0, 2)], {**CALL, "start_s": 5}, {"scheme": "cubic"})
    assert rate_mbps(result["flows"][0], 60, 120) < 0.2
    assert result["links"][0]["delivered_bytes"] * 8e-6 > 0.95 * 2 * 120
