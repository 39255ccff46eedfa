"""The catalogue of public sets in docs/traces.md."""

from __future__ import annotations

from ccarena.envs.described import row
from ccarena.traces.public_sets import PublicSet, catalogue

GENERATED = "<!-- Generated from ccarena/traces/public_sets.py by `make docs`; edit there. -->"
HEAD = ("set", "what", "recordings", "RTTs", "licence", "MB", "checked by", "source")


def markdown() -> str:
    """The sets as a Markdown table, after the [`GENERATED`] mark, and what has to be downloaded by hand."""
    lines = [GENERATED, "", row(*HEAD), row(*["---"] * len(HEAD)), *map(_row, catalogue())]
    by_hand = [f"- `{known.name}`: {known.by_hand}." for known in catalogue() if known.by_hand]
    return "\n".join([*lines, "", "By hand:", "", *by_hand]) + "\n"


def _row(known: PublicSet) -> str:
    size = f"{known.bytes / 1e6:.1f}" if known.bytes is not None else "–"
    name = f"[`{known.name}`]({known.page})"
    return row(name, known.content, known.count, known.rtts, known.licence, size, known.checked, known.paper)
