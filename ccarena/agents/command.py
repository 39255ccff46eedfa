"""`ccarena train`: configuration in, a run folder with checkpoints, policy and page out."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from ccarena.agents.api import INTERRUPTED, resumed, train
from ccarena.configs import dump_config, load_config, parse_overrides
from ccarena.configs.docs import TITLES
from ccarena.configs.keys import keys, plain
from ccarena.configs.load import shipped


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's own options; every other `--KEY VALUE` is an override of the configuration."""
    names = ", ".join(shipped())
    parser = subparsers.add_parser(
        "train",
        **kwargs,
        usage="ccarena train [--config NAME_OR_FILE] [--KEY VALUE ...] [--resume] [--print-config]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_key_help(),
    )
    parser.add_argument(
        "--config", metavar="NAME_OR_FILE", default="acct", help=f"a YAML file, or one of: {names} (default: acct)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --out (default: the newest runs/NAME)"
    )
    parser.add_argument("--print-config", action="store_true", help="print the effective configuration and stop")
    parser.set_defaults(overrides=[])


def run(args: argparse.Namespace) -> int:
    """Loads and checks the configuration, then trains. Returns the exit code."""
    overrides = parse_overrides(args.overrides, options=("config", "resume", "print-config"))
    if args.print_config:
        config = load_config(args.config, overrides)
        print(dump_config(resumed(config, overrides) if args.resume else config), end="")
        return 0
    return 0 if train(args.config, overrides, resume=args.resume).finished else INTERRUPTED


def _key_help() -> str:
    lines = [
        "configuration keys (KEY, its default, what it takes; rewards, networks and algorithms take more, by name):"
    ]
    kind = ""
    for key in keys():
        if key.kind != kind and key.kind:
            lines.append(f"  {TITLES[key.kind]}")
        kind = key.kind
        lines.append(f"  --{key.path} {plain(key.default)}")
        text = f"{' '.join(key.doc.split())} Takes {key.expected}."
        lines += textwrap.wrap(text, 100, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines).replace("%", "%%")
