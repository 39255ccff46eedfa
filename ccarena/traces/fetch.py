"""Downloads of the public trace sets in the manifest: checked, and resumed after a break.

No trace is part of this package, and each set has its own licence.

A file is downloaded to `NAME.part` and resumed there after a break (HTTP Range, RFC 9110 section 14.2). It gets its own
name only once its SHA-256 equals the manifest's, so that a file under its own name is always complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import http
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ccarena.errors import ConfigError, DownloadError, did_you_mean
from ccarena.traces.files import data_dir
from ccarena.traces.manifest import Entry, manifest

__all__ = ["Fetched", "fetch"]

_CHUNK_BYTES = 1 << 16
_ATTEMPTS = 4
_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True)
class Fetched:
    """Outcome of one file."""

    entry: Entry
    path: Path
    action: str
    """`present` (was there already), `downloaded`, `resumed` or `copied`."""


Progress = Callable[[Entry, int], None]
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
    folder = (data_dir() if to is None else to) / name
    report = progress or (lambda _entry, _bytes: None)
    copies = None if source is None else _copies(source)
    done: list[Fetched] = []
    missing: list[str] = []
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for entry in wanted:
        path = folder / entry.name
        if path.is_file() and path.stat().st_size == entry.bytes and _sha256(path) == entry.sha256:
            action = "present"
        elif copies is None:
            action = _download(entry, path, report, retry_wait_s)
        elif entry.name in copies:
            action = _copy(entry, copies[entry.name], path)
        else:
            missing.append(entry.name)
            continue
        report(entry, entry.bytes)
        done.append(Fetched(entry, path, action))
    if missing:
        raise DownloadError(
            f'{len(missing)} of the {len(wanted)} files of set "{name}" are not in {source}: {", ".join(missing)}; '
            f"the other {len(done)} are in {folder}; download the rest with `ccarena traces fetch {name}`"
        )
    return done


def _download(entry: Entry, path: Path, report: Progress, wait_s: float) -> str:
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
        if part.stat().st_size == entry.bytes and (found := _sha256(part)) == entry.sha256:
            with _writing(path):
                os.replace(part, path)
            return "resumed" if resumed else "downloaded"
        problem = f"has {part.stat().st_size} bytes, expected {entry.bytes}"
        if part.stat().st_size == entry.bytes:
            problem = f"has SHA-256 {found}, expected {entry.sha256}"
        part.unlink()
        # A resumed file may have been spoilt by its old beginning; one fetched in one go is what the server has.
        if not resumed:
            break
    raise DownloadError(
        f"{entry.url}: the file {problem}; it was thrown away. It changed since the manifest was written, or something "
        "in between altered it; nothing was installed under its name"
    )


def _transfer(entry: Entry, part: Path, report: Progress) -> bool:
    """Appends the missing bytes to `part`. Returns whether the server resumed the download."""
    have = part.stat().st_size if part.is_file() else 0
    if have > entry.bytes:
        part.unlink()
        have = 0
    if have == entry.bytes:
        return True
    free = shutil.disk_usage(part.parent).free
    if free < entry.bytes - have:
        raise DownloadError(f"{part.parent}: {free} bytes are free, {entry.bytes - have} needed; make room or use --to")
    headers = {"User-Agent": "ccarena", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with urllib.request.urlopen(urllib.request.Request(entry.url, headers=headers), timeout=_TIMEOUT_S) as response:
        # A server without ranges answers 200 with the whole file.
        resumed = have > 0 and response.status == http.HTTPStatus.PARTIAL_CONTENT
        size = have if resumed else 0
        with _writing(part), part.open("ab" if resumed else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                size += len(chunk)
                report(entry, size)
                if size > entry.bytes:
                    break
    if size < entry.bytes:
        raise ConnectionError(f"the connection ended after {size} of {entry.bytes} bytes")
    return resumed


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except OSError as error:
        # Told apart from errors of the file that is being written, which no second attempt helps.
        raise ConnectionError(str(error)) from error


def _failure(entry: Entry, error: Exception, attempts: int) -> str:
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


def _copy(entry: Entry, source: Path, path: Path) -> str:
    found = _sha256(source)
    if found != entry.sha256:
        raise DownloadError(f"{source}: the file has SHA-256 {found}, expected {entry.sha256}; it was not copied")
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
