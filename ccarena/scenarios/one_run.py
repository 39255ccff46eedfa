"""Run of one scenario with one seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ccarena.scenarios import backends

__all__ = ["Run"]

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
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: str, make: Callable[[Run], _Made]) -> _Made:
        """Returns the result of `make` for this run, computed once per `name`."""
        if name not in self._made:
            self._made[name] = make(self)
        return cast(_Made, self._made[name])

    def __repr__(self) -> str:
        return f"Run of {self.scenario}, seed {self.seed}, on {self.backend}: .document, .result"

    @property
    def valid(self) -> bool:
        """Returns whether the run is valid: False if the emulator of a real-time run was late."""
        return bool(backends.validity(self.result).get("valid", True))
