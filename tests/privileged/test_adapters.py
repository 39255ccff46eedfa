"""The adapter for quinn, on the emulated link: a controller of the package carries a transfer there, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: adapters are not tested (run make)")

from ccarena.core.learned_schemes import shipped_policies
from ccarena.scenarios.backends import execute
from ccarena.scenarios.entrants import parse

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("quic")]

TRANSFER = Path(__file__).parents[2] / "target" / "debug" / "quinn-transfer"
AHEAD = ("chrt", "--rr", "1")
"""Runs a program before others, as the package's own endpoint runs itself: an acknowledgement read late looks like a
queue."""
RATE_MBPS, SECONDS = 12.0, 3.0


def transfer(control: str, folder: Path) -> dict[str, Any]:
    """The result of a flow over quinn under `control`."""
    if not TRANSFER.exists():
        pytest.skip("ADAPTER FOR QUINN NOT TESTED over the emulator: build it by: make adapters")
    entrant = folder / "quinn.yaml"
    entrant.write_text(
        yaml.safe_dump(
            {
                "name": "quinn",
                "kind": "quic",
                "server": [*AHEAD, str(TRANSFER), "server"],
                "client": [*AHEAD, str(TRANSFER), "client"],
                "certificate": True,
                "ready": "udp",
                "env": {"CCARENA_CONTROL": control},
            }
        )
    )
    link = {
        "service": {"type": "constant", "rate_mbps": RATE_MBPS},
        "queue": {"type": "droptail", "packets": 80},
        "delay_ms": 10,
    }
    scenario = {"duration_s": SECONDS, "links": [link], "flows": [dict(parse(str(entrant)).flow)]}
    flow: dict[str, Any] = execute(scenario, "quic")["flows"][0]
    return flow


@pytest.mark.parametrize("control", ["cubic", str(shipped_policies()["hyvar"])], ids=["scheme", "policy"])
def test_a_controller_of_the_package_fills_a_link_over_quinn(control: str, tmp_path: Path) -> None:
    flow = transfer(control, tmp_path)
    assert "error" not in flow, flow["error"]
    assert flow["delivered_bytes"] > 0.8 * RATE_MBPS * 1e6 / 8 * SECONDS


def test_a_controller_whose_signals_quinn_lacks_is_refused_by_name(tmp_path: Path) -> None:
    flow = transfer(str(shipped_policies()["acct"]), tmp_path)
    assert "rates that routers advertise" in flow["error"]
