"""Token files: the secret that both ends of a run over a real path hold."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from ccarena.core.reader import read_bytes
from ccarena.errors import ConfigError, cannot_write

__all__ = ["make", "read"]

_TOKEN = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 1024


def make(path: Path) -> None:
    """Writes a new token to `path`, readable by its owner alone, unless the file is there. Raises ConfigError."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise cannot_write(f"--token {path}", error, "give another file") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")


def read(path: Path) -> str:
    """Returns the token in `path`. Raises ConfigError if there is none, or others can read it."""
    try:
        text = read_bytes(path, _MOST_BYTES).decode("ascii", errors="replace").strip()
        shared = path.stat().st_mode & 0o077
    except OSError as error:
        raise ConfigError(
            f"--token {path}: cannot read: {error.strerror}; copy the file that `ccarena remote serve --token FILE` "
            "made on the other machine"
        ) from error
    if not _TOKEN.fullmatch(text):
        raise ConfigError(
            f"--token {path}: is no token; expected 64 hexadecimal digits, as `ccarena remote serve --token FILE` "
            "writes to a new file"
        )
    if shared:
        raise ConfigError(f"--token {path}: other users can read the file; run `chmod 600 {path}`")
    return text
