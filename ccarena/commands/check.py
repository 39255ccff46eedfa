"""Command `ccarena check`: tries a class or a module of the user's on hard links, and says what is wrong with it."""

from __future__ import annotations

import argparse
from typing import Any

from ccarena.core.terminal import visible
from ccarena.errors import ConfigError

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("check", **kwargs)
    parser.add_argument(
        "controller",
        metavar="FILE",
        help="a class or a module, and after an @ its parameters: cc.py:Mine@gain=2, cc.wasm@gain=2",
    )


def run(args: argparse.Namespace) -> int:
    """Prints one line per case. Returns 1 if anything is wrong."""
    from ccarena.eval.soundness.check import cases
    from ccarena.scenarios.entrants import parse

    entrant = parse(args.controller)
    if "controller" not in entrant.flow:
        raise ConfigError(
            f'"{args.controller}" is no controller of yours; expected FILE.py:NAME, such as my_cc.py:MyController, or '
            "FILE.wasm"
        )
    sound = True
    for found in cases(entrant):
        said = f"FAULT  {found.case}: {found.fault}" if found.fault else f"ok     {found.case}"
        print(visible(said), flush=True)
        sound = sound and not found.fault
    return 0 if sound else 1
