"""Cell, the unit of work and of storage: an entrant on a link with a seed, alone or beside another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ccarena import __version__
from ccarena.eval.leaderboard.entrants import Ranked
from ccarena.eval.leaderboard.figures import RIVAL
from ccarena.eval.leaderboard.links import Place

__all__ = ["MEETING", "SOLO", "Cell", "Measured", "cell_of", "cells_of", "key_of", "scenario_digest"]

SOLO: Literal["solo"] = "solo"
MEETING: Literal["meeting"] = "meeting"


@dataclass(frozen=True)
class Cell:
    """Cell that is run once and stored once: a row of the store."""

    key: str
    """Digest of everything that decides the figures: scenario, entrants, backend and version."""
    place: Place
    entrant: Ranked
    opponent: Ranked | None
    """Opponent; None for a run alone."""
    seed: int
    scenario: str
    """Digest of links, queues, duration and seed."""
    backend: str

    @property
    def kind(self) -> Literal["solo", "meeting"]:
        """Returns "solo" or "meeting"."""
        return SOLO if self.opponent is None else MEETING


@dataclass(frozen=True)
class Measured:
    """Cell that was run."""

    cell: Cell
    figures: dict[str, float] = field(default_factory=dict)
    valid: bool = True
    """False if the emulator was late, or a program failed: the figures then count nowhere."""
    lateness_p99_ms: float | None = None
    series: dict[str, Any] | None = None
    """Series over time: `bin_s`, `capacity_mbps`, `rate_mbps`, `queueing_delay_ms`."""
    error: str = ""
    """Failure of somebody else's program; empty if there was none."""
    machine: str | None = None
    """Machine that another store names; None for this one."""


def cells_of(
    places: Sequence[Place],
    entrants: Sequence[Ranked],
    seeds: int,
    backend: str,
    meeting_places: Sequence[Place] = (),
    meeting_seeds: int = 0,
    rival_places: Sequence[Place] = (),
) -> list[Cell]:
    """Returns every cell of a leaderboard: each entrant alone where it can run, each pair on the meeting places, and
    each entrant beside `RIVAL` on the rival places.
    """
    out = []
    for place in places:
        for seed in range(seeds):
            name = scenario_digest(place, seed)
            here = [entrant for entrant in entrants if place.takes(entrant.track, entrant.sender.scheme)]
            out += [cell_of(place, entrant, None, seed, name, backend) for entrant in here]
    meeting = [entrant for entrant in entrants if not entrant.computed and entrant.kind != "baseline"]
    rivals = [entrant for entrant in meeting if entrant.label == RIVAL]
    every = [(one, other) for one in meeting for other in meeting]
    beside = [(one, other) for one, other in every if one in rivals or other in rivals]
    met = {place.name: (place, beside) for place in rival_places}
    met |= {place.name: (place, every) for place in meeting_places}
    for place, pairs in met.values():
        for seed in range(meeting_seeds):
            name = scenario_digest(place, seed)
            out += [cell_of(place, one, other, seed, name, backend) for one, other in pairs]
    return out


def cell_of(
    place: Place, entrant: Ranked, opponent: Ranked | None, seed: int, scenario_name: str, backend: str
) -> Cell:
    """Returns one cell with its key."""
    key = key_of(scenario_name, entrant.digest, opponent.digest if opponent else None, backend, __version__)
    return Cell(key, place, entrant, opponent, seed, scenario_name, backend)


def key_of(scenario_name: str, entrant: str, opponent: str | None, backend: str, version: str) -> str:
    """Returns the key of a cell, from the digests of its scenario and entrants."""
    what = [scenario_name, entrant, opponent or "", backend, version]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]


def scenario_digest(place: Place, seed: int) -> str:
    """Returns the digest of a place's scenario without its entrant."""
    return hashlib.sha256(json.dumps(place.content(seed), sort_keys=True).encode()).hexdigest()[:16]
