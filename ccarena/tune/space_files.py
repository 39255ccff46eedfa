"""Files that a search space names: copied to the sweep's folder or located, and found again on every machine.

Your own `FILE.py:NAME` and specs are copied with their modules, as those of a configuration are. Datasets, recordings
and finds of attacks stay where they are. A recording that is named without its folder is looked up once, so that all
trials have the same one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ccarena.configs import own_files
from ccarena.configs.learning import OWN_FILE, SPEC_FILES
from ccarena.errors import TraceError
from ccarena.traces import find
from ccarena.tune.space import Space

__all__ = ["keep", "renamed", "texts"]

FOLDER = "space"
"""Folder of the sweep with a folder per copied file."""
RECORDINGS = ("env.link.traces", "env.link.conditions")
"""Keys of recordings, which may be named without their folder."""


def keep(space: Space, out: Path) -> dict[str, str]:
    """Copies the own files that `space` names into the sweep's folder `out`.

    Returns, by the text of the space, the text with a name from `out` for a copy, or an absolute name for another file.
    Raises ConfigError if a file cannot be read or written.
    """
    found: dict[str, str] = {}
    for key, text in texts(space):
        if key in RECORDINGS:
            with suppress(TraceError):  # `auto`
                found[text] = os.path.abspath(find(text))
            continue
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
    """Yields the texts in the values of `space`, each with its key, also of mappings: `env.link` has
    `env.link.traces`.
    """
    for key, dimension in space.dimensions.items():
        for value in dimension.values:
            yield from _texts(key, value)


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(f"{key}.{name}", each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(key, each)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Returns a value of a space with other names for its files."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {key: renamed(each, names) for key, each in value.items()}
    return [renamed(each, names) for each in value] if isinstance(value, (list, tuple)) else value
