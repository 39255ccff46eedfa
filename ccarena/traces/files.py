"""Mahimahi trace files: find, read, check, write.

A trace has one line per delivery opportunity: the time in whole milliseconds at which a packet of 1500 bytes may leave.
Times never decrease. After its last line the trace repeats, shifted by that line's time, which must therefore be above
zero (mahimahi, `link_queue.cc`). In memory a trace is a `uint32` array of shape `(opportunities,)`, in milliseconds.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.core.reader import LARGEST_TRACE_BYTES, read_bytes
from ccarena.errors import TraceError, cannot_write, did_you_mean

__all__ = [
    "available",
    "check",
    "chunks",
    "data_dir",
    "find",
    "in_folder",
    "load",
    "parse",
    "runs",
    "save",
    "search_path",
    "shared",
    "write",
]

_Whole = TypeVar("_Whole", bound=np.integer[Any])
_NEWLINE, _ZERO, _NINE = ord("\n"), ord("0"), ord("9")
_MAX_MS = 2**32 - 1
_CHUNK = 2**20
_LONGEST = 64
"""Longest line of a trace in bytes; a longer one is an error."""
_WRITTEN = 2**16
"""Opportunities that are written as text at once."""
_MOST_FILES = 50_000


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


def shared(trace: str | os.PathLike[str]) -> NDArray[np.uint32]:
    """Reads a trace as `load`, and only once while its file stays as it is. The array cannot be written to.

    Reading a long trace takes about as long as a run over it.
    """
    path = find(trace)
    about = path.stat()
    return _shared(path, (about.st_mtime_ns, about.st_size))


@functools.lru_cache(maxsize=8)
def _shared(path: Path, state: tuple[int, int]) -> NDArray[np.uint32]:
    """Returns the trace of a file whose `state` tells a change."""
    times = load(path)
    times.flags.writeable = False
    return times


def chunks(trace: str | os.PathLike[str]) -> Iterator[NDArray[np.uint32]]:
    """Reads a trace of any size in chunks, so that memory does not grow with it; else as `load`."""
    path = find(trace)
    try:
        with path.open("rb") as file:
            yield from _parsed(iter(lambda: file.read(_CHUNK), b""), str(path))
    except OSError as error:
        raise TraceError(f"{path}: cannot read the trace: {error.strerror}; expected a readable file") from error


def parse(data: bytes, name: str) -> NDArray[np.uint32]:
    """Reads a trace from the bytes of its file; `name` stands in errors.

    Raises:
        TraceError: with the line of the fault. A missing newline at the end is accepted, as mahimahi does.
    """
    return np.concatenate(list(_parsed(iter([data] if data else []), name)))


def _parsed(blocks: Iterator[bytes], name: str) -> Iterator[NDArray[np.uint32]]:
    lines, last, rest = 0, 0, b""
    for block in blocks:
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            times = _lines(whole + newline, name, lines, last)
            lines, last = lines + times.size, int(times[-1])
            yield times
        elif len(rest) > _LONGEST:  # else a file without newlines would be read to its end
            _lines(rest, name, lines, last)
    if rest:
        times = _lines(rest, name, lines, last)
        lines, last = lines + times.size, int(times[-1])
        yield times
    _check_length(lines, last, name)


def _lines(data: bytes, name: str, before: int, last: int) -> NDArray[np.uint32]:
    """Returns the times of whole lines, which follow `before` other lines, the last of them at `last`."""
    raw = np.frombuffer(data, np.uint8)
    strange = np.flatnonzero(((raw < _ZERO) | (raw > _NINE)) & (raw != _NEWLINE))
    if strange.size:
        raise _strange_byte(data, int(strange[0]), name, before)
    ends = np.flatnonzero(raw == _NEWLINE)
    if raw[-1] != _NEWLINE:
        ends = np.append(ends, raw.size)
    digits = np.diff(ends, prepend=-1) - 1
    if empty := _first(digits == 0):
        raise TraceError(f"{name}:{before + empty}: the line is empty; expected a delivery time in whole milliseconds")
    # Twelve digits fit an int64 and leave room to say by how much the limit is missed.
    if long := _first(digits > 12):
        raise TraceError(
            f"{name}:{before + long}: the number has {digits[long - 1]} digits; expected at most {_MAX_MS} ms"
        )
    return _in_order(np.fromstring(data, dtype=np.int64, sep="\n"), name, before, last)


def check(times_ms: ArrayLike, name: str) -> NDArray[np.uint32]:
    """Returns `times_ms` as a trace; errors name it `name` and count lines from 1.

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
    times = _in_order(times, name)
    _check_length(times.size, int(times[-1]), name)
    return times


def _in_order(times: NDArray[Any], name: str, before: int = 0, last: int = 0) -> NDArray[np.uint32]:
    if outside := _first((times < 0) | (times > _MAX_MS)):
        raise TraceError(f"{name}:{before + outside}: {times[outside - 1]} ms; expected 0 to {_MAX_MS} ms")
    if unsorted := _first(np.diff(times.astype(np.int64), prepend=last) < 0):
        raise TraceError(
            f"{name}:{before + unsorted}: {times[unsorted - 1]} ms comes after "
            f"{times[unsorted - 2] if unsorted > 1 else last} ms; "
            "expected nondecreasing times (sort the file with `sort -n`)"
        )
    return times.astype(np.uint32)


