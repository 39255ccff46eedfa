"""Candidates of a search with their results, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ccarena.searches.programs import Program

__all__ = ["Candidate", "best_first"]


@dataclass(frozen=True)
class Candidate:
    """Candidate that was judged."""

    number: int
    """Number in the order of trying; 0 is the template."""
    name: str
    """Name that an outside generator gave it; else empty."""
    program: Program
    rung: int
    """Last rung on which it ran, 1 and up; 0 if it ran nowhere."""
    score: float
    """Mean score on that rung; minus infinity after an error."""
    scores: dict[str, float]
    """Mean score on each link of that rung."""
    error: str = ""

    @property
    def said(self) -> str:
        """Returns the candidate in one line."""
        return f"{self.name}: {self.program.said}" if self.name else self.program.said


def best_first(candidates: Sequence[Candidate], size: Callable[[Candidate], Any] = lambda _: 0) -> list[Candidate]:
    """Returns candidates in their order: of a higher rung first, then by score, then by size, then by number.

    One that stayed on a rung has been beaten there, whatever its score.
    """
    return sorted(candidates, key=lambda each: (-each.rung, -each.score, size(each), each.number))
