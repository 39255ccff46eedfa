"""Stacks of others, on real packets: the rate that each reaches alone on a link. Needs root."""

from __future__ import annotations

from collections.abc import Mapping

from bench.sheet import Sheet
from ccarena.scenarios.backends import execute
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.stacks import Stack, installed_stacks, stack_names

RATE_MBPS = 48.0
DELAYS_MS = (20.0, 60.0)
"""Delays of the link, each way."""


def measure(sheet: Sheet, seconds: float, stacks: Mapping[str, Stack] | None = None) -> None:
    """Measures `stacks` (default: all that are here) with each of their congestion controls, `seconds` per run."""
    table = f"Stacks of others, alone on {RATE_MBPS:g} Mbit/s with one BDP of buffer for {seconds:g} s: what arrives"
    for name in stack_names(installed_stacks() if stacks is None else dict(stacks)):
        for delay_ms in DELAYS_MS:
            rate = delivered_mbps(name, delay_ms, seconds)
            where = f"{delay_ms:g} ms each way"
            sheet.add(f"realtime/stack-{name}-{delay_ms:g}", name, rate, "Mbit/s", table=table, case=where)


def delivered_mbps(name: str, delay_ms: float, seconds: float) -> float:
    """Returns what arrives of one flow, in Mbit/s with the headers of the stack."""
    service = {"type": "constant", "rate_mbps": RATE_MBPS}
    link = {"service": service, "queue": {"type": "droptail", "bdp": 1.0}, "delay_ms": delay_ms}
    scenario = {"duration_s": seconds, "links": [link], "flows": [parse(f"stack:{name}").flow]}
    [flow] = execute(scenario, "kernel")["flows"]
    return 8e-6 * float(flow["delivered_bytes"]) / seconds
