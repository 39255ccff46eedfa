"""The league: links that nobody is trained on, in eight families, on which a generalist is measured.

| family      | links | what they are                                                                                 |
|-------------|-------|-----------------------------------------------------------------------------------------------|
| `constant`  | 40    | 1-200 Mbit/s, base RTT 5-200 ms, a quarter to 8 BDP                                           |
| `steps`     | 40    | one jump by 2 or 4 (Sage's league), phases (Genet), levels (Pensieve), a new rate each 0.5 s  |
| `cellular`  | 42    | pieces of the held-out recordings, 10-80 ms one way, 50-1000 packets                          |
| `satellite` | 36    | Starlink's models, scaled to 5-40 Mbit/s                                                      |
| `5g`        | 36    | 5G's models, scaled to 5-40 Mbit/s                                                            |
| `wifi`      | 36    | Wi-Fi's models; constant rates with losses in bursts of packets or of time                    |
| `shared`    | 40    | constant rates, with flows of the entrant's own, beside CUBIC, beside BBR, with short flows   |
| `aqm`       | 36    | constant rates and steps under CoDel, FQ-CoDel, PIE and DualPI2, with and without ECN         |

A link's parameters are drawn by its number, its capacity by number and seed, from a random stream that no training and
no other link set uses. Recordings are the held-out ones. Without them, presets that were fitted to them stand in
(`synthetic`). A sender decides itself whether it uses ECN.

Every run has a score. Of a lone sender it is the figure `score`, normalised power. Flows that share a link are measured
in the last `1 - SHARED_FROM` of the run, in which all are there:

- own flows: the link's normalised power times the least share over its fair share (`score_sharing`);
- beside CUBIC or BBR: `score_sharing`, since the other flow decides on the queue;
- short flows: the link's normalised power, which falls with the queue that they wait in.

The bound of a lone sender is the oracle's score, one round trip late (`oracle`), with the best amount in flight. Where
flows share, the bound is a fair oracle: each flow has its fair share of a full link without a queue from the beginning
of the measured part on, so that the score is 1. Nobody need reach it: CUBIC and short flows fill queues by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ccarena.eval.heldout.link import LEAGUE, LEAGUE_CELLULAR, Link
from ccarena.traces import models
from ccarena.traces.held_out import HELD_OUT, ORIGINS
from ccarena.traces.recorded import HELD_OUT_SEED, find_trace, started, trace_service

__all__ = ["FAMILIES", "FIRST_SEED", "SHARED_FROM", "SYNTHETIC", "family_of", "league"]

FIRST_SEED = HELD_OUT_SEED + 0x0010_0000
"""First seed of models and presets: beyond those of the other link sets."""
_STREAM = 9
SHARED_FROM = 0.4
"""Beginning of the measured part of a shared run, as a share of the run."""
SYNTHETIC = tuple(preset for preset, recording in ORIGINS.items() if recording in HELD_OUT)
"""Presets in place of the recordings, each fitted to a recording that is held out."""
_MODELS = {
    "satellite": ("starlink", "starlink-driving", "starlink-roam", "starlink-uplink"),
    "5g": ("5g-midband", "5g-driving", "5g-uplink", "5g-mmwave"),
    "wifi": ("wifi", "wifi-busy"),
}
_QUEUES: tuple[dict[str, Any], ...] = (
    {"type": "codel"},
    {"type": "fq_codel"},
    {"type": "pie"},
    {"type": "codel", "ecn": True},
    {"type": "pie", "ecn": True},
    {"type": "dualpi2"},
)
_AQM_PACKETS = 1000
"""Limit of the queues with AQM."""
Rng = np.random.Generator


def league(seed: int, duration_s: float) -> list[Link]:
    """Returns all links of the league for one seed."""
    return [link for family in FAMILIES for link in _family(family, seed, duration_s)]


def family_of(group: str) -> str:
    """Returns the family of a group of the league's links."""
    return group.partition(", ")[2].partition(":")[0]


def _family(family: str, seed: int, duration_s: float) -> Iterator[Link]:
    make, count = FAMILIES[family]
    for number in range(count):
        at = list(FAMILIES).index(family)
        own = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, _STREAM, at, number]))
        drawn = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, _STREAM, at, number, seed + 1]))
        fields = make(number, own, drawn, seed, duration_s)
        given = {"link_set": LEAGUE, "seed": seed, "duration_s": duration_s, "pictured": number < 4, **fields}
        yield Link(**{"group": f"{LEAGUE}, {family}", **given})


