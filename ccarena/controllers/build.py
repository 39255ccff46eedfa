"""WebAssembly modules from sources in C and Rust: `ccarena build`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.controllers import modules
from ccarena.controllers.new import HEADER
from ccarena.core.files import check_file, scratch, write_atomically
from ccarena.errors import CcarenaError, ConfigError, ControllerError, MachineError

__all__ = ["TARGET", "Built", "build", "compile_module", "tools"]

TARGET = "wasm32-unknown-unknown"
"""Rust's name of the machine."""
_NO_LIBRARY = ("-nostdlib", "-ffreestanding", "-mbulk-memory", "-fno-math-errno")
"""Options that make instructions of copies and square roots, for which a module has no C library."""
COMPILE = ("--target=wasm32", "-std=c11", "-O2", *_NO_LIBRARY, "-Wall", "-Wextra", "-Wmissing-prototypes")
"""Options of clang."""
LINK = ("--no-entry", "--stack-first", "--strip-all", "-z", "stack-size=32768")
"""Options of lld. A stack that grows beyond its end traps, as it comes first in memory."""
_PACKAGES = "apt install clang lld"
_RUST = "install Rust: https://rustup.rs"


@dataclass(frozen=True)
class Built:
    """Module that was built."""

    module: Path
    about: dict[str, Any]
    """Facts of the module (`modules.about`)."""


def build(path: Path, out: Path | None = None) -> Built:
    """Compiles a folder or a C file to the module `out`, by default one of the source's name beside it.

    The new module replaces an old one once it is compiled and checked. Raises ConfigError for a path that cannot be
    built, MachineError for a missing compiler, and ControllerError with the messages of a compiler that refused.
    """
    out = out or (path if path.is_dir() else path.parent) / f"{_recipe(path)[1]}{modules.SUFFIX}"
    if out.suffix != modules.SUFFIX:
        raise ConfigError(f"{out}: entrants know a module by its name; expected NAME{modules.SUFFIX}")
    check_file(out)
    with scratch() as folder:
        made = folder / out.name
        compile_module(path, made)
        try:
            facts = modules.about(made)
        except CcarenaError as error:
            said = str(error).replace(str(made), str(out))
            raise ControllerError(f"{said}; it was compiled, but not written") from None
        write_atomically(out, made.read_bytes())
    return Built(out, facts)


def compile_module(path: Path, out: Path) -> None:
    """Compiles a folder or a C file to the file `out`, without a check of the module. Raises what `build` does."""
    _recipe(path)[0](out)


def tools() -> dict[str, str]:
    """Returns what this machine lacks to build from each language, with how to get it; empty if nothing."""
    lacks = {}
    for language, find in (("C", _c_tools), ("Rust", _cargo)):
        try:
            find()
            lacks[language] = ""
        except MachineError as error:
            lacks[language] = str(error)
    return lacks


def _recipe(path: Path) -> tuple[Callable[[Path], None], str]:
    """Returns the function that compiles the sources at `path` to a file, and their name."""
    expected = "expected a C file, or a folder with C files or with Cargo.toml"
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder; {expected}")
    manifest = path / "Cargo.toml" if path.is_dir() else path
    if manifest.name == "Cargo.toml" and manifest.is_file():
        return lambda out: _rust(manifest, out), _crate(manifest)
    sources = sorted(path.glob("*.c")) if path.is_dir() else [path]
    if path.suffix == ".py":
        raise ConfigError(f"{path}: a Python class needs no build; try it with: ccarena check {path}:NAME")
    if not sources or any(source.suffix != ".c" for source in sources):
        raise ConfigError(f"{path}: {expected}; docs/ship-a-controller.md says how to use other languages")
    name = sources[0].stem if len(sources) == 1 else path.resolve().name
    return lambda out: _c(sources, out), name


# C.


