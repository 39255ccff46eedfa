"""Command `ccarena stacks`: lists programs of others with a congestion control of their own, and gets them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ccarena.core.outputs import folder
from ccarena.core.terminal import duration, print_table
from ccarena.errors import ConfigError, did_you_mean
from ccarena.scenarios.get_stack import get_stack
from ccarena.scenarios.stacks import HOME, Stack, shipped_stacks

__all__ = ["add_parser", "run"]

ALL = "all"


def add_parser(subparsers: Any, **options: Any) -> None:
    """Adds the command and its own commands to those of the `ccarena` command line."""
    parser = subparsers.add_parser("stacks", **options)
    actions = parser.add_subparsers(dest="action", title="commands", metavar="COMMAND")
    listing = "list the stacks: version, licence, congestion controls, and what is here (the default)"
    sub = actions.add_parser("list", help=listing, description=listing)
    sub.add_argument("--json", action="store_true", help="print JSON instead of a table")
    getting = "build or install stacks, unless they are here already"
    sub = actions.add_parser("get", help=getting, description=getting)
    sub.add_argument("names", nargs="+", metavar="NAME", help=f"stack from `ccarena stacks`, or {ALL}")
    sub.add_argument("--into", type=folder, metavar="DIR", help="folder of built stacks (~/.cache/ccarena/stacks)")


def run(args: argparse.Namespace) -> int:
    """Runs one of the commands and returns its exit code."""
    return _get(args) if args.action == "get" else _list(args)


def _list(args: argparse.Namespace) -> int:
    stacks = shipped_stacks().values()
    if getattr(args, "json", False):
        print(json.dumps([_facts(stack) for stack in stacks], indent=1))
        return 0
    head = ("name", "version", "licence", "congestion control", "what it is", "here")
    print_table("stacks", head, [_cells(_facts(stack)) for stack in stacks], left=6)
    print("An entrant is stack:NAME, or stack:NAME-CONTROL for another congestion control than the first.")
    return 0


def _facts(stack: Stack) -> dict[str, Any]:
    file = stack.entrant
    facts = {key: getattr(file, key) for key in ("name", "title", "version", "licence", "bound")}
    lacks = stack.lacks
    return {
        **facts,
        "congestion_controls": list(file.congestion_controls),
        "installed": not lacks,
        "lacks": lacks,
        "get": stack.how,
    }


def _cells(facts: dict[str, Any]) -> list[str]:
    here = "yes" if facts["installed"] else f"{facts['lacks']}: {facts['get']}"
    return [
        *(facts[key] for key in ("name", "version", "licence")),
        ", ".join(facts["congestion_controls"]),
        facts["title"],
        here,
    ]


def _get(args: argparse.Namespace) -> int:
    stacks = shipped_stacks()
    for name in args.names:
        if name != ALL and name not in stacks:
            raise ConfigError(f'unknown stack "{name}"{did_you_mean(name, (*stacks, ALL))}')
    names = list(stacks) if ALL in args.names else list(dict.fromkeys(args.names))
    for name in names:
        got = get_stack(stacks[name], args.into)
        size = f", {got.size_bytes / 1e6:.1f} MB" if got.size_bytes else ""
        took = f"got in {duration(got.seconds)}" if got.seconds else "is here"
        print(f"{name}: {took}{size}: {got.folder}", flush=True)
    if args.into is not None:
        print(f"name them as {args.into}/NAME/entrant.yaml, or set {HOME}={args.into}")
    return 0
