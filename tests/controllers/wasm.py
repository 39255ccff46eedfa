"""Modules for tests: C sources of examples, compiled where clang and a linker are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ccarena.controllers.build import compile_module
from tests.controllers.made import LACKS

SOURCES = Path(__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples" / "controllers"


def flow_of(module: Path, **fields: Any) -> dict[str, Any]:
    """Returns a flow of a scenario whose controller is a module."""
    return {"scheme": module.stem, "controller": {"type": "wasm", "module": str(module)}, **fields}


def build(source: Path, folder: Path) -> Path:
    """Compiles a C source to a module in a folder; skips the test where that cannot be done."""
    if LACKS["C"]:
        pytest.skip(LACKS["C"])
    module = folder / f"{source.stem}.wasm"
    compile_module(source, module)
    return module
