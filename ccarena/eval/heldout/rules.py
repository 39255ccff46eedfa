"""Rules without learning that a policy has to beat: the best use of its scheme, found on training links alone.

- **constant action**: of discrete actions every one is tried, of continuous ones a grid that is then refined;
- **an action per category** (zone, case) of the report's first column in `progress.shares`: from the best single
  action and from the first one, one category after the other, until a round changes nothing. Of ordered actions those
  some places away are tried, nearer ones where none is better, and at last the neighbours;
- **the base alone**: no action is ever put in force;
- **tuned parameters**: those in `rules.law`, searched by CMA-ES with a constant action, which is searched too if it is
  continuous.

All are scored by the configuration's `objective` over the same links of its training distribution. Constants and
actions of a category race: one that is surely worse on some links does not run on the others. The score of a rule is
that of all links. A rule that cannot be found has a reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
STEPS = (4, 1)
"""Distances, in places of the ordered actions, at which each round over the categories starts to look for a better
action.
"""
ACTION = "action"
"""Name of a continuous action that is searched with the parameters of the law."""
FIRST = 8
"""Number of links after which candidates are first compared; then after twice as many, and so on."""
SURE = 3.0
"""Number of standard errors by which a candidate has to be worse to be dropped."""
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
    score = _Score(_trials(config, spec, threads), config.rules.links)

    kinds: list[Callable[[], Rule]] = [
        lambda: _constant(config, spec, score),
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
    found = _constant(config, spec, _Score(_trials(config, spec, threads), config.rules.links))
    return replace(found, params={**spec.values(config.params), **found.params})


def _trials(config: TrainConfig, spec: Spec, threads: int) -> Trials:
    """Returns the trials of a search, which measure nothing but rewards if these are the objective."""
    return Trials(config, spec, threads, measures=config.objective.name != "reward")


@dataclass(frozen=True)
class _OnLink:
    """Scores of a candidate on a link."""

    learners: NDArray[np.float64]
    """Score of each learner."""
    mean: float


class _Score:
    """Scores of candidates on the links.

    Each candidate runs on each link at most once, and a table of actions only where it does otherwise than those before
    it: on some links a flow never comes to some categories, whose actions then do not matter.
    """

    def __init__(self, trials: Trials, links: int) -> None:
        self._trials, self._links = trials, links
        self._known: dict[str, dict[int, _OnLink]] = {}
        """Scores by candidate and link."""
        self._tables: dict[tuple[int, str], list[tuple[list[tuple[int, Action]], _OnLink]]] = {}
        """Scores of tables by `_place`, each with the categories that it came to and their actions."""

    def __call__(self, candidates: Sequence[Candidate]) -> list[float]:
        """Returns the mean objective of each candidate over all links."""
        found = self._on(candidates, self._links)
        return [float(np.concatenate([link.learners for link in each]).mean()) for each in found]

    def by_link(self, candidates: Sequence[Candidate], links: int) -> NDArray[np.float64]:
        """Returns scores `[candidates, links]` on the first `links` links."""
        return np.array([[link.mean for link in each] for each in self._on(candidates, links)])

    def parts(self) -> Iterator[int]:
        """Yields the numbers of links after which candidates are compared, before all links have run."""
        return itertools.takewhile(lambda links: links < self._links, (FIRST << n for n in itertools.count()))

    def all_parts(self) -> Iterator[int]:
        """Yields `parts`, and the number of all links."""
        return itertools.chain(self.parts(), [self._links])

    def best(self, candidates: Sequence[Candidate]) -> tuple[int, float]:
        """Returns the index and the score of the best candidate.

        Candidates race (Maron and Moore 1994, Hoeffding races): after each part of the links, those that are surely
        worse than the leader run no further. All meet the same links, so that differences are judged link by link.
        """
        left = list(range(len(candidates)))
        for links in self.parts():
            if len(left) == 1:
                break
            scores = self.by_link([candidates[at] for at in left], links)
            behind = scores[scores.mean(axis=1).argmax()] - scores
            stays = behind.mean(axis=1) <= SURE * behind.std(axis=1, ddof=1) / math.sqrt(links)
            left = [at for at, each in zip(left, stays, strict=True) if each]
        scores_of_all = self([candidates[at] for at in left])
        best = int(np.argmax(scores_of_all))
        return left[best], scores_of_all[best]

    def _on(self, candidates: Sequence[Candidate], links: int) -> list[list[_OnLink]]:
        """Returns the scores of each candidate on the first `links` links, which are run if they are not known."""
        missing: dict[str, tuple[Candidate, list[int]]] = {}
        for candidate in candidates:
            known = self._known.setdefault(repr(candidate), {})
            for link in range(links):
                if link not in known and (same := self._same(candidate, link)) is not None:
                    known[link] = same
            if lacks := [link for link in range(links) if link not in known]:
                missing[repr(candidate)] = candidate, lacks
        given = list(missing.values())
        done = self._trials.run_each([each for each, _ in given], SEED, [lacks for _, lacks in given]) if given else []
        for (candidate, lacks), part in zip(given, done, strict=True):
            each_link = np.split(part.scores, np.cumsum(part.learners)[:-1])
            for link, learners, mean, taken in zip(lacks, each_link, part.by_trial, part.taken, strict=True):
                self._known[repr(candidate)][link] = on_link = _OnLink(learners, float(mean))
                if isinstance(candidate.answers, tuple):
                    actions = [(at, candidate.answers[1][at]) for at, came in enumerate(taken) if came]
                    self._tables.setdefault(_place(candidate, link), []).append((actions, on_link))
        return [[self._known[repr(each)][link] for link in range(links)] for each in candidates]

    def _same(self, candidate: Candidate, link: int) -> _OnLink | None:
        """Returns the scores of a table that did on this link what the candidate would do; None if there is none."""
        if not isinstance(candidate.answers, tuple):
            return None
        _, actions = candidate.answers
        known = self._tables.get(_place(candidate, link), ())
        return next((found for came, found in known if all(actions[at] == action for at, action in came)), None)


def _place(candidate: Candidate, link: int) -> tuple[int, str]:
    """Returns the link with what tables must have in common to be compared there."""
    assert isinstance(candidate.answers, tuple)
    return link, repr((candidate.answers[0], candidate.params))


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


def _always(config: TrainConfig, action: Action) -> Candidate:
    """Returns a constant action, where rules have categories as the table of it, whose runs other tables share."""
    column, categories = _categories(config)
    return Candidate((column, [action] * len(categories)) if categories else action)


def _categories(config: TrainConfig) -> tuple[str, list[str]]:
    """Returns the column by which rules choose actions, and its categories; none if the configuration names none."""
    return next(iter(config.progress.shares.items()), ("", []))


def _constant(config: TrainConfig, spec: Spec, score: _Score) -> Rule:
    tried = _actions(spec)
    best, value = score.best([_always(config, action) for action in tried])
    action = tried[best]
    if spec.bounds is not None:
        finer = _grid(_around(np.atleast_1d(action), np.atleast_2d(np.array(tried).T), spec.bounds))
        index, better = score.best([_always(config, between) for between in finer])
        action, value = (finer[index], better) if better > value else (action, value)
    return Rule("constant", f"{spec.name} {spec.action_name(action)} always", {"constant": action}, score=value)


def _around(action: NDArray[np.float64], tried: NDArray[np.float64], bounds: Bounds) -> Bounds:
    """Returns the bounds between the neighbours of `action` `[numbers]` among the values `[numbers, N]` tried."""
    found = []
    for number, values in zip(action, map(np.unique, tried), strict=True):
        at = int(np.searchsorted(values, number))
        found.append((float(values[max(at - 1, 0)]), float(values[min(at + 1, len(values) - 1)])))
    return tuple(found)


def _by_category(config: TrainConfig, spec: Spec, score: _Score, constant: Rule) -> Rule:
    column, categories = _categories(config)
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


def _occurring(spec: Spec, score: _Score, column: str, table: list[Action]) -> list[int]:
    """Returns the categories whose action matters: in others the largest and the smallest give exactly what `table`
    does.
    """
    low, *_, high = _actions(spec)
    same = list(range(len(table)))
    for links in score.all_parts():
        others = [[*table[:at], action, *table[at + 1 :]] for at in same for action in (low, high)]
        own, *changed = score.by_link([Candidate((column, each)) for each in (table, *others)], links)
        same = [at for n, at in enumerate(same) if all((each == own).all() for each in changed[2 * n : 2 * n + 2])]
    return [at for at in range(len(table)) if at not in same]


def _is_ordered(spec: Spec) -> bool:
    """Returns whether actions are numbers of one kind, in rising order."""
    if spec.bounds is not None:
        return spec.numbers == 1
    named = all(name == f"{value:g}" for name, value in zip(spec.action_names, spec.actions, strict=True))
    return named and all(low < high for low, high in itertools.pairwise(spec.actions))


def _near(actions: Sequence[Action], action: Action, width: int) -> list[Action]:
    """Returns the nearest of the actions, and those `width` places before and after it, or the ends."""
    at = int(np.abs(np.array(actions) - np.array(action)).argmin())
    return [actions[near] for near in sorted({max(at - width, 0), at, min(at + width, len(actions) - 1)})]


def _climb(
    spec: Spec, score: _Score, column: str, table: list[Action], occurring: Sequence[int]
) -> tuple[list[Action], float]:
    (value,) = score([Candidate((column, table))])
    actions, ordered = _actions(spec), _is_ordered(spec)
    for step in STEPS:
        before = list(table)
        for category in occurring:
            width = step
            while width:
                near = _near(actions, table[category], width) if ordered else actions
                tried = [[*table[:category], each, *table[category + 1 :]] for each in near]
                best, found = score.best([Candidate((column, each)) for each in tried])
                if found > value:
                    table, value = tried[best], found
                else:
                    width = width // 2 if ordered else 0
        if table == before:
            break
    return table, value


def _base(spec: Spec, score: _Score) -> Rule:
    first = spec.bases[0]
    if first == "none":
        return Rule("base", "the base alone", missing="the spec has no base: nothing moves without actions")
    (value,) = score([Candidate(None)])
    return Rule("base", f"{spec.name}'s base {first} alone", "none", score=value)


def _law(config: TrainConfig, spec: Spec, score: _Score, constant: Rule) -> Rule:
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
