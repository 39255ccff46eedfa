"""Files that a search space names: copied to the sweep's folder or located, and found again on every machine.

Your own `FILE.py:NAME` and specs are copied with their modules, as those of a configuration are. Datasets, recordings
and finds of attacks stay where they are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ccarena.configs import own_files
from ccarena.configs.learning import OWN_FILE, SPEC_FILES
from ccarena.tune.space import Space

__all__ = ["keep", "renamed", "texts"]

FOLDER = "space"
"""Folder of the sweep with a folder per copied file."""


def keep(space: Space, out: Path) -> dict[str, str]:
    """Copies the own files that `space` names into the sweep's folder `out`.

    Returns, by the text of the space, the text with a name from `out` for a copy, or an absolute name for another file.
    Raises ConfigError if a file cannot be read or written.
    """
    found: dict[str, str] = {}
    for key, text in texts(space):
        file, mark, wanted = text.rpartition(OWN_FILE)
        name = f"{file}.py" if mark else text
        if not ("/" in name or Path(name).suffix) or not os.path.exists(name):
            continue
        if mark or (key == "spec" and Path(name).suffix in SPEC_FILES):
            place = Path(FOLDER, hashlib.sha256(name.encode()).hexdigest()[:8])
            copy = place / own_files.keep_file(Path(name), out / place)
            found[text] = f"{copy}:{wanted}" if mark else str(copy)
        else:
            found[text] = os.path.abspath(name)
    return found


def texts(space: Space) -> Iterator[tuple[str, str]]:
    """Yields the texts in the values of `space`, each with its key."""
    for key, dimension in space.dimensions.items():
        for value in dimension.values:
            yield from ((key, text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Returns a value of a space with other names for its files."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {key: renamed(each, names) for key, each in value.items()}
    return [renamed(each, names) for each in value] if isinstance(value, (list, tuple)) else value
