"""Command `ccarena build`: makes the WebAssembly module of a controller in C or Rust."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ccarena.commands.schemes import print_one
from ccarena.controllers.build import build
from ccarena.core.outputs import Output
from ccarena.core.terminal import visible

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("build", **kwargs)
    parser.add_argument("path", type=Path, metavar="PATH", help="folder with C files or Cargo.toml, or a C file")
    parser.add_argument("--out", type=Output(".wasm"), metavar="FILE", help="module to write (NAME.wasm beside PATH)")


def run(args: argparse.Namespace) -> int:
    """Builds the module and prints what it says of itself; without `--out` it also names the next command."""
    built = build(args.path, args.out)
    print(visible(f"wrote {built.module}"))
    print_one(built.about)
    if args.out is None:
        print(visible(f"next: ccarena check {built.module}"))
    return 0
