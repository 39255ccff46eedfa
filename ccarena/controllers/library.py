"""The C library of controllers in the package: `python -m ccarena.controllers.library` prints where its pkg-config file
is (docs/library.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

from ccarena.errors import MachineError
from ccarena.extras import is_checkout

__all__ = ["pkg_config_path"]

PACKAGED = Path(__file__).parents[1] / "_library"


def pkg_config_path() -> Path:
    """Returns the folder of ccarena.pc. Raises MachineError with how to get the library if it is missing."""
    folder = PACKAGED / "lib" / "pkgconfig"
    if (folder / "ccarena.pc").is_file():
        return folder
    where = "`make library` builds it" if is_checkout() else "`make wheel` in a checkout builds a wheel that has it"
    raise MachineError(f"libccarena is not at {PACKAGED}; {where}")


if __name__ == "__main__":
    try:
        print(pkg_config_path())
    except MachineError as error:
        sys.exit(f"error: {error}")
