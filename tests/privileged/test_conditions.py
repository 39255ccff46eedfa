"""A conditions trace over the emulated link gives kernel TCP and QUIC the rates and delays of the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: conditions traces are not tested (run make)")

import ccarena
from ccarena.scenarios.backends import BACKENDS


@pytest.mark.parametrize("backend", [name for name, each in BACKENDS.items() if each.real_time])
def test_real_time_follows_the_trace_as_the_simulator_does(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(backend)
    file = tmp_path / "drive.csv"
    file.write_text("time_ms,rate_mbps,delay_ms,loss\n0,20,20,0\n1200,8,45,0.001\n2400,15,25,0\n")
    link = {"conditions": {"file": str(file), "offset_ms": "random"}, "queue": {"type": "droptail", "packets": 100}}
    scenario = {"duration_s": 4, "seed": 3, "links": [link], "flows": [{"scheme": "cubic"}]}
    simulated, real = (ccarena.run(scenario, backend=each).flows().iloc[0] for each in ("sim", backend))
    assert real["rtt_min_ms"] == pytest.approx(simulated["rtt_min_ms"], abs=3) and real["rtt_min_ms"] >= 40
    assert real["throughput_mbps"] == pytest.approx(simulated["throughput_mbps"], rel=0.2)
