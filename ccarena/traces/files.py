"""Mahimahi trace files: find, read, check, write.

A trace has one line per delivery opportunity: the time in whole milliseconds at which a packet of 1500 bytes may leave.
Times never decrease. After its last line the trace repeats, shifted by that line's time, which must therefore be above
zero (mahimahi, `link_queue.cc`). In memory a trace is a `uint32` array of shape `(opportunities,)`, in milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.errors import TraceError, did_you_mean
from ccarena.reader import LARGEST_TRACE_BYTES, read_bytes

__all__ = ["available", "check", "data_dir", "find", "in_folder", "load", "parse", "save", "search_path"]

_NEWLINE, _ZERO, _NINE = ord("\n"), ord("0"), ord("9")
_MAX_MS = 2**32 - 1


def load(trace: str | os.PathLike[str]) -> NDArray[np.uint32]:
    """Reads the trace with this name or path (see `find`): milliseconds, `uint32[opportunities]`.

    Raises:
        TraceError: it is not found or not a trace; the message names file, line, value and what was expected.
    """
    path = find(trace)
    try:
        data = read_bytes(path, LARGEST_TRACE_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot read the trace: {error.strerror}; expected a readable file") from error
    return parse(data, str(path))


def parse(data: bytes, name: str) -> NDArray[np.uint32]:
    """Reads a trace from the bytes of its file; `name` stands in errors.

    Raises:
        TraceError: with the line of the fault. A missing newline at the end is accepted, as mahimahi does.
    """
    if not data:
        raise TraceError(f"{name}: the trace is empty; expected one delivery time in whole milliseconds per line")
    raw = np.frombuffer(data, np.uint8)
    strange = np.flatnonzero(((raw < _ZERO) | (raw > _NINE)) & (raw != _NEWLINE))
    if strange.size:
        raise _strange_byte(data, int(strange[0]), name)
    ends = np.flatnonzero(raw == _NEWLINE)
    if raw[-1] != _NEWLINE:
        ends = np.append(ends, raw.size)
    digits = np.diff(ends, prepend=-1) - 1
    if empty := _first(digits == 0):
        raise TraceError(f"{name}:{empty}: the line is empty; expected a delivery time in whole milliseconds")
    # Twelve digits fit an int64 and leave room to say by how much the limit is missed.
    if long := _first(digits > 12):
        raise TraceError(f"{name}:{long}: the number has {digits[long - 1]} digits; expected at most {_MAX_MS} ms")
    times = np.fromstring(data, dtype=np.int64, sep="\n")
    return check(times, name)


def check(times_ms: ArrayLike, name: str) -> NDArray[np.uint32]:
    """`times_ms` as a trace; `name` stands in errors, whose lines count from 1.

    Raises:
        TraceError: empty, not whole numbers (NaN included), negative, too large, unsorted, or the last one zero.
    """
    times = np.asarray(times_ms)
    if times.ndim != 1 or times.size == 0:
        raise TraceError(f"{name}: the trace is empty; expected one delivery time in whole milliseconds per line")
    if times.dtype.kind not in "uif":
        raise TraceError(f"{name}: the times are of type {times.dtype}; expected whole numbers of milliseconds")
    if broken := _first(~np.isfinite(times) | (times != np.floor(times))):
        raise TraceError(f"{name}:{broken}: {times[broken - 1]} ms; expected a whole number of milliseconds")
    if outside := _first((times < 0) | (times > _MAX_MS)):
        raise TraceError(f"{name}:{outside}: {times[outside - 1]} ms; expected 0 to {_MAX_MS} ms")
    if unsorted := _first(times[1:] < times[:-1]):
        raise TraceError(
            f"{name}:{unsorted + 1}: {times[unsorted]} ms comes after {times[unsorted - 1]} ms; "
            "expected nondecreasing times (sort the file with `sort -n`)"
        )
    if times[-1] == 0:
        raise TraceError(
            f"{name}:{times.size}: the trace lasts 0 ms; "
            "expected a last delivery time above 0, after which the trace repeats"
        )
    return times.astype(np.uint32)


def save(path: str | os.PathLike[str], times_ms: ArrayLike) -> Path:
    """Writes a trace, whole or not at all; makes the folder if needed.

    Raises:
        TraceError: `times_ms` is not a trace, or the file cannot be written.
    """
    path = Path(path)
    times = check(times_ms, str(path))
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text("\n".join(map(str, times.tolist())) + "\n", encoding="ascii")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TraceError(f"{path}: cannot write the trace: {error.strerror}") from error
    return path


def data_dir() -> Path:
    """Where fetched traces are kept: `$XDG_DATA_HOME/ccarena/traces` (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "ccarena" / "traces"


def search_path() -> list[Path]:
    """Where `find` looks, in this order: CCARENA_TRACE_DIR (a colon list), ./traces, `data_dir()`."""
    configured = [Path(p) for p in os.environ.get("CCARENA_TRACE_DIR", "").split(os.pathsep) if p]
    return [*configured, Path("traces"), data_dir()]


def find(trace: str | os.PathLike[str], others: Iterable[str] = ()) -> Path:
    """The file of a trace, given its path, its name or `SET/NAME`; names are looked up along `search_path()`.

    `others` are names that the caller knows besides, for the message. Raises:
        TraceError: there is none; says where it looked, and how to get the trace if the manifest knows it.
    """
    path = Path(trace)
    if path.is_file():
        return path
    name = path.as_posix()
    if not path.is_absolute():
        for folder in search_path():
            for candidate in _files(folder):
                if candidate.relative_to(folder).as_posix() == name or candidate.name == name:
                    return candidate
    raise TraceError(_not_found(name, others))


def available() -> dict[str, Path]:
    """All traces along `search_path()`, by name, the first of each name; files of other kinds are left out."""
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in _files(folder):
            if path.name not in found and _looks_like_trace(path):
                found[path.name] = path
    return found


def in_folder(folder: Path) -> list[Path]:
    """The traces below a folder, sorted by path; files of other kinds are left out."""
    return [path for path in _files(folder) if _looks_like_trace(path)]


def _files(folder: Path) -> Iterator[Path]:
    for root, subfolders, names in os.walk(folder):
        subfolders.sort()
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(".part"):
                yield Path(root, name)


def _looks_like_trace(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).split(b"\n", 1)[0].isdigit()
    except OSError:
        return False


def _not_found(name: str, others: Iterable[str]) -> str:
    from ccarena.traces.manifest import manifest

    where = ", ".join(str(p) for p in search_path())
    for entry in manifest():
        if name in (entry.name, f"{entry.set}/{entry.name}"):
            return f'trace "{name}" is not here; get it with `ccarena traces fetch {entry.set}` (looked in {where})'
    if Path(name).is_dir():
        return f"{name}: a folder; expected a trace: a file, or a name (looked in {where})"
    return f'no trace "{name}" (looked in {where}){did_you_mean(name, [*available(), *others])}'


def _strange_byte(data: bytes, at: int, name: str) -> TraceError:
    line = data.count(b"\n", 0, at) + 1
    start = data.rfind(b"\n", 0, at) + 1
    text = data[start : start + 40].split(b"\n", 1)[0]
    if text.endswith(b"\r") and text[:-1].isdigit():
        return TraceError(
            f"{name}:{line}: the line ends in CR LF; expected LF alone (convert the file with `dos2unix`)"
        )
    try:
        value = text.decode("ascii")
    except UnicodeDecodeError:
        value = ""
    if not value.isprintable() or not value:
        return TraceError(
            f"{name}:{line}: the trace holds the byte 0x{data[at]:02x}; expected text, not a binary or compressed file"
        )
    return TraceError(
        f'{name}:{line}: "{value}" is not a delivery time; expected a whole number of milliseconds, digits alone'
    )


def _first(wrong: NDArray[np.bool_]) -> int:
    """The line (from 1) of the first true element, 0 if there is none."""
    at = int(np.argmax(wrong)) if wrong.size else 0
    return at + 1 if wrong.size and wrong[at] else 0
