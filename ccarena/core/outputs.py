"""Files that commands write: "-" is standard output; messages then go to standard error."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from ccarena.core.files import check_file, scratch
from ccarena.errors import ConfigError

__all__ = ["Output", "folder", "folder_or_url", "kept", "redirected"]

STANDARD = ("-", "/dev/stdout")


@dataclass(frozen=True)
class _Standard:
    """Standard output as a file to write."""

    suffix: str


@dataclass(frozen=True)
class Output:
    """The type of an option that names a file to write, which may be standard output."""

    suffix: str = ""
    """Format of standard output, for commands that choose the format by the file's suffix."""

    def __call__(self, text: str) -> Path | _Standard:
        """Returns the path for `text`. Raises ArgumentTypeError if no file can be written there, before any work."""
        if text in STANDARD:
            return _Standard(self.suffix)
        path = Path(text)
        if not path.exists() or path.is_file() or path.is_dir():  # not a pipe or a device
            try:
                check_file(path)
            except ConfigError as error:
                raise argparse.ArgumentTypeError(str(error)) from error
        return path


def folder(text: str) -> Path:
    """Type of an option that names a folder to write to. Raises ArgumentTypeError for standard output and files."""
    path = _named(text, "a folder")
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f'"{text}" is a file; expected the name of a folder')
    return path


def folder_or_url(text: str) -> str:
    """Type of an option that names a folder to write to, as a path or a URL, which no `Path` can hold."""
    _named(text, "a folder")
    return text


def kept(text: str) -> Path:
    """Type of an option that names a file to be changed. Raises ArgumentTypeError for standard output."""
    return _named(text, "a file that is changed")


def _named(text: str, what: str) -> Path:
    if text in STANDARD:
        raise argparse.ArgumentTypeError(f'"{text}" is standard output; expected the name of {what}')
    return Path(text)


@contextmanager
def redirected(args: argparse.Namespace) -> Iterator[None]:
    """Runs a command that has standard output as one of its files.

    The command writes a temporary file, which is then copied to standard output; its messages go to standard error. If
    the command raises, nothing is copied. Raises ConfigError if two options name standard output.
    """
    names = [name for name, value in vars(args).items() if isinstance(value, _Standard)]
    if not names:
        yield
        return
    if len(names) > 1 or getattr(args, "json", None) is True:
        given = [args.given[name] for name in (*names, *(["json"] if len(names) == 1 else []))]
        raise ConfigError(f"{' and '.join(given)}: standard output takes one of them; give the other a file's name")
    (name,) = names
    with scratch() as place:
        path = Path(place, f"stdout{getattr(args, name).suffix}")
        setattr(args, name, path)
        with redirect_stdout(_Said(path)):
            yield
        written = list(Path(place).iterdir())
        if len(written) > 1:
            raise ConfigError(f"{args.given[name]}: {len(written)} files are to be written; give a file's name")
        if written:
            sys.stdout.flush()
            with written[0].open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


class _Said(io.TextIOBase):
    """Standard error that shows "-" instead of the temporary file's name."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def write(self, text: str) -> int:
        sys.stderr.write(text.replace(self._path, "standard output"))
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def fileno(self) -> int:
        return sys.stderr.fileno()
