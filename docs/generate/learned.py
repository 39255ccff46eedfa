"""The tables of docs/learned.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena import _core

GENERATED = (
    "<!-- Generated from the registries (crates/ccarena-cc/src/learned) by `make docs`; edit the entries there. -->"
)

BACKENDS = ("sim", "quic", "bridge", "kernel")
"""The simulator; QUIC; kernel TCP with the controller in user space, and with the policy in the kernel."""


def markdown() -> str:
    """Clocks, signals, actuators and bases as Markdown tables, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", "## Clocks", "", *_table(_core.clocks())]
    lines += ["", "## Actuators", "", *_table(_core.actuators(), ("unit", "moves", "bounds"))]
    lines += ["", "## Bases", "", *_table(_core.bases(), ("moves",))]
    lines += ["", "## Signals", "", *_table(_core.signals(), ("unit", "channels", "normalisation"))]
    return "\n".join(lines) + "\n"


def _table(entries: Sequence[Mapping[str, Any]], more: Sequence[str] = ()) -> list[str]:
    titles = ["name", *more, "options", "what it is", "source", "runs on"]
    rows = [_row(*titles), "|" + "---|" * len(titles)]
    for entry in entries:
        cells = [f"`{entry['name']}`", *(_cell(entry, column) for column in more)]
        options = "; ".join(
            f"`{o['name']}` = {o['default']:g} ({o['min']:g} to {o['max']:g}): {o['doc']}" for o in entry["options"]
        )
        rows.append(_row(*cells, options or "–", entry["doc"], entry["source"], _backends(entry)))
    return rows


def _backends(entry: Mapping[str, Any]) -> str:
    """Names the backends of an entry; a clock, an actuator or a base may lack the kernel alone."""
    found = entry.get("backends") or [name for name in BACKENDS if name != "kernel" or entry["kernel"]]
    return "all" if list(found) == list(BACKENDS) else ", ".join(found)


def _cell(entry: Mapping[str, Any], column: str) -> str:
    if column == "normalisation":
        low, high = entry["clip"]
        return f"(x − {entry['offset']:g}) × {entry['scale']:g} in {low:g} to {high:g}"
    value = entry[column]
    if column == "bounds":
        return "operations" if value is None else f"{value[0]:g} to {value[1]:g}"
    return ", ".join(value) or "–" if isinstance(value, list) else str(value)


def _row(*cells: str) -> str:
    # A bar would end the cell.
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
