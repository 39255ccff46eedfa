"""Default properties: what a congestion controller should do in plain situations, by its actuator and its signals."""

from __future__ import annotations

import math
from typing import Any

from ccarena.eval.certify.properties import action_range, observed_by
from ccarena.policies.artifact import Artifact

__all__ = ["default_properties"]

_STEADY: dict[str, Any] = {"throughput_ratio": [0.8, 1], "delivery_ratio": [0.9, 1.1], "interval_ratio": [0.5, 2]}
"""A flow that gets what it sends."""
_QUEUE: dict[str, Any] = {
    "rtt_ratio": [3, math.inf],
    "srtt_ratio": [3, math.inf],
    "latency_ratio": [3, math.inf],
    "delay_ratio": [4, math.inf],
    "window_ratio": [2, math.inf],
}
"""A standing queue: three times the smallest RTT, and four delay budgets."""
_LOSS: dict[str, Any] = {"loss_ratio": [0.05, 0.3], "packet_loss_ratio": [0.05, 0.3]}
_NO_LOSS: dict[str, Any] = {"loss_ratio": 0, "packet_loss_ratio": 0, "loss_rate_pps": 0}
_NO_QUEUE: dict[str, Any] = {
    "rtt_ratio": [1, 1.1],
    "srtt_ratio": [1, 1.1],
    "latency_ratio": [1, 1.1],
    "latency_gradient": [-0.01, 0.01],
    "send_ratio": [1, 1.05],
    "delay_ratio": [0, 0.2],
    "window_ratio": [0, 1],
    "zone": "green",
    **_NO_LOSS,
}
_DELAYS = ("rtt_ratio", "latency_ratio", "delay_ratio")
_NEUTRAL = {"window_exp2": 0.0, "window_factor": 0.0, "rate_factor": 0.0, "pacing_gain": 1.0}
"""Action that changes nothing, by actuator."""


def default_properties(policy: Artifact) -> dict[str, Any]:
    """Returns properties for the first number of a policy's actions, as a file would say them."""
    seen = observed_by(policy)
    interface = policy.interface
    known = {entry.name for entry in seen.entries} | set(seen.channels())
    acts = policy.spec["act"]
    kind = str((acts[0] if isinstance(acts, list) else acts).get("kind"))
    low, high = action_range(policy, 0)

    def among(*conditions: dict[str, Any]) -> dict[str, Any]:
        return {name: ends for each in conditions for name, ends in each.items() if name in known}

    # α is an increase per window: nothing is neutral, and half of the largest is much.
    neutral = (low + high) / 2 if kind == "alpha" else _NEUTRAL.get(kind)
    properties: list[dict[str, Any]] = []
    if neutral is not None and low <= neutral <= high and known.intersection(_DELAYS):
        limits = among(_STEADY, _QUEUE, _LOSS)
        properties.append(
            {"name": "no growth in a standing queue", "if": limits, "then": {"action": {"most": neutral}}}
        )
        floor = low + 1 if kind == "alpha" else (neutral + low) / 2
        limits = among(_STEADY, _NO_QUEUE)
        properties.append({"name": "no deep cut without a queue", "if": limits, "then": {"action": {"least": floor}}})
    # Discrete actions tie, and are not certified as monotone.
    if interface.bounds is not None and (delays := [name for name in _DELAYS if name in known]):
        limits = among(_STEADY, _NO_LOSS)
        falls = {"monotone": {"signal": delays[0], "action": "falls"}}
        properties.append({"name": "less at a longer delay", "if": limits, "then": falls})
    claim: dict[str, Any] = {"change": {"most": (high - low) / 2}}
    properties.append({"name": "no jump by half of the range", "if": among(_STEADY, _NO_LOSS), "then": claim})
    return {"properties": properties}
