"""Case of an attack: one link and who is on it, as plain data, and the scenario that it stands for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ccarena.core.files import digest
from ccarena.scenarios.entrants import Entrant, parse
from ccarena.scenarios.room import receiver_room

__all__ = [
    "APPLICATIONS",
    "ATTACKED",
    "BESIDE",
    "ITSELF",
    "NOBODY",
    "SHAPES",
    "Case",
    "Competition",
    "Steps",
    "scenario",
]

NOBODY, ITSELF = "nobody", "itself"
"""Words of `beside` that are no entrants: the entrant is alone, or beside more flows of its own."""
ATTACKED, BESIDE = "attacked", "beside"
"""Names of the attacked flow and of the others in the scenario of a case."""
Competition: TypeAlias = Literal["alone", "itself", "others"]
"""Competition of the entrant on the link."""
Steps: TypeAlias = tuple[tuple[float, float], ...]
"""Times in s and the levels from then on."""
SHAPES = ("capacity", "delay_ms", "loss")
"""Quantities that may change in steps."""
APPLICATIONS = ("bulk", "onoff", "transfers")
"""Applications: as much as the controller allows; a second at twice the link's rate, then a second of silence; a
transfer of `TRANSFER_BYTES` every half second.
"""
TRANSFER_BYTES = 100_000
PACKET_BYTES = 1500
FEWEST_QUEUED = 2
"""Packets that a queue holds at least."""
START_UP, START_UP_S = 0.2, 2.0
"""Share of the run that is not measured, and time after the last flow's start."""
SHALLOW_BDP, SHALLOW_PACKETS, DEEP_BDP = 0.5, 10, 2.0
"""Buffers below one of the first two are called shallow, and above the last one deep."""


@dataclass(frozen=True)
class Case:
    """Link of a space."""

    duration_s: float
    values: Mapping[str, Any]
    """Values of the parameters."""
    shapes: Mapping[str, Steps]
    """Steps of each shape; empty where it is steady."""

    @property
    def competition(self) -> Competition:
        """Returns who else is on the link."""
        beside = self.values["beside"]
        return "alone" if beside == NOBODY else "itself" if beside == ITSELF else "others"

    @property
    def measured_from_s(self) -> float:
        """Returns the time from which the run is measured."""
        late_s = 0.0 if self.competition == "alone" else float(self.values["late_s"])
        return max(START_UP * self.duration_s, late_s + START_UP_S)

    @property
    def changes_s(self) -> list[float]:
        """Returns the times of the steps of all shapes within the run."""
        times = {at for steps in self.shapes.values() for at, _ in steps if at < self.duration_s}
        return sorted(times)

    @property
    def queue_packets(self) -> int:
        """Returns the limit of the queue."""
        bdp = self.values["rate_mbps"] * self.values["rtt_ms"] * 125.0
        return max(FEWEST_QUEUED, math.ceil(self.values["buffer_bdp"] * bdp / PACKET_BYTES))

    @property
    def id(self) -> str:
        """Returns a digest of the case."""
        return digest(json.dumps(self.as_dict(), sort_keys=True).encode())

    def with_value(self, name: str, value: Any) -> Case:
        """Returns the case with another value of a parameter."""
        return replace(self, values={**self.values, name: value})

    def with_steps(self, shape: str, steps: Steps) -> Case:
        """Returns the case with other steps of a shape."""
        return replace(self, shapes={**self.shapes, shape: steps})

    def normal(self, plain: Mapping[str, Any]) -> Case:
        """Returns the case with plain values where a value has no effect, so that equal links are equal cases."""
        if self.competition != "alone":
            return self
        without = {name: plain[name] for name in ("competitors", "late_s")}
        return replace(self, values={**self.values, **without})

    def disturbances(self, plain: Mapping[str, Any]) -> list[str]:
        """Returns what differs from an ordinary link, rate, RTT and buffer left out, a word each."""
        usual = ("rate_mbps", "rtt_ms", "buffer_bdp", "beside", "competitors", "late_s")
        changed = {name: value for name, value in self.values.items() if name not in usual and value != plain[name]}
        words = [value if isinstance(value, str) else name for name, value in changed.items()]
        steps = [f"{name} steps" for name, found in self.shapes.items() if found]
        return [*words, *steps]

    def mechanism(self, plain: Mapping[str, Any]) -> str:
        """Returns the kind of link in words, by which finds are told apart."""
        words = [{"alone": "alone", "itself": "beside itself"}.get(self.competition, f"beside {self.values['beside']}")]
        buffer = self.values["buffer_bdp"]
        shallow = buffer < SHALLOW_BDP or self.queue_packets < SHALLOW_PACKETS
        words += ["shallow buffer"] if shallow else ["deep buffer"] if buffer > DEEP_BDP else []
        return ", ".join([*words, *(each.replace("_ms", "") for each in self.disturbances(plain))])

    def describe(self) -> str:
        """Returns the link in one line."""
        of = self.values
        parts = [f"{of['rate_mbps']:g} Mbit/s", f"{of['rtt_ms']:g} ms", f"{of['queue']} {of['buffer_bdp']:g} BDP"]
        parts += [f"loss {100 * of['loss']:g} %"] if of["loss"] else []
        parts += [f"jitter {of['jitter_ms']:g} ms"] if of["jitter_ms"] else []
        parts += [str(of["application"])] if of["application"] != "bulk" else []
        if self.competition != "alone":
            late = f" from {of['late_s']:g} s on" if of["late_s"] else ""
            parts.append(f"beside {of['competitors']} × {of['beside']}{late}")
        for name, unit, scale in (
            ("capacity", "Mbit/s", of["rate_mbps"]),
            ("delay_ms", "ms", 1.0),
            ("loss", "%", 100.0),
        ):
            if steps := self.shapes[name]:
                what = {"capacity": "capacity", "delay_ms": "delay +", "loss": "loss"}[name]
                parts.append(f"{what} " + ", ".join(f"{scale * level:.3g} {unit} at {at:g} s" for at, level in steps))
        return "; ".join(parts)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Case:
        """Returns the case of plain data."""
        steps = {name: tuple((at, level) for at, level in found) for name, found in data["shapes"].items()}
        return cls(data["duration_s"], data["values"], {name: steps.get(name, ()) for name in SHAPES})

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        shapes = {name: [list(step) for step in steps] for name, steps in self.shapes.items() if steps}
        return {"duration_s": self.duration_s, "values": dict(self.values), "shapes": shapes}


