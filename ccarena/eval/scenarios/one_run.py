"""One scenario, run with one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ccarena import backends

__all__ = ["Run"]


@dataclass(frozen=True, repr=False)
class Run:
    """One scenario, run with one seed."""

    scenario: str
    """What tables call it."""
    seed: int
    backend: str
    document: Mapping[str, Any]
    """What was run, with every default filled in (docs/scenario.md)."""
    result: Mapping[str, Any]
    """Everything that was measured, in the layout of docs/results.md."""

    def __repr__(self) -> str:
        return f"Run of {self.scenario}, seed {self.seed}, on {self.backend}: .document, .result"

    @property
    def valid(self) -> bool:
        """Whether its figures may be believed: False if the emulator of a run in real time was late."""
        return bool(backends.validity(self.result).get("valid", True))
