"""Finds ccarena's own programs: they are in the package, unless CCARENA_BIN_DIR names another folder."""

from __future__ import annotations

import os
from pathlib import Path

from ccarena.errors import MachineError

__all__ = ["find", "lacking_packages"]

PACKAGED = Path(__file__).parents[1] / "_bin"
PREREQUISITES = Path(__file__).parents[1] / "prerequisites.sh"

KERNEL_BRIDGE, QUIC = "ccarena-kernel", "ccarena-quic"
"""Names of the programs that carry scenarios in real time; only the first cannot be built everywhere."""


def find(name: str) -> Path:
    """Returns the executable `name`, such as "ccarena-kernel". Raises MachineError, which says how to get it."""
    configured = os.environ.get("CCARENA_BIN_DIR")
    path = Path(configured or PACKAGED) / name
    if path.is_file() and os.access(path, os.X_OK):
        return path
    where = f"CCARENA_BIN_DIR names {configured}" if configured else "it is built with the package"
    raise MachineError(f"the program {name} is not at {path} ({where}); {_how_to_build(name)}")


def lacking_packages() -> str:
    """Returns the missing Debian packages that building ccarena-kernel needs, as arguments of apt; "" if none."""
    import subprocess  # as most commands import this file, and few need the module

    done = subprocess.run(["sh", PREREQUISITES, "kernel"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def _how_to_build(name: str) -> str:
    packages = lacking_packages() if name == KERNEL_BRIDGE else ""
    return f"apt install {packages}, then `make setup` builds it" if packages else "`make setup` builds it"
