"""The figures of a run's flow by name, as commands show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccarena.eval.measure import table
from ccarena.eval.measure.record import Record
from ccarena.scenarios.one_run import checked


def figures_of(document: Mapping[str, Any], result: Mapping[str, Any], flow: int = 0, **more: Any) -> dict[str, Any]:
    """Returns every figure of a flow that the run gives; `more` goes to the record."""
    subject = Record(checked(document), result, **more).flows[flow]
    return table.row(subject, [name for name, figure in table.FIGURES.items() if figure.needs <= subject.given])
