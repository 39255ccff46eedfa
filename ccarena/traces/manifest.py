"""Manifest of public trace sets: their files, addresses, sizes and checksums."""

from __future__ import annotations

import dataclasses
import functools
import json
from importlib import resources

__all__ = ["Entry", "RemoteFile", "manifest", "sets"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """File of a public set, with what is known of its content."""

    set: str
    name: str
    url: str
    bytes: int | None = None
    """Size; None if it is unknown."""
    sha256: str = ""
    """Digest; empty if its authors publish none. Then the first fetch records it."""
    git_blob: str = ""
    """Name of the file's content in its authors' git repository, which is a SHA-1 of size and bytes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry(RemoteFile):
    """One trace of the manifest."""

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
