"""The best rules without learning: found where they are known, on training links, and said to be missing elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from ccarena.configs import load_config
from ccarena.configs.schema import TrainConfig
from ccarena.envs.trials import Candidate, Trials
from ccarena.errors import ConfigError
from ccarena.eval.heldout import rules
from ccarena.eval.heldout.rules import Rule, search
from ccarena.policies.spec import spec_of

LINKS = {"constant": 1, "random_steps": 0, "cellular": 0, "trace": 0}


def record(scheme: str, **changes: Any) -> TrainConfig:
    keys = {"env.link.kinds": LINKS, "env.episode_s": 2, "env.cross_traffic.probability": 0, "rules.links": 3}
    keys |= {"env.link.rate_mbps": [10, 20], "env.link.rtt_ms": [20, 40], "env.link.loss": 0}
    return load_config(scheme, keys | {name.replace("__", "."): value for name, value in changes.items()})


def test_every_kind_of_rule_is_found() -> None:
    law = {"slack": [0, 50]}
    config = record("acct", env__link__signal=1, env__link__buffer_bdp=4, rules__law=law, rules__law_candidates=8)
    done: list[tuple[int, int]] = []
    constant, table, base, tuned = search(config, spec_of(config), 2, lambda *at: done.append(at))
    assert [rule.kind for rule in (constant, table, base, tuned)] == ["constant", "by category", "base", "law"]
    assert all(rule.found and rule.score is not None for rule in (constant, table, base, tuned))
    # What the reward asks for: much growth in Green, and little at the advertised rate.
    green, yellow, *_ = table.policy["actions"]
    assert table.policy["by"] == "zone" and green > yellow == 0
    assert table.score > constant.score >= base.score - 1e-9
    assert tuned.score >= constant.score
    assert constant.params == spec_of(config).params, "those that it was found with"
    assert "green " in table.label and base.policy == "none"
    assert done[-1] == (4, 4)
    assert Rule.of(table.as_dict()) == table


def test_an_action_is_sought_only_for_cases_in_which_the_learner_is_asked() -> None:
    config = record("hyvar", env__link__lossy=0, env__link__buffer_bdp=4, rules__law_candidates=4)
    _, table, *_ = search(config, spec_of(config), 2)
    assert "queue " in table.label
    assert "falling" not in table.label and "rising" not in table.label, "the base acts alone in these cases"


def test_a_continuous_action_is_searched_with_the_law() -> None:
    keys = {"env__link__lossy": 0, "rules__links": 4, "rules__law_candidates": 40}
    free, given = (
        search(record("hyvar", **keys, **more), spec_of(record("hyvar")), 2)
        for more in ({}, {"rules__law_action": -0.1})
    )
    constant, law = free[0], free[3]
    assert law.score > constant.score and law.policy["constant"] != constant.policy["constant"]
    assert given[3].policy["constant"] == -0.1


def test_what_cannot_be_searched_says_why() -> None:
    config = record("aurora")
    constant, table, base, tuned = search(config, spec_of(config), 2)
    assert constant.found
    assert "names no category" in table.missing
    assert "no base" in base.missing
    assert "no parameters of a law" in tuned.missing


def test_a_law_of_unknown_parameters_is_refused() -> None:
    config = record("acct", rules__law={"slak": None})
    with pytest.raises(ConfigError, match=r"rules\.law: unknown parameter"):
        search(config, spec_of(config), 2)


@dataclass(frozen=True)
class Part:
    """Scores on some links, of one learner each, and the categories that it came to."""

    scores: np.ndarray
    taken: list[list[bool]]

    @property
    def by_trial(self) -> np.ndarray:
        return self.scores

    @property
    def learners(self) -> np.ndarray:
        return np.ones(len(self.scores), int)


class Problem:
    """Generated trials over 15 actions in 4 categories: each link has its own best actions, weights and coupling of
    neighbouring categories, and half of the links are far noisier than the rest.
    """

    def __init__(self, seed: int, links: int) -> None:
        rng = np.random.default_rng(seed)
        best = rng.uniform(1, 13, 4)
        self.best = best + rng.normal(0, 2.0, (links, 4))
        self.weight = rng.uniform(0.2, 2.0, 4) * rng.lognormal(0, 0.7, (links, 1)) * rng.uniform(0, 1, (links, 4))
        self.coupling = rng.normal(0, 0.05, (links, 3))
        self.level = rng.normal(150.0, 30.0, links)
        self.rough = rng.uniform(0, 6.0, (links, 1)) * (rng.random((links, 1)) < 0.5)
        self.noise = rng.normal(0, 1, (links, 4, 15))
        self.runs = 0

    def scores(self, candidate: Candidate) -> np.ndarray:
        answers = candidate.answers
        table = np.array(answers[1] if isinstance(answers, tuple) else [answers] * 4, dtype=int)
        off = table - self.best
        loss = (self.weight * off**2).sum(axis=1) + (self.coupling * off[:, 1:] * off[:, :-1]).sum(axis=1)
        return self.level - loss + (self.rough * self.noise[:, range(4), table]).sum(axis=1)

    def run_each(self, candidates: Sequence[Candidate], seed: int, trials: Sequence[Sequence[int]]) -> list[Part]:
        self.runs += sum(map(len, trials))
        given = zip(candidates, trials, strict=True)
        return [Part(self.scores(each)[list(at)], [[True] * 4] * len(at)) for each, at in given]

    def exhaustive(self) -> float:
        """Returns the score of the best table of climbs that try every action on every link."""
        return max(self.climbed([start] * 4) for start in (self.constant(), 0))

    def constant(self) -> int:
        return int(np.argmax([self.scores(Candidate(float(action))).mean() for action in range(15)]))

    def climbed(self, table: list[int]) -> float:
        for _ in range(2):
            for category in range(4):
                tried = [[*table[:category], action, *table[category + 1 :]] for action in range(15)]
                table = max(tried, key=lambda each: self.scores(Candidate(("zone", each))).mean())
        return float(self.scores(Candidate(("zone", table))).mean())  # type: ignore[arg-type]


def test_the_search_finds_nearly_what_one_over_all_actions_and_links_finds() -> None:
    config = load_config("acct")
    spec, lost, exact = spec_of(config), [], 0
    for seed in range(20):
        problem = Problem(seed, 32)
        score = rules._Score(cast(Trials, problem), 32)
        constant = rules._constant(config, spec, score)
        table = rules._by_category(config, spec, score, constant)
        assert problem.runs <= 0.5 * 192 * 32, "half of what the default training's search over all ran"
        assert table.score == pytest.approx(problem.scores(table.candidate).mean()), "the score is that of all links"
        exact += constant.policy["constant"] == problem.constant()
        lost.append((problem.exhaustive() - table.score) / abs(problem.exhaustive()))
    assert exact == 20, "of constants all are tried, and the best is never dropped"
    assert max(lost) <= 0.01
    assert np.mean(lost) <= 0.001


def test_a_table_runs_only_where_it_does_otherwise_than_those_before() -> None:
    class TwoOfFour(Problem):
        """Flows come to the first two categories only, on odd links to the first alone."""

        def run_each(self, candidates: Sequence[Candidate], seed: int, trials: Sequence[Sequence[int]]) -> list[Part]:
            self.runs += sum(map(len, trials))
            return [self.part(each, list(at)) for each, at in zip(candidates, trials, strict=True)]

        def part(self, candidate: Candidate, at: list[int]) -> Part:
            _, (first, second, *_) = cast(tuple[str, list[int]], candidate.answers)
            came = [[True, link % 2 == 0, False, False] for link in at]
            return Part(np.array([100.0 * first + (second if link % 2 == 0 else 0) for link in at]), came)

    problem = TwoOfFour(0, 8)
    score = rules._Score(cast(Trials, problem), 8)
    runs = []
    for table in ([1, 2, 3, 4], [1, 2, 9, 9], [1, 5, 3, 4], [2, 2, 3, 4]):
        before = problem.runs
        (value,) = score([Candidate(("zone", [float(each) for each in table]))])
        assert value == 100 * table[0] + table[1] / 2
        runs.append(problem.runs - before)
    assert runs == [8, 0, 4, 8]


def test_a_race_finds_the_best_action_on_real_links_with_any_number_of_threads() -> None:
    config = record("acct", rules__links=20, env__link__signal=1)
    spec = spec_of(config)
    found = [[rule.as_dict() for rule in search(config, spec, threads)] for threads in (1, 3)]
    assert found[0] == found[1]
    every = Trials(config, spec, 2).run([Candidate(float(action)) for action in range(15)], rules.SEED, 20)
    scores = [each.score for each in every]
    assert found[0][0]["policy"]["constant"] == np.argmax(scores)
    assert found[0][0]["score"] == max(scores)
