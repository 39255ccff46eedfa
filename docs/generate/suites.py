"""The reference in docs/suites.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ccarena.eval.measure.table import FIGURES
from ccarena.eval.reproduce import checks, measures, values

GENERATED = "<!-- Generated from ccarena/eval/reproduce by `make docs`; edit there. -->"


def markdown() -> str:
    """Measures, values and claims as Markdown, after the [`GENERATED`] mark."""
    windowed = "over the window; `MEASURE@NAME` over another"
    parts = [
        GENERATED,
        "## Measures",
        f"For a flow, {windowed}:",
        _measures(measures.windowed_flow()),
        "For a flow, over the whole run:",
        _measures(measures.counted(), completion_s="List of the durations of finished transfers."),
        f"For the run and its first link, {windowed}:",
        _measures(measures.windowed_run()),
        "For the run and its first link, over the whole run:",
        _measures(measures.WHOLE),
        "For the run's first link, with `record: {packets: true}`:",
        _measures(measures.of_packets()),
        "Declared as `measures: {NAME: {kind: KIND, PARAMETER: VALUE}}`:",
        _kinds(),
        "## Values",
        _body(values.__doc__),
        "## Claims",
        _body(checks.__doc__),
        "States:",
        _table(checks.STATES, "state"),
    ]
    return "\n\n".join(parts) + "\n"


def _body(docstring: str | None) -> str:
    """A module's docstring without its first line."""
    return (docstring or "").partition("\n")[2].strip()


def _measures(names: Iterable[str], **others: str) -> str:
    """Figures of the table, and other measures with their meanings."""
    return _table({**{name: FIGURES[name].definition for name in names}, **others})


def _table(entries: Mapping[str, str], head: str = "measure") -> str:
    rows = [f"| `{name}` | {text} |" for name, text in entries.items()]
    return "\n".join([f"| {head} | meaning |", "|---|---|", *rows])


def _kinds() -> str:
    rows = []
    for kind, (parameters, text) in measures.KINDS.items():
        given = ", ".join(f"`{name}: {'null' if value is None else value}`" for name, value in parameters.items())
        rows.append(f"| `{kind}` | {given} | {text} |")
    return "\n".join(["| kind | parameters and defaults | meaning |", "|---|---|---|", *rows])
