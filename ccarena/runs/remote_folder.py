"""Folder of a run or a sweep on any file system that fsspec knows (`s3://bucket/acct`), with a local working copy.

A run writes to a local folder. Whenever a checkpoint has been written, the folder is copied to its URL, so that another
machine can resume the run. A checkpoint is uploaded under a second name, read back, and only then replaces the last
one.

An active run holds a lease, which others respect until it has not been renewed for `LEASE_S`. Before each upload, a
training compares the lease's id with its own. A training that was suspended for longer, and has lost its lease
meanwhile, ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ccarena.core.files import TEMPORARY, replacing
from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError, TrainingError, cannot_write

__all__ = ["RUN", "Kind", "RemoteFolder", "is_url", "opened", "remote_at", "remote_of", "shown"]

log = logging.getLogger(__name__)

MARK = ".remote"
"""File of the local folder that holds the URL."""
SYNCED = ".synced"
"""File of the local folder that holds the digest of the checkpoint that was last equal on both sides."""
LEASE = "lease.json"
"""File that names the training which has the run; written once. Renewals go to another file, so that a training that
lost the lease during a suspension overwrites nothing when it resumes.
"""
_LEASES = re.compile(r"lease(\.\w*)?\.json")
LEASE_S, RENEW_S = 20.0, 5.0
_SETTLE_S = 0.5
"""Seconds after writing its lease at which a training checks that the lease is still its own."""
_NOT_SENT = (".lock", MARK, SYNCED)
_KEPT = ".kept-"
"""Part of the name of a local folder whose checkpoint was never sent."""
_open: dict[Path, RemoteFolder] = {}
"""Remote folders that this process has opened."""


@dataclass(frozen=True)
class Kind:
    """The kind of a folder: a run or a sweep."""

    name: str
    work: str
    """Name of the work that writes the folder."""
    mark: str
    """File that every such folder has."""
    command: str
    """Command that continues the work, before `--out`."""
    checkpoint: str = "checkpoint.safetensors"
    apart: tuple[str, ...] = ()
    """Folders in it that are neither sent nor fetched as a whole: other machines write them, or they are local."""

    @property
    def previous(self) -> str:
        """Returns the name of the checkpoint before the last one."""
        stem, _, suffix = self.checkpoint.rpartition(".")
        return f"{stem}.previous.{suffix}"


RUN = Kind("run", "training", "config.yaml", "ccarena train")


def is_url(out: str) -> bool:
    """Returns whether `out` is a URL of fsspec and not a local folder."""
    return "://" in out


def remote_of(folder: Path) -> RemoteFolder | None:
    """Returns the remote folder of the run in `folder`, if this process has opened it; None for a local folder."""
    return _open.get(folder)


def remote_at(url: str) -> RemoteFolder | None:
    """Returns the folder that this process has opened at `url`, if any."""
    return next((folder for folder in _open.values() if folder.url == url.rstrip("/")), None)


def shown(folder: Path) -> str:
    """Returns the user's name of the run in `folder`: its URL, if it has one."""
    mark = folder / MARK
    return mark.read_text("utf-8") if mark.is_file() else str(folder)


def check_packages(url: str) -> None:
    """Raises MissingDependencyError if a package for `url` is missing, ConfigError if fsspec does not know its
    protocol.
    """
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependencyError.for_extra("fsspec", "remote", f"--out {url}") from error
    scheme = url.partition("://")[0]
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        package = getattr(error.__cause__, "name", None) or "s3fs"
        if scheme in ("s3", "s3a"):
            raise MissingDependencyError.for_extra(package, "remote", f"--out {url}") from error
        raise MissingDependencyError(f"--out {url}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{url}: {error}; expected a folder, or a URL that fsspec knows") from error


