"""Options of commands that draw a plot for papers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ccarena.core.arguments import Unused
from ccarena.core.outputs import Output

__all__ = ["UNUSED", "add_options"]

UNUSED = (Unused(("kind",), lambda args: args.plot is None, "without --plot"),)


LINE = "line"
"""Kind that needs a column for its x axis, which Python names."""


def add_options(parser: argparse.ArgumentParser, kinds: Sequence[str], default: str | None) -> None:
    """Declares `--plot` and `--kind`; a `default` of None leaves the choice to the command."""
    parser.add_argument(
        "--plot",
        type=Output(".svg"),
        metavar="FILE",
        help="a plot for a paper as .pdf, .svg or .png (needs matplotlib)",
    )
    parser.add_argument(
        "--kind",
        choices=[kind for kind in kinds if kind != LINE],
        default=default,
        help=f"kind of the plot ({default or 'scatter, or rate of a scenario'})",
    )
