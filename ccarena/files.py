"""Text files written whole or not at all, and folders that are known to take them."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ccarena.errors import ConfigError

__all__ = ["check_file", "check_writable", "write_atomically"]


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) in one step, making its folder if need be. Raises ConfigError if it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot write: {error.strerror}; give another folder or free space") from error


def check_writable(folder: Path) -> None:
    """Try a file in the folder, made if need be and then removed: what is run for it afterwards is not lost.

    Raises ConfigError if it cannot be made or written to.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
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
