"""Kernel TCP and QUIC over emulated media and shapers do as the simulator says."""

from __future__ import annotations

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: media are not tested (run make)")

import ccarena
from ccarena.scenarios.backends import BACKENDS
from ccarena.scenarios.tables import flow_rows

LINKS = [
    {"service": {"type": "wifi", "rate_mbps": 40, "packets": 16, "busy_us": 300}},
    {"service": {"type": "grants", "rate_mbps": 20, "slot_ms": 2, "request_ms": 2, "grant_ms": 4}},
    {"service": {"type": "constant", "rate_mbps": 100}, "shaper": {"rate_mbps": 20, "burst_bytes": 30_000}},
]


@pytest.mark.parametrize("backend", [name for name, each in BACKENDS.items() if each.real_time])
def test_a_flow_gets_what_the_simulator_says(backend: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(backend)
    common = {"delay_ms": 10, "queue": {"type": "droptail", "packets": 100}}
    links = [{"name": f"link{i}", **common, **link} for i, link in enumerate(LINKS)]
    flows = [{"scheme": "cubic", "path": [link["name"]], "start_s": 0.2} for link in links]
    document = {"duration_s": 4, "links": links, "flows": flows}
    live, simulated = (flow_rows(ccarena.run(document, backend=each)) for each in (backend, "sim"))
    for of_live, of_sim in zip(live, simulated, strict=True):
        assert of_live["throughput_mbps"] == pytest.approx(of_sim["throughput_mbps"], rel=0.08)
        assert of_live["queueing_delay_mean_ms"] == pytest.approx(of_sim["queueing_delay_mean_ms"], rel=0.4, abs=4)
