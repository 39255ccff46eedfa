"""Atomic writes of files, checks that a folder can be written, and removal of files that killed processes left.

A file is written under a temporary name, `.NAME.PROCESS-RANDOM.tmp`, locked while its process writes it, and then
replaces the old file. A killed process leaves its temporary file. The next process that writes the same file, or calls
`remove_stale`, removes it.
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

from ccarena.errors import ConfigError, cannot_write

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
"""Name of a temporary file, with or without the number of its process."""
_SCRATCH = re.compile(r"ccarena-(\d+)-\w+")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces `path` by text (in UTF-8) or bytes in one step, and makes its folder if needed.

    Raises WriteError if the disk is full, ConfigError if the place takes no file.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=False) as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Opens a file that replaces `path` at the end of the block; until then `path` is the old file.

    After an error only the old file is left. `durable`: sync the file to the disk (default True). Raises OSError (disk
    full, no permission).
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
    """Removes temporary files of the file `name` that killed processes left in `folder`; of all files if `name` is
    None.

    A file stays if its process lives on this machine, or if any process holds its lock.
    """
    with suppress(OSError):
        for path in [Path(entry) for entry in os.scandir(folder) if entry.name.endswith(TEMPORARY)]:
            match = _OF_PROCESS.fullmatch(path.name)
            if match is not None and (name is None or (match[1] and path.name.startswith(f".{name}."))):
                _remove_if_stale(path, int(match[1]) if match[1] else None)


@contextmanager
def scratch() -> Iterator[Path]:
    """Makes a temporary folder and removes it when the block ends. Also removes folders that killed processes left."""
    for entry in Path(tempfile.gettempdir()).glob("ccarena-*-*"):
        if match := _SCRATCH.fullmatch(entry.name):
            _remove_if_stale(entry, int(match[1]))
    # A browser may still write there while it ends.
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
    """Makes the folder if needed, then writes and removes a test file, so that results of a long run are not lost.

    Removes what killed processes left there.

    Raises ConfigError if the folder cannot be made or written to, WriteError if its disk is full.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        remove_stale(folder)
    except OSError as error:
        raise cannot_write(folder, error, "nothing was run: give another folder", "there") from error
    finally:
        for made in missing:
            with suppress(OSError):
                made.rmdir()


def check_file(path: Path) -> None:
    """Raises ConfigError if no file can be written at `path`: it is a folder, or its folder is not writable."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; nothing was run: give a file's name")
    check_writable(path.parent)


def digest(data: bytes) -> str:
    """Returns the digest by which specs, configurations and files are told apart: 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]
