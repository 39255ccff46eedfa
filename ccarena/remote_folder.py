"""A run's folder on any file system that fsspec knows (`s3://bucket/runs/acct`): worked on here, kept there.

What a run writes goes to a folder of this machine, and from there to its URL whenever a checkpoint has been written, so
that another machine can go on with it. A checkpoint is uploaded beside the last one, read back, and only then takes its
place. While a run is worked on it holds a lease, which others respect until it has not been renewed for `LEASE_S`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ccarena.errors import ConfigError, MissingDependencyError

__all__ = ["RemoteFolder", "is_url", "opened", "remote_of", "shown"]

log = logging.getLogger(__name__)

MARK = ".remote"
"""In the folder here: the URL."""
LEASE = "lease.json"
LEASE_S, RENEW_S = 20.0, 5.0
_CAREFUL = "checkpoint.safetensors"
_PREVIOUS = "checkpoint.previous.safetensors"
_NOT_SENT = (".lock", MARK)


def is_url(out: str) -> bool:
    """Whether `out` names a folder of fsspec's and not one of this machine."""
    return "://" in out


def remote_of(folder: Path) -> RemoteFolder | None:
    """Where the run in `folder` is kept; None if only here."""
    mark = folder / MARK
    return RemoteFolder(mark.read_text("utf-8"), folder) if mark.is_file() else None


def shown(folder: Path) -> str:
    """What a user calls the run in `folder`: its URL, if it has one."""
    mark = folder / MARK
    return mark.read_text("utf-8") if mark.is_file() else str(folder)


class RemoteFolder:
    """The folder at `url`, and its copy in `here`."""

    def __init__(self, url: str, here: Path) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise MissingDependencyError.for_extra("fsspec", "remote", f"--out {url}") from error
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"{url}: {error}; expected a folder, or a URL that fsspec knows") from error
        self.url, self.here = url.rstrip("/"), here
        self._sent: dict[str, tuple[int, int]] = {}

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _said(self, what: str, error: BaseException) -> ConfigError:
        return ConfigError(f"{self.url}: cannot {what}: {error}; check the address and your credentials for it")

    def has(self, name: str) -> bool:
        """Whether a file of that name is there. Raises ConfigError if that cannot be known."""
        try:
            self._files.invalidate_cache()
            return bool(self._files.exists(self._path(name)))
        except Exception as error:  # each file system has a tree of errors of its own
            raise self._said("look there", error) from error

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        return bytes(self._files.cat_file(self._path(name)))

    def pull(self) -> None:
        """Makes the copy here what is there. Raises ConfigError."""
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir(parents=True)
        (self.here / MARK).write_text(self.url, "utf-8")
        try:
            self._files.invalidate_cache()
            there = self._files.find(self._root) if self._files.exists(self._root) else []
            for path in there:
                name = path[len(self._root.rstrip("/")) + 1 :]
                if name == LEASE or name.endswith(".new"):
                    continue
                target = self.here / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._files.cat_file(path))
                self._sent[name] = _mark(target)
        except Exception as error:
            raise self._said("read", error) from error

    def push(self) -> None:
        """Sends what has changed since the last time. Raises ConfigError, after which it can be tried again."""
        changed = {}
        for path in sorted(self.here.rglob("*")):
            name = path.relative_to(self.here).as_posix()
            if path.is_file() and name not in _NOT_SENT and not path.name.endswith(".tmp"):
                mark = _mark(path)
                if self._sent.get(name) != mark and name != _PREVIOUS:
                    changed[name] = mark
        try:
            # The checkpoint comes last: what it says of other files (how long they are) is then there.
            for name in sorted(changed, key=lambda name: name == _CAREFUL):
                data = (self.here / name).read_bytes()
                if name == _CAREFUL:
                    self._replace(name, data)
                else:
                    self._files.pipe_file(self._path(name), data)
                self._sent[name] = changed[name]
        except Exception as error:
            raise self._said("write", error) from error

    def _replace(self, name: str, data: bytes) -> None:
        new, path = self._path(f"{name}.new"), self._path(name)
        self._files.pipe_file(new, data)
        if self._files.cat_file(new) != data:
            raise OSError("it gave back other bytes than were written")
        if self._files.exists(path):
            self._files.copy(path, self._path(_PREVIOUS))
        self._files.copy(new, path)
        self._files.rm_file(new)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Keeps other trainings out. Raises ConfigError if another one renews its lease."""
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
                    raise ConfigError(
                        f"{self.url}: another training is running in this folder ({now['who']}); wait for its end, or "
                        "name another folder with --out"
                    )

        def renew() -> None:
            about = json.dumps({"id": me, "who": who, "renewed": time.time()})
            self._files.pipe_file(self._path(LEASE), about.encode())

        def keep() -> None:
            while not over.wait(RENEW_S):
                with suppress(Exception):  # the next one may get through
                    renew()

        try:
            renew()
        except Exception as error:
            raise self._said("write", error) from error
        thread = threading.Thread(target=keep, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with suppress(Exception):
                self._files.rm_file(self._path(LEASE))

    def _holder(self) -> dict[str, Any] | None:
        if not self.has(LEASE):
            return None
        try:
            holder = dict(json.loads(self.read(LEASE)))
        except (OSError, ValueError):
            return None
        # Clocks of machines differ; what is long ago by any clock needs no waiting.
        return {**holder, "age_s": abs(time.time() - float(holder["renewed"]))}


@contextmanager
def opened(url: str, resume: bool) -> Iterator[Path]:
    """A folder here with what is at `url`, which gets everything that is written here; leased meanwhile.

    Raises ConfigError if there is a run and `resume` is off, or none and it is on, or if it cannot be read or written.
    """
    digest = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "ccarena", "runs")
    folder = RemoteFolder(url, cache / f"{url.rstrip('/').rpartition('/')[2]}-{digest}")
    there = folder.has("config.yaml")
    if there and not resume:
        raise ConfigError(
            f"out = {folder.url}: holds a run already; go on with it (ccarena train --out {folder.url} --resume), or "
            "name another folder"
        )
    if resume and not there:
        raise ConfigError(f"--resume: {folder.url} holds no run (no config.yaml); leave --resume out")
    with folder.lease():
        folder.pull()
        try:
            yield folder.here
        finally:
            # What was learned before an error is kept, too.
            folder.push()


def _mark(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns
