"""The reference in docs/suites.md."""

from __future__ import annotations

from collections.abc import Mapping

from ccarena.eval.reproduce import checks, measures, values

GENERATED = "<!-- Generated from ccarena/eval/reproduce by `make docs`; edit there. -->"


def markdown() -> str:
    """Measures, values and claims as Markdown, after the [`GENERATED`] mark."""
    windowed = "over the window; `MEASURE@NAME` over another"
    parts = [
        GENERATED,
        "## Measures",
        f"For a flow, {windowed}:",
        _table(measures.WINDOWED_FLOW),
        "For a flow, over the whole run:",
        _table({name: text for name, text in measures.FLOW.items() if name not in measures.WINDOWED_FLOW}),
        f"For the run, {windowed}:",
        _table(measures.WINDOWED_RUN),
        "For the run's first link:",
        _table({name: text for name, text in measures.RUN.items() if name not in measures.WINDOWED_RUN}),
        "With `record: {packets: true}`:",
        _table(measures.PACKETS),
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


def _table(entries: Mapping[str, str], head: str = "measure") -> str:
    rows = [f"| `{name}` | {text} |" for name, text in entries.items()]
    return "\n".join([f"| {head} | meaning |", "|---|---|", *rows])


def _kinds() -> str:
    rows = []
    for kind, (parameters, text) in measures.KINDS.items():
        given = ", ".join(f"`{name}: {'null' if value is None else value}`" for name, value in parameters.items())
        rows.append(f"| `{kind}` | {given} | {text} |")
    return "\n".join(["| kind | parameters and defaults | meaning |", "|---|---|---|", *rows])
