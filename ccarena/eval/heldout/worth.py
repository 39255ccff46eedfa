"""Whether a policy is worth its network: its score beside those of the best rules without learning, on links that
neither saw.

The score is the record's `objective` over a whole run. The gain over a rule is the mean difference of scores over links
and seeds, as a share of the rule's mean score, or as a relative change where the objective is a logarithm. Its interval
(95 %) is a bootstrap over links, and over seeds within each link. The policy is held against the rule that does best on
the very links of the test, and has to beat every other one as surely: a rule that does a little worse on the mean, but
otherwise than the policy, may leave more to chance.

One training may be lucky: several policies of one record, trained with other seeds, are also held against the rules
together, and the bootstrap then draws trainings, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.rules import Rule

__all__ = ["Beside", "Trainings", "Worth", "bootstrap", "over_trainings", "worth_of"]

RESAMPLES = 2000
LEAST_SEEDS = 5
"""Of a test whose interval is believed."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beside:
    """A rule, or the policy itself, on the tested links."""

    label: str
    kind: str
    trained: float | None = None
    """Mean score on training links, where the rule was found."""
    score: float = math.nan
    """Mean score on the tested links."""
    gain: float = math.nan
    """Of the policy over it; 0.07 is 7 %."""
    low: float = math.nan
    high: float = math.nan
    """Ends of the gain's interval."""
    throughput_mbps: float = math.nan
    signal_delay_p95_ms: float = math.nan
    missing: str = ""
    """Why there is no such rule."""

    @property
    def said(self) -> str:
        """The gain and its interval in words."""
        if not math.isfinite(self.gain):
            return self.missing
        digits = 1 if max(abs(self.gain), abs(self.low), abs(self.high)) < 0.1 else 0
        gain, low, high = (round(100.0 * value, digits) + 0.0 for value in (self.gain, self.low, self.high))
        return f"{gain:+.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}]".replace("-", "−")


@dataclass(frozen=True)
class Worth:
    """The comparison."""

    policy: Beside
    rules: list[Beside]
    objective: str
    """By which scores are computed."""
    links: int
    seeds: int
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Beside | None:
        """The rule that decides: the best on the tested links, of those that the policy does not beat by more than the
        interval if there are any; None if no rule was found."""
        return _deciding(self.rules)

    @property
    def better(self) -> bool:
        """Whether the policy beats every rule by more than the interval."""
        return self.best is not None and self.best.low > 0

    @property
    def line(self) -> str:
        """The verdict in words."""
        if self.best is None:
            return "not compared with rules: " + "; ".join(f"{rule.kind}: {rule.missing}" for rule in self.rules)
        return _line(self.best, self.rules)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"line": self.line, "better": self.better, "best": self.best and asdict(self.best), **asdict(self)}


@dataclass(frozen=True)
class Trainings:
    """Several trainings of one record beside its rules on the tested links."""

    record: str
    seeds: list[int]
    """Of the trainings."""
    best: Beside
    """The rule that decides, as `Worth.best`."""
    rules: list[Beside]

    @property
    def line(self) -> str:
        """The verdict in words."""
        few = "" if len(self.seeds) >= LEAST_SEEDS else f"; an interval is believed from {LEAST_SEEDS} trainings on"
        return f"{_line(self.best, self.rules)}, {len(self.seeds)} trainings{few}"


def _deciding(rules: Sequence[Beside]) -> Beside | None:
    found = [rule for rule in rules if math.isfinite(rule.score)]
    unbeaten = [rule for rule in found if not rule.low > 0]
    return max(unbeaten or found, key=lambda rule: rule.score, default=None)


def _line(rule: Beside, rules: Sequence[Beside]) -> str:
    """What `rule`, which decides among `rules`, says of the policy."""
    if rule.low > 0:
        return f"{rule.said} over the best rule ({rule.label})"
    is_best = rule.score >= max(each.score for each in rules if math.isfinite(each.score))
    which = "the best rule" if is_best else "a rule that does worse on the mean, but not surely worse than the policy"
    return f"not worth its network: {rule.said} against {which} ({rule.label})"


def over_trainings(result: Evaluation) -> list[Trainings]:
    """For each record of which several policies were evaluated: what they gain together over the best rule."""
    about = [each for each in result.meta.get("policies", []) if each["rules"]]
    out = []
    for record in dict.fromkeys(each["record"] for each in about):
        policies = [each for each in about if each["record"] == record]
        if len(policies) < 2:
            continue
        labels = [each["scheme"] for each in policies]
        scores = [_scores(result, label) for label in labels]
        found = []
        for rule in (Rule.of(each) for each in policies[0]["rules"]):
            # Trainings search on the same links and find the same rules, if they have the same parameters.
            if not rule.found or any(rule.label not in each for each in scores):
                continue
            ours, theirs = (
                np.stack([_table(each[name]) for each, name in zip(scores, names, strict=True)])
                for names in (labels, [rule.label] * len(labels))
            )
            gain, low, high = _bootstrap_trainings(ours, theirs, bool(policies[0]["logarithmic"]))
            found.append(Beside(rule.label, rule.kind, rule.score, float(theirs.mean()), gain, low, high))
        best = _deciding(found)
        if best is not None:
            out.append(Trainings(record, [int(each["policy_seed"]) for each in policies], best, found))
    return out