def _log(rng: Rng, low: float, high: float) -> float:
    """Returns a number that is drawn evenly in its logarithm, to three digits."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def _buffer(rng: Rng, mean_mbps: float, rtt_ms: float, bdp: tuple[float, float]) -> int:
    """Returns a buffer in packets, drawn in BDPs; 10 at least, which is an initial window."""
    return max(10, math.ceil(_log(rng, *bdp) * mean_mbps * rtt_ms * 125.0 / 1500.0))


def _steps_of(rates: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {
        "type": "steps",
        "steps": [{"at_s": round(at, 3), "rate_mbps": round(max(rate, 0.1), 3)} for at, rate in rates],
    }


def _fixed(rate_mbps: float) -> dict[str, Any]:
    return {"type": "constant", "rate_mbps": rate_mbps}


def _path(number: int, about: str, rtt_ms: float, buffer: int, service: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that every link has."""
    name = f"{number + 1}: {about}, {rtt_ms:g} ms, {buffer} packets"
    return {"name": name, "delay_ms": rtt_ms / 2, "buffer_packets": buffer, "service": service}


def _constant(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    rate, rtt = _log(own, 1, 200), _log(own, 5, 200)
    return _path(number, f"{rate:g} Mbit/s", rtt, _buffer(own, rate, rtt, (0.25, 8)), _fixed(rate))


def _stepped(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    kind = list(_STEPS)[number % len(_STEPS)]
    mean, rtt = _log(own, 2, 40), _log(own, 10, 120)
    service = _steps_of(list(_STEPS[kind](mean, own, drawn, duration_s)))
    return _path(number, f"{kind} {mean:g} Mbit/s", rtt, _buffer(own, mean, rtt, (0.5, 4)), service)


def _jump(mean: float, own: Rng, drawn: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields a rate, and from 7 s in 20 on its double, fourfold, half or quarter (ccBench's step links)."""
    factor = float(own.choice([0.25, 0.5, 2.0, 4.0]))
    yield 0.0, mean / math.sqrt(factor)
    yield 0.35 * duration_s, mean * math.sqrt(factor)


def _phases(mean: float, own: Rng, drawn: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields phases of 2 to 10 s; the highest rate is 3 to 10 times the lowest."""
    ratio, at_s = own.uniform(3.0, 10.0), 0.0
    while at_s < duration_s:
        yield at_s, mean * ratio ** drawn.uniform(-0.5, 0.5)
        at_s += drawn.uniform(2.0, 10.0)


def _levels(mean: float, own: Rng, drawn: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields a Markov chain over ten levels each second, which prefers near ones (Pensieve's synthetic traces)."""
    levels = mean * np.linspace(0.1, 1.9, 10)
    leave, at = 1.0 / own.uniform(2.0, 10.0), int(drawn.integers(0, 10))
    for second in range(math.ceil(duration_s)):
        if drawn.random() < leave:
            likely = np.where(np.arange(10) == at, 0.0, 0.5 ** np.abs(np.arange(10) - at))
            at = int(drawn.choice(10, p=likely / likely.sum()))
        yield float(second), float(levels[at])


def _restless(mean: float, own: Rng, drawn: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields a new rate each half second, log-normal around the mean."""
    spread = own.uniform(0.2, 0.6)
    for tick in range(math.ceil(2 * duration_s)):
        yield tick / 2, mean * math.exp(spread * drawn.standard_normal() - spread**2 / 2)


_STEPS = {"one jump": _jump, "phases": _phases, "levels": _levels, "restless": _restless}


def _cellular(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    there = [(name, path) for name in HELD_OUT if (path := find_trace(name)) is not None]
    delay, buffer = _log(own, 10, 80), round(_log(own, 50, 1000))
    if there:
        name, path = there[number % len(there)]
        # The beginning of a recording is the piece of seed 0 of `cellular`: pieces here are drawn for every seed.
        service = started(trace_service(path), duration_s, seed + 1, 100 + number)
    else:
        preset = SYNTHETIC[number % len(SYNTHETIC)]
        name = f"synthetic {preset}"
        service = {"type": "cellular", "preset": preset, "seed": FIRST_SEED + 1000 * seed + number}
    about = f"{name}, {number + 1}: {2 * delay:g} ms, {buffer} packets"
    path_ = {"name": about, "delay_ms": delay, "buffer_packets": buffer, "service": service}
    return {**path_, "group": LEAGUE_CELLULAR, "synthetic": not there}


def _modelled(number: int, own: Rng, model: str) -> dict[str, Any]:
    known = {each["name"]: each["mean_mbps"] for each in models.all_models()}[model]
    seed, mean = FIRST_SEED + number, _log(own, 5, min(40.0, known))
    rtt = 2 * models.base_delay_ms(model, seed)
    conditions = {"model": model, "seed": seed, "mean_mbps": mean, "offset_ms": "random"}
    buffer = _buffer(own, mean, rtt, (0.5, 4))
    found = _path(number, f"{model} {mean:g} Mbit/s", float(f"{rtt:.3g}"), buffer, {"type": "conditions"})
    return {**found, "delay_ms": rtt / 2, "more": {"conditions": conditions}}


def _satellite(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    return _modelled(number, own, _MODELS["satellite"][number % 4])


def _5g(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    return _modelled(number, own, _MODELS["5g"][number % 4])


def _wifi(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    kind = number % 4
    if kind < 2:
        return _modelled(number, own, _MODELS["wifi"][kind])
    rate, rtt = _log(own, 5, 50), _log(own, 10, 100)
    if kind == 2:
        loss: dict[str, Any] = {"type": "gilbert_elliott", "p": _log(own, 0.0003, 0.005), "r": _log(own, 0.05, 0.5)}
        about = f"{rate:g} Mbit/s with bursts of {1 / loss['r']:.2g} packets"
    else:
        loss = {"type": "slots", "slot_ms": round(_log(own, 20, 100))}
        loss |= {"probability": _log(own, 0.002, 0.02), "loss": float(f"{own.uniform(0.3, 0.9):.2g}")}
        about = f"{rate:g} Mbit/s with bad {loss['slot_ms']} ms"
    return {**_path(number, about, rtt, _buffer(own, rate, rtt, (0.5, 4)), _fixed(rate)), "more": {"loss": loss}}


def _shared(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    rate, rtt = _log(own, 5, 50), _log(own, 10, 100)
    first = bool(number // 4 % 2)
    late_s, kind = 0.1 * duration_s, number % 4
    found = _path(number, f"{rate:g} Mbit/s", rtt, _buffer(own, rate, rtt, (0.5, 4)), _fixed(rate))
    others: list[dict[str, Any]]
    if kind == 0:
        copies = [{"name": f"flow{k}", "start_s": k * late_s} for k in range(1, 2 + number // 4 % 3)]
        return {**found, "group": f"{LEAGUE}, shared: own flows", "shared": "own", "copies": copies}
    if kind == 3:
        short = {"type": "poisson", "load": _log(own, 0.1, 0.5), "sizes": "web_search"}
        others = [{"name": "short", "scheme": "cubic", "app": short}]
        return {**found, "group": f"{LEAGUE}, shared: short flows", "shared": "short", "others": others}
    rival = ("cubic", "bbr")[kind - 1]
    others = [{"name": "rival", "scheme": rival, "start_s": late_s if first else 0.0}]
    group = f"{LEAGUE}, shared: beside {rival}"
    return {**found, "group": group, "shared": "rival", "others": others, "start_s": 0.0 if first else late_s}


def _aqm(number: int, own: Rng, drawn: Rng, seed: int, duration_s: float) -> dict[str, Any]:
    queue = {**_QUEUES[number % len(_QUEUES)], "packets": _AQM_PACKETS}
    rate, rtt = _log(own, 5, 60), _log(own, 10, 100)
    stepped = number // len(_QUEUES) % 2
    service = _steps_of(list(_phases(rate, own, drawn, duration_s))) if stepped else _fixed(rate)
    about = f"{queue['type']}{' with ECN' if queue.get('ecn') else ''} {rate:g} Mbit/s{' in phases' if stepped else ''}"
    return {**_path(number, about, rtt, _AQM_PACKETS, service), "more": {"queue": queue}}


FAMILIES: dict[str, tuple[Callable[[int, Rng, Rng, int, float], dict[str, Any]], int]] = {
    "constant": (_constant, 40),
    "steps": (_stepped, 40),
    "cellular": (_cellular, 42),
    "satellite": (_satellite, 36),
    "5g": (_5g, 36),
    "wifi": (_wifi, 36),
    "shared": (_shared, 40),
    "aqm": (_aqm, 36),
}
"""Families: the maker of a link's fields, and the number of links."""
