"""Links over a shared medium, and shaped links: when packets leave, what capacity is, and who may stand on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ccarena
from ccarena.configs import load_config
from ccarena.envs import LearnedVectorEnv
from ccarena.errors import ConfigError, ScenarioError
from ccarena.eval.heldout.oracle import one_rtt_late
from ccarena.scenarios.tables import flow_rows

WIFI = {"type": "wifi", "rate_mbps": 60, "packets": 16, "busy_us": 300}
GRANTS = {"type": "grants", "rate_mbps": 20, "slot_ms": 2, "request_ms": 2, "grant_ms": 6}
SHAPED = {"service": {"type": "constant", "rate_mbps": 100}, "shaper": {"rate_mbps": 20, "burst_bytes": 60_000}}
LINKS: dict[str, dict[str, Any]] = {"wifi": {"service": WIFI}, "grants": {"service": GRANTS}, "shaped": SHAPED}


def link_of(name: str) -> dict[str, Any]:
    return {**LINKS[name], "delay_ms": 10, "queue": {"type": "droptail", "packets": 150}}


def run(link: dict[str, Any], flow: dict[str, Any], duration_s: float = 8, **more: Any) -> Any:
    return ccarena.run({"duration_s": duration_s, "links": [link], "flows": [flow], **more})


@pytest.mark.parametrize("name", LINKS)
def test_a_full_queue_uses_the_capacity_and_no_more(name: str) -> None:
    results = run(link_of(name), {"scheme": "cubic"}, record={"packets": True})
    (row,) = flow_rows(results)
    assert 0.97 < row["utilisation"] < 1.01
    (of_link,) = results[0].result["links"]
    times = of_link["log"]["departure_ns"]
    assert (np.diff(times.astype(np.int64)) >= 0).all()
    mbps = of_link["capacity_bytes"] * 8 / 8e6
    assert mbps == pytest.approx(20, rel=1e-3) if name != "wifi" else 20 < mbps < 60
    # The oracle that knows the capacity, one round trip late, stands on it as on any other.
    bound = one_rtt_late(of_link["capacity_mbps"], 10, 20)
    assert bound.utilisation > 0.98 and bound.queueing_delay_mean_ms < 5


def test_wifi_sends_aggregates_and_granted_data_leaves_slot_by_slot() -> None:
    def departures(service: dict[str, Any]) -> np.ndarray:
        results = run({**link_of("wifi"), "service": service}, {"scheme": "cubic"}, 4, record={"packets": True})
        return results[0].result["links"][0]["log"]["departure_ns"].astype(np.int64)

    # A frame of 1500 bytes takes 200 µs on the air; between aggregates is more.
    gaps = np.diff(departures(WIFI))
    inside = np.isclose(gaps, 200_000, atol=1)
    runs = np.diff(np.flatnonzero(~inside))
    assert 0.8 < inside.mean() < 15 / 16 + 0.01 and runs.max() == 16
    assert np.median(gaps[~inside]) > 350_000
    slots = departures(GRANTS)
    assert (slots % 2_000_000 == 0).all()
    # 5000 bytes per slot: three packets, or four where a packet began in the slot before.
    assert np.unique(slots, return_counts=True)[1].max() == 4


def test_requests_of_acknowledgements_lengthen_the_round_trip() -> None:
    down = {"name": "down", "service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 10}
    flow = {"scheme": "bbr", "path": ["down"], "return_path": ["up"]}

    def rtt_ms(up: dict[str, Any]) -> float:
        document = {"duration_s": 4, "links": [down, {"name": "up", "service": up, "delay_ms": 10}], "flows": [flow]}
        return float(ccarena.run(document)[0].result["flows"][0]["rtt_min_ms"])

    fast, granted = rtt_ms({"type": "constant", "rate_mbps": 20}), rtt_ms(GRANTS)
    assert 6 < granted - fast < 12
    assert rtt_ms({**GRANTS, "proactive_bytes": 200}) - fast < 4


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("scheme", ["acct", "abc", "xcp"])
def test_routers_signal_the_capacity(name: str, scheme: str) -> None:
    policy = {"policy": {"constant": 9}} if scheme == "acct" else {}
    results = run({**link_of(name), "router": True}, {"scheme": scheme, **policy})
    (row,) = flow_rows(results)
    assert row["utilisation"] > 0.75
    # A full queue is 90 ms.
    assert row["queueing_delay_p95_ms"] < 60


def test_links_over_media_are_drawn_for_training() -> None:
    kinds = {"constant": 0, "random_steps": 0, "cellular": 0, "wifi": 1, "grants": 1}
    config = load_config("acct", {"env.link.kinds": kinds, "env.link.wifi": {"retry": [0.1, 0.2]}})
    envs = LearnedVectorEnv(config, 8, seed=1)
    envs.reset()
    rows = np.array([envs.step(np.full(8, 5))[4]["reports"] for _ in range(40)])
    assert np.isfinite(rows).all() and (rows[-1] != rows[0]).any()
    with pytest.raises(ConfigError, match=r'env\.link\.wifi: unknown parameter "retri"; did you mean "retry"\?'):
        LearnedVectorEnv(load_config("acct", {"env.link.kinds": kinds, "env.link.wifi": {"retri": [0, 0.1]}}), 1)
    with pytest.raises(ConfigError, match=r"env\.link\.grants\.slot_ms is 0; expected 0\.1 to 1000"):
        LearnedVectorEnv(load_config("acct", {"env.link.kinds": kinds, "env.link.grants": {"slot_ms": [0, 1]}}), 1)


def test_a_medium_without_a_rate_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"links\[0\]\.service\.rate_mbps: missing; expected the rate of frames"):
        run({"service": {"type": "wifi"}}, {"scheme": "cubic"})
