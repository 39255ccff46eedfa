"""Applications on kernel TCP and over QUIC beside the simulator: the same requests, and figures like its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: applications are not tested (run make)")

import ccarena
from ccarena.scenarios.backends import BACKENDS

LINK: dict[str, Any] = {"service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 10}
APPLICATIONS: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "poisson": ({"type": "poisson", "load": 0.3, "sizes": 60_000}, {"fct_slowdown_p50": 0.3, "fct_finished": 0.1}),
    "incast": ({"type": "incast", "flows": 5, "size_bytes": 40_000, "every_s": 0.5}, {"fct_slowdown_p50": 0.3}),
    "request_response": (
        {"type": "request_response", "sizes": 30_000, "think_s": 0.05},
        {"fct_slowdown_p50": 0.3, "goodput_mbps": 0.3},
    ),
    "media": (
        {"type": "media", "max_mbps": 10, "start_mbps": 5, "key_every_s": 1},
        {"media_delay_p50_ms": 0.15, "media_delay_p95_ms": 0.3, "media_mbps": 0.05},
    ),
    "video": (
        {"type": "video", "ladder_mbps": [5, 10, 15], "chunk_s": 0.5, "buffer_s": 2},
        {"video_mbps": 0.1, "video_rebuffering_s": 0.1, "video_qoe": 0.15},
    ),
}
"""An application of each kind, and by how much of the simulator's value its figures may differ."""


TRANSPORT: dict[str, dict[str, Any]] = {
    "kernel": {},
    "quic": {"ack_policy": {"type": "quic"}, "mss_bytes": 1435, "header_bytes": 65},
}
"""Fields of a flow by which the simulator models the transport."""


@pytest.mark.parametrize("application", APPLICATIONS)
@pytest.mark.parametrize("backend", [name for name, each in BACKENDS.items() if each.real_time])
def test_an_application_is_the_simulators(backend: str, application: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(backend)
    app, bounds = APPLICATIONS[application]
    document = {"duration_s": 3, "links": [LINK], "flows": [{"scheme": "cubic", "app": app, **TRANSPORT[backend]}]}
    real, simulated = ccarena.run(document, backend=backend), ccarena.run(document)
    if not real[0].valid:
        pytest.skip("the machine was late")
    assert [flow.get("error") for flow in real[0].result["flows"]] == [None] * len(real[0].result["flows"])
    ours, theirs = (results.columns("flows") for results in (simulated, real))
    np.testing.assert_array_equal(ours["flow"], theirs["flow"])
    for figure, bound in bounds.items():
        np.testing.assert_allclose(theirs[figure], ours[figure], rtol=bound, err_msg=figure)