def scenario(
    case: Case, entrant: Entrant, seed: int = 1, *, attacked: bool = True, beside: bool = True
) -> dict[str, Any]:
    """Returns the scenario of a case (docs/scenario.md); without the attacked flow or without the others if wanted."""
    of = case.values
    links = [
        {
            "name": "link",
            "service": _service(case),
            "queue": {"type": of["queue"], "packets": case.queue_packets},
            "delay_ms": _delay(case),
            "jitter_ms": of["jitter_ms"],
            "loss": _loss(case),
            "router": True,
        }
    ]
    room = receiver_room([{"service": {"rate_mbps": of["rate_mbps"]}}], of["rtt_ms"])
    own = {**entrant.flow, "receive_window_packets": room}
    flows = [{"name": ATTACKED, **own, "app": _application(case)}] if attacked else []
    if beside and case.competition != "alone":
        other = own if case.competition == "itself" else parse(of["beside"]).flow
        flows.append({"name": BESIDE, **other, "count": int(of["competitors"]), "start_s": of["late_s"]})
    return {
        "version": 1,
        "duration_s": case.duration_s,
        "seed": seed,
        "links": links,
        "flows": flows,
        "record": {"packets": True, "series": True},
    }


def _service(case: Case) -> dict[str, Any]:
    rate = case.values["rate_mbps"]
    if not case.shapes["capacity"]:
        return {"type": "constant", "rate_mbps": rate}
    steps = [
        {"at_s": at, "rate_mbps": float(f"{rate * share:.4g}")} for at, share in _from_start(case, "capacity", 1.0)
    ]
    return {"type": "steps", "steps": steps}


def _delay(case: Case) -> Any:
    half = case.values["rtt_ms"] / 2
    if not case.shapes["delay_ms"]:
        return half
    steps = [{"at_s": at, "delay_ms": half + more} for at, more in _from_start(case, "delay_ms", 0.0)]
    return {"steps": steps}


def _loss(case: Case) -> Any:
    least = case.values["loss"]
    if not case.shapes["loss"]:
        return least
    return {
        "type": "steps",
        "steps": [{"at_s": at, "loss": max(least, p)} for at, p in _from_start(case, "loss", least)],
    }


def _from_start(case: Case, shape: str, start: float) -> Sequence[tuple[float, float]]:
    return [(0.0, start), *((at, level) for at, level in case.shapes[shape] if at < case.duration_s)]


def _application(case: Case) -> dict[str, Any]:
    if case.values["application"] == "onoff":
        return {"type": "onoff", "rate_mbps": 2 * case.values["rate_mbps"], "on_s": 1, "off_s": 1}
    if case.values["application"] == "transfers":
        count = max(1, math.floor(case.duration_s / 0.5) - 1)
        return {"type": "transfers", "sizes_bytes": [TRANSFER_BYTES] * count, "gap_s": 0.5}
    return {"type": "bulk"}
