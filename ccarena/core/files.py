"""Files written whole or not at all, folders that are known to take them, and what killed processes leave of either.

A file is written under a temporary name, `.NAME.PROCESS-RANDOM.tmp`, locked as long as its process writes it, and then
takes the place of the old one. A process that is killed leaves its temporary file; the next one that writes the same
file, or calls `remove_stale`, removes it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ccarena.errors import ConfigError

__all__ = [
    "TEMPORARY",
    "check_file",
    "check_writable",
    "digest",
    "remove_stale",
    "replacing",
    "scratch",
    "write_atomically",
]

TEMPORARY = ".tmp"
"""The suffix of temporary files."""
_OF_PROCESS = re.compile(r"\..+?(?:\.(\d+)(?:-\w+)?)?\.tmp")
"""A temporary file of `replacing`, or of a version before it: with the number of its process, or without."""
_SCRATCH = re.compile(r"ccarena-(\d+)-\w+")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace `path` by text (in UTF-8) or bytes in one step, making its folder if need be.

    Raises ConfigError if it cannot.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=False) as file:
            file.write(data)
    except OSError as error:
        raise ConfigError(f"{path}: cannot write: {error.strerror}; give another folder or free space") from error


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` at the end of the block: at any time `path` is the old file or the new one.

    After an error the old file is still there, and nothing else. `durable`: whether it is on the disk by then. Raises
    OSError (disk full, no permission).
    """
    remove_stale(path.parent, path.name)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-", suffix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # not every file system has locks; the process's number stands in
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
            os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def remove_stale(folder: Path, name: str | None = None) -> None:
    """Removes what killed processes left in `folder` of the file `name`; of all files if None.

    A file that a living process of this machine has made, or that anybody holds locked, stays.
    """
    with suppress(OSError):
        for path in [Path(entry) for entry in os.scandir(folder) if entry.name.endswith(TEMPORARY)]:
            match = _OF_PROCESS.fullmatch(path.name)
            if match is not None and (name is None or (match[1] and path.name.startswith(f".{name}."))):
                _remove_if_stale(path, int(match[1]) if match[1] else None)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for the time of the block. Removes those that killed processes left."""
    for entry in Path(tempfile.gettempdir()).glob("ccarena-*-*"):
        if match := _SCRATCH.fullmatch(entry.name):
            _remove_if_stale(entry, int(match[1]))
    # A browser may still write there when it is told to end.
    with tempfile.TemporaryDirectory(prefix=f"ccarena-{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(folder)
        finally:
            os.close(handle)


def _remove_if_stale(path: Path, process: int | None) -> None:
    with suppress(OSError):
        if path.is_symlink() or path.stat().st_uid != os.geteuid() or (process is not None and _alive(process)):
            return
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def check_writable(folder: Path) -> None:
    """Try a file in the folder, made if need be and then removed: what is run for it afterwards is not lost.

    Removes what killed processes left there.

    Raises ConfigError if it cannot be made or written to.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        remove_stale(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot write there: {error.strerror}; nothing was run: give another folder"
        ) from error
    finally:
        for made in missing:
            with suppress(OSError):
                made.rmdir()


def check_file(path: Path) -> None:
    """Try the file's folder: a result that is to be written there is not lost. Raises ConfigError if it would be."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; nothing was run: give a file's name")
    check_writable(path.parent)


def digest(data: bytes) -> str:
    """The first 16 hexadecimal digits of SHA-256, as documents have."""
    return hashlib.sha256(data).hexdigest()[:16]