def _scores(result: Evaluation, policy: str) -> dict[str, dict[str, list[Mapping[str, Any]]]]:
    """Rows of the policy's and its rules' scores, by scheme and link."""
    scores: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in (row for row in result.scores if row["policy"] == policy):
        scores.setdefault(row["scheme"], {}).setdefault(f"{row['link_set']}: {row['link']}", []).append(row)
    return scores


def _table(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Floats:
    """`[links, seeds]` scores; a link of fewer seeds repeats them."""
    most = max(len(each) for each in rows.values())
    return np.stack([np.resize([row["score"] for row in each], most) for each in rows.values()])


def _bootstrap_trainings(ours: Floats, theirs: Floats, logarithmic: bool) -> tuple[float, float, float]:
    """(gain, low, high) from scores `[trainings, links, seeds]`, drawing each of the three anew."""
    rng = np.random.Generator(np.random.PCG64(0))
    trainings, links, seeds = ours.shape
    drawn = np.empty((2, RESAMPLES))
    for at in range(RESAMPLES):
        chosen = np.ix_(*(rng.integers(0, count, count) for count in (trainings, links, seeds)))
        drawn[:, at] = ours[chosen].mean(), theirs[chosen].mean()
    low, high = np.quantile(_gain(drawn[0], drawn[1], logarithmic), [0.025, 0.975])
    return float(_gain(ours.mean(), theirs.mean(), logarithmic)), float(low), float(high)


def bootstrap(
    ours: Sequence[Floats], theirs: Sequence[Floats], logarithmic: bool, seed: int = 0
) -> tuple[float, float, float]:
    """(gain, low, high) from scores per link, `[seeds]` each, of the same links and seeds in the same order."""
    rng = np.random.Generator(np.random.PCG64(seed))
    most = max(len(scores) for scores in ours)
    links = rng.integers(0, len(ours), (RESAMPLES, len(ours)))
    counts = np.array([len(scores) for scores in ours])
    repeats = rng.integers(0, 1 << 30, (RESAMPLES, len(ours), most)) % counts[links][:, :, None]
    padded = [np.stack([np.resize(scores, most) for scores in each]) for each in (ours, theirs)]
    # A link of fewer seeds repeats them: its mean is over as many draws as another's.
    drawn = [each[links[:, :, None], repeats].mean(axis=(1, 2)) for each in padded]
    gains = _gain(drawn[0], drawn[1], logarithmic)
    means = [np.array([np.mean([scores.mean() for scores in each])]) for each in (ours, theirs)]
    low, high = np.quantile(gains, [0.025, 0.975])
    return float(_gain(means[0], means[1], logarithmic)[0]), float(low), float(high)


def _gain(ours: Floats, theirs: Floats, logarithmic: bool) -> Floats:
    if logarithmic:
        return np.expm1(ours - theirs)
    return (ours - theirs) / np.maximum(np.abs(theirs), 1e-12)


def worth_of(result: Evaluation) -> Worth | None:
    """The comparison from an evaluation's scores; None if there is no policy, or nothing was scored."""
    if not result.policy or not result.scores:
        return None
    meta = result.meta
    rules = [Rule.of(each) for each in meta.get("rules", [])]
    scores = _scores(result, result.policy)
    if result.policy not in scores:
        return None
    ours = scores[result.policy]
    seeds = int(meta.get("seeds", 1))
    notes = []
    if seeds < LEAST_SEEDS:
        notes.append(f"the interval over the best rule is of {seeds} seeds; expected {LEAST_SEEDS} or more")
    beside = []
    for rule in rules:
        if not rule.found or rule.label not in scores:
            missing = rule.missing or "it was not run"
            beside.append(Beside(rule.label, rule.kind, rule.score, missing=missing))
            continue
        theirs = scores[rule.label]
        pairs = [[np.array([row["score"] for row in each[link]]) for link in ours] for each in (ours, theirs)]
        gain, low, high = bootstrap(pairs[0], pairs[1], bool(meta.get("logarithmic")))
        trained = rule.score
        beside.append(Beside(rule.label, rule.kind, trained=trained, gain=gain, low=low, high=high, **_means(theirs)))
    policy = Beside(result.policy, "policy", gain=0.0, low=0.0, high=0.0, **_means(ours))
    return Worth(policy, beside, str(meta.get("objective", "")), len(ours), seeds, notes)


def _means(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Means over links of the means over seeds."""
    return {
        figure: float(np.mean([np.mean([row[figure] for row in each]) for each in rows.values()]))
        for figure in ("score", "throughput_mbps", "signal_delay_p95_ms")
    }
