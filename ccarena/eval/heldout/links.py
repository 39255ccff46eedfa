"""Held-out links, in link sets, on which policies and heuristics are judged.

| link set          | capacity                                          | queue                  | from              |
|-------------------|---------------------------------------------------|------------------------|-------------------|
| `slides`          | 48 Mbit/s, base RTT 30 ms                         | 1 BDP                  | Hyvar's slides    |
| `constant`        | 5-100 Mbit/s, base RTT 10-100 ms                  | 1 BDP, 32 at least     | training's range  |
| `steps`           | new in 5-100 Mbit/s every 4 s; RTT 10, 40, 100 ms | 1 BDP of the mean rate | ACCT §III, Fig. 4 |
| `signals`         | steps under routers that each lack something       | 1 BDP of the mean rate | ours              |
| `silent`          | as `constant`, without a router                  | 1 BDP, 32 at least     | ours              |
| `cellular`        | recorded traces, 20 ms one way                    | 100 and 1000 packets   | mahimahi's traces |
| `cellular-50ms`   | the same, 50 ms one way                           | 100 packets            | ABC, NSDI 2020    |
| `cellular-uplink` | 20 ms, ACKs over the trace of the other direction | 100 packets            | 6.829's contest   |
| `satellite`       | Starlink's models, at rest and on a car           | 1 BDP of the mean rate | link models       |
| `5g`              | 5G's models, on mid bands, driving and uplink     | 1 BDP of the mean rate | link models       |
| `wifi`            | Wi-Fi's models, quiet and busy                    | 1 BDP of the mean rate | link models       |
| `lossy`           | 24 Mbit/s, 40 ms: loss at random, in bursts, by time; reordering; a policer | 1 BDP | ours |
| `l4s`             | constant, steps; alone, beside Prague or CUBIC    | DualPI2 (RFC 9332)     | ours              |
| `league`          | 306 links in eight families (`league`)            | by family              | ours              |

Every scheme gets the same links. They have ACCT's router, which only ACCT's packets address. The router knows the
capacity at any time, with two exceptions. On `signals` it has faults: it is late, measures now and then, errs, writes
few bits, or is often or always silent. On `silent` there is none.

Stepped rates are drawn here, not by the simulator's random steps that training uses. The paper prints no RTTs for
Fig. 4's small, medium and large BDP: 10, 40 and 100 ms are ours. If none of the recorded traces is found, synthetic
presets replace them, with seeds that training never draws, and each such link is marked (`synthetic`).

Link models (docs/traces.md) draw rate, delay and loss together, with seeds that training never draws; the base RTT is
that of the draw. The two fastest models are scaled to a mean rate of `MODEL_MBPS`, so that a run takes seconds.

A user's own traces are the link set `traces`, with the given buffers and delays, and optionally a second trace for
acknowledgements. Expectations on recorded cellular links apply to them, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.heldout.league import league
from ccarena.eval.heldout.link import LEAGUE, TRACES, Link, bdp_packets, scenario
from ccarena.traces import models
from ccarena.traces.given import TraceLinks
from ccarena.traces.held_out import HELD_OUT
from ccarena.traces.recorded import HELD_OUT_SEED, find_trace, started, trace_service

__all__ = [
    "DEFAULT",
    "LINK_SETS",
    "MOST_SEEDS",
    "TRACES",
    "Link",
    "build",
    "check",
    "check_recordings",
    "over_traces",
    "scenario",
]

SYNTHETIC_PRESETS = ("lte-stationary", "lte-walking", "lte-bus", "lte-driving", "lte-driving-att", "umts-driving")

MOST_SEEDS = 10_000
LONGEST_S = 100_000.0
"""Longest run of a link: its capacity is drawn, and kept, in advance."""
RATE_MBPS = (5.0, 100.0)
RTT_MS = (10.0, 100.0)
STEP_S = 4.0
STEPS_RTT_MS = {"small": 10.0, "medium": 40.0, "large": 100.0}
ROUTERS: dict[str, bool | dict[str, float]] = {
    "late": {"late_ms": 200},
    "measured now and then": {"every_ms": 500, "late_ms": 50},
    "noisy": {"every_ms": 100, "noise": 0.3},
    "coarse": {"bits": 2},
    "often missing": {"every_ms": 100, "missing": 0.5},
    "silent": False,
}
MODELS = {
    "satellite": ("starlink", "starlink-driving", "starlink-roam", "starlink-uplink"),
    "5g": ("5g-midband", "5g-driving", "5g-uplink", "5g-mmwave"),
    "wifi": ("wifi", "wifi-busy"),
}
MODEL_MBPS = 100.0
"""Greatest mean rate of a link of a model: a faster model is scaled to it."""
LOSSY_MBPS, LOSSY_RTT_MS = 24.0, 40.0
LOSSY: dict[str, dict[str, Any]] = {
    "1 % at random": {"loss": 0.01},
    "bursts": {"loss": {"type": "gilbert_elliott", "p": 0.001, "r": 0.1}},
    "bad slots": {"loss": {"type": "slots", "slot_ms": 50, "probability": 0.01, "loss": 0.5}},
    "reordering": {"reorder": {"probability": 0.02, "late_ms": 10}},
    "policer": {"policer": {"rate_mbps": 20, "burst_bytes": 60_000}},
}
"""Keys of the scenario's link that make it lossy."""
L4S_RATE_MBPS, L4S_RTT_MS, L4S_STEP_S = (5.0, 40.0), (10.0, 50.0), 3.0
L4S_QUEUE: dict[str, Any] = {"type": "dualpi2", "packets": 10_000}
L4S: dict[str, list[dict[str, Any]]] = {
    "alone": [],
    "alone, steps": [],
    "beside prague": [{"scheme": "prague"}],
    "beside cubic": [{"scheme": "cubic", "ecn": True}],
    "beside both": [{"scheme": "prague"}, {"scheme": "cubic", "ecn": True}],
}
"""Flows beside the entrant's on links of `l4s`."""
CELLULAR_DELAY_MS = 20.0
CELLULAR_BUFFERS_PACKETS = (100, 1000)


