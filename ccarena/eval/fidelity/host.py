"""The emulator's host, for simulated runs that are compared with runs on it: when it hands packets over.

A host wakes late. Where packets are many, the emulator wakes at intervals, takes what has come and hands over what is
due (`Worker::run` in crates/ccarena-link/src/pump.rs), in both directions. Acknowledgements then come in bunches. BBR's
rate samples cover one round trip, so a bunch more in it than before it makes them too large.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

__all__ = ["GRAIN_MS", "LATE_MS", "MANY_MBPS", "emulated"]

LATE_MS = 0.03
"""Mean lateness of a wake on an idle machine with two cores."""
GRAIN_MS = 0.3
"""Interval between wakes where packets are many: `GRAIN` of the emulator."""
MANY_MBPS = 24.0
"""Rate from which packets are many: `MANY` of the emulator, two packets of data and their acknowledgement in a
millisecond."""
_RETURN = "the emulator's way back"


def emulated(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scenario with the host's lateness on its links, except where it gives its own.

    A constant link with many packets hands them over at intervals, and so does the way back of the flows that cross it.
    """
    out = copy.deepcopy(dict(document))
    links = {str(link.get("name", f"link{at}")): link for at, link in enumerate(out["links"])}
    for link in links.values():
        given = link.get("jitter_ms") or link.get("wakes_ms")
        link["jitter_ms"] = link.get("jitter_ms") or LATE_MS
        if _many(link) and not given:
            link["wakes_ms"] = GRAIN_MS
    back = False
    for flow in out["flows"]:
        path = [links[name] for name in flow.get("path") or links]
        delays = [link.get("delay_ms", 10.0) for link in path]
        if flow.get("return_path") or not all(isinstance(delay, int | float) for delay in delays):
            continue
        if any("wakes_ms" in link for link in path):
            # The difference to the links' delays is on the way back.
            flow.setdefault("base_rtt_ms", 2.0 * sum(delays))
            flow["return_path"], back = [_RETURN], True
            flow.setdefault("path", [*links])
    if back:
        wire = {"service": {"type": "constant", "rate_mbps": 100_000}, "queue": {"type": "infinite"}, "delay_ms": 0}
        out["links"].append({"name": _RETURN, **wire, "wakes_ms": GRAIN_MS, "jitter_ms": LATE_MS})
    return out


def _many(link: Mapping[str, Any]) -> bool:
    service = link["service"]
    return service["type"] == "constant" and float(service["rate_mbps"]) >= MANY_MBPS
