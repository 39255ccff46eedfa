"""Commands that add packages to this installation, for every message that says how to get one."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["how_to_add", "is_checkout"]

CHECKOUT = Path(__file__).parents[1]
"""The repository, where the package was not installed from a wheel."""


def how_to_add(extra: str = "") -> str:
    """Returns the command that adds `extra` to this installation, or that repairs the installation if `extra` is "".

    The command is `make setup` in the environment that it made, else pip with what ccarena was installed from.
    """
    extras = f"[{extra}]" if extra else ""
    if not is_checkout():
        return f'pip install "{_wheel()}{extras}"'
    if Path(sys.prefix) != CHECKOUT / ".venv":
        return f'pip install -e "{CHECKOUT}{extras}"'
    make = "make setup" if Path.cwd() == CHECKOUT else f"make -C {CHECKOUT} setup"
    return f"{make} EXTRAS={extra}" if extra else make


def is_checkout() -> bool:
    """Returns True if the package runs from the repository, and False if it was installed from a wheel."""
    return (CHECKOUT / "Makefile").is_file()


def _wheel() -> str:
    """Returns the wheel file that ccarena was installed from, or "WHEEL" if that file is unknown or gone."""
    import importlib.metadata  # errors import this module, and every command imports them
    import json

    try:
        said = importlib.metadata.distribution("ccarena").read_text("direct_url.json")
        path = unquote(urlsplit(json.loads(said or "{}")["url"]).path)
    except (importlib.metadata.PackageNotFoundError, KeyError, TypeError, ValueError):
        return "WHEEL"
    return path if path.endswith(".whl") and Path(path).is_file() else "WHEEL"
