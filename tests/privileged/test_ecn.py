"""Marks on kernel TCP and over QUIC beside the simulator: counted, and answered like there."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: marks are not tested (run make)")

import ccarena
from ccarena.errors import CcarenaError


def over(queue: dict[str, Any], flow: dict[str, Any]) -> dict[str, Any]:
    """Returns a run of four seconds over one link with this queue."""
    link = {"service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 10, "queue": queue}
    return {"duration_s": 4, "links": [link], "flows": [flow]}


@pytest.mark.alone
def test_prague_over_quic_is_the_simulators(quic: str) -> None:
    document = over({"type": "dualpi2"}, {"scheme": "prague", "mss_bytes": 1435, "header_bytes": 65})
    real, simulated = ccarena.run(document, backend="quic")[0], ccarena.run(document)[0]
    if not real.valid:
        pytest.skip("the machine was late")
    flow, link = real.result["flows"][0], real.result["links"][0]
    assert (flow["feedback"], link["dropped_packets"], link["marked_ect0_packets"]) == ("accurate", 0, 0)
    assert link["marked_ect1_packets"] == pytest.approx(simulated.result["links"][0]["marked_ect1_packets"], rel=0.5)
    assert flow["delivered_bytes"] == pytest.approx(simulated.result["flows"][0]["delivered_bytes"], rel=0.2)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"scheme": "prague"}, r'flows\[0\].scheme: got "prague".*ECT\(0\) alone'),
        ({"scheme": "cubic", "l4s": True}, r"flows\[0\].l4s: got true.*ECT\(0\) alone"),
        ({"scheme": "dctcp"}, r"flows\[0\].ecn: got true.*own DCTCP"),
    ],
    ids=["prague", "l4s", "dctcp"],
)
def test_kernel_tcp_refuses_what_it_does_not_have(flow: dict[str, Any], message: str, kernel: str) -> None:
    with pytest.raises(CcarenaError, match=message):
        ccarena.run(over({"type": "step", "mark_packets": 25, "packets": 300}, flow), backend="kernel")
