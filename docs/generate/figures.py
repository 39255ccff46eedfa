"""The table of docs/figures.md."""

from __future__ import annotations

from ccarena.eval.compete.matches import GIVEN as COMPETE
from ccarena.eval.heldout.evaluate import GIVEN as EVAL
from ccarena.eval.leaderboard.figures import stored
from ccarena.eval.measure.table import FIGURES, Figure, columns
from ccarena.eval.reproduce import measures
from ccarena.scenarios.tables import GIVEN as RUN

GENERATED = "<!-- Generated from ccarena/eval/measure/table.py by `make docs`; edit there. -->"


def markdown() -> str:
    """Returns every figure as a row of a Markdown table, after the [`GENERATED`] mark."""
    head = ["| figure | unit | definition | needs | tables |", "|---|---|---|---|---|"]
    rows = [
        f"| `{name}` | {figure.unit} | {_definition(figure)} | {', '.join(sorted(figure.needs))} "
        f"| {', '.join(_tables(name))} |"
        for name, figure in FIGURES.items()
    ]
    return "\n".join([GENERATED, "", "## Which figures are there?", "", *head, *rows]) + "\n"


def _definition(figure: Figure) -> str:
    shown = f" Shown if `{figure.scheme}` takes part." if figure.scheme else ""
    # A bar would end the cell.
    return figure.definition.replace("|", "\\|") + shown


def _tables(name: str) -> list[str]:
    """Returns the tables that have a figure as a column."""
    tables = {
        "`flows`": columns(RUN),
        "`links`": columns(RUN, (), "link"),
        "`eval`": columns(EVAL),
        "`compete`": columns(COMPETE),
        "leaderboard": [*stored(), "cpu_ns"],
        "suites": measures.names({}, []),
    }
    return [table for table, names in tables.items() if name in names]
