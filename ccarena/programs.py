"""Finds ccarena's own programs: they are in the package, unless CCARENA_BIN_DIR names another folder."""

from __future__ import annotations

import os
from pathlib import Path

from ccarena.errors import MachineError

__all__ = ["find"]

PACKAGED = Path(__file__).parent / "_bin"


def find(name: str) -> Path:
    """The executable `name`, such as "ccarena-kernel". Raises MachineError, saying how to get it."""
    configured = os.environ.get("CCARENA_BIN_DIR")
    path = Path(configured or PACKAGED) / name
    if path.is_file() and os.access(path, os.X_OK):
        return path
    where = f"CCARENA_BIN_DIR names {configured}" if configured else "it is built with the package"
    raise MachineError(
        f"the program {name} is not at {path} ({where}); `make setup` builds it; the kernel bridge needs clang and "
        "libelf for that (apt install clang libelf-dev zlib1g-dev)"
    )
