"""Scenarios drawn at random from everything that a document has."""

from __future__ import annotations

import random
from typing import Any

from ccarena import _core

SCHEMES = {each["name"]: each for each in _core.schemes() if not each["rules"]}
QUEUES = {each["name"]: each for each in _core.queue_disciplines()}
ROUTERS = [each["name"] for each in _core.routers()]
ACTIONS = {"acct": 3.0}
"""Constant action of a learned scheme without a policy; -0.2 of others."""
CELLULAR = ("lte-driving", "lte-walking", "umts-driving")
MODELS = ("starlink", "5g-midband", "5g-driving")


def scenario(seed: int) -> dict[str, Any]:
    """Returns the scenario of `seed`: the same always."""
    draw = random.Random(seed)
    links = [_link(draw) for _ in range(draw.choice([1, 1, 2, 3]))]
    names = [f"link{index}" for index in range(len(links))]
    flows = [_flow(draw, draw.choice(sorted(SCHEMES)), names) for _ in range(draw.choice([1, 1, 2, 3, 5]))]
    record = {"series": draw.random() < 0.5, "packets": draw.random() < 0.5, "transmissions": draw.random() < 0.3}
    return {"duration_s": 2.5, "seed": seed, "links": links, "flows": flows, "record": record}


def of_scheme(name: str) -> dict[str, Any]:
    """Returns a scenario of a scheme on a varying link."""
    return on_varying_link(_scheme(name), l4s=name in ("l4s", "prague"))


def on_varying_link(flow: dict[str, Any], l4s: bool = False) -> dict[str, Any]:
    """Returns a scenario in which a flow shares a varying link, with losses and the routers of all schemes."""
    link = {
        "service": {"type": "random_steps", "min_mbps": 4, "max_mbps": 30, "period_s": 0.7},
        "queue": {"type": "dualpi2"} if l4s else {"type": "red", "ecn": True},
        "loss": {"type": "gilbert_elliott", "p": 0.002, "r": 0.3},
        "jitter_ms": 0.3,
        "router": True,
    }
    return {"duration_s": 5, "links": [link], "flows": [flow, {"scheme": "cubic", "start_s": 2}]}


def _scheme(name: str) -> dict[str, Any]:
    flow: dict[str, Any] = {"scheme": name}
    if SCHEMES[name]["learned"]:
        flow["policy"] = {"constant": ACTIONS.get(name, -0.2)}
    if SCHEMES[name]["requirement"]:
        flow["requirement"] = {"min_mbps": 2, "max_mbps": 9}
    return flow


def _service(draw: random.Random) -> dict[str, Any]:
    rate = draw.choice([2.0, 7.3, 12.0, 33.3])
    kind = draw.randrange(7)
    if kind == 0:
        return {"type": "random_steps", "min_mbps": 1, "max_mbps": rate, "period_s": 0.4}
    if kind == 1:
        return {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": rate}, {"at_s": 1, "rate_mbps": rate / 3}]}
    if kind == 2:
        return {"type": "cellular", "preset": draw.choice(CELLULAR), "seed": draw.randrange(99)}
    if kind == 3:
        return {"type": "wifi", "rate_mbps": rate, "busy_us": draw.choice([0, 300]), "retry": 0.2}
    if kind == 4:
        return {"type": "grants", "rate_mbps": rate, "retry": draw.choice([0, 0.1])}
    return {"type": "constant", "rate_mbps": rate}


def _loss(draw: random.Random) -> Any:
    return draw.choice(
        [
            0.003,
            {"type": "gilbert_elliott", "p": 0.01, "r": 0.3},
            {"type": "slots", "slot_ms": 3, "probability": 0.01},
            {"type": "steps", "steps": [{"at_s": 0, "loss": 0}, {"at_s": 1, "loss": 0.02}]},
        ]
    )


def _queue(draw: random.Random) -> dict[str, Any]:
    name = draw.choice(sorted(QUEUES))
    queue: dict[str, Any] = {"type": name}
    if QUEUES[name]["limit"] is not None:
        queue |= draw.choice([{"packets": 40}, {"bdp": 1.3}])
    if any(param["name"] == "ecn" for param in QUEUES[name]["params"]):
        queue["ecn"] = draw.random() < 0.5
    return queue


def _link(draw: random.Random) -> dict[str, Any]:
    link: dict[str, Any] = {"service": _service(draw), "queue": _queue(draw), "delay_ms": draw.choice([0, 3.7, 10, 31])}
    optional: dict[str, Any] = {
        "loss": _loss(draw),
        "jitter_ms": 1.5,
        "wakes_ms": 1,
        "outages": {"on_s": 1, "off_s": 0.1},
        "router": draw.choice([True, *ROUTERS]),
        "policer": {"rate_mbps": 6, "burst_bytes": 30_000},
        "shaper": {"rate_mbps": 8, "burst_bytes": 20_000},
        "reorder": {"probability": 0.01, "late_ms": 4},
        "duplicate": 0.003,
        "corrupt": {"probability": 0.003, "correlation": 0.2},
    }
    link |= {key: value for key, value in optional.items() if draw.random() < 0.12}
    if draw.random() < 0.08:
        link["delay_ms"] = {"steps": [{"at_s": 0, "delay_ms": 20}, {"at_s": 1.2, "delay_ms": 7}]}
    if draw.random() < 0.08 and isinstance(link["delay_ms"], float | int) and "loss" not in link:
        del link["service"], link["delay_ms"]
        link["conditions"] = {"model": draw.choice(MODELS), "seed": draw.randrange(99)}
    return link


def _app(draw: random.Random) -> dict[str, Any]:
    return draw.choice(
        [
            {"type": "bulk"},
            {"type": "bulk"},
            {"type": "cbr", "rate_mbps": 3},
            {"type": "onoff", "rate_mbps": 6, "on_s": 0.4, "off_s": 0.5},
            {"type": "capped", "rate_mbps": 4, "slot_ms": 50},
            {"type": "transfers", "sizes_bytes": [20_000, 300_000, 1000], "gap_s": 0.3},
        ]
    )


def _flow(draw: random.Random, scheme: str, links: list[str]) -> dict[str, Any]:
    flow: dict[str, Any] = {**_scheme(scheme), "app": _app(draw), "start_s": draw.choice([0, 0, 0.3])}
    flow["path"] = draw.choice([links, links[:1]])
    if len(links) > 2:
        flow |= draw.choice([{}, {"path": links[:2], "return_path": links[2:]}])
    optional: dict[str, Any] = {
        "base_rtt_ms": 150,
        "stop_s": 2,
        "ecn": True,
        "slow_start": False,
        "min_rto_ms": 30,
        "receive_window_packets": 30,
        "sack": False,
        "delayed_ack": False,
        "burst_bytes": 20_000,
        "initial_window": draw.choice([1, 40]),
    }
    flow |= {key: value for key, value in optional.items() if draw.random() < 0.15}
    if draw.random() < 0.15 and not {"sack", "delayed_ack", "burst_bytes"} & flow.keys():
        flow["ack_policy"] = {"type": "quic"}
    return flow
