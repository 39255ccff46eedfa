"""Journal of finished runs: JSON lines, one appended for each run, so that a kill loses only running ones."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.errors import ConfigError, cannot_write

__all__ = ["FILE", "Journal"]

FILE = "rows.jsonl"


class Journal:
    """Rows in `folder`, by key; locked against a second process of `command` while it is open.

    A last line that a kill or a full disk has cut is dropped. Raises ConfigError if the folder cannot be written or is
    in use, or the file holds something else.
    """

    def __init__(self, folder: Path, command: str) -> None:
        self.path, self._command = folder / FILE, command
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise cannot_write(folder, error, "give another folder with --out") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise ConfigError(f"{folder}: another `{command}` writes here; wait, or give --out") from error
            raise cannot_write(self.path, error, "give another folder with --out") from error
        self.rows: dict[str, dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                self.rows[row["key"]] = row
            except (ValueError, KeyError, TypeError) as error:
                self.close()
                raise ConfigError(
                    f"{self.path}:{number}: not a row of `{self._command}`: {error}; delete the line"
                ) from error
        if whole != len(data):
            os.truncate(self.path, whole)

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a finished run. Raises WriteError if the disk is full; the file's content stays complete."""
        data = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        end = os.fstat(self._file).st_size
        try:
            while data:  # a disk that fills up takes a part, and refuses the rest
                data = data[os.write(self._file, data) :]
        except OSError as error:
            os.ftruncate(self._file, end)
            kept = f"the {len(self.rows)} finished runs are kept: free some space, then repeat the command"
            raise cannot_write(self.path, error, f"{kept}, which goes on from there") from error
        self.rows[str(row["key"])] = dict(row)

    def settle(self, keys: Iterable[str]) -> None:
        """Replaces the file by one with the rows of these keys, in this order. Afterwards nothing can be appended."""
        kept = [self.rows[key] for key in dict.fromkeys(keys) if key in self.rows]
        write_atomically(self.path, "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in kept))

    def close(self) -> None:
        """Releases the lock."""
        os.close(self._file)
        os.close(self._lock)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
