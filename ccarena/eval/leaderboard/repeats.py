"""Runs of a store that a page's reader repeats in the browser, each with its exact scenario and its stored figures.

A run is offered only if the key of its cell proves that the scenario and the entrant of this machine are the run's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from ccarena.eval.leaderboard.cells import key_of, scenario_digest
from ccarena.eval.leaderboard.entrants import Ranked
from ccarena.eval.leaderboard.figures import solo
from ccarena.eval.leaderboard.here import entrants_here, place_here
from ccarena.eval.leaderboard.links import SCENARIO, Place
from ccarena.eval.leaderboard.scenarios import ScenarioPlace, scenario_places
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.measure.table import POWERS
from ccarena.pages.runnable import Repeat
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.scenarios.repeat import Unrepeatable, repeat_of

__all__ = ["AXES", "Found", "Repeats"]

AXES = ("entrant", "link", "seed")

Found = tuple[dict[int, list[Repeat]], dict[int, str]]
"""Runs of each entrant, and the reasons why runs of other entrants cannot be repeated."""


class Repeats:
    """Repeatable runs of a store, place by place. Methods raise ConfigError as the store does."""

    def __init__(
        self, store: Store, backend: str, policies: Sequence[str] | None = None, scenarios: Sequence[str] = ()
    ) -> None:
        """`policies` are those that pages may carry (None: the shipped ones), `scenarios` files of the board."""
        self._store = store
        self._backend = backend
        self._policies = policies
        self._scenarios = scenarios

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return self._store.entrants()

    @cached_property
    def _entrants(self) -> dict[str, Ranked]:
        return {each.digest: each for each in entrants_here(self._rows, self._store.rules(), self._policies)}

    @cached_property
    def _own(self) -> dict[str, ScenarioPlace]:
        return {place.trace.digest: place for place in scenario_places(self._scenarios)}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Returns the files of entrants, which runs on many places share, by the names that scenarios use."""
        out: dict[str, bytes] = {}
        for entrant in self._entrants.values():
            with suppress(Unrepeatable):
                out |= repeat_of({"flows": [entrant.sender.flow]}, {}).files
        return out

    def at(self, place: Mapping[str, Any]) -> Found:
        """Returns the runs alone on a place, by entrant and seed."""
        rows = {row["id"]: row for row in self._rows}
        names = ("key", "entrant", "seed", "valid", "version", *solo())
        runs = self._store.runs_at(place["id"], self._backend, names=names)
        if self._backend != SIM:
            why = f"the backend of the run is {BACKENDS[self._backend].title}, which is no part of a browser"
            return {}, {run["entrant"]: why for run in runs}
        here = self._own.get(place["trace_digest"]) if place["moves"] == SCENARIO else place_here(place)
        if here is None:
            what = "the scenario's file (`--scenario`)" if place["moves"] == SCENARIO else f"the trace {place['trace']}"
            why = f"{what} was not on the machine that made this page"
            return {}, {run["entrant"]: why for run in runs}
        found: dict[int, list[Repeat]] = {}
        refused: dict[int, str] = {}
        digests: dict[int, str] = {}
        for run in runs:
            if not run["valid"]:
                continue
            try:
                again = self._repeat(here, str(place["name"]), rows[run["entrant"]], run, digests)
                found.setdefault(run["entrant"], []).append(again)
            except Unrepeatable as error:
                refused[run["entrant"]] = str(error)
        return found, refused

    def _repeat(
        self, place: Place, name: str, row: Mapping[str, Any], run: Mapping[str, Any], digests: dict[int, str]
    ) -> Repeat:
        label, seed = str(row["label"]), int(run["seed"])
        entrant = self._entrants.get(row["digest"])
        if entrant is None:
            what = "its policy (`--policies`)" if row["policy_digest"] else "it"
            raise Unrepeatable(f"{what} was not on the machine that made this page, or not as it was in the run")
        if entrant.computed:
            raise Unrepeatable(f"{label} is computed from the capacity of the link and is no run of a controller")
        if seed not in digests:
            digests[seed] = scenario_digest(place, seed)
        if key_of(digests[seed], entrant.digest, None, self._backend, run["version"]) != run["key"]:
            raise Unrepeatable("the link of this version of ccarena is not the one of the run")
        document = place.scenario(seed, entrant.sender)
        flow = document["flows"][place.index if isinstance(place, ScenarioPlace) else 0]
        # Scores in a scenario are of the flow's own part of the capacity, which a page does not compute.
        left_out = POWERS if isinstance(place, ScenarioPlace) else ()
        figures = {name: run[name] for name in solo() if name not in left_out}
        axes = dict(zip(AXES, (label, name, str(seed)), strict=True))
        return repeat_of(document, axes, {str(flow["name"]): figures}, str(run["version"]))
