"""Public sets, fetched and converted.

Files of the manifest are traces and stay as they are. Files of other sets are kept in the hidden folder `ORIGINALS` of
the set's folder. Every recording in them becomes a conditions trace beside that folder, or stays the trace that it is.
A file that was not converted whole is not there.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ccarena.errors import DownloadError, TraceError
from ccarena.traces import convert, fetch, files, replays
from ccarena.traces.formats import find_format
from ccarena.traces.public_sets import PublicSet, find_set
from ccarena.traces.recording import Gaps, Recording

__all__ = ["ORIGINALS", "FetchedSet", "fetch_set"]

ORIGINALS = ".originals"
LARGEST_MEMBER_BYTES = 1_000_000_000
"""Largest file of an archive that is unpacked."""
_LEOCC_MS = 10
"""Interval of the delays in a recording of LeoCC."""


@dataclasses.dataclass(frozen=True)
class FetchedSet:
    """Outcome of one set."""

    set: PublicSet
    folder: Path
    files: tuple[fetch.Fetched, ...]
    converted: tuple[Path, ...]
    skipped: tuple[str, ...]
    """Recordings that carry nothing, or have one row."""


def fetch_set(
    name: str,
    to: Path | None = None,
    source: Path | None = None,
    *,
    known: PublicSet | None = None,
    progress: fetch.Progress | None = None,
    retry_wait_s: float = 1.0,
) -> FetchedSet:
    """Fetches the set `name` into `to`/NAME and converts it; `source`: take copies from this folder.

    `known` is the set, if it is not the catalogue's. Raises what `fetch.fetch` does, and DownloadError for a set whose
    files have to be downloaded by hand, for a broken archive and for a recording that cannot be converted.
    """
    found = known or find_set(name)
    folder = (files.data_dir() if to is None else to) / found.name
    if not found.format and not found.by_hand and found.members == ("*",):
        done = fetch.fetch_files(found.files, folder, source, progress, retry_wait_s)
        return FetchedSet(found, folder, tuple(done), (), ())
    originals, fetched = _originals(found, folder, source, progress, retry_wait_s)
    converted: list[Path] = []
    skipped: list[str] = []
    for original, root in originals:
        for label, path in _recordings(found, original, root, folder):
            _convert(found, path, label, folder, converted, skipped)
    if not converted:
        raise DownloadError(
            f'set "{found.name}": no recording in {source or folder / ORIGINALS}; expected files called '
            f"{' or '.join(found.members)}"
        )
    return FetchedSet(found, folder, fetched, tuple(converted), tuple(skipped))


def _originals(
    found: PublicSet, folder: Path, source: Path | None, progress: fetch.Progress | None, wait_s: float
) -> tuple[list[tuple[Path, Path]], tuple[fetch.Fetched, ...]]:
    """Returns the files to convert, each with the folder that its name is relative to, and what was fetched."""
    if not found.format and found.by_hand:
        raise DownloadError(f'set "{found.name}" cannot be fetched: {found.by_hand} (page: {found.page})')
    if source is not None and found.by_hand:
        if not source.is_dir():
            raise DownloadError(f"--from {source}: there is no such folder; expected one that holds the set's files")
        return [(path, source) for path in sorted(source.rglob("*")) if path.is_file()], ()
    if not found.files:
        raise DownloadError(
            f'set "{found.name}" cannot be fetched: {found.by_hand} (page: {found.page}). Then '
            f"`ccarena traces fetch {found.name} --from DIR` takes the files in DIR"
        )
    originals = folder / ORIGINALS
    done = fetch.fetch_files(found.files, originals, source, progress, wait_s)
    return [(each.path, originals) for each in done], tuple(done)


def _recordings(found: PublicSet, original: Path, root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the label and the file of each recording in a file: itself, or the members of an archive."""
    if not zipfile.is_zipfile(original):
        if original.suffix == ".zip":
            raise DownloadError(f"{original}: no zip archive; delete the file and fetch it again")
        if _wanted(found, original.name):
            yield original.relative_to(root).as_posix(), original
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            zipfile.ZipFile(original) as archive,
            tempfile.TemporaryDirectory(prefix=".unpacked-", dir=folder) as inside,
        ):
            for member in archive.infolist():
                if member.is_dir() or member.filename.startswith("__MACOSX") or not _wanted(found, member.filename):
                    continue
                if member.file_size > LARGEST_MEMBER_BYTES:
                    raise DownloadError(f"{original}: {member.filename} unpacks to {member.file_size} bytes; refused")
                path = Path(inside, "member")
                with archive.open(member) as packed, path.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                yield member.filename, path
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise DownloadError(
            f"{original}: the archive is broken ({error}); delete the file and fetch it again"
        ) from error
    except OSError as error:
        raise DownloadError(
            f"{folder}: cannot unpack {original.name}: {error.strerror}; make room or use --to"
        ) from error


def _wanted(found: PublicSet, name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(f"/{name}", pattern) for pattern in found.members)


def _convert(found: PublicSet, path: Path, label: str, folder: Path, converted: list[Path], skipped: list[str]) -> None:
    name = re.sub(r"[^\w.-]+", "-", label)
    if not found.format:
        converted.append(_trace(path, folder / name))
        return
    if found.format == "leocc":
        converted.append(_leocc(path, folder / f"{name.removesuffix('.txt')}.csv"))
        return
    stem = name.rpartition(".")[0] or name
    try:
        recordings = convert.recordings(path, find_format(found.format), Gaps("split"))
    except TraceError as error:
        raise DownloadError(f"{label}: {str(error).removeprefix(f'{path}:')}") from error
    for number, recording in enumerate(recordings, 1):
        target = folder / (f"{stem}.csv" if len(recordings) == 1 else f"{stem}-{number}.csv")
        if len(recording) < 2 or not recording.rates_mbps.any():
            skipped.append(f"{label}, from line {recording.lines[0]}")
        else:
            converted.append(_conditions(recording, target))


def _conditions(recording: Recording, target: Path) -> Path:
    convert.write_conditions(target, recording)
    return target


def _trace(path: Path, target: Path) -> Path:
    """Copies a trace, checked."""
    files.write(target, files.chunks(path))
    return target


def _leocc(path: Path, target: Path) -> Path:
    """Converts LeoCC's recording of opportunities (`bw_*.txt`) and of one-way delays each 10 ms (`delay_*.txt`)."""
    beside = path.with_name(re.sub("^bw", "delay", path.name))
    if beside == path or not beside.is_file():
        raise DownloadError(f"{path}: there is no file of its delays beside it; unpack archives, and name their folder")
    try:
        convert.write_conditions(target, replays.leo(path, beside))
    except TraceError as error:
        raise DownloadError(str(error)) from error
    return target
