"""The tables of docs/learned.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena import _core
from ccarena.envs.described import normalised, row

GENERATED = (
    "<!-- Generated from the registries (crates/ccarena-cc/src/learned) by `make docs`; edit the entries there. -->"
)

BACKENDS = ("sim", "quic", "bridge", "kernel")
"""The simulator; QUIC; kernel TCP with the controller in user space, and with the policy in the kernel."""
SPANS = ("over_ms", "over_rtts")
"""Options that many signals share."""


def markdown() -> str:
    """Returns clocks, signals, actuators and bases as Markdown tables, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", "## Clocks", "", *_table(_core.clocks())]
    lines += ["", "## Actuators", "", *_table(_core.actuators(), ("unit", "moves", "bounds"))]
    lines += ["", "## Bases", "", *_table(_core.bases(), ("moves",))]
    lines += ["", "## Derived signals", "", *_derived()]
    lines += ["", "## Signals", "", *_table(_core.signals(), ("unit", "channels", "normalisation"))]
    return "\n".join(lines) + "\n"


def _derived() -> list[str]:
    rows = [row("name", "written", "meaning"), "|---|---|---|"]
    return rows + [row(f"`{each['name']}`", f"`{each['written']}`", each["doc"]) for each in _core.derived_signals()]


def _table(entries: Sequence[Mapping[str, Any]], more: Sequence[str] = ()) -> list[str]:
    titles = ["name", "meaning", *more, "options", "source", "runs on"]
    rows = [row(*titles), "|" + "---|" * len(titles)]
    for entry in entries:
        cells = [f"`{entry['name']}`", entry["doc"], *(_cell(entry, column) for column in more)]
        options = "; ".join(map(_option, entry["options"]))
        rows.append(row(*cells, options or "–", entry["source"], _backends(entry)))
    return rows


def _option(option: Mapping[str, Any]) -> str:
    """Describes an option; the page itself describes those in `SPANS`."""
    name = f"`{option['name']}`"
    if option["name"] in SPANS:
        return name
    return f"{name} = {option['default']:g} ({option['min']:g} to {option['max']:g}): {option['doc']}"


def _backends(entry: Mapping[str, Any]) -> str:
    """Names the backends of an entry; a clock, an actuator or a base may lack the kernel alone."""
    found = entry.get("backends") or [name for name in BACKENDS if name != "kernel" or entry["kernel"]]
    return "all" if list(found) == list(BACKENDS) else ", ".join(found)


def _cell(entry: Mapping[str, Any], column: str) -> str:
    if column == "normalisation":
        return normalised(entry["offset"], entry["scale"], entry["clip"])
    value = entry[column]
    if column == "bounds":
        return entry["takes"] if value is None else f"{value[0]:g} to {value[1]:g}"
    return ", ".join(value) or "–" if isinstance(value, list) else str(value)
