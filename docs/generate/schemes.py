"""The tables of docs/schemes.md."""

from __future__ import annotations

from ccarena import _core
from ccarena.envs.described import row
from ccarena.scenarios.schemes import kind_of

GENERATED = "<!-- Generated from the registry (crates/ccarena-cc/src/registry.rs) by `make docs`; edit the schemes. -->"


def markdown() -> str:
    """The schemes and their parameters as Markdown tables, after the [`GENERATED`] mark."""
    schemes = _core.schemes()
    parameters = [(scheme["name"], param) for scheme in schemes for param in scheme["params"]]
    lines = [GENERATED, "", "## Which schemes are there?", "", "| scheme | kind | summary |", "|---|---|---|"]
    lines += [row(f"`{s['name']}`", ", ".join(kind_of(s)) or "heuristic", s["summary"]) for s in schemes]
    lines += ["", "## Parameters", "", "| scheme | parameter | default | range | meaning |", "|---|---|---|---|---|"]
    lines += [
        row(f"`{name}`", f"`{p['name']}`", f"{p['default']:g}", f"{p['min']:g} to {p['max']:g}", p["doc"])
        for name, p in parameters
    ]
    return "\n".join(lines) + "\n"
