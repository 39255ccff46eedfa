"""Runs of a suite that a page's reader repeats in the browser: one per cell, with the first seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena.errors import CcarenaError
from ccarena.eval.reproduce.runs import Run, located
from ccarena.eval.reproduce.values import Row
from ccarena.pages.runnable import Repeat, Runnable
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.repeat import repeat_of

__all__ = ["LEAD", "again"]

LEAD = "Runs the scenario of one cell with the first seed, in this browser."
MOST = 200
"""Most cells that a page offers."""


def again(expanded: Sequence[Run], rows: Sequence[Row] = ()) -> Runnable | None:
    """Returns the block of simulated runs among `expanded`, with the figures in `rows`; None if there are none.

    A suite that measures a part of the run stores figures of that part, with which figures of the whole run are not
    compared.
    """
    known = {(row["key"], *row["cell"].values()): row for row in rows if row["seed"] == 1}
    runs: list[Repeat] = []
    refused: list[str] = []
    for run in expanded:
        if run.seed != 1 or "document" not in run.spec or run.spec.get("backend", SIM) != SIM:
            continue
        row = known.get((run.key, *run.cell.values()))
        try:
            stored = _whole(run.spec, row) if row is not None else {}
            version = str(row["software"]) if row is not None else ""
            runs.append(repeat_of(located(run.spec["document"]), run.cell, stored, version))
        except CcarenaError as error:
            refused.append(f"{run.title}: {error}.")
    return Runnable(runs[:MOST], refused) if runs or refused else None


def _whole(spec: Mapping[str, Any], row: Row) -> dict[str, dict[str, Any]]:
    """Returns the figures of each flow by name, if the window of the suite is the whole run."""
    if spec["window"] != [0.0, float(spec["document"].get("duration_s", 30.0))]:
        return {}
    return {flow["name"]: {name: x for name, x in flow.items() if "@" not in name} for flow in row["flows"]}
