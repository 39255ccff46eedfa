"""Search of what a sender that knows its link, and what will happen on it, can earn by its actions alone.

Both searches know the very link, run it again and again, and keep only what earns more. They start from a table, an
action per category of the last interval (ACCT's zone), and therefore never end below it:

- **the link's own table**: the best table for this link;
- **a schedule**: a table for each piece of the run, found by changing one action over a random piece at a time.

A search may miss better actions. What it finds is therefore the least that such a sender can earn, and no bound from
above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.envs.trials import Candidate, Trials
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node, State
from ccarena.policies.spec import Spec

__all__ = ["Clairvoyant", "Known", "climb", "schedule_policy"]

ROUNDS = 3
"""Most rounds over all coordinates of a climb."""

Schedule = NDArray[np.int64]
"""Actions `[decisions, categories]`; the last row is also for all later decisions."""
Scores = Callable[[Sequence[Any]], list[float]]


def climb(
    start: tuple[float, ...],
    choices: Sequence[Sequence[float]],
    score: Callable[[list[tuple[float, ...]]], list[float]],
) -> tuple[tuple[float, ...], float]:
    """Returns the best point and its score: one coordinate after the other takes the choice that scores highest, until
    a round changes nothing.
    """
    best, (value,) = start, score([start])
    for _ in range(ROUNDS):
        before = best
        for at, values in enumerate(choices):
            tried = [(*best[:at], each, *best[at + 1 :]) for each in values if each != best[at]]
            scores = score(tried) if tried else []
            if scores and max(scores) > value:
                best, value = tried[int(np.argmax(scores))], max(scores)
        if best == before:
            break
    return best, value


@dataclass(frozen=True)
class Known:
    """Scores on one link, each at least as high as the one before."""

    table: float
    """Score of the given table."""
    own_table: float
    """Score of the link's own table."""
    schedule: float
    """Score of the link's schedule."""


class Clairvoyant:
    """Searcher over the links of `trials` with `seed`, for the scheme `spec` with the parameters `params`.

    `column` of the report has the category of an interval, `levels` are the indices of the actions to try. A schedule
    is searched in `rounds` of `width` changes each, of which the best is kept if it earns more.
    """

    def __init__(
        self,
        trials: Trials,
        spec: Spec,
        column: str,
        levels: Sequence[int],
        params: dict[str, float],
        seed: int,
        rounds: int = 12,
        width: int = 8,
    ) -> None:
        self._trials, self._spec, self._column = trials, spec, column
        self._levels, self._params, self._seed = list(levels), params, seed
        self._rounds, self._width = rounds, width

    def __call__(self, link: int, table: Sequence[float]) -> Known:
        """Searches on the link of this number, from `table`."""
        own, own_value = climb(tuple(table), [self._levels] * len(table), lambda tables: self._of_tables(link, tables))
        (given,) = self._of_tables(link, [tuple(table)])
        return Known(given, own_value, self._scheduled(link, own, own_value))

    def _scheduled(self, link: int, table: Sequence[float], value: float) -> float:
        rng = np.random.Generator(np.random.PCG64([self._seed, link]))
        (run,) = self._trials.run([Candidate((self._column, list(table)), self._params)], self._seed, 1, link)
        category = run.reports[:, self._spec.report.index(self._column)].astype(np.int64)
        best: Schedule = np.tile(np.asarray(table, np.int64), (len(run.reports), 1))
        for _ in range(self._rounds):
            changed = [self._changed(best, category, rng) for _ in range(self._width)]
            scores = self._of_schedules(link, changed)
            if max(scores) > value:
                value, best = max(scores), changed[int(np.argmax(scores))]
        return value

    def _changed(self, schedule: Schedule, category: NDArray[np.int64], rng: np.random.Generator) -> Schedule:
        """Returns the schedule with another action over a random piece, for the category of a random interval in it."""
        decisions = len(schedule)
        length = max(1, round(float(decisions ** rng.random())))
        start = int(rng.integers(0, max(1, decisions - length + 1)))
        at = min(int(category[start + int(rng.integers(0, length))]), schedule.shape[1] - 1)
        out = schedule.copy()
        out[start : start + length, at] = rng.choice(self._levels)
        return out

    def _of_tables(self, link: int, tables: Sequence[tuple[float, ...]]) -> list[float]:
        return self._of([Candidate((self._column, list(each)), self._params) for each in tables], link)

    def _of_schedules(self, link: int, schedules: Sequence[Schedule]) -> list[float]:
        policies = [schedule_policy(self._spec, self._column, each, self._params) for each in schedules]
        return self._of([Candidate(policy.encode(), self._params) for policy in policies], link)

    def _of(self, candidates: Sequence[Candidate], link: int) -> list[float]:
        return [each.score for each in self._trials.run(candidates, self._seed, 1, link)]


def schedule_policy(spec: Spec, column: str, schedule: Schedule, params: dict[str, float]) -> Artifact:
    """Returns a policy that remembers how often it has decided, and acts by `schedule` and the last category."""
    categories = schedule.shape[1]
    actions, interface = len(spec.actions), spec.interface
    ends = np.cumsum([entry.length for entry in spec.observation])
    newest = [int(end) - 1 for entry, end in zip(spec.observation, ends, strict=True) if entry.signal == column]
    # A category per row, repeated for each action. The first is that of no other, as before the first interval.
    is_category = np.zeros((categories, interface.observation_len), np.float32)
    is_category[range(1, categories), newest[1:]] = 1.0
    is_category[0, newest[1:]] = -1.0
    first = np.zeros(categories, np.float32)
    first[0] = 1.0
    pieces = np.concatenate(([True], (schedule[1:] != schedule[:-1]).any(axis=1)))
    tables = np.eye(actions, dtype=np.float32)[schedule[pieces]].reshape(-1, categories * actions)
    tensors = {
        "piece": (np.cumsum(pieces) - 1).astype(np.float32)[:, None],
        "tables": tables,
        "category.weight": np.repeat(is_category, actions, axis=0),
        "category.bias": np.repeat(first, actions),
        "sum": np.tile(np.eye(actions, dtype=np.float32), (1, categories)),
    }
    nodes = (
        Node("piece", "embedding", ("count",), {"weight": "piece"}),
        Node("table", "embedding", ("piece",), {"weight": "tables"}),
        Node("flat", "reshape", ("table",), {"shape": [categories * actions]}),
        Node("category", "linear", (OBSERVATION,), {"weight": "category.weight", "bias": "category.bias"}),
        Node("chosen", "mul", ("flat", "category")),
        Node("out", "linear", ("chosen",), {"weight": "sum"}),
        Node("next", "affine", ("count",), {"shift": 1.0}),
    )
    graph = Graph(interface.observation_len, nodes, "out", tensors, (State("count", (1,), "next"),))
    return Artifact.of(graph, interface, params=params)
