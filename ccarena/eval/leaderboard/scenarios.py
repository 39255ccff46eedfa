"""Scenarios of users as places of the leaderboard: each entrant takes the place of one flow, the others stay.

That flow is the one named `entrant`, or else the first. Its `scheme`, `policy`, `params`, `weight`, `requirement` and
`ecn` are the entrant's. A scenario is a class of its own (`links.SCENARIO`), which no ranking over traces counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.core.files import digest
from ccarena.errors import CcarenaError, ConfigError, ScenarioError
from ccarena.eval.leaderboard.entrants import ASSISTED, END_TO_END, Ranked
from ccarena.eval.leaderboard.links import SCENARIO, BoardTrace, Place
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.flows import enter
from ccarena.scenarios.one_run import checked
from ccarena.scenarios.run import of_seed
from ccarena.scenarios.scenario import flows_of, read_scenario, scenario_json

__all__ = ["ScenarioPlace", "check_entrants", "scenario_places"]

ENTRANT = "entrant"
"""Name of the flow whose place entrants take."""
_OF_ENTRANTS = ("scheme", "policy", "rules", "params", "weight", "requirement", "ecn", "l4s")
"""Fields of a flow that an entrant decides."""


@dataclass(frozen=True)
class ScenarioPlace(Place):
    """Scenario of a user; `buffer_packets` is 0 if the first queue has no limit in packets."""

    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Document before defaults are filled in."""
    filled: Mapping[str, Any] = field(default_factory=dict, repr=False)
    index: int = 0
    """Number of the entrant's flow in the document."""

    @property
    def name(self) -> str:
        """Returns the name in tables: the file's name and the digest of its content."""
        return self.trace.name

    @property
    def entrant_flow(self) -> int:
        """Returns the number of the entrant's flow in a run, where a flow stands as often as its `count` says."""
        return sum(flow["count"] for flow in self.filled["flows"][: self.index])

    def takes(self, track: str, scheme: str) -> bool:
        """Returns whether an entrant can run: it is no oracle, and a router that it needs is there."""
        return track == END_TO_END or (track == ASSISTED and self._routed(scheme))

    def _routed(self, scheme: str) -> bool:
        """Returns whether a router on the entrant's path signals to flows of the scheme; specs use acct's."""
        path = self.filled["flows"][self.index]["path"]
        own = scheme if scheme in [router["name"] for router in _core.routers()] else "acct"
        types = [link["router"]["type"] for link in self.filled["links"] if link["name"] in path and link["router"]]
        return bool({"any", own} & set(types))

    def scenario(self, seed: int, sender: Entrant) -> dict[str, Any]:
        """Returns the document of the entrant's run: seed 0 has the scenario's own seed."""
        document = of_seed(self.filled, self.given, int(self.filled["seed"]) + seed)
        flows = list(document["flows"])
        flows[self.index] = {**_kept(flows[self.index]), **sender.flow}
        record = {"packets": True, "reports": sender.policy is not None, "bin_ms": 1}
        return {**document, "flows": flows, "record": record}

    def content(self, seed: int) -> dict[str, Any]:
        """Returns what decides a run besides the entrant."""
        return _portable(self.scenario(seed, Entrant("", {"scheme": ""})))


def scenario_places(files: Sequence[str]) -> list[ScenarioPlace]:
    """Returns the places of scenario files. Raises ConfigError for two files of one name, and what is wrong in
    them.
    """
    stems = [Path(file).stem for file in files]
    for index, (file, stem) in enumerate(zip(files, stems, strict=True)):
        if stem in stems[:index]:
            raise ConfigError(f'--scenario {file}: another scenario is called "{stem}", too; rename one of the files')
    return [_read(Path(file)) for file in files]


def check_entrants(place: ScenarioPlace, entrants: Sequence[Ranked]) -> str:
    """Checks those who can run, and returns a sentence on the router-assisted ones that are left out, if any.

    Raises ScenarioError for an entrant that the scenario's flow refuses.
    """
    fit = [entrant for entrant in entrants if place.takes(entrant.track, entrant.sender.scheme)]
    for entrant in fit:
        try:
            checked(place.scenario(0, entrant.sender))
        except CcarenaError as error:
            raise ScenarioError(
                f"--scenario {place.name}: {entrant.label} cannot take the flow's place: {error}; leave it out or "
                "change the flow"
            ) from error
    lacking = [entrant.label for entrant in entrants if not entrant.computed and entrant not in fit]
    if not lacking:
        return ""
    return (
        f"{place.name}: no router on the entrant's path signals to all, so {', '.join(lacking)} "
        f"{'is' if len(lacking) == 1 else 'are'} left out; `router: true` on a link lets them run"
    )


def _read(file: Path) -> ScenarioPlace:
    given = read_scenario(file)
    flows = flows_of(given)
    if not flows:
        raise ScenarioError(f"{file}: flows: found none; expected one at least, whose place every entrant takes")
    index = next((k for k, flow in enumerate(flows) if flow.get("name") == ENTRANT), 0)
    if flows[index].get("count", 1) != 1:
        raise ScenarioError(
            f"{file}: flows[{index}].count: got {flows[index]['count']}; an entrant is one flow: give further flows "
            "an entry of their own"
        )
    mine = flows[index]
    given["flows"] = [{"scheme": "cubic", **_kept(flow)} if flow is mine else flow for flow in given["flows"]]
    try:
        filled = checked(enter(given))
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from error
    if filled["duration_s"] < 1:
        raise ScenarioError(f"{file}: duration_s: got {filled['duration_s']:g}; a leaderboard expects 1 at least")
    flow = filled["flows"][index]
    first = next(link for link in filled["links"] if link["name"] in flow["path"])
    own = digest(scenario_json(_portable(filled)).encode())
    trace = BoardTrace(
        f"{file.stem} {own[:8]}", SCENARIO, own, partial(_service, first["service"]), stands_for=_origin(first)
    )
    packets = int(first["queue"].get("packets") or 0)
    return ScenarioPlace(trace, flow["base_rtt_ms"] / 2, packets, filled["duration_s"], given, filled, index)


def _kept(flow: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flow.items() if key not in _OF_ENTRANTS}


def _service(service: dict[str, Any], duration_s: float, seed: int) -> dict[str, Any]:
    return service


def _origin(link: Mapping[str, Any]) -> str:
    """Returns the trace or preset of a link, on which an entrant may have been trained; empty if it has none."""
    service, recorded = link["service"], link.get("conditions") or {}
    file = service.get("file") or recorded.get("file", "")
    return str(service.get("preset") or Path(file).name.removesuffix(".trace"))


def _portable(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document with digests of traces and policies instead of their paths."""
    recorded = ("service", "conditions")
    links = [
        {**link, **{key: _digests(link[key], ("file",)) for key in recorded if link.get(key)}}
        for link in document["links"]
    ]
    flows = [_digests(flow, ("policy", "rules")) for flow in document["flows"]]
    for flow in flows:
        if isinstance(flow.get("policy"), Mapping):
            flow["policy"] = _digests(flow["policy"], ("integer",))
    return {**document, "links": links, "flows": flows}


def _digests(part: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    files = {key: part[key] for key in keys if isinstance(part.get(key), str) and part[key] != "none"}
    return {**part, **{key: digest(Path(file).read_bytes()) for key, file in files.items()}}
