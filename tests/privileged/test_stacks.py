"""Every stack that the package ships, on the emulated link: what it carries, and beside another one.

CCARENA_STACKS_NEEDED names stacks that must be here, with blanks between them, or `all`. If one of them is not here,
its test fails. Others are skipped.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: stacks of others are not tested (run make)")

from ccarena.scenarios.backends import execute
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.stacks import installed_stacks, shipped_stacks

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("kernel")]

STACKS = shipped_stacks()
NEEDED = os.environ.get("CCARENA_STACKS_NEEDED", "").split()
RATE_MBPS, SECONDS = 24.0, 3.0


@pytest.fixture(params=list(STACKS))
def stack(request: pytest.FixtureRequest) -> str:
    """The name of a stack that can run here."""
    name: str = request.param
    if (lacks := STACKS[name].lacks) and not {name, "all"} & set(NEEDED):
        pytest.skip(f"STACK {name} NOT TESTED: {lacks}; get it by: {STACKS[name].how}")
    return name


def on_link(*names: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The flows of these stacks on one link; each gets the variables `env`."""
    link = {
        "service": {"type": "constant", "rate_mbps": RATE_MBPS},
        "queue": {"type": "droptail", "packets": 80},
        "delay_ms": 20,
    }
    flows = [dict(parse(f"stack:{name}").flow) for name in names]
    for flow in flows:
        flow["foreign"]["env"] |= env or {}
    result = execute({"duration_s": SECONDS, "links": [link], "flows": flows}, "kernel")
    assert not [flow["error"] for flow in result["flows"] if "error" in flow]
    flows_of_result: list[dict[str, Any]] = result["flows"]
    return flows_of_result


def leftovers() -> set[str]:
    """The working directories of programs, and the processes in them."""
    folders = {str(path) for path in Path(tempfile.gettempdir()).glob("ccarena-programs-*")}
    working = set()
    for process in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = os.readlink(process)
        except OSError:  # it has ended, or is another user's
            continue
        if "/ccarena-programs-" in where:
            working.add(str(process))
    return folders | working


def test_the_emulator_counts_what_the_stack_itself_has_received(stack: str, tmp_path: Path) -> None:
    received = tmp_path / "received"
    before = leftovers()
    [flow] = on_link(stack, env={"CCARENA_RECEIVED": str(received)})
    assert leftovers() == before
    # Enough to be counted. How much a stack reaches in three seconds is not judged here: uTP starts slowly.
    least = 0.01 if STACKS[stack].shipped.bound else 0.2
    assert flow["delivered_bytes"] > least * RATE_MBPS * 1e6 / 8 * SECONDS
    # The emulator counts TCP's payload. In UDP's payload the stack has headers. Data behind a hole, at most a window,
    # has not been received in order.
    over_tcp = STACKS[stack].shipped.foreign["ready"] == {"type": "tcp"}
    headers, window = (0.02, 0) if over_tcp else (0.05, 200_000)
    # A stack receives until it stops, which is after the scenario's end.
    counted = flow["delivered_bytes_until_stop"]
    assert counted >= flow["delivered_bytes"]
    assert abs(counted - received.stat().st_size) < headers * counted + window


def test_two_stacks_share_a_link() -> None:
    here = [name for name, stack in installed_stacks().items() if not stack.shipped.bound]
    if len(here) < 2:
        pytest.skip("TWO STACKS BESIDE EACH OTHER NOT TESTED: fewer are here; get them by: ccarena stacks get all")
    flows = on_link(here[0], here[-1])
    total = sum(flow["delivered_bytes"] for flow in flows)
    assert total > 0.6 * RATE_MBPS * 1e6 / 8 * SECONDS
    assert all(flow["delivered_bytes"] > 0.02 * total for flow in flows)
