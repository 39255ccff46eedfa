"""A FIFO link as Lindley's recursion, in the shape of the simulator's result: figures can be tested without it."""

from __future__ import annotations

from typing import Any

import numpy as np


def packet_log(arrival_ns: list[int], service_ns: list[int], flow: list[int] | None = None) -> dict[str, Any]:
    """A packet leaves its service time after the later of its arrival and the departure before it."""
    departure, last = [], 0
    for arrived, service in zip(arrival_ns, service_ns, strict=True):
        last = max(arrived, last) + service
        departure.append(last)
    n = len(arrival_ns)
    return {
        "arrival_ns": np.array(arrival_ns, np.uint64),
        "departure_ns": np.array(departure, np.uint64),
        "flow": np.array(flow if flow is not None else [0] * n, np.uint32),
        "bytes": np.full(n, 1500, np.uint32),
        "serialisation_ns": np.array(service_ns, np.uint32),
    }


def simulate(scenario: dict[str, Any], load: float = 0.97, standing_packets: int = 0, seed: int = 0) -> dict[str, Any]:
    """A stand-in for `ccarena._core.simulate`: Poisson arrivals at `load` of a constant, stepped or made-up capacity.

    `standing_packets` are added at the start, as a queue that never drains would be.
    """
    duration_s = float(scenario["duration_s"])
    link, rng = scenario["links"][0], np.random.default_rng(seed)
    service = link["service"]
    bins = int(duration_s * 1000)
    if service["type"] == "constant":
        capacity = np.full(bins, float(service["rate_mbps"]))
    elif service["type"] == "steps":
        times = np.array([step["at_s"] for step in service["steps"]])
        rates = np.array([step["rate_mbps"] for step in service["steps"]])
        capacity = rates[np.searchsorted(times, np.arange(bins) / 1e3, side="right") - 1]
    else:
        capacity = 6.0 + 4.0 * np.sin(np.arange(bins) / 700.0)
    arrivals: list[int] = [0] * standing_packets
    services: list[int] = [int(12000 / capacity[0] * 1e3)] * standing_packets
    t = 0.0
    while t < duration_s:
        rate = capacity[min(int(t * 1000), bins - 1)]
        t += rng.exponential(12000 / (rate * 1e6) / load)
        arrivals.append(int(t * 1e9))
        services.append(int(12000 / rate * 1e3))
    log = packet_log(arrivals, services)
    kept = log["departure_ns"] <= duration_s * 1e9
    log = {name: values[kept] for name, values in log.items()}
    delivered = int(log["bytes"].sum())
    decisions = max(1, int(duration_s * 20))
    reports = np.zeros((decisions, 16), np.float32)
    reports[:, 0] = rng.integers(0, 3, decisions)
    reports[:, 1] = rng.choice([1, 2, 5, 100], decisions)
    flow = scenario["flows"][0]
    return {
        "duration_s": duration_s,
        "seed": scenario.get("seed", 0),
        "flows": [
            {
                "name": flow.get("name", "flow0"),
                "scheme": flow["scheme"],
                "start_s": 0.0,
                "stop_s": None,
                "sent_packets": len(arrivals),
                "retransmitted_packets": 0,
                "lost_packets": 0,
                "timeouts": 0,
                "delivered_bytes": int(delivered * 1448 / 1500),
                "wire_bytes": delivered,
                "rtt_min_ms": 40.0,
                "rtt_mean_ms": 45.0,
                "completion_s": [],
                "decisions": decisions,
                "reports": reports,
            }
        ],
        "links": [
            {
                "name": link.get("name", "link0"),
                "capacity_bytes": int(capacity.sum() * 1e3 / 8),
                "delivered_bytes": delivered,
                "delivered_packets": int(kept.sum()),
                "dropped_packets": 0,
                "log": log,
                "drops": {"time_ns": np.array([], np.uint64), "flow": np.array([], np.uint32)},
                "losses": {"time_ns": np.array([], np.uint64), "flow": np.array([], np.uint32)},
                "capacity_mbps": capacity,
            }
        ],
    }
