"""Further scenarios for `ccarena fidelity --live`, beyond one bulk flow on a droptail link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccarena.eval.fidelity.live import Setup

__all__ = ["setups"]

PACKETS = 200
"""Packets of queues with active management."""
RTTS_MS = (20.0, 40.0, 80.0, 30.0, 60.0)


def setups(duration_s: float = 15.0) -> list[Setup]:
    """Returns all of them; flows that come and go do so in parts of `duration_s`."""
    flows: dict[str, tuple[Mapping[str, Any], list[dict[str, Any]]]] = {}
    for queue in ("codel", "fq_codel", "pie", "red"):
        for scheme in ("cubic", "reno"):
            flows[f"{queue} {scheme}"] = (_link(queue={"type": queue, "packets": PACKETS}), [{"scheme": scheme}])
    for queue in ("codel", "red"):
        marking = _link(queue={"type": queue, "packets": PACKETS, "ecn": True})
        flows[f"{queue} ECN cubic"] = (marking, [{"scheme": "cubic", "ecn": True}])
    for marking in ({"type": "dualpi2"}, {"type": "step", "packets": PACKETS, "mark_packets": 40}):
        flows[f"{marking['type']} ECN cubic"] = (_link(queue=marking), [{"scheme": "cubic", "ecn": True}])
    for count in (3, 5):
        for scheme in ("cubic", "reno"):
            flows[f"{count} flows of mixed RTT {scheme}"] = (_link(48, delay_ms=5), _mixed(count, scheme))
        flows[f"{count} flows of mixed RTT that come and go cubic"] = (
            _link(48, delay_ms=5),
            [
                {**flow, "start_s": k * duration_s / 10, **({"stop_s": duration_s * 0.7} if k == 1 else {})}
                for k, flow in enumerate(_mixed(count, "cubic"))
            ],
        )
    flows["2 flows cubic bbr"] = (_link(48), [{"scheme": "cubic"}, {"scheme": "bbr"}])
    for rate in (200, 500):
        for scheme in ("cubic", "bbr"):
            flows[f"{rate} Mbit/s {scheme}"] = (_link(rate, delay_ms=10), [{"scheme": scheme}])
    sizes = {"type": "transfers", "sizes_bytes": [20_000, 100_000, 1_000_000], "gap_s": 0.2}
    flows["transfers cubic"] = (_link(), [{"scheme": "cubic", "app": sizes}, {"scheme": "cubic", "start_s": 0.5}])
    for loss in (0.001, 0.01):
        for scheme in ("cubic", "bbr"):
            flows[f"loss {loss:.1%} {scheme}"] = (_link(loss=loss), [{"scheme": scheme}])
    flows["wcc-ai 1 and 4"] = (_link(), [{"scheme": "wcc-ai", "weight": weight} for weight in (1, 4)])
    flows["wcc-md 1 and 2"] = (_link(), [{"scheme": "wcc-md", "weight": weight} for weight in (1, 2)])
    flows["hyvar 2^-0.1"] = (_link(48, delay_ms=15), [{"scheme": "hyvar", "policy": {"constant": -0.1}}])
    return [
        Setup(name, {"version": 1, "duration_s": duration_s, "links": [dict(link)], "flows": of})
        for name, (link, of) in flows.items()
    ]


def _link(rate_mbps: float = 24, **fields: Any) -> dict[str, Any]:
    service = {"type": "constant", "rate_mbps": rate_mbps}
    return {"service": service, "queue": {"type": "droptail", "bdp": 1}, "delay_ms": 20, "router": True, **fields}


def _mixed(count: int, scheme: str) -> list[dict[str, Any]]:
    return [{"scheme": scheme, "base_rtt_ms": rtt_ms} for rtt_ms in RTTS_MS[:count]]
