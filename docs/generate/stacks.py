"""The table of stacks in docs/entrant-files.md."""

from __future__ import annotations

from ccarena.envs.described import row
from ccarena.scenarios.stacks import Stack, shipped_stacks

GENERATED = "<!-- Generated from ccarena/stacks by `make docs`; edit the files there. -->"
HEAD = ("stack", "what it is", "version", "licence", "congestion controls", "got by", "bound beside its control")
WAYS = {"cargo": "cargo", "go": "go", "python": "wheels of PyPI"}


def markdown() -> str:
    """The stacks as a Markdown table, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", row(*HEAD), row(*["---"] * len(HEAD))]
    return "\n".join([*lines, *map(_row, shipped_stacks().values())]) + "\n"


def _row(stack: Stack) -> str:
    file = stack.shipped
    controls = ", ".join(f"`{control}`" for control in file.congestion_controls)
    way = WAYS.get(stack.recipe) or f"Debian: {', '.join(file.packages)}"
    return row(f"`{stack.name}`", file.title, file.version, file.licence, controls, way, file.bound or "–")
