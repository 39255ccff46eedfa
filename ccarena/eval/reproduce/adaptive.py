"""Seeds of a suite: more of them, in steps, for the cells of claims that are undecided.

Each step doubles the number of seeds until a claim's state is certain or `seeds.most` is reached. A claim that is
undecided then may be at the bound of its tolerance (`checks`). Seeds come in order, 1, 2, ..., so a run that was
stopped goes on, and the same software ends with the same rows. A claim is judged over the seeds that it asked for,
whatever others asked for. Claims that the paper did not measure ask for none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from ccarena.eval.reproduce.checks import Claim, Judged, at_the_bound, cells, judge
from ccarena.eval.reproduce.runs import Run
from ccarena.eval.reproduce.values import CellKey, Row, cell_key

__all__ = ["Outcome", "until_certain"]

Perform = Callable[[Sequence[Run]], Sequence[Row]]
"""Performs runs and returns the rows of those that finished."""
More = Callable[[Collection[CellKey], int, int], Sequence[Run]]
"""Returns the runs of some cells with the seeds after one number, up to another."""


@dataclass
class Outcome:
    """Outcome of a suite."""

    runs: list[Run]
    rows: list[Row]
    judged: list[Judged]


def until_certain(
    claims: Sequence[Claim],
    first: Sequence[Run],
    perform: Perform,
    more: More,
    most: int,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Performs the runs `first`, then those of undecided claims until they are certain or have `most` seeds.

    `say` gets a line for each step.
    """
    runs, rows = list(first), list(perform(first))
    count = max((run.seed for run in runs), default=0)
    judged = [replace(judge(claim, rows), seeds=count) for claim in claims]
    while count < most:
        undecided = [i for i, each in enumerate(judged) if each.state == "undecided" and not each.aside]
        if not undecided:
            break
        needed = {i: cells(claims[i], rows) for i in undecided}
        wanted = set().union(*needed.values())
        before, count = count, min(2 * count, most)
        say(f"{len(undecided)} undecided, so seeds {before + 1} to {count} of {len(wanted)} cells")
        added = more(wanted, before, count)
        runs += added
        rows += perform(added)
        for i in undecided:
            of_claim = [row for row in rows if cell_key(row["cell"]) in needed[i]]
            judged[i] = replace(judge(claims[i], of_claim), seeds=count)
            if count == most:
                judged[i] = at_the_bound(claims[i], judged[i], of_claim)
    return Outcome(runs, rows, judged)
