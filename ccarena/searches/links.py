"""Links of a search: what candidates run over on each rung, and unseen ones, on which the best is judged.

A link is one of `ccarena compete` (`48mbps,20ms,1bdp`), a scenario file whose links are meant, or the name of a link
set of `ccarena eval`. A cell is one run: a link with a seed, alone or beside competitors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.core.files import digest
from ccarena.errors import ConfigError
from ccarena.eval.compete.bottlenecks import Bottleneck, from_scenario, parse_link
from ccarena.eval.heldout import links as held_out
from ccarena.scenarios.entrants import Entrant
from ccarena.searches.plan import Plan, Rung
from ccarena.traces.recorded import seen_in_training

__all__ = ["Cell", "cells_of", "unseen"]

OTHERS = "links"
"""Link set of links that are named one by one."""
UNSEEN_S = 30.0
"""Time of a run over a link that is named itself, on which the best is judged."""
_PROBE = Entrant("reno", {"scheme": "reno"})


@dataclass(frozen=True)
class Cell:
    """One run of a candidate."""

    link_set: str
    link: str
    seed: int
    beside: bool
    """The competitors are on the link, too."""
    scenario: Mapping[str, Any]
    """Scenario without flows."""
    route: Mapping[str, Any]
    """Fields of each flow: its path and its base RTT."""
    synthetic: bool = False
    """The link replaces a recording that was not found."""

    @property
    def key(self) -> str:
        """Returns the digest of the run without its flows."""
        return digest(json.dumps([self.scenario, self.route, self.beside], sort_keys=True).encode())

    @property
    def base_rtt_ms(self) -> float:
        """Returns the base RTT of the flows."""
        return float(self.route["base_rtt_ms"])


def cells_of(plan: Plan, rung: Rung) -> list[Cell]:
    """Returns the runs of a candidate on a rung. Raises ConfigError for a link that is none."""
    places = [place for text in plan.links for place in _places(text, rung.duration_s, rung.seeds)]
    names = list(dict.fromkeys((place.link_set, place.link) for place in places))
    # Links that are spread over the list, so that a cheap rung has some of every kind.
    every = len(names) / max(1, round(len(names) * rung.links))
    chosen = {names[int(k * every)] for k in range(max(1, round(len(names) * rung.links)))}
    return _with_others([place for place in places if (place.link_set, place.link) in chosen], plan)


def unseen(plan: Plan) -> tuple[list[Cell], list[str]]:
    """Returns the runs on links that no rung has, and sentences on the links that were left out.

    Raises ConfigError if none is left.
    """
    searched = cells_of(plan, plan.rungs_of()[-1])
    services = [link["service"] for cell in searched for link in cell.scenario["links"]]
    known = [_about(service) for service in services]
    same = {_identity(cell) for cell in searched}
    # Links of a set have much in common whatever their seed.
    gone = dict.fromkeys(text for text in plan.test_links if text in plan.links)
    places = [p for text in plan.test_links if text not in gone for p in _places(text, None, plan.test_seeds)]
    out = []
    for place in places:
        of_link = [link["service"] for link in place.scenario["links"]]
        if _identity(place) in same or seen_in_training(known, of_link):
            gone[f"{place.link_set}: {place.link}"] = None
        else:
            out.append(place)
    if not out:
        raise ConfigError("test_links: every one of them is searched, too; name links that the search does not see")
    notes = [f"left out of the comparison, because the search saw them: {'; '.join(gone)}"] if gone else []
    return _with_others(out, plan), notes


def _with_others(places: Sequence[Cell], plan: Plan) -> list[Cell]:
    beside = (False, True) if plan.beside else (False,)
    return [Cell(p.link_set, p.link, p.seed, each, p.scenario, p.route, p.synthetic) for p in places for each in beside]


def _places(text: str, duration_s: float | None, seeds: int) -> list[Cell]:
    if text in held_out.DEFAULT:
        return [_of_set(link) for link in held_out.build([text], seeds, duration_s)]
    try:
        found = from_scenario(Path(text)) if Path(text).suffix in (".yaml", ".yml", ".json") else parse_link(text)
    except ConfigError as error:
        sets = f"; link sets are {', '.join(held_out.DEFAULT)}"
        raise ConfigError(str(error).replace("--link ", "link ", 1) + sets) from error
    return [_of_bottleneck(found, duration_s or UNSEEN_S, seed) for seed in range(seeds)]


def _of_set(link: held_out.Link) -> Cell:
    whole = held_out.scenario(link, _PROBE)
    flow = {key: value for key, value in whole["flows"][0].items() if key not in ("scheme", "name")}
    return Cell(link.link_set, link.name, link.seed, False, _without_flows(whole), flow, link.synthetic)


def _of_bottleneck(found: Bottleneck, duration_s: float, seed: int) -> Cell:
    scenario = {
        "version": 1,
        "duration_s": duration_s,
        "seed": seed + 1,
        "links": found.links_for([found.base_rtt_ms], seed + 1, duration_s),
    }
    return Cell(OTHERS, found.name, seed, False, scenario, {**found.route, "base_rtt_ms": found.base_rtt_ms})


def _without_flows(scenario: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in scenario.items() if key not in ("flows", "record")}


def _identity(cell: Cell) -> str:
    """Returns what makes two links the same: capacity, base RTT and losses, whatever the seed and the queue."""

    def without_start(value: Any) -> Any:
        return {k: v for k, v in value.items() if k != "offset_ms"} if isinstance(value, Mapping) else value

    links = [
        {key: without_start(value) for key, value in link.items() if key not in ("name", "queue", "router", "delay_ms")}
        for link in cell.scenario["links"]
    ]
    return json.dumps([links, cell.base_rtt_ms], sort_keys=True)


def _about(service: Mapping[str, Any]) -> dict[str, str]:
    """Returns a service as `seen_in_training` takes what was trained on."""
    if service["type"] == "trace":
        file = Path(service["file"])
        return {"kind": "trace", "name": file.name, "digest": digest(file.read_bytes())}
    return {"kind": str(service["type"]), "name": str(service.get("preset", ""))}
