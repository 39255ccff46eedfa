"""Command `ccarena completion`: completion of commands, options and configuration keys for bash, zsh and fish.

The shell calls `ccarena` through argcomplete, so completions come from the parsers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ccarena.core.arguments import Parser, parsers

__all__ = ["SHELLS", "add_parser", "answer", "run"]

SHELLS = {
    "bash": "ccarena completion bash > ~/.local/share/bash-completion/completions/ccarena",
    "zsh": "ccarena completion zsh > ~/.zfunc/_ccarena    (with fpath+=~/.zfunc before compinit in ~/.zshrc)",
    "fish": "ccarena completion fish > ~/.config/fish/completions/ccarena.fish",
}
"""Shells, and the set-up of each."""


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser(
        "completion",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="for new shells:\n" + "\n".join(f"  {line}" for line in SHELLS.values()),
        **kwargs,
    )
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(args: argparse.Namespace) -> int:
    """Prints the shell's code."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["ccarena"], shell=args.shell))
    return 0


def answer(build: Callable[[str | None], Parser], commands: list[str]) -> None:
    """Answers the shell and ends the process. `build` gives the parser of a command."""
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()[1:]
    chosen = next((word for word in words if word in commands), None)
    parser = build(chosen)
    if chosen == "train":
        _add_keys(parser)
    for each in parsers(parser):
        for action in each._actions:
            if completer := _COMPLETERS.get(action.dest):
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def _add_keys(parser: Parser) -> None:
    """Adds every configuration key as an option of `ccarena train`."""
    from ccarena.configs.keys import keys

    train = next(each for each in parsers(parser) if each.prog.endswith(" train"))
    for key in {key.path for key in keys()}:
        train.add_argument(f"--{key}")


def _configurations(**_: Any) -> list[str]:
    from ccarena.configs.load import shipped

    return [*shipped(), *map(str, Path().glob("*.yaml"))]


def _runs(**_: Any) -> list[str]:
    return [path.name for path in Path("runs").glob("*") if path.is_dir()] + [str(p) for p in Path().glob("*.safet*")]


_COMPLETERS: dict[str, Callable[..., list[str]]] = {
    "config": _configurations,
    "entries": _runs,
    "policy": _runs,
    "who": _runs,
}
"""Completers by the name of the argument; argcomplete itself knows choices and files."""
