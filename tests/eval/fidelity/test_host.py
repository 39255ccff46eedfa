"""The emulator's host in simulated runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the emulator's host was not tested (run make)")

from ccarena import _core
from ccarena.eval.fidelity import host, live, live_wide
from ccarena.scenarios.backends import simulate

PUMP = Path(__file__).parents[3] / "crates/ccarena-link/src/pump.rs"


def document(rate_mbps: float, **fields: Any) -> dict[str, Any]:
    link = {"service": {"type": "constant", "rate_mbps": rate_mbps}, "queue": {"type": "droptail", "bdp": 2}}
    record = {"packets": True, "reports": True}
    return {
        "duration_s": 4,
        "links": [{**link, "delay_ms": 10, **fields}],
        "flows": [{"scheme": "bbr"}],
        "record": record,
    }


def test_the_interval_is_the_emulators() -> None:
    found = re.search(r"const GRAIN: Dur = Dur::from_micros\((\d+)\)", PUMP.read_text("utf-8"))
    assert found and float(found[1]) / 1000 == host.GRAIN_MS
    many = re.search(r"const MANY: u64 = (\d+);\nconst TALLY: Dur = Dur::from_millis\((\d+)\)", PUMP.read_text("utf-8"))
    # Each packet is taken and given; every other one is acknowledged.
    assert many and float(many[1]) / float(many[2]) / 3 * 1500 * 8 / 1000 == host.MANY_MBPS


def test_many_packets_are_handed_over_at_intervals_both_ways() -> None:
    fast, slow = host.emulated(document(48)), host.emulated(document(12))
    assert [link.get("wakes_ms") for link in fast["links"]] == [host.GRAIN_MS] * 2
    assert [(link.get("wakes_ms"), link["jitter_ms"]) for link in slow["links"]] == [(None, host.LATE_MS)]
    [flow] = fast["flows"]
    assert flow["path"] == ["link0"] and flow["base_rtt_ms"] == 20 and len(flow["return_path"]) == 1
    own = host.emulated(document(48, jitter_ms=0.5))
    assert len(own["links"]) == 1 and own["links"][0]["jitter_ms"] == 0.5
    for one in (*live.setups(), *live_wide.setups()):
        _core.validate_scenario(json.dumps(host.emulated(one.document)))


def test_acknowledgements_in_bunches_make_bbr_queue_more() -> None:
    late = document(48, jitter_ms=host.LATE_MS)
    ideal, emulated = (live.figures(simulate(one)) for one in (late, host.emulated(document(48))))
    assert emulated["qdelay_ms"]["mean"] > 2 * ideal["qdelay_ms"]["mean"]