def build(
    names: Sequence[str], seeds: int, duration_s: float | None = None, recordings: Sequence[str] = ()
) -> list[Link]:
    """Returns the links of the link sets called `names`, `seeds` repetitions each, in a fixed order.

    `duration_s` of each run: None is the link set's own (30 s, and 60 s for steps and cellular). `recordings` are those
    of cellular links; if empty, all that are held out. Raises ConfigError for an unknown link set or recording, or an
    impossible number.
    """
    check(names, seeds, duration_s)
    check_recordings(recordings)
    out: list[Link] = []
    for name in names:
        make, own_duration_s = LINK_SETS[name]
        out += [link for seed in range(seeds) for link in make(seed, duration_s or own_duration_s)]
    return [link for link in out if not recordings or not link.recorded or _recording(link) in recordings]


def check_recordings(names: Sequence[str]) -> None:
    """Raises ConfigError for a recording that is not held out."""
    if unknown := [name for name in names if name not in HELD_OUT]:
        raise ConfigError(f'eval.recordings: unknown recording "{unknown[0]}"{did_you_mean(unknown[0], HELD_OUT)}')


def _recording(link: Link) -> str:
    return link.name.split(",")[0]


def over_traces(given: TraceLinks, seeds: int, duration_s: float | None = None) -> list[Link]:
    """Returns the links over the traces that a user named, `seeds` repetitions each, of 60 s unless `duration_s` is
    given.

    Raises ConfigError for an impossible number.
    """
    check((), seeds, duration_s)
    length_s = duration_s or LINK_SETS["cellular"][1]
    out = []
    for seed in range(seeds):
        for index, trace, buffer, delay_ms in given.each():
            how = f"{buffer} packets, {delay_ms:g} ms"
            forward = started(trace_service(trace.file), length_s, seed, index)
            back = started(trace_service(trace.back), length_s, seed, index) if trace.back else None
            out.append(
                Link(
                    TRACES,
                    f"{trace.name}, {how}",
                    seed,
                    length_s,
                    delay_ms,
                    buffer,
                    forward,
                    f"traces, {how}",
                    back=back,
                )
            )
    return out


