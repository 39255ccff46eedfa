"""Every backend in real time: a result of the simulator's layout, and how the run went."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: backends are not tested (run make)")

from ccarena.scenarios import backends
from ccarena.scenarios.backends import BACKENDS

pytestmark = pytest.mark.alone

SCENARIO: dict[str, Any] = {
    "duration_s": 1,
    "links": [{"service": {"type": "constant", "rate_mbps": 8}, "queue": {"type": "droptail", "packets": 50}}],
    "flows": [{"scheme": "cubic"}],
}


@pytest.mark.parametrize("name", [name for name, each in BACKENDS.items() if each.real_time])
def test_results_have_the_simulators_layout(name: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(name)  # skips where its program cannot run
    result, simulated = backends.execute(SCENARIO, name, lateness_bound_ms=50.0), backends.simulate(SCENARIO)
    assert result.keys() - {"machine"} == simulated.keys()
    for part in ("links", "flows"):
        assert result[part][0].keys() >= simulated[part][0].keys()
    assert backends.validity(result).keys() == {"valid", "lateness_p99_ms"}
