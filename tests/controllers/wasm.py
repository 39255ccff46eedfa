"""Modules for tests: C sources of examples, compiled where clang and a linker are."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ccarena.controllers

SOURCES = Path(__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples" / "controllers"
HEADERS = Path(ccarena.controllers.__file__).parent


def flow_of(module: Path, **fields: Any) -> dict[str, Any]:
    """Returns a flow of a scenario whose controller is a module."""
    return {"scheme": module.stem, "controller": {"type": "wasm", "module": str(module)}, **fields}


@cache
def linker() -> list[str] | None:
    """Returns the command of a linker for WebAssembly: wasm-ld, or the one that comes with Rust."""
    for name in ("wasm-ld", *(f"wasm-ld-{version}" for version in range(22, 11, -1))):
        if found := shutil.which(name):
            return [found]
    if not shutil.which("rustc"):
        return None
    told = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
    found = next(Path(told.stdout.strip()).glob("lib/rustlib/*/bin/rust-lld"), None)
    return [str(found), "-flavor", "wasm"] if found else None


def build(source: Path, folder: Path) -> Path:
    """Compiles a C source to a module in a folder; skips the test where that cannot be done."""
    clang, link = shutil.which("clang"), linker()
    if clang is None or link is None:
        pytest.skip("needs clang and wasm-ld: apt install clang lld")
    if "wasm32" not in subprocess.run([clang, "--print-targets"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this clang does not compile for wasm32")
    thing, module = folder / f"{source.stem}.o", folder / f"{source.stem}.wasm"
    flags = ["--target=wasm32", "-O2", "-mbulk-memory", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}"]
    subprocess.run([clang, *flags, "-c", "-o", str(thing), str(source)], check=True)
    subprocess.run(
        [*link, "--no-entry", "--strip-all", "-z", "stack-size=16384", "-o", str(module), str(thing)], check=True
    )
    return module
