"""Modules that tests make of C, and of the C examples, where its compiler is."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ccarena.controllers.build import compile_module, tools

SOURCES = Path(__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples" / "controllers"
LACKS = tools()


def needs(language: str) -> pytest.MarkDecorator:
    """Skips a test where modules of this language, "C" or "Rust", cannot be built."""
    return pytest.mark.skipif(bool(LACKS[language]), reason=f"NO MODULES IN {language.upper()}: {LACKS[language]}")


ABOUT = """
static const cc_param PARAMS[] = {{.name = "packets", .unit = "packets", .help = "Window.", .initial = 20, .least = 1,
                                   .most = 1000}};
static const cc_about ABOUT = {.abi = CC_ABI, .name = "constant", .summary = "Keeps a window.", .params = PARAMS,
                               .params_count = 1};
const cc_about *cc_describe(void) { return &ABOUT; }
"""
CREATE = """
struct cc { double mss; };
cc *cc_create(const cc_config *config, cc_control *out) {
  cc *self = cc_new(sizeof(cc));
  self->mss = config->mss_bytes;
  out->window_bytes = config->params[0] * config->mss_bytes;
  return self;
}
"""


def on_ack(body: str) -> str:
    return (
        f"void cc_on_ack(cc *self, const cc_ack *ack, cc_control *out) {{ (void)self, (void)ack, (void)out; {body} }}"
    )


def source(body: str = "", about: str = ABOUT, create: str = CREATE) -> str:
    """The source of a module that keeps a window of `packets`, and does what `body` says at each acknowledgement."""
    return f'#include "ccarena.h"\n{about}{create}{on_ack(body)}\n'


@functools.cache
def compiled(text: str) -> bytes:
    """The module of a C file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "made.c"), Path(folder, "made.wasm")
        path.write_text(text)
        compile_module(path, out)
        return out.read_bytes()


def module(folder: Path, body: str = "", name: str = "constant", **parts: str) -> Path:
    """A module in a file, made of `source`."""
    path = folder / f"{name}.wasm"
    path.write_bytes(compiled(source(body, **parts)))
    return path


def build(source: Path, folder: Path) -> Path:
    """The module of a C file, in a folder; skips the test where that cannot be done."""
    if LACKS["C"]:
        pytest.skip(LACKS["C"])
    path = folder / f"{source.stem}.wasm"
    compile_module(source, path)
    return path


def flow_of(module: Path, **fields: Any) -> dict[str, Any]:
    """A flow of a scenario whose controller is a module."""
    return {"scheme": module.stem, "controller": {"type": "wasm", "module": str(module)}, **fields}
