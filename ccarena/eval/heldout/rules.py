"""Rules without learning that a policy has to beat: the best use of its scheme, found on training links alone.

- **constant action**: of discrete actions every one is tried, of continuous ones a grid that is then refined;
- **an action per category** (zone, case) of the report's first column in `progress.shares`: from the best single
  action, one category after the other, until a round changes nothing;
- **the base alone**: no action is ever put in force;
- **tuned parameters**: those in `rules.law`, searched by CMA-ES with a constant action, which is searched too if it is
  continuous.

All are scored by the configuration's `objective` over the same links of its training distribution. A rule that cannot
be found has a reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.configs.link_distribution import param_bounds
from ccarena.configs.ranges import Ranges
from ccarena.configs.schema import TrainConfig
from ccarena.configs.spec_files import Action
from ccarena.core.terminal import Progress
from ccarena.envs.parameter_search import search as search_parameters
from ccarena.envs.trials import Answers, Candidate, Trials
from ccarena.policies.interface import Bounds
from ccarena.policies.spec import Spec

__all__ = ["Rule", "search", "search_constant"]

GRID = 11
"""Number of continuous actions that are tried first, evenly over the bounds; then as many between the neighbours of the
best.
"""
ROUNDS = 2
"""Most rounds over the actions of all categories."""
ACTION = "action"
"""Name of a continuous action that is searched with the parameters of the law."""
SEED = 0x0000_52_55_4C_45
"""Seed of the links on which rules are searched: one for all, so that policies of other seeds meet the same rules."""


@dataclass(frozen=True)
class Rule:
    """Rule that runs the scheme without learning."""

    kind: str
    """Kind: `constant`, `by category`, `base` or `law`."""
    label: str
    """Name in tables."""
    policy: Any = None
    """Value of a scenario's `policy`; None if the rule was not found."""
    params: dict[str, float] = field(default_factory=dict)
    """Parameters of the spec that differ from the policy's."""
    score: float | None = None
    """Mean objective on training links."""
    missing: str = ""
    """Reason if there is no such rule."""

    @property
    def found(self) -> bool:
        """Returns whether there is such a rule."""
        return not self.missing

    @property
    def numbers(self) -> int:
        """Returns how many actions the rule consists of; 0 if it consists of others than actions, too."""
        if self.kind == "by category" and self.found:
            return len(self.policy["actions"])
        return int(self.kind == "constant")

    @property
    def candidate(self) -> Candidate:
        """Returns the rule as a candidate of trials."""
        return Candidate(answers_of(self.policy), self.params)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data, for an artifact's metadata."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Rule:
        """Builds a rule from the data of `as_dict`. Raises TypeError for other data."""
        return cls(**data)


def answers_of(policy: Any) -> Answers:
    """Returns the decider of trials for a rule's `policy`."""
    if policy == "none":
        return None
    constant: Action | None = policy.get("constant")
    return (policy["by"], list(policy["actions"])) if constant is None else constant


def search(config: TrainConfig, spec: Spec, threads: int, progress: Progress | None = None) -> list[Rule]:
    """Returns the best rule of each kind. Raises what `Trials` does; `progress(done, total)` is called after
    each kind.
    """
    score = _scored_once(Trials(config, spec, threads), config.rules.links)

    kinds: list[Callable[[], Rule]] = [
        lambda: _constant(spec, score),
        lambda: _by_category(config, spec, score, found[0]),
        lambda: _base(spec, score),
        lambda: _law(config, spec, score, found[0]),
    ]
    found: list[Rule] = []
    for kind in kinds:
        found.append(kind())
        if progress is not None:
            progress(len(found), len(kinds))
    # A policy may have found other parameters than these, with which the rules were.
    start = spec.values(config.params)
    return [replace(rule, params={**start, **rule.params}) if rule.found else rule for rule in found]


def search_constant(config: TrainConfig, spec: Spec, threads: int) -> Rule:
    """Returns the best constant action, with the configuration's parameters. Raises what `Trials` does."""
    found = _constant(spec, _scored_once(Trials(config, spec, threads), config.rules.links))
    return replace(found, params={**spec.values(config.params), **found.params})


Score = Callable[[Sequence[Candidate]], list[float]]


def _scored_once(trials: Trials, links: int) -> Score:
    """Returns a function for the mean objective over the links, which runs each candidate only once."""
    known: dict[str, float] = {}

    def score(candidates: Sequence[Candidate]) -> list[float]:
        names = [repr(candidate) for candidate in candidates]
        new = {name: each for name, each in zip(names, candidates, strict=True) if name not in known}
        done = trials.run(list(new.values()), SEED, links)
        known.update((name, each.score) for name, each in zip(new, done, strict=True))
        return [known[name] for name in names]

    return score


def _actions(spec: Spec) -> list[Action]:
    """Returns the actions to try, as a scenario's constant has them: indices, or values on a grid."""
    if spec.bounds is None:
        return [float(index) for index in range(len(spec.actions))]
    return _grid(spec.bounds)


def _grid(bounds: Bounds) -> list[Action]:
    """Returns continuous actions on a grid: `GRID` of one number, about as many in each direction of several."""
    if len(bounds) == 1:
        return [float(value) for value in np.linspace(*bounds[0], GRID)]
    count = {2: 6, 3: 4}.get(len(bounds), 3)
    return [tuple(map(float, each)) for each in itertools.product(*(np.linspace(*pair, count) for pair in bounds))]