class RemoteFolder:
    """Folder at `url`, and its local copy in `here`."""

    def __init__(self, url: str, here: Path, kind: Kind = RUN) -> None:
        check_packages(url)
        import fsspec

        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"{url}: {error}; expected a folder, or a URL that fsspec knows") from error
        if hasattr(self._files, "auto_mkdir"):  # of a local file system; a store has no folders
            self._files.auto_mkdir = True
        self.url, self.here, self.kind = url.rstrip("/"), here, kind
        self._sent: dict[str, tuple[int, int]] = {}
        self._me: str | None = None
        self._taken: str | None = None

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _said(self, what: str, error: BaseException) -> ConfigError:
        return ConfigError(f"{self.url}: cannot {what}: {error}; check the address and your credentials for it")

    def has(self, name: str) -> bool:
        """Returns whether a file called `name` is at the URL. Raises ConfigError if the URL cannot be read."""
        try:
            self._files.invalidate_cache()
            return bool(self._files.exists(self._path(name)))
        except Exception as error:  # each file system has a tree of errors of its own
            raise self._said("look there", error) from error

    def read(self, name: str) -> bytes:
        """Returns a file's bytes."""
        return bytes(self._files.cat_file(self._path(name)))

    def fetch(self, names: Iterable[str]) -> None:
        """Copies the named files from the URL; the local copy of a file that is missing there stays. Raises
        ConfigError.
        """
        for name in names:
            if self.has(name):
                try:
                    self._keep(name, self.read(name))
                except Exception as error:
                    raise self._said("read", error) from error

    def _keep(self, name: str, data: bytes) -> None:
        target = self.here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, durable=False) as file:
            file.write(data)
        self._sent[name] = _mark(target)

    def _is_apart(self, name: str) -> bool:
        return PurePosixPath(name).parts[0] in self.kind.apart

    def pull(self) -> None:
        """Makes the local copy equal to the URL. Raises ConfigError.

        A local checkpoint that was never sent is kept. If it continues the remote one, the folder stays as it is, for
        `push` to send. If the run was continued elsewhere, the folder is kept under another name.
        """
        if self.ahead():
            log.warning(
                "%s: going on from the checkpoint in %s, which is newer and was never sent", self.url, self.here
            )
            self._mark_url()
            return
        if self._digest_here() not in (None, self._synced()) and self._digest_here() != self._digest_there():
            kept = self.here.with_name(f"{self.here.name}{_KEPT}{time.time_ns()}")
            self.here.rename(kept)
            log.warning(
                "%s: the run went on elsewhere since its last checkpoint here, which was never sent: it is kept in %s",
                self.url,
                kept,
            )
        shutil.rmtree(self.here, ignore_errors=True)
        self._mark_url()
        try:
            self._files.invalidate_cache()
            there = self._files.find(self._root) if self._files.exists(self._root) else []
            for path in there:
                name = path[len(self._root.rstrip("/")) + 1 :]
                if not (_LEASES.fullmatch(name) or name.endswith(".new") or self._is_apart(name)):
                    self._keep(name, self._files.cat_file(path))
        except Exception as error:
            raise self._said("read", error) from error
        self._note_synced()

    def ahead(self) -> bool:
        """Returns whether the local checkpoint was never sent, and continues the remote one."""
        synced = self._synced()
        return synced is not None and self._digest_here() not in (None, synced) and self._digest_there() == synced

    def _mark_url(self) -> None:
        self.here.mkdir(parents=True, exist_ok=True)
        (self.here / MARK).write_text(self.url, "utf-8")

    def _synced(self) -> str | None:
        mark = self.here / SYNCED
        return mark.read_text("utf-8") if mark.is_file() else None

    def _note_synced(self) -> None:
        # Without a checkpoint, too: the first one that is never sent continues nothing, and is not lost either.
        (self.here / SYNCED).write_text(self._digest_here() or "", "utf-8")

    def _digest_here(self) -> str | None:
        file = self.here / self.kind.checkpoint
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None

    def _digest_there(self) -> str:
        try:
            return hashlib.sha256(self.read(self.kind.checkpoint)).hexdigest() if self.has(self.kind.checkpoint) else ""
        except CcarenaError:
            raise
        except Exception as error:
            raise self._said("read", error) from error

    def push(self) -> None:
        """Sends what has changed since the last time.

        Raises ConfigError if the URL cannot be written; the call can be repeated. Raises TrainingError if another
        training has the lease; its files are not touched.
        """
        changed = {}
        for path in sorted(self.here.rglob("*")):
            name = path.relative_to(self.here).as_posix()
            if self._is_sent(name) and path.is_file():
                mark = _mark(path)
                if self._sent.get(name) != mark:
                    changed[name] = mark
        try:
            # The checkpoint comes last: what it says of other files (how long they are) is then there.
            for name in sorted(changed, key=lambda name: name == self.kind.checkpoint):
                data = (self.here / name).read_bytes()
                self._compare()
                if name == self.kind.checkpoint:
                    self._replace(name, data)
                else:
                    self._files.pipe_file(self._path(name), data)
                self._sent[name] = changed[name]
            self._note_synced()
        except TrainingError:
            raise
        except Exception as error:
            raise self._said("write", error) from error

    def _is_sent(self, name: str) -> bool:
        return not (name in (*_NOT_SENT, self.kind.previous) or name.endswith(TEMPORARY) or self._is_apart(name))

    def _replace(self, name: str, data: bytes) -> None:
        new, path = self._path(f"{name}.new"), self._path(name)
        self._files.pipe_file(new, data)
        if self._files.cat_file(new) != data:
            raise OSError("it gave back other bytes than were written")
        # A checkpoint takes time to send: the lease may have gone since.
        self._compare()
        if self._files.exists(path):
            self._files.copy(path, self._path(self.kind.previous))
        self._files.copy(new, path)
        self._files.rm_file(new)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Holds the lease during the block, which keeps other trainings out. Raises ConfigError if another one renews
        its lease.
        """
        me, over = uuid.uuid4().hex, threading.Event()
        who = f"process {os.getpid()} on {socket.gethostname()}"
        before = self._holder()
        if before is not None and before["age_s"] < LEASE_S:
            log.warning("%s: %s may still be at it; waiting whether it goes on", self.url, before["who"])
            deadline_s = time.monotonic() + LEASE_S
            while time.monotonic() < deadline_s:
                time.sleep(1.0)
                now = self._holder()
                if now is not None and now["renewed"] != before["renewed"]:
                    raise self._in_use(now["who"])

        def say(name: str) -> None:
            about = json.dumps({"id": me, "who": who, "renewed": time.time()})
            self._files.pipe_file(self._path(name), about.encode())

        def keep() -> None:
            while not over.wait(RENEW_S):
                try:
                    self._compare()
                    say(_beat(me))
                except TrainingError:
                    return
                except Exception:  # the next one may get through
                    continue

        self._me = self._taken = None
        try:
            say(LEASE)
        except Exception as error:
            raise self._said("write", error) from error
        # Of two that begin at once, the one that wrote last has it.
        self._me = me
        time.sleep(_SETTLE_S)
        try:
            self._compare()
        except TrainingError as error:
            raise self._in_use(self._taken) from error
        if before is not None:
            self._remove(_beat(before["id"]))
        thread = threading.Thread(target=keep, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with suppress(CcarenaError):
                self._compare()
                self._remove(LEASE)
            self._remove(_beat(me))
            self._me = None

    def _remove(self, name: str) -> None:
        with suppress(Exception):  # it may never have been there
            self._files.rm_file(self._path(name))

    def check(self) -> None:
        """Raises TrainingError if this process knows that another training has the lease."""
        if self._taken is not None:
            kind = self.kind
            raise TrainingError(
                f"{self.url}: {self._taken} has gone on with this {kind.name}, because this {kind.work} was silent for "
                f"more than {LEASE_S:.0f} s; nothing there was overwritten, and what was written here since is in "
                f"{self.here}; wait for its end, then go on with: {self.again}"
            )

    def _compare(self) -> None:
        """Raises TrainingError if the remote lease belongs to another training, ConfigError if the URL cannot
        be read.
        """
        if self._me is not None and self._taken is None:
            holder = self._holder()
            if holder is not None and holder["id"] != self._me:
                self._taken = str(holder["who"])
        self.check()

    def _in_use(self, who: str | None) -> ConfigError:
        return ConfigError(
            f"{self.url}: another {self.kind.work} is running in this folder ({who}); wait for its end, or name "
            "another folder with --out"
        )

    @property
    def again(self) -> str:
        """Returns the command that continues the work at the URL."""
        return f"{self.kind.command} --out {self.url} --resume"

    def in_use(self) -> bool:
        """Returns whether a training renews its lease. Raises ConfigError if the URL cannot be read."""
        holder = self._holder()
        return holder is not None and holder["age_s"] < LEASE_S

    def _holder(self) -> dict[str, Any] | None:
        """Returns the lease: `id`, `who`, `renewed` and `age_s`; None if there is none. Raises ConfigError."""
        if not self.has(LEASE):
            return None
        try:
            holder = {"id": "", "who": "somebody", **json.loads(self.read(LEASE))}
            with suppress(OSError):
                holder |= {"renewed": json.loads(self.read(_beat(holder["id"])))["renewed"]}
            # Clocks of machines differ; what is long ago by any clock needs no waiting.
            return {**holder, "age_s": abs(time.time() - float(holder["renewed"]))}
        except (OSError, ValueError, KeyError, TypeError):
            return None


@contextmanager
def opened(url: str, resume: bool, kind: Kind = RUN) -> Iterator[Path]:
    """Opens a local copy of the folder at `url` under a lease; what is written to it is sent to the URL.

    Raises:
        ConfigError: the folder has work of this kind and `resume` is off, or has none and it is on; or the URL fails.
        TrainingError: another training has taken the lease meanwhile.
    """
    with _own_copy(url, kind) as folder:
        there = folder.has(kind.mark)
        if there and not resume:
            raise ConfigError(
                f"out = {folder.url}: holds a {kind.name} already; go on with it ({folder.again}), or name another "
                "folder"
            )
        if resume and not there:
            raise ConfigError(f"--resume: {folder.url} holds no {kind.name} (no {kind.mark}); leave --resume out")
        with folder.lease():
            folder.pull()
            _open[folder.here] = folder
            try:
                yield folder.here
            except BaseException:
                # What was learned before an error is kept, too; the error itself is what is said.
                with suppress(TrainingError):
                    try:
                        folder.push()
                    except ConfigError as error:
                        log.warning("%s; what was not sent is in %s", error, folder.here)
                raise
            else:
                folder.push()
            finally:
                del _open[folder.here]


@contextmanager
def _own_copy(url: str, kind: Kind) -> Iterator[RemoteFolder]:
    """Returns the folder with a local copy that no other process of this machine uses.

    A copy with an unsent checkpoint that continues the remote one comes first.
    """
    digest = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "ccarena", "runs")
    name = f"{url.rstrip('/').rpartition('/')[2]}-{digest}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        others = [path for path in cache.glob(f"{name}-*") if path.name[len(name) + 1 :].isdigit()]
        held = {place: file for place in (cache / name, *sorted(others)) if (file := _held(place)) is not None}
        number = 2
        while not held:
            place = cache / f"{name}-{number}"
            if (free := _held(place)) is not None:
                held[place] = free
            number += 1
    except OSError as error:
        raise cannot_write(cache, error, "set XDG_CACHE_HOME to a folder of yours") from error
    try:
        folders = [RemoteFolder(url, place, kind) for place in held]
        chosen = next((folder for folder in folders if folder.ahead()), folders[0])
        for place, file in held.items():
            if place != chosen.here:
                os.close(file)
        held = {chosen.here: held[chosen.here]}
        yield chosen
    finally:
        for file in held.values():
            os.close(file)


def _beat(holder: str) -> str:
    """Returns the file that the holder of a lease rewrites regularly."""
    return f"lease.{holder}.json"


def _held(place: Path) -> int | None:
    """Takes the lock of a copy and returns it; None if another process has it."""
    file = os.open(place.with_name(f"{place.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _mark(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns
