"""States of what pages and commands report: one colour and one sign for each meaning.

| state     | colour | sign | meaning                                              |
|-----------|--------|------|------------------------------------------------------|
| `good`    | green  | ✓    | holds: learned, as the paper says, works             |
| `partly`  | amber  | ~    | holds partly, or undecided                           |
| `neutral` | grey   | ○    | not tested, or says neither good nor bad             |
| `bad`     | red    | ✗    | does not hold: not learned, failed, missing          |
| `plain`   | none   |      | no state                                             |

The colours of pages are in `assets/page.css`, those of the terminal in `Look.terminal`. The sign makes a state readable
without colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["STATES", "Look", "State", "state_of", "worst"]

State = Literal["good", "partly", "neutral", "bad", "plain"]


@dataclass(frozen=True)
class Look:
    """Look of a state."""

    sign: str
    terminal: str
    """Style of rich."""


STATES: Mapping[State, Look] = {
    "good": Look("✓", "green"),
    "partly": Look("~", "yellow"),
    "neutral": Look("○", "bright_black"),
    "bad": Look("✗", "red"),
    "plain": Look("", ""),
}
_WORDS: Mapping[str, State] = {
    "holds": "good",
    "differs": "partly",
    "undecided": "partly",
    "not tested": "neutral",
    "does not hold": "bad",
    "ok": "good",
    "limited": "partly",
    "missing": "bad",
}


def state_of(word: str) -> State:
    """Returns the state that the word for an outcome has: that of a claim, an expectation or a capability."""
    return _WORDS[word]


def worst(states: Iterable[State]) -> State:
    """Returns the state of several results: the worst of those that were tested, `neutral` if none was."""
    found = set(states)
    order: tuple[State, ...] = ("bad", "partly", "good")
    return next((state for state in order if state in found), "neutral")
