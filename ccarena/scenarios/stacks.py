"""Stacks: programs of others with a congestion control of their own, each a folder of the package with an entrant file.

`stack:NAME` is an entrant. A stack that has to be built is used from the folder `home`, where `ccarena stacks get`
(`ccarena.scenarios.get_stack`) puts it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccarena.errors import MachineError
from ccarena.scenarios.entrant_files import EntrantFile, read_entrant_file

__all__ = ["Stack", "find_stack", "home", "installed_stacks", "shipped_stacks", "stack_names"]

SHIPPED = Path(__file__).parents[1] / "stacks"
FILE = "entrant.yaml"
HOME = "CCARENA_STACKS_DIR"
"""Environment variable that names another folder of built stacks."""
RECIPES = {"Cargo.toml": "cargo", "go.mod": "go", "requirements.txt": "python"}
"""Ecosystem that builds a stack, by the file that says so."""


@dataclass(frozen=True)
class Stack:
    """Stack that the package ships."""

    name: str
    source: Path
    """Folder in the package."""
    place: Path
    """Folder of built stacks."""

    @property
    def recipe(self) -> str:
        """Returns the ecosystem that builds it; "" if its programs are on PATH."""
        return next((recipe for file, recipe in RECIPES.items() if (self.source / file).is_file()), "")

    @property
    def folder(self) -> Path:
        """Returns the folder that it is used from."""
        return self.place / self.name if self.recipe else self.source

    @property
    def shipped(self) -> EntrantFile:
        """Returns its entrant file in the package."""
        return read_entrant_file(self.source / FILE)

    @property
    def entrant(self) -> EntrantFile:
        """Returns its entrant file, as it is used; as shipped, if it is not built."""
        built = self.folder / FILE
        return replace(read_entrant_file(built) if built.is_file() else self.shipped, obtain=self.how)

    @property
    def how(self) -> str:
        """Returns the command that gets it."""
        return f"ccarena stacks get {self.name}"

    @property
    def sources(self) -> list[Path]:
        """Returns its files in the package, by their paths in its folder."""
        files = (path.relative_to(self.source) for path in self.source.rglob("*") if path.is_file())
        return sorted(path for path in files if "__pycache__" not in path.parts)

    @property
    def lacks(self) -> str:
        """Returns what it lacks to run; "" if nothing."""
        if self.recipe and not self.folder.is_dir():
            return "it is not built"
        if self.recipe and any(not _same(self.source / path, self.folder / path) for path in self.sources):
            return "it was built from other sources"
        missing = self.entrant.missing
        return f"not on this machine: {', '.join(missing)}" if missing else ""

    def at(self, place: Path) -> Stack:
        """Returns the stack with another folder of built stacks."""
        return replace(self, place=place)

    def flow(self, control: str) -> dict[str, Any]:
        """Returns the flow of a scenario. Raises MachineError, with the command that gets it, if it is not here."""
        if lacks := self.lacks:
            raise MachineError(f"stack:{self.name}: {lacks}; get it by: {self.how}")
        return self.entrant.flow(control)


def home() -> Path:
    """Returns the folder of built stacks: `$XDG_CACHE_HOME/ccarena/stacks`, unless CCARENA_STACKS_DIR names another."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(HOME) or cache / "ccarena" / "stacks").absolute()


def shipped_stacks() -> dict[str, Stack]:
    """Returns all stacks by name, installed or not."""
    folders = sorted(path.parent for path in SHIPPED.glob(f"*/{FILE}"))
    return {folder.name: Stack(folder.name, folder, home()) for folder in folders}


def installed_stacks() -> dict[str, Stack]:
    """Returns the stacks that can run on this machine, by name."""
    return {name: stack for name, stack in shipped_stacks().items() if not stack.lacks}


def stack_names(stacks: dict[str, Stack] | None = None) -> list[str]:
    """Returns the names of entrants of these stacks (default: all): NAME, and NAME-CONTROL for its other controls."""
    chosen = shipped_stacks() if stacks is None else stacks
    return [name for stack in chosen.values() for name, _ in _controls(stack)]


def find_stack(who: str) -> tuple[Stack, str] | None:
    """Returns the stack and the congestion control that `who`, one of `stack_names`, means; None if there is none."""
    for stack in shipped_stacks().values():
        for name, control in _controls(stack):
            if name == who:
                return stack, control
    return None


def _controls(stack: Stack) -> list[tuple[str, str]]:
    file = stack.shipped
    return [(file.name_with(control), control) for control in file.congestion_controls]


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()
