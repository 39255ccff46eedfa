"""Search whose arguments were checked, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ccarena.errors import ConfigError
from ccarena.scenarios.entrants import Entrant, line_up
from ccarena.searches.generator import check_command
from ccarena.searches.judge import check_weights
from ccarena.searches.links import Cell, cells_of, unseen
from ccarena.searches.plan import Plan
from ccarena.searches.templates import Template, read_template

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """Search whose arguments were checked."""

    plan: Plan
    template: Template
    beside: Sequence[Entrant]
    rungs: Sequence[Sequence[Cell]]
    """Runs of each rung."""
    unseen: Sequence[Cell]
    notes: Sequence[str]


def prepare(plan: Plan, given: str | type, stack: ExitStack) -> Prepared:
    """Checks a plan, whose template is `given`, without running anything. Raises ConfigError, PolicyError or
    TraceError.
    """
    plan.check()
    if plan.generator:
        check_command(plan.generator)
    template = read_template(given, plan.space or None, bool(plan.generator))
    beside = line_up(plan.beside, stack)
    if problem := check_weights(plan.weights, bool(beside)):
        raise ConfigError(problem)
    rungs = [cells_of(plan, rung) for rung in plan.rungs_of()]
    cells, notes = unseen(plan)
    return Prepared(plan, template, beside, rungs, cells, notes)