def check(names: Sequence[str], seeds: int = 1, duration_s: float | None = None) -> None:
    """Raises ConfigError for an unknown link set or an impossible number, as `build` does."""
    for name in names:
        if name not in LINK_SETS:
            raise ConfigError(f'unknown link set "{name}"{did_you_mean(name, LINK_SETS)}')
    if not 1 <= seeds <= MOST_SEEDS:
        raise ConfigError(f"seeds = {seeds}: expected 1 to {MOST_SEEDS}")
    if duration_s is not None and not 0 < duration_s <= LONGEST_S:
        raise ConfigError(f"duration_s = {duration_s:g}: expected above 0 and at most {LONGEST_S:g} s")


def _slides(seed: int, duration_s: float) -> list[Link]:
    """Returns the one link of Hyvar's slides, on which it needs no tuned period."""
    rate, rtt = 48.0, 30.0
    service = {"type": "constant", "rate_mbps": rate}
    name = f"{rate:g} Mbit/s, {rtt:g} ms"
    return [Link("slides", name, seed, duration_s, rtt / 2, bdp_packets(rate, rtt), service, "slides")]


def _constant(seed: int, duration_s: float) -> list[Link]:
    """Returns a 3 x 3 grid of rates and RTTs that reaches the corners; later seeds draw within the grid's cells
    instead.
    """
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


def _silent(seed: int, duration_s: float) -> list[Link]:
    """Returns bottlenecks without a router: ACCT gets neither its target nor the zones Yellow and Red."""
    return [replace(link, link_set="silent", group="silent", router=False) for link in _constant(seed, duration_s)]


def _steps(seed: int, duration_s: float) -> list[Link]:
    out = []
    for index, (size, rtt) in enumerate(STEPS_RTT_MS.items()):
        rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 2, seed, index]))
        service, buffer = _stepped(rng, duration_s, rtt)
        name = f"{size} BDP, {rtt:g} ms"
        out.append(Link("steps", name, seed, duration_s, rtt / 2, buffer, service, "steps"))
    return out


def _signals(seed: int, duration_s: float) -> list[Link]:
    """Returns steps of capacity under routers with one fault each, with RTTs as those of `constant`."""
    out = []
    for index, (lacking, router) in enumerate(ROUTERS.items()):
        rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 5, seed, index]))
        rtt = float(f"{rng.uniform(*RTT_MS):.3g}")
        service, buffer = _stepped(rng, duration_s, rtt)
        out.append(Link("signals", lacking, seed, duration_s, rtt / 2, buffer, service, "signals", router=router))
    return out


def _stepped(rng: np.random.Generator, duration_s: float, rtt_ms: float) -> tuple[dict[str, Any], int]:
    """Returns a capacity redrawn every 4 s, and one BDP of its mean."""
    return _redrawn(rng, duration_s, RATE_MBPS, STEP_S), bdp_packets(sum(RATE_MBPS) / 2, rtt_ms)


def _redrawn(rng: np.random.Generator, duration_s: float, mbps: tuple[float, float], every_s: float) -> dict[str, Any]:
    """Returns a capacity that is redrawn regularly."""
    rates = rng.uniform(*mbps, size=math.ceil(duration_s / every_s)).round(2)
    steps = [{"at_s": k * every_s, "rate_mbps": float(rate)} for k, rate in enumerate(rates)]
    return {"type": "steps", "steps": steps}


def _cellular(seed: int, duration_s: float) -> list[Link]:
    services: list[tuple[str, dict[str, Any]]] = []
    for index, name in enumerate(HELD_OUT):
        path = find_trace(name)
        if path is not None:
            services.append((name, started(trace_service(path), duration_s, seed, index)))
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


def _cellular_50ms(seed: int, duration_s: float) -> list[Link]:
    links = [link for link in _cellular(seed, duration_s) if link.buffer_packets == CELLULAR_BUFFERS_PACKETS[0]]
    name = "cellular-50ms"
    return [replace(link, link_set=name, group="cellular, 50 ms one way", delay_ms=50.0) for link in links]


