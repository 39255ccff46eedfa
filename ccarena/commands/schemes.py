"""Command `ccarena schemes`: lists congestion controls, queue disciplines or a module, with their parameters."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.controllers.modules import about, is_module
from ccarena.core.terminal import print_table, visible
from ccarena.errors import ConfigError, did_you_mean
from ccarena.scenarios.schemes import kind_of, limit_of

__all__ = ["add_parser", "print_one", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("schemes", **kwargs)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="only this one, with its parameters explained; also FILE.wasm"
    )
    parser.add_argument("--queues", action="store_true", help="queue disciplines instead of congestion controls")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the list, or one entry. Raises ConfigError for an unknown name, with the nearest one."""
    what = "queue discipline" if args.queues else "scheme"
    entries = _core.queue_disciplines() if args.queues else _core.schemes()
    if args.name is not None and is_module(args.name):
        chosen = about(Path(args.name))
        print(json.dumps(chosen, indent=1)) if args.json else print_one(chosen)
    elif args.name is not None:
        known = {entry["name"]: entry for entry in entries}
        if args.name not in known:
            raise ConfigError(f'unknown {what} "{args.name}"{did_you_mean(args.name, known)}')
        chosen = known[args.name]
        print(json.dumps(chosen, indent=1)) if args.json else print_one(chosen)
    elif args.json:
        print(json.dumps(entries, indent=1))
    else:
        _print_all(entries, args.queues)
    return 0


def _print_all(entries: list[dict[str, Any]], queues: bool) -> None:
    def parameters(entry: dict[str, Any]) -> str:
        return "\n".join(f"{param['name']} = {param['default']:g}" for param in entry["params"]) or "–"

    if queues:
        cells = [[entry["name"], limit_of(entry), parameters(entry), entry["summary"]] for entry in entries]
        print_table("queue disciplines", ("name", "limit", "parameters", "what it is"), cells, left=4)
    else:
        cells = [[e["name"], ", ".join(kind_of(e)) or "–", parameters(e), e["summary"]] for e in entries]
        print_table("schemes", ("name", "kind", "parameters", "what it is"), cells, left=4)


def print_one(entry: dict[str, Any]) -> None:
    """Prints the facts and the parameters of a scheme, a queue discipline or a module."""
    print(visible(f"{entry['name']}: {entry['summary']}"))
    if "exports" in entry:
        size = f"{entry['module_bytes']:,} bytes, {entry['memory_bytes'] // 1024:,} KiB of memory"
        print(f"kind: a WebAssembly module of {size}")
    elif "learned" in entry:
        print(f"kind: {', '.join(kind_of(entry)) or 'a heuristic'}")
    else:
        print(f"limit: {limit_of(entry)}")
    if entry["params"]:
        cells = [
            [p["name"], f"{p['default']:g}", f"{p['min']:g} to {p['max']:g}", f"{p['doc']}{_in_unit(p)}"]
            for p in entry["params"]
        ]
        print_table("parameters", ("name", "default", "range", "what it is"), cells, left=4)
    else:
        print("no parameters")


def _in_unit(param: dict[str, Any]) -> str:
    return f" ({param['unit']})" if param.get("unit") else ""
