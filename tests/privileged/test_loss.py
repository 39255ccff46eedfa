"""Random loss over the emulated link is the loss that tables show, as in the simulator."""

from __future__ import annotations

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: loss is not tested (run make)")

import ccarena
from ccarena.scenarios.backends import BACKENDS
from ccarena.scenarios.tables import flow_rows


@pytest.mark.parametrize("backend", [name for name, each in BACKENDS.items() if each.real_time])
def test_loss_is_what_the_link_loses(backend: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(backend)
    link = {"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 5, "loss": 0.01}
    flow = {"scheme": "bbr", "start_s": 0.2}
    results = ccarena.run({"duration_s": 3, "links": [link], "flows": [flow]}, backend=backend)
    (row,) = flow_rows(results)
    (record,) = results[0].result["links"]
    gone = record["dropped_packets"] + record["lost_packets"]
    assert record["lost_packets"] > 10
    assert row["loss_share"] == pytest.approx(gone / (gone + record["delivered_packets"]), rel=0.02)
    assert row["loss_share"] - row["queue_drop_share"] == pytest.approx(0.01, abs=0.006)
