"""Manifest of public trace sets: their files, addresses, sizes and checksums."""

from __future__ import annotations

import dataclasses
import functools
import json
from importlib import resources

__all__ = ["Entry", "manifest", "sets"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file of the manifest."""

    set: str
    name: str
    url: str
    bytes: int
    sha256: str
    licence: str
    opportunities: int
    duration_ms: int
    mean_mbps: float
    moves: str
    """Movement of its receiver: static, walking or driving."""


@functools.cache
def manifest() -> tuple[Entry, ...]:
    """Returns the public files that ccarena knows, with sizes and checksums."""
    text = resources.files("ccarena.traces").joinpath("manifest.json").read_text(encoding="utf-8")
    return tuple(Entry(**entry) for entry in json.loads(text))


def sets() -> list[str]:
    """Returns the names of the sets, sorted."""
    return sorted({entry.set for entry in manifest()})
