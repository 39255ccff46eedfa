"""User's own files that a configuration names: copied to the run's folder, and identified by their content.

A run's folder holds a copy of each in `own/`, and `config.yaml` names the copies, so that the folder can be moved.
Modules that a Python file imports from its own folder are copied with it. `own/files.json` has their SHA-256 and their
origin. An artifact names files without folders, with their SHA-256.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ccarena.configs.learning import OWN_FILE, SPEC_FILES
from ccarena.configs.load import NAMED
from ccarena.configs.located import located
from ccarena.configs.schema import TrainConfig
from ccarena.core.files import write_atomically
from ccarena.core.own_imports import beside
from ccarena.core.reader import read_bytes
from ccarena.errors import ConfigError

__all__ = ["DIGESTS", "changed", "check", "inside", "keep", "keep_file", "portable", "without_folder"]

FOLDER, LIST = "own", "files.json"
DIGESTS = "own_files"
"""Key of an artifact's training: the SHA-256 of each of the user's own files."""


def keep(config: TrainConfig, out: Path) -> TrainConfig:
    """Copies the files that `config` names into the folder `out` of its run; returns `config` with the copies' names.

    Raises ConfigError if a file cannot be read or written.
    """
    names = _names(config)
    _write(_all(names), out)
    return _renamed(config, lambda file: str(out / FOLDER / names[file]))


def _write(files: Mapping[str, Path], out: Path) -> None:
    kept = {}
    for name, file in files.items():
        data = _read(file)
        write_atomically(out / FOLDER / name, data)
        kept[name] = {"sha256": _digest(data), "from": str(file.resolve())}
    if kept:
        write_atomically(out / FOLDER / LIST, json.dumps(kept, indent=1) + "\n")


def keep_file(file: Path, out: Path) -> str:
    """Copies one file, and the modules that it imports, as `keep` does; returns the copy's name from `out`."""
    _write(_all({file: file.name}), out)
    return f"{FOLDER}/{file.name}"


def inside(config: TrainConfig) -> TrainConfig:
    """Returns the result of `keep`, with files named from the run's folder, as its `config.yaml` does."""
    return _renamed(config, lambda file: f"{FOLDER}/{file.name}")


def portable(config: TrainConfig) -> dict[str, Any]:
    """Returns `config` as plain data that does not depend on where the run and its files lie.

    The user's own files have no folder, and their SHA-256 is under `own_files`; recordings, finds and datasets have
    their names alone. Raises ConfigError if a file cannot be read.
    """
    names = _names(config)
    data = _renamed(config, names.__getitem__).model_dump(mode="json", exclude={"out"})
    for key, files in located(config).items():
        *sections, last = key.split(".")
        functools.reduce(dict.__getitem__, sections, data)[last] = [Path(each).name for each in files]
    digests = {name: _digest(_read(file)) for name, file in _all(names).items()}
    return {**data, DIGESTS: digests} if digests else data


def without_folder(name: str) -> str:
    """Returns `FOLDER/FILE.py:NAME` as `FILE.py:NAME`, and any other name as it is."""
    return name.rpartition("/")[2] if OWN_FILE in name else name


def check(folder: Path, name: str, data: bytes) -> None:
    """Raises ConfigError if the file `name` in `folder`, whose content is `data`, is a run's copy and has changed since
    the run started.
    """
    if folder.name != FOLDER:
        return
    known = _list(folder).get(name)
    if known is not None and known["sha256"] != _digest(data):
        raise ConfigError(
            f"{folder / name}: it was changed after the run was started with it (SHA-256 {_digest(data)[:16]}, "
            f"expected {known['sha256'][:16]}); put the file back as it was, or start a new run for the changed one"
        )


def changed(out: Path) -> list[str]:
    """Returns a line for each original file that differs from the copy with which the run in `out` is resumed."""
    lines = []
    for name, known in _list(out / FOLDER).items():
        origin = Path(known["from"])
        if origin.is_file() and _digest(_read(origin)) != known["sha256"]:
            lines.append(
                f"{origin} has changed since the run began; the run goes on with its copy, {out / FOLDER / name}: "
                "start a new run to train with the changed file"
            )
    return lines


def _list(folder: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads((folder / LIST).read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / LIST}: cannot be read: {error}; restore the file") from error


def _names(config: TrainConfig) -> dict[Path, str]:
    """Returns the user's own files and their names without folders, with a number if a name is taken.

    Files of the same name and content are one.
    """
    found: dict[Path, str] = {}
    _renamed(config, lambda file: found.setdefault(file, file.name))
    taken = {name: _digest(_read(path)) for name, path in _imported(found).items()}
    for file in found:
        digest, number = _digest(_read(file)), 2
        while taken.setdefault(found[file], digest) != digest:
            found[file], number = f"{file.stem}-{number}{file.suffix}", number + 1
    return found


def _all(names: Mapping[Path, str]) -> dict[str, Path]:
    """Returns the user's own files by the names of `_names`, and the modules that they import."""
    return {**_imported(names), **{name: file for file, name in names.items()}}


def _imported(files: Iterable[Path]) -> dict[str, Path]:
    """Returns the modules that `files` import from their folders, by name. Raises ConfigError if two have one name."""
    found: dict[str, Path] = {}
    for file in files:
        for name, path in beside(file).items() if file.suffix == ".py" else ():
            other = found.setdefault(name, path)
            if _read(other) != _read(path):
                raise ConfigError(
                    f"{file}: it imports {path}, and another file of the configuration imports {other}, which has the "
                    "same name: give one of them another name"
                )
    return found


def _renamed(config: TrainConfig, rename: Callable[[Path], str]) -> TrainConfig:
    """Returns `config` with another name for each of the user's own files."""
    update: dict[str, Any] = {}
    for key in NAMED:
        section = getattr(config, key)
        if OWN_FILE in section.name:
            file, _, wanted = section.name.rpartition(":")
            update[key] = section.model_copy(update={"name": f"{rename(Path(file))}:{wanted}"})
    spec = config.spec
    if isinstance(spec, str) and Path(spec).suffix in SPEC_FILES:
        update["spec"] = rename(Path(spec))
    return config.model_copy(update=update)


def _read(file: Path) -> bytes:
    try:
        return read_bytes(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}; restore the file, or name another") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
