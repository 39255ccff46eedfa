"""Folders of new controllers, made of templates.

A template is a folder of files that work as they are, for a controller called `my_cc`. A new controller has the same
files with its own name in them.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ccarena.core.files import check_writable, write_atomically
from ccarena.errors import ConfigError, did_you_mean

__all__ = ["HEADER", "LANGUAGES", "New", "new_controller"]

_HERE = Path(__file__).parent
HEADER = _HERE / "ccarena.h"
"""Interface of controllers in C, which is also that of WebAssembly modules."""
TEMPLATES = _HERE / "templates"
LANGUAGES = ("python", "c", "rust")
"""Languages of templates; the first is the default."""
_FILES = {
    "python": ("my_cc.py", "scenario.yaml", "README.md"),
    "c": ("my_cc.c", "scenario.yaml", "README.md"),
    "rust": ("src/lib.rs", "src/ccarena.rs", "Cargo.toml", "scenario.yaml", "README.md"),
}
"""Files of each template, the most important first."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_RESERVED = {
    "python": frozenset(map(str.lower, keyword.kwlist)) | {"ccarena"},
    "c": frozenset({"ccarena"}),
    "rust": frozenset(
        "about ack alloc box ccarena config control core loss param std test "
        # The Rust Reference, keywords of edition 2021.
        "abstract as async await become break const continue crate do dyn else enum extern false final fn for if "
        "impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true "
        "try type typeof unsafe unsized use virtual where while yield".split()
    ),
}
"""Names that a class or a crate cannot have, and those of a template's own types and files."""


@dataclass(frozen=True)
class New:
    """Folder of a new controller."""

    folder: Path
    files: tuple[str, ...]
    """Files in it, the most important first."""
    commands: tuple[str, ...]
    """Commands to go on with, inside the folder."""


def new_controller(name: str, language: str, into: Path | None = None) -> New:
    """Writes the folder of a new controller: `into`, or one of its name in the current folder.

    Raises ConfigError for a name that cannot be a file's and a class's, and for a folder that has files.
    """
    if language not in _FILES:
        raise ConfigError(f'unknown language "{language}"{did_you_mean(language, LANGUAGES)}')
    if not _NAME.fullmatch(name):
        raise ConfigError(f'name "{name[:60]}": expected 1 to 40 letters, digits, "-" and "_", the first a letter')
    if _snake(name) in _RESERVED[language]:
        raise ConfigError(f'name "{name}": means something else in {language}; give another name')
    folder = into or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is there already, and nothing was written; name another folder with --into")
    check_writable(folder)
    files = dict(_files(name, language))
    for path, text in files.items():
        write_atomically(folder / path, text)
    commands = re.findall(r"^ccarena .*", files["README.md"], flags=re.M)
    return New(folder, tuple(files), tuple(commands))


def _files(name: str, language: str) -> Iterator[tuple[str, str]]:
    """Yields path and text of each file."""
    snake = _snake(name)
    camel = "".join(part[:1].upper() + part[1:] for part in snake.split("_"))
    for path in _FILES[language]:
        text = (TEMPLATES / language / path).read_text("utf-8")
        yield path.replace("my_cc", snake), text.replace("my_cc", snake).replace("MyCc", camel)
    if language == "c":
        yield HEADER.name, HEADER.read_text("utf-8")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("-", "_")).lower()
