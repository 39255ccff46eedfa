"""Gain of a policy over the best rules without learning, on links that neither has seen.

The score is the configuration's `objective` over a whole run. The gain over a rule is the mean difference of scores
over links and seeds, as a share of the rule's mean score. If the objective is a logarithm, it is a relative change. If
the rule's score is not surely positive, a share of it says nothing, and the gain is the difference itself. Its interval
(95 %) is a bootstrap over links, and over seeds within each link.

The policy is compared with the rule that does best on the tested links. It has to beat every other rule as surely,
since a rule with a slightly lower mean can have a wider interval.

The gain is also given for each kind of links: where all senders do well, little can be gained.

One training may be lucky. Several policies of one configuration, trained with other seeds, are therefore also compared
together, and the bootstrap then draws trainings, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.rules import Rule
from ccarena.policies.answers import DRAWS, Answer, compared, said, simple_rule

__all__ = ["Beside", "Gain", "Part", "Trainings", "bootstrap", "gain_of", "over_trainings"]

RESAMPLES = 2000

Floats = NDArray[np.float64]
Rows = dict[str, list[Mapping[str, Any]]]
"""Scores of one scheme by link; a row per seed."""


@dataclass(frozen=True)
class Beside:
    """Rule, or the policy itself, on the tested links."""

    label: str
    kind: str
    trained: float | None = None
    """Mean score on training links, where the rule was found."""
    score: float = math.nan
    """Mean score on the tested links."""
    gain: float = math.nan
    """Gain of the policy over the rule; 0.07 is 7 %, unless it is not `relative`."""
    low: float = math.nan
    high: float = math.nan
    """Ends of the gain's interval."""
    throughput_mbps: float = math.nan
    signal_delay_to_end_p95_ms: float = math.nan
    missing: str = ""
    """Reason if there is no such rule."""
    numbers: int = 0
    """Number of actions that the rule consists of; 0 if it has others than actions, too."""
    relative: bool = True
    """True if the gain is a share of the rule's score; else it is the difference of the scores."""

    @property
    def said(self) -> str:
        """Returns the gain and its interval in words."""
        return said(self.gain, self.low, self.high, self.relative) if math.isfinite(self.gain) else self.missing


@dataclass(frozen=True)
class Part:
    """Gain of the policy over the deciding rule, on the links of one set alone."""

    link_set: str
    links: int
    gain: float
    low: float
    high: float
    throughput: float
    """Ratio of the policy's mean throughput to the rule's."""
    signal_delay_p95: float
    """Ratio of the policy's mean signal delay to the rule's."""
    relative: bool = True
    """True if the gain is a share of the rule's score, as `Beside.relative`."""

    @property
    def said(self) -> str:
        """Returns the gain and its interval in words."""
        return said(self.gain, self.low, self.high, self.relative)


class Estimate(NamedTuple):
    """Gain and its interval."""

    gain: float
    low: float
    high: float
    relative: bool
    """True if the gain is a share of the rule's score."""


