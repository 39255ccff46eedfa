"""Downloads of public sets: checked, and resumed after a break.

No trace is part of this package, and each set has its own licence.

A file is downloaded to `NAME.part` and resumed there after a break (HTTP Range, RFC 9110 section 14.2). It gets its own
name only once its digest is the known one, so that a file under its own name is always complete. A file whose digest
nobody published is trusted at its first fetch: `FIRST_FETCH` in its folder keeps size and SHA-256, and any later fetch
that brings other bytes fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import http
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.core.reader import read_bytes
from ccarena.errors import ConfigError, DownloadError, did_you_mean
from ccarena.traces.files import data_dir
from ccarena.traces.manifest import Entry, RemoteFile, manifest

__all__ = ["FIRST_FETCH", "Fetched", "fetch", "fetch_files"]

FIRST_FETCH = "first-fetch.json"
"""File with size and SHA-256 of each file of a folder whose authors publish none."""
_LARGEST_RECORD = 1 << 20

_CHUNK_BYTES = 1 << 16
_ATTEMPTS = 4
_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True)
class Fetched:
    """Outcome of one file."""

    entry: RemoteFile
    path: Path
    action: str
    """`present` (was there already), `downloaded`, `resumed` or `copied`."""


Progress = Callable[[RemoteFile, int], None]
"""Callback that takes the file and its number of bytes so far."""


def fetch(
    name: str,
    to: Path | None = None,
    source: Path | None = None,
    *,
    entries: Sequence[Entry] | None = None,
    progress: Progress | None = None,
    retry_wait_s: float = 1.0,
) -> list[Fetched]:
    """Brings the files of the set `name` to `to`/NAME and checks them; complete files are left alone.

    Args:
        name: one of `sets()`.
        to: the folder that gets the set's folder; default `data_dir()`, where `find` looks.
        source: copy from this folder (searched with its subfolders) instead of downloading.
        entries: the files to choose from; default `manifest()`.
        progress: called with each file and its bytes so far.
        retry_wait_s: the wait before the second attempt; it doubles with every further one.

    Raises:
        ConfigError: unknown set.
        DownloadError: no connection, wrong checksum, disk full, or files missing from `source`. What was complete by
            then stays, and a broken download goes on from where it was.
    """
    entries = manifest() if entries is None else entries
    wanted = [entry for entry in entries if entry.set == name]
    if not wanted:
        raise ConfigError(f'unknown trace set "{name}"{did_you_mean(name, {entry.set for entry in entries})}')
    return fetch_files(wanted, (data_dir() if to is None else to) / name, source, progress, retry_wait_s)


def fetch_files(
    wanted: Sequence[RemoteFile],
    folder: Path,
    source: Path | None = None,
    progress: Progress | None = None,
    retry_wait_s: float = 1.0,
) -> list[Fetched]:
    """Brings files to `folder`, as `fetch` does. Raises DownloadError."""
    name = wanted[0].set
    report = progress or (lambda _entry, _bytes: None)
    copies = None if source is None else _copies(source)
    done: list[Fetched] = []
    missing: list[str] = []
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for entry in wanted:
        known = _known(entry, folder)
        path = folder / known.name
        if path.is_file() and _published(known) and not _difference(known, path):
            action = "present"
        elif copies is None:
            action = _download(known, path, report, retry_wait_s)
        elif known.name in copies:
            action = _copy(known, copies[known.name], path)
        else:
            missing.append(known.name)
            continue
        if not _published(entry):
            _record(entry, path)
        report(entry, path.stat().st_size)
        done.append(Fetched(entry, path, action))
    if missing:
        raise DownloadError(
            f'{len(missing)} of the {len(wanted)} files of set "{name}" are not in {source}: {", ".join(missing)}; '
            f"the other {len(done)} are in {folder}; download the rest with `ccarena traces fetch {name}`"
        )
    return done


def _published(entry: RemoteFile) -> bool:
    return bool(entry.sha256 or entry.git_blob)


def _known(entry: RemoteFile, folder: Path) -> RemoteFile:
    """Returns the file with size and digest of its first fetch, if its authors publish none."""
    if _published(entry):
        return entry
    first = _first_fetches(folder).get(entry.name, {})
    size, sha256 = first.get("bytes"), first.get("sha256")
    known = isinstance(size, int) and isinstance(sha256, str)
    return dataclasses.replace(entry, bytes=size, sha256=sha256) if known else entry


def _first_fetches(folder: Path) -> dict[str, Any]:
    path = folder / FIRST_FETCH
    if not path.is_file():
        return {}
    try:
        found = json.loads(read_bytes(path, _LARGEST_RECORD))
    except (OSError, ValueError) as error:
        raise DownloadError(f"{path}: cannot be read ({error}); move it away to trust the next fetch") from error
    return found if isinstance(found, dict) else {}


def _record(entry: RemoteFile, path: Path) -> None:
    """Keeps size and digest of a file whose authors publish none."""
    record = path.with_name(FIRST_FETCH)
    first = _first_fetches(path.parent)
    if entry.name not in first:
        first[entry.name] = {"url": entry.url, "bytes": path.stat().st_size, "sha256": _sha256(path)}
        write_atomically(record, json.dumps(first, indent=1) + "\n")


def _difference(entry: RemoteFile, path: Path) -> str:
    """Returns how a file differs from what is known of its content; empty if it does not."""
    size = path.stat().st_size
    if entry.bytes is not None and size != entry.bytes:
        return f"has {size} bytes, expected {entry.bytes}"
    if entry.sha256 and (found := _sha256(path)) != entry.sha256:
        return f"has SHA-256 {found}, expected {entry.sha256}"
    if entry.git_blob and (found := _git_blob(path)) != entry.git_blob:
        return f"is git's blob {found}, expected {entry.git_blob}"
    return ""


def _download(entry: RemoteFile, path: Path, report: Progress, wait_s: float) -> str:
    if not entry.url.startswith(("https://", "http://")):
        raise DownloadError(f"{entry.url}: expected an http or https address")
    part = path.with_name(f"{path.name}.part")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            resumed = _transfer(entry, part, report)
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            gone = (
                isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500 and error.code not in (408, 429)
            )
            if gone or attempt == _ATTEMPTS:
                raise DownloadError(_failure(entry, error, attempt)) from error
            time.sleep(wait_s * 2 ** (attempt - 1))
            continue
        problem = _difference(entry, part)
        if not problem:
            with _writing(path):
                os.replace(part, path)
            return "resumed" if resumed else "downloaded"
        part.unlink()
        # A resumed file may have been spoilt by its old beginning; one fetched in one go is what the server has.
        if not resumed:
            break
    raise DownloadError(
        f"{entry.url}: the file {problem}; it was thrown away. It changed since its digest was recorded, or something "
        "in between altered it; nothing was installed under its name"
    )


def _transfer(entry: RemoteFile, part: Path, report: Progress) -> bool:
    """Appends the missing bytes to `part`. Returns whether the server resumed the download."""
    have = part.stat().st_size if part.is_file() else 0
    # Without a known size nobody can tell whether the beginning belongs to the same file.
    if have and (entry.bytes is None or have > entry.bytes):
        part.unlink()
        have = 0
    if have == entry.bytes:
        return True
    if entry.bytes is not None:
        _check_room(part, entry.bytes - have)
    headers = {"User-Agent": "ccarena", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with urllib.request.urlopen(urllib.request.Request(entry.url, headers=headers), timeout=_TIMEOUT_S) as response:
        # A server without ranges answers 200 with the whole file.
        resumed = have > 0 and response.status == http.HTTPStatus.PARTIAL_CONTENT
        size = have if resumed else 0
        expected = entry.bytes
        if expected is None and (stated := response.headers.get("Content-Length", "")).isdecimal():
            expected = int(stated)
            _check_room(part, expected)
        with _writing(part), part.open("ab" if resumed else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                size += len(chunk)
                report(entry, size)
                if expected is not None and size > expected:
                    break
    if expected is not None and size < expected:
        raise ConnectionError(f"the connection ended after {size} of {expected} bytes")
    return resumed


def _check_room(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if free < needed:
        raise DownloadError(f"{part.parent}: {free} bytes are free, {needed} needed; make room or use --to")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except OSError as error:
        # Told apart from errors of the file that is being written, which no second attempt helps.
        raise ConnectionError(str(error)) from error


def _failure(entry: RemoteFile, error: Exception, attempts: int) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{entry.url}: the server answered {error.code} {error.reason} (attempt {attempts})"
    reason = getattr(error, "reason", None) or error
    return (
        f"{entry.url}: {reason} ({attempts} attempts). Without a connection, copy the files from elsewhere with "
        f"`ccarena traces fetch {entry.set} --from DIR`, or use the generated links (`ccarena traces list`). The same "
        "command goes on from here"
    )


def _copies(source: Path) -> dict[str, Path]:
    if not source.is_dir():
        raise DownloadError(f"--from {source}: there is no such folder; expected one that holds the set's files")
    return {path.name: path for path in sorted(source.rglob("*"), reverse=True) if path.is_file()}


def _copy(entry: RemoteFile, source: Path, path: Path) -> str:
    if problem := _difference(entry, source):
        raise DownloadError(f"{source}: the file {problem}; it was not copied")
    part = path.with_name(f"{path.name}.part")
    with _writing(path):
        shutil.copyfile(source, part)
        os.replace(part, path)
    return "copied"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _git_blob(path: Path) -> str:
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns errors of the file system, a full disk first of all, into a `DownloadError` that names the file."""
    try:
        yield
    except (ConnectionError, TimeoutError, urllib.error.URLError):
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full; make room or use --to" if full else f"cannot write: {error.strerror}"
        raise DownloadError(f"{path}: {what}") from error
