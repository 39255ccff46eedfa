"""ACCT on a bottleneck that advertises nothing, with a base that gives up its queue there and without."""

from __future__ import annotations

import pytest

import ccarena


def run(silent_at: float, router: bool) -> tuple[float, float]:
    """Throughput, Mbit/s, and mean queueing delay, ms, of ACCT with α = 1 over 20 Mbit/s and 20 ms, queue of 4 BDP."""
    link = {
        "service": {"type": "constant", "rate_mbps": 20},
        "queue": {"type": "droptail", "bdp": 4},
        "delay_ms": 10,
        "router": router,
    }
    flow = {"scheme": "acct", "policy": {"constant": 1}, "params": {"silent_at": silent_at}}
    (got,) = ccarena.run({"duration_s": 20, "links": [link], "flows": [flow]}).flows().to_dict("records")
    return got["throughput_mbps"], got["queueing_delay_mean_ms"]


def test_a_silent_bottleneck_is_filled_unless_the_base_gives_up_its_queue() -> None:
    filled_mbps, filled_ms = run(0, router=False)
    mbps, ms = run(1, router=False)
    assert filled_ms > 20 and ms < 5
    assert mbps > 0.97 * filled_mbps


def test_where_a_rate_is_advertised_nothing_changes() -> None:
    assert run(1, router=True) == pytest.approx(run(0, router=True))
