"""Checks of single values in files from strangers: text, numbers, choices, digests.

A `Check` takes a value and the name of its place, and returns the value. It raises ConfigError, which names the place,
what was found and what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ccarena.errors import ConfigError

__all__ = ["Check", "anything", "fields", "flag", "hexadecimal", "number", "one_of", "or_none", "text"]

Check = Callable[[Any, str], Any]


def text(longest: int = 200, markup: bool = True) -> Check:
    """Checks text without control characters; without `markup` also without HTML tags and references."""

    def check(value: Any, at: str) -> str:
        if not isinstance(value, str):
            raise ConfigError(f"{at}: got {_short(value)}; expected a text of at most {longest:,} characters")
        if len(value) > longest:
            raise ConfigError(f"{at}: expected text of at most {longest:,} characters, got {len(value):,}")
        wrong = next((c for c in value if not (c.isprintable() or c == "\n") or (c in "<>&" and not markup)), None)
        if wrong is not None:
            more = "" if markup else ", <, > and &"
            raise ConfigError(f"{at}: holds {wrong!r}; expected plain text without control characters{more}")
        return value

    return check


def number(low: float, high: float, whole: bool = False) -> Check:
    """Checks a finite number in a range."""

    def check(value: Any, at: str) -> float | int:
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not low <= value <= high or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            raise ConfigError(f"{at}: got {_short(value)}; expected {kind} from {low:g} to {high:g}")
        return int(value) if whole else float(value)

    return check


def one_of(known: Collection[str]) -> Check:
    """Checks that a value is one of the texts `known`."""

    def check(value: Any, at: str) -> str:
        if not isinstance(value, str) or value not in known:
            raise ConfigError(f"{at}: got {_short(value)}; expected one of {', '.join(known)}")
        return value

    return check


def hexadecimal(digits: int, blank: bool = False) -> Check:
    """Checks a digest of `digits` hexadecimal digits. `blank` allows an empty text."""
    pattern = re.compile(rf"[0-9a-f]{{{digits}}}")

    def check(value: Any, at: str) -> str:
        if not isinstance(value, str) or not (pattern.fullmatch(value) or (blank and not value)):
            raise ConfigError(f"{at}: got {_short(value)}; expected {digits} hexadecimal digits")
        return value

    return check


def or_none(other: Check) -> Check:
    """Checks None, or a value for `other`."""

    def check(value: Any, at: str) -> Any:
        return None if value is None else other(value, at)

    return check


def flag(value: Any, at: str) -> bool:
    """Checks True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{at}: got {_short(value)}; expected true or false")
    return value


def anything(value: Any, at: str) -> Any:
    """Accepts any value: another function checks it."""
    return value


def fields(value: Any, at: str, known: Mapping[str, Check]) -> dict[str, Any]:
    """Returns the `known` fields of an object, each checked. Other fields are left out."""
    if not isinstance(value, dict) or not known.keys() <= value.keys():
        raise ConfigError(f"{at}: expected an object with {', '.join(known)}")
    return {name: check(value[name], f"{at}.{name}") for name, check in known.items()}


def _short(value: Any) -> str:
    # Of a long list or text only the beginning is made: `value` may be megabytes.
    shown = repr(value[:60] if isinstance(value, (str, bytes, list)) else value)
    return shown if len(shown) <= 62 else f"{shown[:59]}..."