def _best(candidates: Sequence[Candidate], score: Score) -> tuple[int, float]:
    scores = score(candidates)
    best = int(np.argmax(scores))
    return best, scores[best]


def _constant(spec: Spec, score: Score) -> Rule:
    tried = _actions(spec)
    best, value = _best([Candidate(action) for action in tried], score)
    action = tried[best]
    if spec.bounds is not None:
        finer = _grid(_around(np.atleast_1d(action), np.atleast_2d(np.array(tried).T), spec.bounds))
        index, better = _best([Candidate(between) for between in finer], score)
        action, value = (finer[index], better) if better > value else (action, value)
    return Rule("constant", f"{spec.name} {spec.action_name(action)} always", {"constant": action}, score=value)


def _around(action: NDArray[np.float64], tried: NDArray[np.float64], bounds: Bounds) -> Bounds:
    """Returns the bounds between the neighbours of `action` `[numbers]` among the values `[numbers, N]` tried."""
    found = []
    for number, values in zip(action, map(np.unique, tried), strict=True):
        at = int(np.searchsorted(values, number))
        found.append((float(values[max(at - 1, 0)]), float(values[min(at + 1, len(values) - 1)])))
    return tuple(found)


def _by_category(config: TrainConfig, spec: Spec, score: Score, constant: Rule) -> Rule:
    column, categories = next(iter(config.progress.shares.items()), ("", []))
    if not categories:
        missing = "the configuration names no category of the report (progress.shares)"
        return Rule("by category", "an action per category", missing=missing)
    spec.column(column, "progress.shares")
    # Climbing ends where no single action improves: from two starts, of which one takes nothing for granted.
    first: Action = constant.policy["constant"]
    starts = dict.fromkeys((first, _actions(spec)[0]))
    occurring = _occurring(spec, score, column, [first] * len(categories))
    climbed = [_climb(spec, score, column, [start] * len(categories), occurring) for start in starts]
    table, value = max(climbed, key=lambda each: each[1])
    said = ", ".join(f"{categories[at]} {spec.action_name(table[at])}" for at in occurring)
    return Rule("by category", f"{spec.name} by {column}: {said}", {"by": column, "actions": table}, score=value)


def _occurring(spec: Spec, score: Score, column: str, table: list[Action]) -> list[int]:
    """Returns the categories whose action matters: in others the largest and the smallest give exactly what `table`
    does.
    """
    low, *_, high = _actions(spec)
    others = [[*table[:at], action, *table[at + 1 :]] for at in range(len(table)) for action in (low, high)]
    value, *scores = score([Candidate((column, each)) for each in (table, *others)])
    return [at for at in range(len(table)) if scores[2 * at : 2 * at + 2] != [value, value]]


def _climb(
    spec: Spec, score: Score, column: str, table: list[Action], occurring: Sequence[int]
) -> tuple[list[Action], float]:
    (value,) = score([Candidate((column, table))])
    for _ in range(ROUNDS):
        before = list(table)
        for category in occurring:
            tried = [[*table[:category], action, *table[category + 1 :]] for action in _actions(spec)]
            best, found = _best([Candidate((column, each)) for each in tried], score)
            if found > value:
                table, value = tried[best], found
        if table == before:
            break
    return table, value


def _base(spec: Spec, score: Score) -> Rule:
    first = spec.bases[0]
    if first == "none":
        return Rule("base", "the base alone", missing="the spec has no base: nothing moves without actions")
    (value,) = score([Candidate(None)])
    return Rule("base", f"{spec.name}'s base {first} alone", "none", score=value)


def _law(config: TrainConfig, spec: Spec, score: Score, constant: Rule) -> Rule:
    law = config.rules.law or config.algorithm.searched
    if not law:
        missing = "the configuration names no parameters of a law (rules.law)"
        return Rule("law", "the tuned law", missing=missing)
    given = config.rules.law_action
    action = constant.policy["constant"] if given is None else spec.constant(given)
    ranges = Ranges.of(param_bounds(config), law, "rules.law")
    start = {name: spec.values(config.params)[name] for name in ranges.ranges}
    if given is None and spec.bounds is not None and spec.numbers == 1:
        ranges = Ranges({**ranges.ranges, ACTION: spec.bounds[0]})
        start[ACTION] = float(action)  # type: ignore[arg-type]

    def candidate(values: Mapping[str, float]) -> Candidate:
        params = {name: value for name, value in values.items() if name != ACTION}
        return Candidate(values.get(ACTION, action), params)

    best = search_parameters(
        ranges, start, lambda asked: score([candidate(each) for each in asked]), config.rules.law_candidates, SEED
    )
    found = candidate(best.values)
    said = "as the configuration has it"
    if best.values != start:
        said = ", ".join(f"{name} {number:.3g}" for name, number in found.params.items())
    label = f"{spec.name}'s law, {said}, {spec.action_name(found.answers)} always"  # type: ignore[arg-type]
    return Rule("law", label, {"constant": found.answers}, dict(found.params), best.score)
