"""Run of one scenario with one seed, and its figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ccarena import _core
from ccarena.errors import ConfigError
from ccarena.eval.measure.record import Record
from ccarena.scenarios import backends
from ccarena.scenarios.scenario import scenario_json

__all__ = ["Run", "checked", "numbered", "perform"]

_Made = TypeVar("_Made")


@dataclass(frozen=True, repr=False)
class Run:
    """Run of one scenario with one seed."""

    scenario: str
    """Name of the scenario in tables."""
    seed: int
    backend: str
    document: Mapping[str, Any]
    """Document of the run, with every default filled in (docs/scenario.md)."""
    result: Mapping[str, Any]
    """Measurements of the run, in the layout of docs/results.md."""
    axes: Mapping[str, Any] = field(default_factory=dict)
    """Values of the sweep's axes, which are columns of the tables."""
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: Any, make: Callable[[Run], _Made]) -> _Made:
        """Returns the result of `make` for this run, computed once per `name`."""
        if name not in self._made:
            self._made[name] = make(self)
        return cast(_Made, self._made[name])

    def has(self, name: Any) -> bool:
        """Returns whether `once` computed this name already."""
        return name in self._made

    def measured(self) -> Record:
        """Returns the run as figures see it: `ccarena.eval.measure.table.row` makes a row of a flow or a link."""
        return Record(self.document, self.result)

    def __repr__(self) -> str:
        return f"Run of {self.scenario}, seed {self.seed}, on {self.backend}: .document, .result"

    @property
    def lateness_p99_ms(self) -> float | None:
        """Lateness of the emulator in real time, 99th percentile; None in the simulator."""
        return backends.validity(self.result).get("lateness_p99_ms")

    @property
    def valid(self) -> bool:
        """Returns whether the run is valid: False if the emulator of a real-time run was late."""
        return bool(backends.validity(self.result).get("valid", True))


def numbered(runs: Sequence[Run], run: int) -> Run:
    """Returns a run by its number. Raises ConfigError if there is none."""
    if not runs:
        raise ConfigError("there are no runs; run a scenario first")
    if not -len(runs) <= run < len(runs):
        raise ConfigError(f"run = {run}: expected 0 to {len(runs) - 1}; there are {len(runs)} runs")
    return runs[run]


def checked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a scenario with every default filled in. Raises ScenarioError."""
    filled: dict[str, Any] = json.loads(_core.validate_scenario(scenario_json(document)))
    return filled


def perform(
    document: Mapping[str, Any], backend: str, name: str = "scenario", axes: Mapping[str, Any] | None = None
) -> Run:
    """Runs a scenario, with its own seed. Raises what the backend does."""
    filled = checked(document)
    return Run(name, int(filled["seed"]), backend, filled, backends.execute(document, backend), axes or {})
