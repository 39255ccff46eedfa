"""Command `ccarena play`: writes the arena as a web page and opens it."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

from ccarena.core.files import check_file
from ccarena.core.outputs import Output
from ccarena.play import write

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("play", **kwargs)
    parser.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO.yaml", help="scenario that the page begins with"
    )
    parser.add_argument("--out", type=Output(".html"), metavar="FILE", help="file to write (runs/play/NAME.html)")
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        help="open the page in a browser (on a terminal with a graphical display)",
    )


def run(args: argparse.Namespace) -> int:
    """Writes the page, prints its path, and opens it."""
    out = args.out or Path("runs", "play", f"{args.scenario.stem if args.scenario else 'play'}.html")
    check_file(out)
    show(out, args.scenario, _can_open() if args.open is None else args.open)
    return 0


def show(out: Path, scenario: Path | None, opened: bool) -> None:
    """Writes the page to `out`, prints its path, and opens it in a browser if `opened`. Raises what `write` does."""
    write(out, scenario)
    print(f"wrote {out}: open it in a browser; it needs no server and no network")
    if opened and not webbrowser.open(out.resolve().as_uri()):
        print("no browser could be opened here")


def _can_open() -> bool:
    """Returns whether the user is at a terminal beside a display. A browser in text mode could not show the page."""
    display = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
    return sys.stdout.isatty() and display
