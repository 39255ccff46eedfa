"""Scenarios over QUIC and the emulated link: figures that are possible, and the simulator's beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: QUIC is not tested (run make)")

import ccarena
from ccarena.errors import PolicyError, ScenarioError
from ccarena.quic.run import run_scenario
from ccarena.scenarios import backends
from tests.envs.acct import REPORT

pytestmark = pytest.mark.usefixtures("quic")


def scenario(*flows: dict[str, Any], seconds: float = 2.0) -> dict[str, Any]:
    """Flows over 24 Mbit/s, 20 ms and about 1 BDP."""
    queue = {"type": "droptail", "packets": 50}
    link = {"service": {"type": "constant", "rate_mbps": 24}, "queue": queue, "delay_ms": 10}
    return {"duration_s": seconds, "links": [link], "flows": [{"name": f"f{i}", **f} for i, f in enumerate(flows)]}


def test_a_run_has_the_record_of_every_backend() -> None:
    flows: list[dict[str, Any]] = [
        {"scheme": "cubic"},
        {"scheme": "acct", "policy": {"constant": 0}, "start_s": 0.5},
        {"scheme": "reno", "app": {"type": "transfers", "sizes_bytes": [50_000, 50_000], "gap_s": 0.5}},
        {"scheme": "copa", "app": {"type": "cbr", "rate_mbps": 1}, "stop_s": 1.5},
    ]
    record = {"packets": True, "reports": True, "series": True}
    result = run_scenario({**scenario(*flows), "record": record})
    assert [flow.get("error") for flow in result["flows"]] == [None] * 4
    [link] = result["links"]
    delivered = sum(flow["delivered_bytes"] for flow in result["flows"])
    assert 0.8 * link["delivered_bytes"] < delivered < link["delivered_bytes"] < 1.001 * link["capacity_bytes"]
    bulk, learned, transfers, steady = result["flows"]
    assert bulk["rtt_min_ms"] == pytest.approx(20, abs=3) and bulk["rtt_mean_ms"] > bulk["rtt_min_ms"]
    assert learned["decisions"] > 10 and len(learned["reports"]) == learned["decisions"]
    assert len(transfers["completion_s"]) == 2 and transfers["delivered_bytes"] == 100_000
    assert steady["delivered_bytes"] * 8 / 1.5 == pytest.approx(1e6, rel=0.1)
    # What arrived just after the end is in no bin.
    assert int(np.sum(bulk["series"]["payload_bytes"])) == pytest.approx(bulk["delivered_bytes"], abs=30_000)
    assert result["machine"]["lateness"]["count"] > 1000


def test_requirements_change_while_a_connection_runs() -> None:
    later = {"at_s": 2, "requirement": {"min_mbps": 2, "max_mbps": 3}}
    wants = {"requirement": {"min_mbps": 10, "max_mbps": 15}, "changes": [later]}
    result = run_scenario({**scenario({"scheme": "hercules", **wants}, seconds=6), "record": {"series": True}})
    bytes_per_bin = result["flows"][0]["series"]["payload_bytes"].reshape(6, -1).sum(axis=1)
    before, after = bytes_per_bin[1], bytes_per_bin[5]
    assert before * 8 > 8e6 and after * 8 < 5e6


def test_routers_tell_acct_their_rate() -> None:
    # Two flows from 1 s on; a router offers each its share.
    flow = {"scheme": "acct", "policy": {"constant": 0}}
    document = scenario(flow, {"scheme": "cubic", "start_s": 1.0}, seconds=2.5)
    document["links"][0]["router"] = True
    result = run_scenario({**document, "record": {"reports": True}})
    reports = result["flows"][0]["reports"]
    advertised = reports[:, REPORT.advertised_mbps]
    assert set(np.round(advertised[5:], 1)) <= {12.0, 24.0}
    assert advertised[len(advertised) // 5] == pytest.approx(24) and advertised[-1] == pytest.approx(12)


def test_what_quic_does_not_do_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"flows\[0\].sack: got false; expected true"):
        run_scenario(scenario({"scheme": "cubic", "sack": False}))
    with pytest.raises(PolicyError, match="policy"):
        run_scenario(scenario({"scheme": "acct", "policy": "nowhere.safetensors"}))


def test_the_package_runs_scenarios_over_it() -> None:
    results = ccarena.run(scenario({"scheme": "cubic"}), backend="quic")
    (run,) = results.runs
    # Whether it was valid is the machine's matter.
    assert run.backend == "quic" and run.result["flows"][0]["delivered_bytes"] > 100_000


THROUGHPUT_REL, DELAY_REL, DELAY_MS = 0.05, 0.15, 5.0
"""How far the simulator may be from the endpoint, as from kernel TCP (docs/fidelity.md)."""


@pytest.mark.parametrize("scheme", ["cubic", "bbr", "vegas"])
def test_the_simulators_acknowledgements_are_the_endpoints(scheme: str) -> None:
    # Of a packet of 1500 bytes the stack leaves about 1435 for data.
    flow = {"scheme": scheme, "ack_policy": {"type": "quic"}, "mss_bytes": 1435, "header_bytes": 65}
    document = {**scenario(flow, seconds=6.0), "record": {"packets": True}}
    real, late_ms = backends.timely(lambda: run_scenario(document))
    if real is None:
        pytest.skip(f"SKIPPED, QUIC is not compared: the emulator was late by {late_ms} ms, the machine is too busy")
    simulated = backends.simulate(document)
    goodput = [result["flows"][0]["delivered_bytes"] for result in (real, simulated)]
    assert goodput[1] == pytest.approx(goodput[0], rel=THROUGHPUT_REL)
    delays_ms = []
    for result in (real, simulated):
        log = result["links"][0]["log"]
        waited_ns = log["departure_ns"].astype(float) - log["arrival_ns"] - log["serialisation_ns"]
        delays_ms.append(float(np.mean(waited_ns)) / 1e6)
    assert delays_ms[1] == pytest.approx(delays_ms[0], rel=DELAY_REL, abs=DELAY_MS)
