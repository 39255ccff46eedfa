"""`ccarena` without arguments: what it is, and where to begin."""

from __future__ import annotations

import textwrap
from importlib.util import find_spec

from ccarena.core.terminal import width_of_lines
from ccarena.extras import how_to_add

__all__ = ["FIRST", "welcome"]

WHAT = (
    "An arena for congestion control: simulate senders on one link, train learned ones on packet-level TCP, and judge "
    "them beside CUBIC, BBR and others."
)
FIRST = (
    # (about how long on a laptop, the command, what it gives)
    ("2 s", "ccarena compete cubic bbr pilot acct", "who gets which share of a link: a plot here, and a page"),
    ("1 min", "ccarena train --config acct-minute", "a short training; its page shows the curve and what was learned"),
    ("2 min", "ccarena train", "the full training of ACCT, judged beside CUBIC, BBR and Reno"),
)
"""Commands to begin with, from the shortest to the longest."""
NEXT = (
    ("ccarena --help", "all commands; `ccarena COMMAND --help` has their options"),
    ("ccarena doctor", "what this machine can run, and how to get what is missing"),
)
_MOST = 80


def welcome() -> None:
    """Prints the page."""
    width = max(min(width_of_lines() or _MOST, _MOST), 30)
    print(textwrap.fill(WHAT, width))
    for title, entries in (("Begin with", FIRST), ("Go on with", [("", *entry) for entry in NEXT])):
        print(f"\n{title}:\n")
        for time, command, gives in entries:
            print(f"  {command}")
            text = textwrap.fill(gives + (f" (about {time})" if time else ""), width - 6)
            print(textwrap.indent(text, " " * 6))
    if find_spec("torch") is None:
        print("\n" + textwrap.fill(f"Training needs PyTorch, which is not installed: {how_to_add('train')}", width))
