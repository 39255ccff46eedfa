"""The held-out links, in three link sets, on which a policy is judged beside the heuristics.

| link set   | capacity                                              | queue                   | from                 |
|------------|-------------------------------------------------------|-------------------------|----------------------|
| `constant` | 5-100 Mbit/s, base RTT 10-100 ms                      | 1 BDP, 32 packets least | training's own range |
| `steps`    | redrawn in 5-100 Mbit/s every 4 s; RTT 10, 40, 100 ms | 1 BDP of the mean rate  | ACCT §III, Fig. 4    |
| `cellular` | recorded traces, 20 ms one way                        | 100 and 1000 packets    | mahimahi's traces    |

Every scheme gets the same links, with ACCT's network agent on them, which only ACCT's packets address. Stepped rates
are drawn here, not by the simulator's random steps that training uses. The paper prints no RTTs for Fig. 4's small,
medium and large BDP: 10, 40 and 100 ms are ours. Where none of the recorded traces is found, synthetic presets take
their place, with seeds that training never draws, and each such link says so (`synthetic`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import traces
from ccarena.acct import spec
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.recorded_traces import HELD_OUT_SEED, find_trace, trace_start_ms
from ccarena.traces.held_out import HELD_OUT

__all__ = ["LINK_SETS", "Link", "Sender", "build", "constant_alpha", "heuristic", "learned", "scenario"]

SYNTHETIC_PRESETS = ("lte-stationary", "lte-walking", "lte-bus", "lte-driving", "lte-driving-att", "umts-driving")

PACKET_BYTES = 1500
RATE_MBPS = (5.0, 100.0)
RTT_MS = (10.0, 100.0)
STEP_S = 4.0
STEPS_RTT_MS = {"small": 10.0, "medium": 40.0, "large": 100.0}
CELLULAR_DELAY_MS = 20.0
CELLULAR_BUFFERS_PACKETS = (100, 1000)


@dataclass(frozen=True)
class Link:
    """One link of a link set, for one seed."""

    link_set: str
    name: str
    """Describes the link without its seed: rows with the same name are repetitions."""
    seed: int
    duration_s: float
    delay_ms: float
    """One-way propagation; the base RTT is twice that."""
    buffer_packets: int
    service: dict[str, Any]
    """The scenario's `links[0].service`."""
    group: str = ""
    """The links that one expectation is about: the link set, divided by buffer size for `cellular`."""
    synthetic: bool = False
    """Whether it stands in for a recorded trace that was not found."""

    @property
    def base_rtt_ms(self) -> float:
        """Round-trip propagation delay."""
        return 2.0 * self.delay_ms

    @property
    def capacity_window_ms(self) -> float:
        """How long one must count to know the capacity: on a trace the network agent's 100 ms, else 0."""
        return 100.0 if self.link_set == "cellular" else 0.0


@dataclass(frozen=True)
class Sender:
    """What sends over a link: its label in tables, and the scheme, policy and other fields of the scenario's flow."""

    label: str
    scheme: str
    policy: Any = None
    fields: dict[str, Any] = field(default_factory=dict)


def heuristic(name: str) -> Sender:
    """A scheme without a policy, by its registered name."""
    return Sender(name, name)


def learned(policy: Path, params: Mapping[str, float] | None = None) -> Sender:
    """ACCT with the artifact at `policy`, and the scheme's parameters that it was trained with."""
    return Sender("acct", "acct", str(policy), {"params": dict(params or {})})


def constant_alpha(alpha: int) -> Sender:
    """ACCT with one constant action of `spec.ACTIONS`, which shows what its window rules do without learning."""
    return Sender(f"acct α={alpha}", "acct", {"constant": spec.ACTIONS.index(alpha)})


def scenario(link: Link, sender: Sender) -> dict[str, Any]:
    """The scenario of one bulk flow of `sender` over `link`, with packets and reports recorded, in 1 ms bins."""
    flow: dict[str, Any] = {"name": "flow0", "scheme": sender.scheme, "base_rtt_ms": link.base_rtt_ms, **sender.fields}
    if sender.policy is not None:
        flow["policy"] = sender.policy
    return {
        "version": 1,
        "duration_s": link.duration_s,
        "seed": link.seed,
        "links": [
            {
                "name": "bottleneck",
                "service": link.service,
                "queue": {"type": "droptail", "packets": link.buffer_packets},
                "delay_ms": link.delay_ms,
                "agent": True,
            }
        ],
        "flows": [flow],
        "record": {"packets": True, "reports": sender.policy is not None, "bin_ms": 1},
    }


