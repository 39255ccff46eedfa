"""Check of a user's controller on links that are hard.

Each case is a scenario with fixed seeds. In each of them the controller runs twice. The calls of a class are watched;
a module can do nothing that it may not, and its flow says why it ended.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ccarena.controllers.classes import class_of
from ccarena.controllers.load import is_python
from ccarena.errors import CcarenaError, ControllerError
from ccarena.eval.soundness.watch import Watch, place
from ccarena.scenarios.backends import failure, simulate
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.room import receiver_room

__all__ = ["CASES", "Finding", "cases", "check"]


def _link(rate_mbps: float, delay_ms: float = 20.0, packets: int = 100, **fields: Any) -> dict[str, Any]:
    service = {"type": "constant", "rate_mbps": rate_mbps}
    return {"service": service, "delay_ms": delay_ms, "queue": {"type": "droptail", "packets": packets}, **fields}


def _alone(link: Mapping[str, Any], duration_s: float = 10.0, **flow: Any) -> dict[str, Any]:
    return {"duration_s": duration_s, "links": [link], "flows": [flow]}


CASES: dict[str, dict[str, Any]] = {
    "a steady link": _alone(_link(24)),
    "a fast link": _alone(_link(400, 2, 1000), 2.0),
    "a slow link with room for three packets": _alone(_link(0.5, 50, 3)),
    "one packet in ten is lost": _alone(_link(12, loss=0.1)),
    "everything is lost for seconds": _alone(_link(12, outages={"on_s": 2, "off_s": 2}), 20.0),
    "a round trip of a second": _alone(_link(12, 500, 1000), 20.0),
    "a cellular link": _alone({**_link(1), "service": {"type": "cellular", "preset": "lte-driving"}}),
    "an application that pauses": _alone(_link(24), app={"type": "onoff", "rate_mbps": 10, "on_s": 0.3, "off_s": 0.9}),
    "congestion marks": _alone({**_link(24), "queue": {"type": "codel", "ecn": True}}, ecn=True),
    "beside CUBIC": {**_alone(_link(24)), "flows": [{}, {"scheme": "cubic", "start_s": 1}]},
}
"""Scenarios, whose first flow is the controller's."""
_THE_CLASS = "the class"
"""Name of the last case, about the class whatever the link."""


@dataclass(frozen=True)
class Finding:
    """Fault of a controller in one case."""

    case: str
    fault: str


def check(entrant: Entrant) -> list[Finding]:
    """Returns what is wrong with a controller, at most one finding per case; none if all is well."""
    return [found for found in cases(entrant) if found.fault]


def cases(entrant: Entrant) -> Iterator[Finding]:
    """Yields what is wrong with a controller in each case, as soon as it is known; an empty `fault` if nothing is."""
    watch = Watch(class_of(entrant.flow)) if is_python(entrant.flow) else None
    for name, scenario in CASES.items():
        yield Finding(name, _fault_in(scenario, entrant, watch))
    if watch is not None:
        yield Finding(_THE_CLASS, watch.fault_of_all())


def _fault_in(scenario: Mapping[str, Any], entrant: Entrant, watch: Watch | None) -> str:
    results = []
    try:
        for _ in range(2):
            document = _document(scenario, entrant.flow)
            if watch is None:
                result = simulate(document)
                fault = failure(result["flows"][0])
            else:
                with watch.watching():
                    result = simulate(document, watch.make)
                fault = watch.fault
            if fault := fault or _crowding(result["flows"][0], document):
                return fault
            results.append(_plain(result["flows"]))
    except ControllerError as error:
        frames = traceback.extract_tb(error.__cause__.__traceback__) if error.__cause__ else []
        where = place((frame.filename, frame.lineno or 0) for frame in reversed(frames))
        return str(error).partition("\n")[0] + where
    except CcarenaError as error:
        return str(error)
    if results[0] != results[1]:
        return "two runs with the same seed differ; take randomness from self.random, and keep nothing in the class"
    if results[0][0]["delivered_bytes"] == 0:
        return "nothing was delivered"
    return ""


def _crowding(flow: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Returns a fault if a flow had as many packets on their way as its receiver has room for."""
    room, sent, acks = document["flows"][0]["receive_window_packets"], flow["transmissions"], flow["acks"]
    if not len(sent["sent_ns"]):
        return ""
    acknowledged = np.maximum.accumulate(np.concatenate([[0], acks["cumulative"]]).astype(np.int64))
    before = acknowledged[np.searchsorted(acks["time_ns"], sent["sent_ns"], side="right")]
    full = np.flatnonzero(sent["sequence"].astype(np.int64) + 1 - before >= room)
    if not len(full):
        return ""
    at_s = sent["sent_ns"][full[0]] / 1e9
    return f"{room:,} packets are unacknowledged at {at_s:.3f} s, far beyond the link and its queue; bound the window"


def _document(scenario: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a case with the controller's flow in it."""
    first, *others = scenario["flows"]
    links = scenario["links"]
    room = receiver_room(links, sum(2 * link["delay_ms"] for link in links))
    flow = {"receive_window_packets": room, **own, **first}
    return {**scenario, "seed": 1, "flows": [flow, *others], "record": {"transmissions": True}}


def _plain(value: Any) -> Any:
    """Returns a result without arrays, which can be compared."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
