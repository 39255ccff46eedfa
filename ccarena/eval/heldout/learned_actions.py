"""Section of an evaluation's page on the actions that a policy learned: by category, in words and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.heldout import plots
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.pages import Block, Cell, Section, Table

__all__ = ["learned_actions"]

SELDOM = 0.01
"""Share of decisions below which a category is seldom: its action hardly matters."""
NAMED = 0.1
"""Share of a category's decisions from which an action is named."""


def learned_actions(result: Evaluation) -> list[Section]:
    """Returns the section on the only policy's actions; none if they were not counted by category."""
    counts = sum(np.asarray(by[result.policy]) for by in result.actions.values() if result.policy in by)
    if not isinstance(counts, np.ndarray) or not counts.sum():
        return []
    column = next(iter(result.meta.get("shares", {})), "category")
    head, rows = _table(result, counts, column)
    blocks: list[Block] = [Table(head, rows, words=1), plots.action_map(result), plots.category_shares(result)]
    return [Section("What it learned", _in_words(result, counts, column), blocks)]


def _in_words(result: Evaluation, counts: NDArray[Any], column: str) -> str:
    """Returns the most frequent action of each category that is not seldom, and what an action does."""
    meta = result.meta
    values, action = meta["action_values"], meta.get("action", {})
    shares = counts.sum(axis=1) / counts.sum()
    visited = np.flatnonzero(shares >= SELDOM)
    mostly = ", ".join(f"{values[int(counts[at].argmax())]:g} after {meta['categories'][at]}" for at in visited)
    name, does = action.get("name", "the action"), action.get("does")
    near = "nearest to " if meta.get("continuous") else ""
    said = f"An action of this scheme: {does}. " if does else ""
    return f"{said}Mostly, {name} is {near}{mostly}, by the {column} of the interval before."


def _table(result: Evaluation, counts: NDArray[Any], column: str) -> tuple[list[str], list[list[str | Cell]]]:
    """Returns (headings, rows): of each category its share of decisions, frequent actions, their mean, and the best
    rule's action.
    """
    meta = result.meta
    values = np.asarray(meta["action_values"])
    of_rule = _rule(meta.get("rules", []), column)
    if not meta.get("continuous"):
        of_rule = [values[int(index)] for index in of_rule]
    head = [
        f"after {column}",
        "share of decisions",
        "nearest to" if meta.get("continuous") else "mostly",
        "mean",
        *(["best rule"] if of_rule else []),
    ]
    rows: list[list[str | Cell]] = []
    for at, category in enumerate(meta["categories"]):
        mine, total = counts[at], counts[at].sum()
        often = [index for index in np.argsort(-mine, kind="stable") if total and mine[index] >= NAMED * total]
        row: list[str | Cell] = [category, f"{100 * total / counts.sum():.1f} %"]
        row.append(", ".join(f"{values[index]:g} ({100 * mine[index] / total:.0f} %)" for index in often) or "–")
        row.append(f"{float(mine @ values) / total:.3g}" if total else "–")
        rows.append([*row, *([f"{of_rule[at]:.3g}"] if of_rule else [])])
    return head, rows


def _rule(rules: Sequence[Any], column: str) -> list[float]:
    """Returns the actions by category of the rule that has some: indices, or values if actions are continuous."""
    tables = (rule["policy"] for rule in rules if rule["kind"] == "by category" and not rule["missing"])
    return next((list(table["actions"]) for table in tables if table["by"] == column), [])
