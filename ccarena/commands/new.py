"""Command `ccarena new`: begins a controller of the user's, in a folder that runs at once."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from ccarena.controllers.new import LANGUAGES, new_controller
from ccarena.core.outputs import folder

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own commands."""
    parser = subparsers.add_parser("new", **kwargs)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="what", required=True)
    summary = "write a folder with a small controller, a scenario and the next commands"
    sub = commands.add_parser("controller", help=summary, description=summary)
    sub.add_argument("name", metavar="NAME", help="its name: letters, digits, - and _")
    sub.add_argument(
        "--lang", choices=LANGUAGES, default=LANGUAGES[0],
        help=f"language ({LANGUAGES[0]}; c and rust become a WebAssembly module by `ccarena build`)",
    )  # fmt: skip
    sub.add_argument("--into", type=folder, metavar="FOLDER", help="folder to write, new or empty (NAME)")


def run(args: argparse.Namespace) -> int:
    """Writes the folder, and prints the next commands."""
    made = new_controller(args.name, args.lang, args.into)
    print(f"wrote {', '.join(str(made.folder / name) for name in made.files)}; next:")
    for command in (f"cd {shlex.quote(str(made.folder))}", *made.commands):
        print(f"  {command}")
    return 0
