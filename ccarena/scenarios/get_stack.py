"""Builds or installs a stack: with cargo, go or a virtual environment of Python, or as Debian packages.

A stack is built in a temporary folder beside its own, which replaces the old one only when it is whole.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccarena.core.files import check_writable
from ccarena.core.terminal import heartbeat
from ccarena.errors import MachineError
from ccarena.scenarios.stacks import Stack, home

__all__ = ["Got", "get_stack"]

LAST_LINES = 12
"""Lines of a failed build that its error shows."""


@dataclass(frozen=True)
class Got:
    """Stack that is ready to run."""

    name: str
    folder: Path
    seconds: float
    """Time that it took; 0 if it was there already."""
    size_bytes: int
    """Size of what was built; 0 if its programs are on PATH."""


def get_stack(stack: Stack, into: Path | None = None) -> Got:
    """Builds or installs a stack, unless it is there already. `into` replaces the folder of built stacks (`home`).

    Raises MachineError, which says what to install, or with the last lines of a build that failed.
    """
    place = (into or home()).absolute()
    stack = stack.at(place)
    began = time.monotonic()
    if not stack.lacks:
        return Got(stack.name, stack.folder, 0.0, _size(stack))
    _get_programs(stack)
    if stack.recipe:
        check_writable(place)
        place.mkdir(parents=True, exist_ok=True)
        with _alone(place):
            _build(stack)
    if lacks := stack.lacks:
        raise MachineError(f"stack:{stack.name}: {lacks}, though it was got")
    return Got(stack.name, stack.folder, time.monotonic() - began, _size(stack))


# What it needs from the machine.

RECIPE_TOOLS = {
    "cargo": "install Rust: https://rustup.rs",
    "go": "install Go: https://go.dev/dl",
}
"""Sentence that says how to get the tool of a recipe."""


def _get_programs(stack: Stack) -> None:
    """Installs the Debian packages of the programs that a stack or its build needs, if one is missing.

    Raises MachineError with what to install if this user may not.
    """
    if stack.recipe in RECIPE_TOOLS and shutil.which(stack.recipe) is None:
        raise MachineError(f"stack:{stack.name} is built by {stack.recipe}; {RECIPE_TOOLS[stack.recipe]}")
    file = stack.entrant
    missing = [name for name in (*file.needs, *file.tools) if "/" not in name and shutil.which(name) is None]
    if not missing:
        return
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *file.packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        command = f"sudo apt install {' '.join(file.packages)}"
        raise MachineError(f"stack:{stack.name} needs {', '.join(missing)}; install the packages, on Debian: {command}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with _log(stack) as log:
        try:
            _run(stack, install, quiet, None, log)
        except MachineError:  # as on a new machine, which has no list of packages yet
            _run(stack, ["apt-get", "update"], quiet, None, log)
            _run(stack, install, quiet, None, log)


# Its build.


def _build(stack: Stack) -> None:
    part = stack.folder.with_name(f".{stack.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        for path in stack.sources:
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(stack.source / path, part / path)
        with _log(stack) as log:
            BUILDS[stack.recipe](stack, part, log)
        if stack.folder.exists():
            shutil.rmtree(stack.folder)
        part.rename(stack.folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _cargo(stack: Stack, part: Path, log: Path) -> None:
    target = part / "target"
    words = ["cargo", "install", "--locked", "--path", str(part), "--root", str(part), "--target-dir", str(target)]
    _run(stack, words, {}, part, log)
    shutil.rmtree(target)


def _go(stack: Stack, part: Path, log: Path) -> None:
    words = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", f"bin/{stack.name}", "."]
    _run(stack, words, {"GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}, part, log)


def _python(stack: Stack, part: Path, log: Path) -> None:
    try:
        _run(stack, [sys.executable, "-m", "venv", str(part / "venv")], {}, part, log)
    except MachineError as error:
        raise MachineError(f"{error}\nif virtual environments cannot be made: apt install python3-venv") from error
    pip = [str(part / "venv" / "bin" / "python"), "-m", "pip", "install", "--only-binary", ":all:"]
    _run(stack, [*pip, "--disable-pip-version-check", "--requirement", "requirements.txt"], {}, part, log)


BUILDS: dict[str, Callable[[Stack, Path, Path], None]] = {"cargo": _cargo, "go": _go, "python": _python}
"""Functions, called with the stack, its temporary folder and a log, by recipe."""


def _run(stack: Stack, words: list[str], env: Mapping[str, str], folder: Path | None, log: Path) -> None:
    """Runs a command of a build. Raises MachineError, with the last lines that it printed, if it fails."""
    with open(log, "ab") as output, heartbeat(lambda: f"{stack.name}: {Path(words[0]).name}"):
        done = subprocess.run(
            words, cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    if done.returncode != 0:
        last = "\n".join(log.read_text("utf-8", "replace").splitlines()[-LAST_LINES:])
        raise MachineError(f"stack:{stack.name}: `{' '.join(words)}` failed:\n{last}")


@contextmanager
def _log(stack: Stack) -> Iterator[Path]:
    """Makes the file of a build's output, and removes it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix=f"ccarena-{stack.name}-") as folder:
        yield Path(folder) / "log"


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Lets one process at a time build in the folder `place`."""
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _size(stack: Stack) -> int:
    if not stack.recipe:
        return 0
    return sum(path.lstat().st_size for path in stack.folder.rglob("*") if path.is_file() and not path.is_symlink())