@dataclass(frozen=True)
class Gain:
    """Comparison of a policy with the rules."""

    policy: Beside
    rules: list[Beside]
    objective: str
    """Objective that gives the scores."""
    links: int
    seeds: int
    notes: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    """Parts by link set; empty if there is only one."""

    @property
    def best(self) -> Beside | None:
        """Returns the deciding rule; None if no rule was found.

        It is the best on the tested links among the rules that the policy does not beat by more than the interval, or
        among all if it beats all.
        """
        return _deciding(self.rules)

    @property
    def better(self) -> bool:
        """Returns whether the policy beats every rule by more than the interval."""
        return self.best is not None and self.best.low > 0

    @property
    def tested(self) -> str:
        """Returns the numbers of links and of seeds in words."""
        return ", ".join(f"{n} {of}{'' if n == 1 else 's'}" for n, of in ((self.links, "link"), (self.seeds, "seed")))

    @property
    def answer(self) -> Answer:
        """Returns the answer to *Could a simple rule do it?*"""
        return simple_rule(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return {"better": self.better, "best": self.best and asdict(self.best), **asdict(self)}


@dataclass(frozen=True)
class Trainings:
    """Comparison of several trainings of one configuration with its rules on the tested links."""

    config: str
    seeds: list[int]
    """Seeds of the trainings."""
    best: Beside
    """Deciding rule, as `Gain.best`."""
    rules: list[Beside]
    parts: list[Part]
    """Parts by link set; empty if there is only one."""

    @property
    def answer(self) -> Answer:
        """Returns the answer to *Could a simple rule do it?*"""
        return compared(asdict(self.best), [asdict(rule) for rule in self.rules], len(self.seeds), "trainings")

    @property
    def line(self) -> str:
        """Returns the answer with the number of trainings."""
        count = len(self.seeds)
        return self.answer.sentence + (f"; {count} trainings" if count >= DRAWS else "")


def _deciding(rules: Sequence[Beside]) -> Beside | None:
    found = [rule for rule in rules if math.isfinite(rule.score)]
    unbeaten = [rule for rule in found if not rule.low > 0]
    return max(unbeaten or found, key=lambda rule: rule.score, default=None)


def over_trainings(result: Evaluation) -> list[Trainings]:
    """Returns the common gain over the best rule for each configuration with several evaluated policies."""
    about = [each for each in result.meta.get("policies", []) if each["rules"]]
    out = []
    for config in dict.fromkeys(each["record"] for each in about):
        policies = [each for each in about if each["record"] == config]
        if len(policies) < 2:
            continue
        labels = [each["scheme"] for each in policies]
        scores = [_scores(result, label) for label in labels]
        if any(label not in each for each, label in zip(scores, labels, strict=True)):
            continue
        ours = [each[label] for each, label in zip(scores, labels, strict=True)]
        logarithmic = bool(policies[0]["logarithmic"])
        found = []
        for rule in (Rule.of(each) for each in policies[0]["rules"]):
            # Trainings search on the same links and find the same rules, if they have the same parameters.
            if not rule.found or any(rule.label not in each for each in scores):
                continue
            theirs = [each[rule.label] for each in scores]
            estimate = _interval(ours, theirs, logarithmic)
            score = float(np.mean([_table(each).mean() for each in theirs]))
            found.append(Beside(rule.label, rule.kind, rule.score, score, numbers=rule.numbers, **estimate._asdict()))
        best = _deciding(found)
        if best is not None:
            parts = _parts(ours, [each[best.label] for each in scores], logarithmic)
            out.append(Trainings(config, [int(each["policy_seed"]) for each in policies], best, found, parts))
    return out


def _parts(ours: Sequence[Rows], theirs: Sequence[Rows], logarithmic: bool) -> list[Part]:
    """Returns the gain on each set of links; `ours` and `theirs` hold an entry per training."""
    sets = list(dict.fromkeys(rows[0]["link_set"] for rows in ours[0].values()))
    out = []
    for name in sets if len(sets) > 1 else []:
        mine, its = (
            [{link: rows for link, rows in each.items() if rows[0]["link_set"] == name} for each in side]
            for side in (ours, theirs)
        )
        estimate = _interval(mine, its, logarithmic)
        throughput, delay = (_ratio(mine, its, figure) for figure in ("throughput_mbps", "signal_delay_to_end_p95_ms"))
        out.append(Part(name, len(mine[0]), *estimate[:3], throughput, delay, estimate.relative))
    return out


def _ratio(ours: Sequence[Rows], theirs: Sequence[Rows], figure: str) -> float:
    """Returns the ratio of the means over trainings and links; NaN without values."""
    above, below = (float(np.mean([_means(each)[figure] for each in side])) for side in (ours, theirs))
    return above / below if below > 0 else math.nan


def _scores(result: Evaluation, policy: str) -> dict[str, Rows]:
    """Returns the scores of the policy and its rules, by scheme and link, without links that replace recordings."""
    scores: dict[str, Rows] = {}
    for row in (row for row in result.scores if row["policy"] == policy and not row.get("synthetic")):
        scores.setdefault(row["scheme"], {}).setdefault(f"{row['link_set']}: {row['link']}", []).append(row)
    return scores


def _interval(ours: Sequence[Rows], theirs: Sequence[Rows], logarithmic: bool) -> Estimate:
    """Returns the gain of one training or of several together."""
    if len(ours) > 1:
        mine, its = (np.stack([_table(each) for each in side]) for side in (ours, theirs))
        return _bootstrap_trainings(mine, its, logarithmic)
    links = list(ours[0])
    of_ours, of_theirs = (
        [np.array([row["score"] for row in side[0][link]]) for link in links] for side in (ours, theirs)
    )
    return bootstrap(of_ours, of_theirs, logarithmic)


def _table(rows: Rows) -> Floats:
    """Returns `[links, seeds]` scores; a link of fewer seeds repeats them."""
    most = max(len(each) for each in rows.values())
    return np.stack([np.resize([row["score"] for row in each], most) for each in rows.values()])


def _bootstrap_trainings(ours: Floats, theirs: Floats, logarithmic: bool) -> Estimate:
    """Returns the gain from scores `[trainings, links, seeds]`, drawing each of the three anew."""
    rng = np.random.Generator(np.random.PCG64(0))
    trainings, links, seeds = ours.shape
    drawn = np.empty((2, RESAMPLES))
    for at in range(RESAMPLES):
        chosen = np.ix_(*(rng.integers(0, count, count) for count in (trainings, links, seeds)))
        drawn[:, at] = ours[chosen].mean(), theirs[chosen].mean()
    return _estimate(float(ours.mean()), float(theirs.mean()), drawn[0], drawn[1], logarithmic)


def bootstrap(ours: Sequence[Floats], theirs: Sequence[Floats], logarithmic: bool, seed: int = 0) -> Estimate:
    """Returns the gain from scores per link, `[seeds]` each, of the same links and seeds in the same order."""
    rng = np.random.Generator(np.random.PCG64(seed))
    most = max(len(scores) for scores in ours)
    links = rng.integers(0, len(ours), (RESAMPLES, len(ours)))
    counts = np.array([len(scores) for scores in ours])
    repeats = rng.integers(0, 1 << 30, (RESAMPLES, len(ours), most)) % counts[links][:, :, None]
    padded = [np.stack([np.resize(scores, most) for scores in each]) for each in (ours, theirs)]
    # A link of fewer seeds repeats them: its mean is over as many draws as another's.
    drawn = [each[links[:, :, None], repeats].mean(axis=(1, 2)) for each in padded]
    means = [float(np.mean([scores.mean() for scores in each])) for each in (ours, theirs)]
    return _estimate(means[0], means[1], drawn[0], drawn[1], logarithmic)


def _estimate(ours: float, theirs: float, drawn: Floats, theirs_drawn: Floats, logarithmic: bool) -> Estimate:
    """Returns the gain of the mean score `ours` over `theirs`, with its interval from drawn means of both."""
    relative = logarithmic or bool(np.quantile(theirs_drawn, 0.025) > 0)
    a, b = np.append(drawn, ours), np.append(theirs_drawn, theirs)
    gains = np.expm1(a - b) if logarithmic else a - b
    if relative and not logarithmic:
        gains = gains / np.maximum(np.abs(b), 1e-12)
    low, high = np.quantile(gains[:-1], [0.025, 0.975])
    return Estimate(float(gains[-1]), float(low), float(high), relative)


def gain_of(result: Evaluation) -> Gain | None:
    """Returns the comparison from an evaluation's scores; None without a policy or without scores."""
    if not result.policy or not result.scores:
        return None
    meta = result.meta
    rules = [Rule.of(each) for each in meta.get("rules", [])]
    scores = _scores(result, result.policy)
    if result.policy not in scores:
        return None
    ours = scores[result.policy]
    seeds = int(meta.get("seeds", 1))
    logarithmic = bool(meta.get("logarithmic"))
    beside = []
    for rule in rules:
        if not rule.found or rule.label not in scores:
            missing = rule.missing or "it was not run"
            beside.append(Beside(rule.label, rule.kind, rule.score, missing=missing))
            continue
        theirs = scores[rule.label]
        estimate = _interval([ours], [theirs], logarithmic)
        about = {"trained": rule.score, "numbers": rule.numbers, **_means(theirs)}
        beside.append(Beside(rule.label, rule.kind, **estimate._asdict(), **about))
    policy = Beside(result.policy, "policy", gain=0.0, low=0.0, high=0.0, **_means(ours))
    best = _deciding(beside)
    parts = [] if best is None else _parts([ours], [scores[best.label]], logarithmic)
    notes = [
        f"on {each.link_set} links {best.label} does better: {each.said}" for each in parts if best and each.high < 0
    ]
    return Gain(policy, beside, str(meta.get("objective", "")), len(ours), seeds, notes, parts)


def _means(rows: Rows) -> dict[str, Any]:
    """Returns means over links of the means over seeds."""
    return {
        figure: float(np.mean([np.mean([row[figure] for row in each]) for each in rows.values()]))
        for figure in ("score", "throughput_mbps", "signal_delay_to_end_p95_ms")
    }