def build(names: Sequence[str], seeds: int, duration_s: float | None = None) -> list[Link]:
    """The links of the link sets called `names`, `seeds` repetitions each, in a fixed order.

    `duration_s` of each run; None is the link set's own (30 s, and 60 s for steps and cellular). Raises ConfigError for
    an unknown link set or an impossible number.
    """
    if seeds < 1 or (duration_s is not None and not 0 < duration_s < math.inf):
        raise ConfigError(f"seeds = {seeds}, duration_s = {duration_s}: expected 1 seed or more and a duration above 0")
    out: list[Link] = []
    for name in names:
        if name not in LINK_SETS:
            raise ConfigError(f'unknown link set "{name}"{did_you_mean(name, LINK_SETS)}')
        make, own_duration_s = LINK_SETS[name]
        out += [link for seed in range(seeds) for link in make(seed, duration_s or own_duration_s)]
    return out


def bdp_packets(rate_mbps: float, rtt_ms: float) -> int:
    """Packets of 1500 bytes in one bandwidth-delay product, rounded up, and at least 32.

    With fewer, a run would measure little more than the burst of an initial window and its delayed ACKs.
    """
    return max(32, math.ceil(rate_mbps * rtt_ms * 125.0 / PACKET_BYTES))


def _constant(seed: int, duration_s: float) -> list[Link]:
    """A 3 x 3 grid of rates and RTTs that reaches the corners; later seeds draw within the grid's cells instead."""
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 1, seed]))
    out = []
    for i in range(3):
        for j in range(3):
            x, y = (i / 2, j / 2) if seed == 0 else ((i + rng.random()) / 3, (j + rng.random()) / 3)
            rate = float(f"{RATE_MBPS[0] * (RATE_MBPS[1] / RATE_MBPS[0]) ** x:.3g}")
            rtt = float(f"{RTT_MS[0] * (RTT_MS[1] / RTT_MS[0]) ** y:.3g}")
            service = {"type": "constant", "rate_mbps": rate}
            name = f"{rate:g} Mbit/s, {rtt:g} ms"
            out.append(Link("constant", name, seed, duration_s, rtt / 2, bdp_packets(rate, rtt), service, "constant"))
    return out


def _steps(seed: int, duration_s: float) -> list[Link]:
    out = []
    for index, (size, rtt) in enumerate(STEPS_RTT_MS.items()):
        rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 2, seed, index]))
        rates = rng.uniform(*RATE_MBPS, size=math.ceil(duration_s / STEP_S)).round(2)
        steps = [{"at_s": k * STEP_S, "rate_mbps": float(rate)} for k, rate in enumerate(rates)]
        buffer = bdp_packets(sum(RATE_MBPS) / 2, rtt)
        name = f"{size} BDP, {rtt:g} ms"
        out.append(Link("steps", name, seed, duration_s, rtt / 2, buffer, {"type": "steps", "steps": steps}, "steps"))
    return out


def _cellular(seed: int, duration_s: float) -> list[Link]:
    services: list[tuple[str, dict[str, Any]]] = []
    for index, name in enumerate(HELD_OUT):
        path = find_trace(name)
        if path is not None:
            offset_ms = trace_start_ms(path, duration_s, seed, index)
            services.append((name, {"type": "trace", "file": str(path), "offset_ms": offset_ms}))
    synthetic = not services
    if synthetic:
        services = [
            (f"synthetic {preset}", {"type": "cellular", "preset": preset, "seed": HELD_OUT_SEED + seed})
            for preset in SYNTHETIC_PRESETS
        ]
    return [
        Link(
            "cellular",
            f"{name}, {buffer} packets",
            seed,
            duration_s,
            CELLULAR_DELAY_MS,
            buffer,
            service,
            f"cellular, {buffer} packets",
            synthetic,
        )
        for buffer in CELLULAR_BUFFERS_PACKETS
        for name, service in services
    ]


def trace_opportunities_ms(link: Link) -> np.ndarray | None:
    """Delivery opportunities within the run over a recorded trace, in ms from its start; None for other links."""
    if link.service["type"] != "trace":
        return None
    stamps = traces.load(link.service["file"]).astype(np.int64)
    period, offset, end = int(stamps[-1]), int(link.service["offset_ms"]), round(link.duration_s * 1e3)
    laps = np.arange((offset + end) // period + 1) * period
    every = (laps[:, None] + stamps[None, :]).ravel() - offset
    return every[(every >= 0) & (every <= end)]


LINK_SETS: dict[str, tuple[Callable[[int, float], list[Link]], float]] = {
    "constant": (_constant, 30.0),
    "steps": (_steps, 60.0),
    "cellular": (_cellular, 60.0),
}
"""For each link set the function that makes its links, and the duration of its runs in s."""
