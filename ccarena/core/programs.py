"""Finds ccarena's own programs: they are in the package, unless CCARENA_BIN_DIR names another folder."""

from __future__ import annotations

import os
from pathlib import Path

from ccarena.core.machine import require_linux
from ccarena.errors import MachineError
from ccarena.extras import is_checkout

__all__ = ["EMULATOR", "KERNEL_BRIDGE", "QUIC", "find", "lacking_packages"]

PACKAGED = Path(__file__).parents[1] / "_bin"
PREREQUISITES = Path(__file__).parents[1] / "prerequisites.sh"

EMULATOR, KERNEL_BRIDGE, QUIC = "ccarena-link", "ccarena-kernel", "ccarena-quic"
"""Names of the programs. They are built on Linux; `KERNEL_BRIDGE` also needs some of its packages."""
PURPOSES = {EMULATOR: "the emulator", KERNEL_BRIDGE: "the kernel bridge", QUIC: "the QUIC endpoint"}


def find(name: str) -> Path:
    """Returns the executable `name`, such as "ccarena-kernel".

    Raises MachineError outside Linux; raises it with how to get the program if it is missing.
    """
    require_linux(f"{PURPOSES[name]} ({name})")
    configured = os.environ.get("CCARENA_BIN_DIR")
    path = Path(configured or PACKAGED) / name
    if path.is_file() and os.access(path, os.X_OK):
        return path
    where = f"CCARENA_BIN_DIR names {configured}" if configured else "it is built with the package"
    raise MachineError(f"the program {name} is not at {path} ({where}); {_how_to_build(name)}")


def lacking_packages() -> str:
    """Returns the missing Debian packages that building ccarena-kernel needs, as arguments of apt; "" if none.

    Outside Linux no package would help, and none is missing.
    """
    import subprocess  # as most commands import this file, and few need the module

    done = subprocess.run(["sh", PREREQUISITES, "kernel"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def _how_to_build(name: str) -> str:
    packages = lacking_packages() if name == KERNEL_BRIDGE else ""
    if not is_checkout():
        first = f"after apt install {packages}, " if packages else ""
        return f"this wheel was built without it; {first}`make wheel` in a checkout builds one that has it"
    return f"apt install {packages}, then `make setup` builds it" if packages else "`make setup` builds it"
