"""WebAssembly controllers on real sockets: over QUIC, and over the bridge on kernel TCP."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: modules are not tested (run make)")

from ccarena.scenarios.backends import BACKENDS, execute
from tests.controllers.made import EXAMPLES, SOURCES, build, flow_of


@pytest.mark.parametrize("backend", [name for name, each in BACKENDS.items() if each.real_time])
def test_a_module_steers_its_flow_and_one_that_goes_wrong_ends_its_own(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(backend)
    cubic, bad = build(EXAMPLES / "cubic.c", tmp_path), build(SOURCES / "bad.c", tmp_path)
    link = {
        "service": {"type": "constant", "rate_mbps": 12},
        "delay_ms": 10,
        "queue": {"type": "droptail", "packets": 40},
    }
    flows = [flow_of(cubic, params={"hystart": 0}), flow_of(bad, params={"how": 4, "acks": 100})]
    document = {"duration_s": 3, "links": [link], "flows": flows, "record": {"series": True, "bin_ms": 100}}
    fine, ended = execute(document, backend)["flows"]
    assert fine.get("error") is None
    assert ended["error"].startswith("flows[1] (bad): cc_on_ack: window_bytes = NaN; expected a number from 0 to")
    at_s = float(ended["error"].rsplit(", at ", 1)[1].removesuffix(" s"))
    assert 0.1 < at_s < 1.5
    later = int(at_s * 10) + 5
    assert sum(ended["series"]["wire_bytes"][later:]) == 0, "nothing leaves after it has given up"
    mbps = sum(fine["series"]["wire_bytes"][later:]) * 8e-6 / ((30 - later) / 10)
    assert mbps > 10.5, "the other flow has the link"
