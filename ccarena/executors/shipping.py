"""Shipping of files to the machines of a Ray cluster: what crosses the network brings the files that it names.

A `Parcel` is pickled with every file that a text or a path in it names. A Python file comes with the modules that it
imports from its folder, and the folder of a dataset with its manifest and shards. A file's bytes go to Ray's object
store once per content. A machine that has the same files under the same names uses them; another one writes them to its
cache folder, by digest, and finds the cached name in the text. Texts in answers get their original names back.

A file that is named within another file, or that is computed from a name, is not found: one that a user's module opens,
a recording that is named without its folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from ccarena import __version__
from ccarena.core.files import write_atomically
from ccarena.core.own_imports import beside
from ccarena.errors import WorkerError
from ccarena.executors.file_cache import entry, prune

__all__ = ["Parcel"]

Content = TypeVar("Content")

_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,11}(:\w+)?")
_TEXT, _PATH = "t", "p"
_DIGITS = 64
"""Digits of a SHA-256."""
_LONGEST = 4096
"""Longest text that may name a file: Linux's longest path."""
_OWN = re.compile(r"(.+\.py)(:\w+)")
"""Text `FILE.py:NAME`."""
_MANIFEST = "manifest.json"
"""File that names the others of a folder under `shards`, as that of a dataset does (`ccarena.data.dataset`)."""

_stored: dict[tuple[str, str], Any] = {}
"""References to the store by connection and digest, of files that this process has put there."""
_digests: dict[str, tuple[tuple[int, int], str]] = {}
_written: dict[str, str] = {}
"""Original names by name in the cache, of files that this process found elsewhere than named."""


class Parcel(Generic[Content]):
    """Object that brings the files which it names to another machine."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def open(self) -> Content:
        """Returns the object; on another machine, with the names of its files there.

        Raises WorkerError if a file cannot be written there, or if ccarena is of another version there.
        """
        return self._content

    def __deepcopy__(self, memo: dict[int, Any]) -> Parcel[Content]:
        return self  # Ray copies settings, and nobody changes what is shipped

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        files: dict[str, Any] = {}
        return _received, (_dumped(self._content, lambda name: _file(name, files)), files, __version__)


class _Received(Parcel[Content]):
    """Parcel on its arrival: it is unpacked when it is opened, where an error has a place to go."""

    def __init__(self, data: bytes, files: dict[str, Any], version: str) -> None:
        self._data, self._files, self._version = data, files, version
        self._opened: Content | None = None

    def open(self) -> Content:
        if self._version != __version__:
            raise WorkerError(
                f"the machine {socket.gethostname()} has ccarena {__version__}, and the command is of version "
                f"{self._version}, so its results would be others; install the same version there"
            )
        if self._opened is None:
            self._opened = cast(Content, _loaded(self._data, lambda about: _here(about, self._files)))
        return self._opened

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _Received, (self._data, self._files, self._version)


def _received(data: bytes, files: dict[str, Any], version: str) -> _Received[Any]:
    return _Received(data, files, version)


def answered(result: Any) -> Any:
    """Returns a result for the way back: a parcel in which files have their original names, if any has another here."""
    return _Answer(_dumped(result, _origin)) if _written else result


def original(result: Any) -> Any:
    """Returns the result that was given to `answered`."""
    return _loaded(result.data, lambda text: text) if isinstance(result, _Answer) else result


class _Answer:
    """Result in which the names of files are marked."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def _dumped(what: Any, persistent: Callable[[str], str | None]) -> bytes:
    """Pickles `what`; texts and paths for which `persistent` has an answer are replaced by it."""
    from ray import cloudpickle

    class Pickler(cloudpickle.CloudPickler):
        def persistent_id(self, each: Any) -> str | None:
            # One text: of a tuple, the parts would come here, too.
            if type(each) is str:
                return None if (found := persistent(each)) is None else _TEXT + found
            if isinstance(each, Path):
                return None if (found := persistent(str(each))) is None else _PATH + found
            return None

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    return file.getvalue()


def _loaded(data: bytes, name: Callable[[str], str]) -> Any:
    """Unpickles what `_dumped` wrote in a process of the same work."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, about: str) -> Any:
            found = name(about[1:])
            return found if about[:1] == _TEXT else Path(found)

    return Unpickler(io.BytesIO(data)).load()


def _file(text: str, files: dict[str, Any]) -> str | None:
    """Returns the digest of the files that `text` names, and `text`, and puts references to them into `files`."""
    # A scheme's name is none, whatever files there are: a file has a folder or a suffix.
    if len(text) > _LONGEST or not ("/" in text or _SUFFIX.search(text)):
        return None
    name, _ = _parts(text)
    found = _shipment(name)
    if found is None:
        return None
    digest = _digest_of(found)
    if digest not in files:
        import ray

        files[digest] = {}
        for relative, (path, content) in found.items():
            stored = ray.get_runtime_context().get_worker_id(), content
            if stored not in _stored:
                _stored[stored] = ray.put(path.read_bytes())
            files[digest][relative] = _stored[stored]
    return digest + text


def _parts(text: str) -> tuple[str, str]:
    found = _OWN.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def _shipment(name: str) -> dict[str, tuple[Path, str]] | None:
    """Returns the files that travel for a name, with their SHA-256, by their name beside it; None if there are none."""
    path = Path(name)
    try:
        if path.is_file():
            paths = {path.name: path} | (beside(path) if path.suffix == ".py" else {})
        elif (path / _MANIFEST).is_file():
            shards = json.loads((path / _MANIFEST).read_bytes())["shards"]
            if any(Path(file).name != file for file in shards):  # a file elsewhere would be written elsewhere
                return None
            paths = {f"{path.name}/{file}": path / file for file in [_MANIFEST, *shards]}
        else:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = {relative: (each, _digest(str(each))) for relative, each in paths.items()}
    if any(digest is None for _, digest in found.values()):
        return None
    return cast(dict[str, tuple[Path, str]], found)


def _digest_of(shipment: Mapping[str, tuple[Path, str]]) -> str:
    about = "".join(f"{relative}\n{shipment[relative][1]}\n" for relative in sorted(shipment))
    return hashlib.sha256(about.encode()).hexdigest()


def _digest(name: str) -> str | None:
    """Returns the SHA-256 of a file; None if there is none."""
    try:
        about = os.stat(name)
        if not os.path.isfile(name):
            return None
        mark = (about.st_size, about.st_mtime_ns)
        known = _digests.get(name)
        if known is None or known[0] != mark:
            known = _digests[name] = (mark, hashlib.sha256(Path(name).read_bytes()).hexdigest())
    except (OSError, ValueError):
        return None
    return known[1]


def _here(about: str, files: dict[str, Any]) -> str:
    """Returns the text of `_file` with the files' name on this machine."""
    digest, text = about[:_DIGITS], about[_DIGITS:]
    name, rest = _parts(text)
    if (found := _shipment(name)) is not None and _digest_of(found) == digest:
        return text
    try:
        # A place for each name: an answer with it gets this name back, not another one of the same content.
        place = entry(digest) / hashlib.sha256(name.encode()).hexdigest()[:8]
        here = place / Path(name).name
        found = _shipment(str(here))
        if found is None or _digest_of(found) != digest:
            import ray

            for relative, reference in files[digest].items():
                write_atomically(place / relative, ray.get(reference))
            prune()
    except Exception as error:
        raise WorkerError(f"{name}: this machine has no such file, and cannot get it: {error}") from error
    _written[f"{here}{rest}"] = text
    return f"{here}{rest}"


def _origin(text: str) -> str | None:
    return _written.get(text)