def _cellular_uplink(seed: int, duration_s: float) -> list[Link]:
    """Returns links of the recordings whose other direction exists; both start at the same moment, as they were
    recorded.
    """
    out = []
    for link in _cellular(seed, duration_s):
        stem, _, direction = _recording(link).rpartition(".")
        other = None if link.synthetic else find_trace(f"{stem}.{'up' if direction == 'down' else 'down'}")
        if other is not None and link.buffer_packets == CELLULAR_BUFFERS_PACKETS[0]:
            back = {**link.service, "file": str(other)}
            out.append(replace(link, link_set="cellular-uplink", group="cellular, ACKs over uplink", back=back))
    return out


def _of_models(link_set: str, seed: int, duration_s: float) -> list[Link]:
    known = {model["name"]: model["mean_mbps"] for model in models.all_models()}
    out = []
    for name in MODELS[link_set]:
        mean_mbps = min(known[name], MODEL_MBPS)
        conditions: dict[str, Any] = {"model": name, "seed": HELD_OUT_SEED + seed}
        if mean_mbps < known[name]:
            conditions["mean_mbps"] = mean_mbps
        delay_ms = models.base_delay_ms(name, HELD_OUT_SEED + seed)
        buffer, more = bdp_packets(mean_mbps, 2 * delay_ms), {"conditions": conditions}
        service = {"type": "conditions"}
        out.append(Link(link_set, name, seed, duration_s, delay_ms, buffer, service, link_set, more=more))
    return out


def _lossy(seed: int, duration_s: float) -> list[Link]:
    """Returns links of one capacity that lose, hold back or police packets in different ways."""
    service = {"type": "constant", "rate_mbps": LOSSY_MBPS}
    buffer = bdp_packets(LOSSY_MBPS, LOSSY_RTT_MS)
    return [
        Link("lossy", name, seed, duration_s, LOSSY_RTT_MS / 2, buffer, service, f"lossy, {name}", more=more)
        for name, more in LOSSY.items()
    ]


def _l4s(seed: int, duration_s: float) -> list[Link]:
    """Returns links with DualPI2 of drawn rates and RTTs, alone and beside other flows."""
    out = []
    for index, (name, others) in enumerate(L4S.items()):
        rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 6, seed, index]))
        rate, rtt = (float(f"{np.exp(rng.uniform(*np.log(ends))):.3g}") for ends in (L4S_RATE_MBPS, L4S_RTT_MS))
        service: dict[str, Any] = {"type": "constant", "rate_mbps": rate}
        if "steps" in name:
            service = _redrawn(rng, duration_s, L4S_RATE_MBPS, L4S_STEP_S)
        more = {"queue": L4S_QUEUE, "router": None}
        link = Link("l4s", name, seed, duration_s, rtt / 2, L4S_QUEUE["packets"], service, f"l4s, {name}", more=more)
        out.append(replace(link, others=others))
    return out


LINK_SETS: dict[str, tuple[Callable[[int, float], list[Link]], float]] = {
    "slides": (_slides, 30.0),
    "constant": (_constant, 30.0),
    "steps": (_steps, 60.0),
    "signals": (_signals, 60.0),
    "silent": (_silent, 30.0),
    "cellular": (_cellular, 60.0),
    "cellular-50ms": (_cellular_50ms, 60.0),
    "cellular-uplink": (_cellular_uplink, 60.0),
    "satellite": (partial(_of_models, "satellite"), 60.0),
    "5g": (partial(_of_models, "5g"), 60.0),
    "wifi": (partial(_of_models, "wifi"), 30.0),
    "lossy": (_lossy, 30.0),
    "l4s": (_l4s, 15.0),
    LEAGUE: (league, 20.0),
}
"""Link sets: each one's maker and its own duration of a run, s."""
DEFAULT = tuple(name for name in LINK_SETS if name != LEAGUE)
"""Link sets that run if none is named: all but the league, which has more links than all others together."""
