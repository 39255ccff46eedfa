"""Modules that a user's Python file imports from its own folder: found by reading, and imported from there.

They are `NAME.py`, or a package `NAME/` with `__init__.py`, and what these import from the same folder. A name that the
file computes is not found, nor is a file that it opens.
"""

from __future__ import annotations

import ast
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ccarena.core.files import digest

__all__ = ["beside", "importing"]

_NEVER = {*sys.stdlib_module_names, "ccarena"}
_lock = threading.RLock()
_digests: dict[str, str] = {}
"""Digests of files as they were imported here, by path."""


def beside(file: Path) -> dict[str, Path]:
    """Returns the files of the modules that `file` imports from its folder, by their name relative to the folder."""
    found: dict[str, Path] = {}
    read = [file]
    while read:
        for name in sorted(_imported(read.pop())):
            for path in _files(file.parent, name):
                relative = path.relative_to(file.parent).as_posix()
                if relative not in found and path != file:
                    found[relative] = path
                    read.append(path)
    return found


@contextmanager
def importing(file: Path) -> Iterator[None]:
    """Has imports in the block find the modules beside `file` first, as they are now.

    A module of the same name from elsewhere is forgotten, and so is one whose file has changed since. Modules that
    `file` imports later, in a function, are imported at the end of the block.
    """
    found, folder = beside(file), file.parent.resolve()
    if not found:
        yield
        return
    files = {str(path.resolve()): digest(path.read_bytes()) for path in found.values()}
    names = {Path(name).parts[0].removesuffix(".py") for name in found}
    with _lock:
        theirs = {
            name for name in names if _is_other(name, folder) or any(_digests.get(f, d) != d for f, d in files.items())
        }
        for known in [known for known in sys.modules if known.partition(".")[0] in theirs]:
            del sys.modules[known]
        # Compiled files are told apart by seconds, and a file may change twice in one.
        compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            yield
            for name in sorted(names):
                importlib.import_module(name)
            _digests.update(files)
        finally:
            sys.dont_write_bytecode = compiles
            with suppress(ValueError):
                sys.path.remove(str(folder))


def _is_other(name: str, folder: Path) -> bool:
    """Returns whether a module of this name was imported, and not from `folder`."""
    known = getattr(sys.modules.get(name), "__file__", None)
    own = (folder / f"{name}.py", folder / name / "__init__.py")
    return name in sys.modules and (known is None or Path(known).resolve() not in own)


def _imported(file: Path) -> set[str]:
    """Returns the first parts of the names that a file imports, in functions as well."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()  # whoever runs it gets the error
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found} - _NEVER


def _files(folder: Path, name: str) -> list[Path]:
    package = folder / name
    if (package / "__init__.py").is_file():  # Python prefers it to a module of the same name
        return sorted(path for path in package.rglob("*.py") if path.is_file())
    module = folder / f"{name}.py"
    return [module] if module.is_file() else []
