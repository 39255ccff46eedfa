"""Cache of shipped files on a machine: an entry per shipment, the least recently used removed beyond `MOST_BYTES`.

An entry is a folder, by digest. A process that uses one holds a shared lock on it until the process ends, so that no
other process removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["MOST_BYTES", "cache_folder", "entry", "prune"]

MOST_BYTES = 10 * 10**9
"""Size of the cache beyond which entries are removed."""

_held: dict[Path, int] = {}
"""Descriptors of entries that this process uses, and has locked."""


def cache_folder() -> Path:
    """Returns the folder of shipped files on this machine: `$XDG_CACHE_HOME/ccarena/files`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ccarena", "files")


def entry(digest: str) -> Path:
    """Returns the folder of an entry, empty if it is new, and holds it for this process. Raises OSError."""
    folder = cache_folder() / digest
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if folder not in _held or not _is(folder, _held[folder]):
            try:
                handle = os.open(folder, os.O_RDONLY)
            except FileNotFoundError:
                continue  # another process has removed it meanwhile
            with suppress(OSError):  # not every file system has locks
                fcntl.flock(handle, fcntl.LOCK_SH)
            if not _is(folder, handle):
                os.close(handle)
                continue
            if (old := _held.pop(folder, None)) is not None:
                os.close(old)
            _held[folder] = handle
        os.utime(folder)
        return folder


def _is(folder: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder), os.fstat(handle))
    except FileNotFoundError:
        return False


def prune(most_bytes: int | None = None) -> None:
    """Removes the least recently used entries that no process holds, until the cache has at most `most_bytes`
    (default: `MOST_BYTES`).
    """
    most_bytes = MOST_BYTES if most_bytes is None else most_bytes
    entries = []
    with suppress(FileNotFoundError):
        for folder in cache_folder().iterdir():
            with suppress(OSError):
                entries.append((folder.stat().st_mtime_ns, folder, _size(folder)))
    left = sum(size for _, _, size in entries)
    for _, folder, size in sorted(entries):
        if left <= most_bytes:
            return
        if _remove(folder):
            left -= size


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _remove(folder: Path) -> bool:
    """Removes an entry; returns False if a process holds it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
