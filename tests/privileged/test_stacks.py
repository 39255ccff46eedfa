"""Every stack that the package ships, on the emulated link: what it carries, and beside another one.

CCARENA_STACKS_NEEDED names stacks that must be here, with blanks between them: they fail where others are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: stacks of others are not tested (run make)")

from ccarena.scenarios.backends import execute
from ccarena.scenarios.stacks import find_stack, shipped_stacks

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("kernel")]

STACKS = shipped_stacks()
NEEDED = os.environ.get("CCARENA_STACKS_NEEDED", "").split()
SECONDS = 3.0


@pytest.fixture(params=list(STACKS))
def stack(request: pytest.FixtureRequest) -> str:
    """The name of a stack that can run here."""
    name = request.param
    if (lacks := STACKS[name].lacks) and name not in NEEDED:
        pytest.skip(f"STACK {name} NOT TESTED: {lacks}; get it by: {STACKS[name].how}")
    return name


def flow_of(name: str, **env: str) -> dict[str, Any]:
    found = find_stack(name)
    assert found is not None
    stack, control = found
    flow = stack.flow(control)
    flow["foreign"]["env"] |= env
    return flow


def on_link(*flows: dict[str, Any], rate_mbps: float = 24.0) -> dict[str, Any]:
    link = {
        "service": {"type": "constant", "rate_mbps": rate_mbps},
        "queue": {"type": "droptail", "packets": 80},
        "delay_ms": 20,
    }
    return execute({"duration_s": SECONDS, "links": [link], "flows": list(flows)}, "kernel")


def test_the_emulator_counts_what_the_stack_itself_has_received(stack: str, tmp_path: Path) -> None:
    received = tmp_path / "received"
    [flow] = on_link(flow_of(stack, CCARENA_RECEIVED=str(received)))["flows"]
    assert "error" not in flow, flow["error"]
    if not STACKS[stack].entrant.bound:
        assert flow["delivered_bytes"] > 0.5 * 24e6 / 8 * SECONDS
    # The emulator counts TCP's payload. In UDP's payload the stack has headers. Data behind a hole, at most a window,
    # has not been received in order.
    headers, window = (0.02, 0) if flow_of(stack)["foreign"]["ready"]["type"] == "tcp" else (0.05, 200_000)
    counted = received.stat().st_size
    assert abs(flow["delivered_bytes"] - counted) < headers * flow["delivered_bytes"] + window