def _check_length(lines: int, last: int, name: str) -> None:
    if lines == 0:
        raise TraceError(f"{name}: the trace is empty; expected one delivery time in whole milliseconds per line")
    if last == 0:
        raise TraceError(
            f"{name}:{lines}: the trace lasts 0 ms; "
            "expected a last delivery time above 0, after which the trace repeats"
        )


def save(path: str | os.PathLike[str], times_ms: ArrayLike) -> Path:
    """Writes a trace, whole or not at all; makes the folder if needed.

    Raises:
        TraceError: `times_ms` is not a trace.
        ConfigError, WriteError: the file cannot be written.
    """
    path = Path(path)
    write(path, [check(times_ms, str(path))])
    return path


def write(path: Path, parts: Iterable[NDArray[np.uint32]]) -> None:
    """Writes the chunks of a trace one after the other; the file is there when the last one is written.

    SIGTERM ends the process as Ctrl-C does, so that nothing is left behind. Raises ConfigError or WriteError
    if it cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _terminable():
            try:
                with part.open("wb") as file:
                    for times in parts:
                        for first in range(0, times.size, _WRITTEN):
                            file.write(_text(times[first : first + _WRITTEN]))
                os.replace(part, path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise cannot_write(path, error, what="the trace") from error


def _text(times: NDArray[np.uint32]) -> bytes:
    distinct, counts = runs(times)  # a fast link has many opportunities in a millisecond
    return b"".join([b"%d\n" % ms * count for ms, count in zip(distinct.tolist(), counts.tolist(), strict=True)])


@contextmanager
def _terminable() -> Iterator[None]:
    def end(signum: int, frame: object) -> None:
        raise SystemExit(128 + signum)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(SIGTERM, signal.SIG_DFL)


def data_dir() -> Path:
    """Returns the folder of fetched traces: `$XDG_DATA_HOME/ccarena/traces` (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "ccarena" / "traces"


def search_path() -> list[Path]:
    """Returns the folders that `find` searches, in order: CCARENA_TRACE_DIR (a colon list), ./traces, `data_dir()`."""
    configured = [Path(p) for p in os.environ.get("CCARENA_TRACE_DIR", "").split(os.pathsep) if p]
    return [*configured, Path("traces"), data_dir()]


def find(trace: str | os.PathLike[str], others: Iterable[str] = ()) -> Path:
    """Returns the file of a trace, given its path, its name or `SET/NAME`; names are looked up along `search_path()`.

    `others`: further known names for the error message.

    Raises TraceError if there is no such trace. The message says which folders were searched, and how to fetch the
    trace if the manifest has it.
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
    """Returns all traces along `search_path()`, by name, the first of each name; other files are left out."""
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in _files(folder):
            if path.name not in found and _looks_like_trace(path):
                found[path.name] = path
    return found


def in_folder(folder: Path) -> list[Path]:
    """Returns the traces below a folder, sorted by path; other files are left out."""
    return [path for path in _files(folder) if _looks_like_trace(path)]


def _files(folder: Path) -> Iterator[Path]:
    seen = 0
    for root, subfolders, names in os.walk(folder):
        seen += len(names) + len(subfolders)
        if seen > _MOST_FILES:
            raise TraceError(f"{folder}: holds more than {_MOST_FILES:,} files; expected a folder of traces")
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(".part"):
                yield Path(root, name)


def _looks_like_trace(path: Path) -> bool:
    try:
        if not path.is_file():  # opening a pipe would wait for a writer
            return False
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


def _strange_byte(data: bytes, at: int, name: str, before: int) -> TraceError:
    line = before + data.count(b"\n", 0, at) + 1
    start = data.rfind(b"\n", 0, at) + 1
    text = data[start : start + 200].split(b"\n", 1)[0]
    if text.endswith(b"\r") and text[:-1].isdigit():
        return TraceError(
            f"{name}:{line}: the line ends in CR LF; expected LF alone (convert the file with `dos2unix`)"
        )
    try:
        value = text.decode("utf-8").strip("\ufeff\r").replace("\t", " ")
    except UnicodeDecodeError:
        value = ""
    if not value.isprintable() or not value:
        return TraceError(
            f"{name}:{line}: the trace holds the byte 0x{data[at]:02x}; expected text, not a binary or compressed file"
        )
    shown = value[:40] + "…" * (len(value) > 40)
    if _is_row(value):
        return TraceError(
            f'{name}:{line}: "{shown}" is not a delivery time: this is a table or a log, not a trace; '
            f"make a trace of it with `ccarena traces convert {name}`"
        )
    return TraceError(
        f'{name}:{line}: "{shown}" is not a delivery time; expected a whole number of milliseconds, digits alone'
    )


def _is_row(line: str) -> bool:
    """Returns whether a line looks like a row of a table, a log or a document: words, or several cells."""
    try:
        float(line)
    except ValueError:
        return not line[0].isdigit() or any(separator in line for separator in ",; ")
    return False


def runs(values: NDArray[_Whole]) -> tuple[NDArray[_Whole], NDArray[np.int64]]:
    """Returns the distinct values of a sorted array, and the count of each: `np.unique` without sorting."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[starts], np.diff(starts, append=values.size)


def _first(wrong: NDArray[np.bool_]) -> int:
    """Returns the line (from 1) of the first true element, 0 if there is none."""
    at = int(np.argmax(wrong)) if wrong.size else 0
    return at + 1 if wrong.size and wrong[at] else 0
