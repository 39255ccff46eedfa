"""Shipping of files to the machines of a Ray cluster: what crosses the network brings the files that it names.

A `Parcel` is pickled with every file that a text or a path in it names. A file's bytes go to Ray's object store once
per content. A machine that has the same file under the same name uses it; another one writes it to its cache folder,
by digest, and finds the cached name in the text. Texts in answers get their original names back.

A file that is named within another file, or that is computed from a name, is not found: a module that a user's module
imports, a recording that is named without its folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from ccarena.core.files import write_atomically
from ccarena.errors import WorkerError

__all__ = ["Parcel", "cache_folder"]

Content = TypeVar("Content")

_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,11}(:\w+)?")
_TEXT, _PATH = "t", "p"
_DIGITS = 64
"""Digits of a SHA-256."""
_LONGEST = 4096
"""Longest text that may name a file: Linux's longest path."""
_OWN = re.compile(r"(.+\.py)(:\w+)")
"""Text `FILE.py:NAME`."""

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

        Raises WorkerError if a file cannot be written there.
        """
        return self._content

    def __deepcopy__(self, memo: dict[int, Any]) -> Parcel[Content]:
        return self  # Ray copies settings, and nobody changes what is shipped

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        files: dict[str, Any] = {}
        return _received, (_dumped(self._content, lambda name: _file(name, files)), files)


class _Received(Parcel[Content]):
    """Parcel on its arrival: it is unpacked when it is opened, where an error has a place to go."""

    def __init__(self, data: bytes, files: dict[str, Any]) -> None:
        self._data, self._files = data, files
        self._opened: Content | None = None

    def open(self) -> Content:
        if self._opened is None:
            self._opened = cast(Content, _loaded(self._data, lambda about: _here(about, self._files)))
        return self._opened

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _Received, (self._data, self._files)


def _received(data: bytes, files: dict[str, Any]) -> _Received[Any]:
    return _Received(data, files)


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


def cache_folder() -> Path:
    """Returns the folder of shipped files on this machine: `$XDG_CACHE_HOME/ccarena/files`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ccarena", "files")


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
    """Returns the digest of the file that `text` names, and `text`, and puts the file's reference into `files`."""
    # A scheme's name is none, whatever files there are: a file has a folder or a suffix.
    if len(text) > _LONGEST or not ("/" in text or _SUFFIX.search(text)):
        return None
    name, _ = _parts(text)
    digest = _digest(name)
    if digest is None:
        return None
    if digest not in files:
        import ray

        stored = ray.get_runtime_context().get_worker_id(), digest
        if stored not in _stored:
            _stored[stored] = ray.put(Path(name).read_bytes())
        files[digest] = _stored[stored]
    return digest + text


def _parts(text: str) -> tuple[str, str]:
    found = _OWN.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


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
    """Returns the text of `_file` with the file's name on this machine."""
    digest, text = about[:_DIGITS], about[_DIGITS:]
    name, rest = _parts(text)
    if _digest(name) == digest:
        return text
    # A place for each name: an answer with it gets this name back, not another one of the same content.
    place = cache_folder() / digest / hashlib.sha256(name.encode()).hexdigest()[:8] / Path(name).name
    if _digest(str(place)) != digest:
        import ray

        try:
            write_atomically(place, ray.get(files[digest]))
        except Exception as error:
            raise WorkerError(f"{name}: this machine has no such file, and cannot get it: {error}") from error
    here = f"{place}{rest}"
    _written[here] = text
    return here


def _origin(text: str) -> str | None:
    return _written.get(text)