def _c(sources: Sequence[Path], out: Path) -> None:
    clang, linker = _c_tools()
    objects = []
    for number, source in enumerate(sources):
        objects.append(out.with_name(f"{number}.o"))
        include = ["-I", str(HEADER.parent)]
        _run([clang, *COMPILE, *include, "-c", str(source), "-o", str(objects[-1])], f"{source} does not compile")
    _run([*linker, *LINK, *map(str, objects), "-o", str(out)], f"{sources[0].parent} does not link", _no_library)


def _no_library(said: str) -> str:
    missing = re.search(r"undefined symbol: (\w+)", said)
    return f"a module has no C library, so {missing[1]} has to be in your sources" if missing else ""


def _c_tools() -> tuple[str, list[str]]:
    """Returns clang, and the command of the linker of modules: lld's own or the one that comes with Rust.

    Raises MachineError if one is missing.
    """
    clang = shutil.which(os.environ.get("CLANG", "clang"))
    if clang is None or "wasm32" not in _said([clang, "--print-targets"]):
        which = f"{clang} cannot compile for wasm32" if clang else "there is no clang on PATH"
        raise MachineError(f"modules in C are compiled by clang, and {which}; {_PACKAGES}")
    version = re.search(r"version (\d+)", _said([clang, "--version"]))
    for name in ("wasm-ld", *([f"wasm-ld-{version[1]}"] if version else [])):
        if found := shutil.which(name):
            return clang, [found]
    if shutil.which("rustc"):
        (of_rust,) = Path(_said(["rustc", "--print", "sysroot"]).strip()).glob("lib/rustlib/*/bin/rust-lld") or [None]
        if of_rust is not None:
            return clang, [str(of_rust), "-flavor", "wasm"]
    raise MachineError(f"modules in C are linked by wasm-ld, which is not on PATH; {_PACKAGES}")


# Rust.


def _rust(manifest: Path, out: Path) -> None:
    words = [
        _cargo(manifest.parent),
        "build",
        "--release",
        "--quiet",
        "--target",
        TARGET,
        "--manifest-path",
        str(manifest),
    ]
    said = _run([*words, "--message-format", "json-render-diagnostics"], f"{manifest.parent} does not compile")
    messages = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    files = [name for message in messages for name in message.get("filenames", ()) if name.endswith(modules.SUFFIX)]
    if not files:
        raise ControllerError(f'{manifest}: cargo made no module; expected `crate-type = ["cdylib"]` below [lib]')
    shutil.copyfile(files[-1], out)


def _crate(manifest: Path) -> str:
    """Returns the name of a crate as its file has it."""
    found = re.search(r'^name *= *"([\w-]+)"', manifest.read_text("utf-8", "replace"), flags=re.M)
    return (found[1] if found else manifest.resolve().parent.name).replace("-", "_")


def _cargo(folder: Path | None = None) -> str:
    """Returns cargo. Raises MachineError if it is missing, or its library for modules in the toolchain of `folder`."""
    cargo = shutil.which("cargo")
    if cargo is None or shutil.which("rustc") is None:
        raise MachineError(f"modules in Rust are compiled by cargo, which is not on PATH; {_RUST}")
    library = _said(["rustc", "--print", "target-libdir", "--target", TARGET], folder).strip()
    if not library or not Path(library).is_dir():
        how = f"rustup target add {TARGET}" if shutil.which("rustup") else "apt install libstd-rust-dev-wasm32"
        raise MachineError(f"Rust's library for {TARGET} is not installed; {how}")
    return cargo


# Both.


def _run(words: Sequence[str], failed: str, hint: Callable[[str], str] = lambda said: "") -> str:
    """Runs a compiler and returns what it printed; its warnings go to standard error.

    Raises ControllerError with its messages as they are, after the sentence `failed`.
    """
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = done.stderr.strip() or f"{words[0]} ended with code {done.returncode}"
        raise ControllerError("\n".join(filter(None, (f"{failed}:", said, hint(said)))))
    sys.stderr.write(done.stderr)
    return done.stdout


def _said(words: Sequence[str], folder: Path | None = None) -> str:
    """Returns what a program prints, whatever its exit status."""
    return subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
