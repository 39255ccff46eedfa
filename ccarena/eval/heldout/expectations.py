"""Expectations of a policy's configuration, their outcome, and the verdict with its two answers.

Each expectation is shown beside a baseline's figure and that of a controller that knows capacity one RTT late
(`oracle`). A reader sees which part of a miss is physically unavoidable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ccarena.configs.schema import ExpectationConfig
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.heldout.evaluation import ORACLE, Evaluation
from ccarena.eval.heldout.gain import Gain, gain_of
from ccarena.eval.heldout.links import TRACES
from ccarena.eval.measure.figure_text import show
from ccarena.eval.measure.table import FIGURES
from ccarena.policies.answers import NOT_RISEN, RECORDINGS, Answer, learned, of_several, simple_rule
from ccarena.traces.given import BUFFERS_PACKETS, DELAYS_MS

__all__ = ["Expectation", "State", "Verdict", "check_figures", "judge", "together"]

State = Literal["holds", "does not hold", "not tested"]
"""State of an expectation. It is "not tested" if its links were not run, have no valid run, or are synthetic."""

COLLAPSED_NATS = 0.02
"""Entropy below which a choice among actions is certain in practice; ln n is uniform over n of them."""
CONSTANT_SHARE = 0.99
"""Share of one action in all decisions above which the policy is called constant."""
VISITED = 10
"""Number of decisions from which a category counts as visited."""
EXPECTED_OF = (*FIGURES, "decisions", "reward_mean")
"""Figures of a run, or of its decisions, that an expectation may name."""
CELLULAR = "cellular"
"""Link set of the recorded cellular links."""
_BASE_RTTS_MS = tuple(2 * delay_ms for delay_ms in DELAYS_MS)
MARGIN = 0.005
"""Relative margin by which a constant has to be better in one judged figure to count as better."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Expectation:
    """Claim with its target and measured values, in words, beside those of others.

    `constant` is the best constant action of the scheme, `Verdict.constant`, which shows the reach of its base.
    """

    group: str
    claim: str
    target: str
    measured: str
    state: State
    baseline: str
    constant: str
    oracle: str
    detail: str
    values: dict[str, float] = field(default_factory=dict)
    needs: str = ""
    """Reason why it was not tested: `recordings` if generated links replaced them; empty for all others."""


@dataclass(frozen=True)
class Verdict:
    """Verdict: the expectations, all other faults, and the answers to two questions."""

    expectations: list[Expectation]
    faults: list[str]
    notes: list[str]
    baseline: str = "cubic"
    """Label of the scheme whose figures `Expectation.baseline` are."""
    constant: str = ""
    """Label of the constant action whose figures `Expectation.constant` are; empty if the configuration has none."""
    gain: Gain | None = None
    """Comparison with the best rules without learning; None if there was none."""
    is_rule: bool = False
    """Nothing is learned in the policy: it follows a rule (`ccarena policy rule`)."""
    several: dict[str, Verdict] = field(default_factory=dict)
    """Verdicts of each policy by label, if this one combines several."""

    @property
    def learned(self) -> Answer:
        """Returns the answer to *Did it learn?* Expectations that were not tested have no influence."""
        return learned([asdict(each) for each in self.expectations], self.faults, self.is_rule)

    @property
    def simple_rule(self) -> Answer:
        """Returns the answer to *Could a simple rule do it?*"""
        if self.several:
            return of_several({label: each.simple_rule for label, each in self.several.items()})
        return simple_rule(None if self.gain is None else self.gain.as_dict(), self.is_rule, self.faults)

    @property
    def answers(self) -> tuple[Answer, Answer]:
        """Returns both answers, in the order in which they are shown."""
        return self.learned, self.simple_rule

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        answers = {"learned": self.learned.as_dict(), "simple_rule": self.simple_rule.as_dict()}
        several = {label: each.as_dict() for label, each in self.several.items()}
        return {**answers, **asdict(self), "gain": self.gain and self.gain.as_dict(), "several": several}


def check_figures(expectations: Sequence[ExpectationConfig]) -> None:
    """Raises ConfigError for an expectation of a figure that no run has."""
    for index, expectation in enumerate(expectations):
        for name in expectation.figures:
            if name not in EXPECTED_OF:
                hint = did_you_mean(name, EXPECTED_OF)
                raise ConfigError(f'expectations[{index}].figures: there is no figure "{name}"{hint}')


def judge(result: Evaluation, training: Sequence[Row] = ()) -> Verdict:
    """Compares an evaluation with the expectations in its `meta`, and checks the training's progress for faults.

    `training` are the lines of `progress.jsonl`, oldest first. An expectation whose links were not run is included as
    not tested.
    """
    expected = [ExpectationConfig.model_validate(each) for each in result.meta.get("expectations", [])]
    constants: list[str] = result.meta.get("constants", [])
    constant = constants[0] if constants else ""
    claims = [
        _Claim(result, group, each, constant) for each in expected for group in _groups(result, each) if result.policy
    ]
    expectations = [claim.judged() for claim in claims]
    expectations += [_not_run(result, each) for each in expected if result.policy and not _groups(result, each)]
    notes, faults = list(result.warnings), []
    if result.policy and result.valid_rows():
        faults = _policy_faults(result) + _training_faults(training, result)
    tested = [claim for claim in claims if not claim.generated()]
    for label in constants:
        beaten = [claim.group for claim in tested if claim.no_worse(label)]
        notes += [f"{group}: {label} always does better than the policy" for group in dict.fromkeys(beaten)]
        if tested and len(beaten) == len(tested):
            faults.append(f"learning brought nothing: {label} always does better on every kind of link")
    gain = gain_of(result)
    notes += [] if gain is None else gain.notes
    if seen := result.meta.get("tested_in_training"):
        notes.append(f"not held out: {result.policy}: training drew from {', '.join(seen)}, or what was fitted to it")
    baseline = next((each.relative_to for each in expected if each.relative_to), "cubic")
    is_rule = bool(result.meta.get("rule"))
    return Verdict(expectations, faults, notes, baseline, f"{constant} always" if constant else "", gain, is_rule)


def together(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Combines the verdicts of several policies: each claim, fault and note names its policy, by label."""
    if len(verdicts) == 1:
        return next(iter(verdicts.values()))
    named = [
        replace(each, group=f"{label}, {each.group}", claim=f"{label}: {each.claim}")
        for label, verdict in verdicts.items()
        for each in verdict.expectations
    ]
    faults = [f"{label}: {fault}" for label, verdict in verdicts.items() for fault in verdict.faults]
    notes = list(dict.fromkeys(note for verdict in verdicts.values() for note in verdict.notes))
    first = next(iter(verdicts.values()))
    return Verdict(named, faults, notes, first.baseline, first.constant, several=dict(verdicts))


def _groups(result: Evaluation, expected: ExpectationConfig) -> list[str]:
    """Returns the groups of links that an expectation is about, and for which the policy has rows."""
    groups = []
    for group in result.groups():
        rows = result.of(group, result.policy)
        # What is expected of recorded cellular links is expected of the traces that a user names, if the links are as
        # those.
        if rows and (CELLULAR if _as_cellular(rows[0]) else rows[0]["link_set"]) in expected.links:
            groups.append(group)
    return groups


def _as_cellular(row: Row) -> bool:
    """Returns whether a run was over a user's trace with the delay and a buffer of the recorded cellular links."""
    base_rtt_ms, buffer = row.get("base_rtt_ms"), row.get("buffer_packets")
    return bool(row["link_set"] == TRACES and base_rtt_ms in _BASE_RTTS_MS and buffer in BUFFERS_PACKETS)


def _not_run(result: Evaluation, expected: ExpectationConfig) -> Expectation:
    claim = _Claim(result, ", ".join(expected.links), expected, "")
    return Expectation(claim.group, expected.claim, claim.target(), "not run", "not tested", "", "", "", "")


class _Claim:
    """Expectation over one group of links."""

    def __init__(self, result: Evaluation, group: str, expected: ExpectationConfig, constant: str) -> None:
        self._result, self.group, self._expected, self._constant = result, group, expected, constant
        self._signs = {name: 1.0 if t.at_least is not None else -1.0 for name, t in expected.figures.items()}

    def judged(self) -> Expectation:
        """Returns the measured values, and whether the claim holds."""
        expected, ours = self._expected, self._of(self._result.policy)
        if ours is None:
            measured = "no link has a valid run of both" if expected.relative_to else "no valid run"
            return Expectation(self.group, expected.claim, self.target(), measured, "not tested", "", "", "", "")
        suffix = "_ratio" if expected.relative_to else ""
        baseline = expected.relative_to or "cubic"
        return Expectation(
            self.group,
            expected.claim,
            self.target(),
            self._say(ours) + (" (generated links)" if self.generated() else ""),
            self._state(ours),
            baseline=self._absolute(baseline),
            constant=self._said(self._constant) if self._constant else "",
            oracle=self._said(ORACLE),
            detail=self._detail(),
            values={name + suffix: value for name, value in ours.items()},
            needs=RECORDINGS if self.generated() else "",
        )

    def _state(self, ours: Mapping[str, float]) -> State:
        if self.generated():
            return "not tested"
        return "holds" if all(self._holds(name, value) for name, value in ours.items()) else "does not hold"

    def generated(self) -> bool:
        """Returns whether generated links replace the recorded traces that the expectation is about."""
        return any(row.get("synthetic") for row in self._result.of(self.group, self._result.policy))

    def no_worse(self, label: str) -> bool:
        """Returns whether `label` beats the policy: no worse in any figure, and better in one of them."""
        ours, theirs = self._of(self._result.policy), self._of(label)
        if ours is None or theirs is None:
            return False
        gains = [self._signs[name] * (theirs[name] - ours[name]) for name in ours]
        scales = [MARGIN * max(abs(ours[name]), 1e-9) for name in ours]
        return all(gain >= 0 for gain in gains) and any(g > s for g, s in zip(gains, scales, strict=True))

    def _of(self, scheme: str) -> dict[str, float] | None:
        """Returns the figures of `scheme`: means over runs, or medians over links of ratios to the baseline. None: no
        run.

        A figure is NaN if it is never measured for the scheme, such as the oracle's signal delay.
        """
        rows = self._result.of(self.group, scheme)
        if rows and not all(any(name in row for row in rows) for name in self._signs):
            return dict.fromkeys(self._signs, math.nan)
        if self._expected.relative_to is None:
            chosen = [row for row in rows if row.get("gain", 1.0) == 1.0]
            return {name: _mean(chosen, name) for name in self._signs} if chosen else None
        points = [point for _, _, point in self._ratios(scheme)]
        if not points:
            return None
        return {name: _median([point[name] for point in points]) for name in self._signs}

    def _ratios(self, scheme: str) -> list[tuple[str, float, dict[str, float]]]:
        """Returns (link, gain, ratios of the scheme's means over seeds to the baseline's) for links with a valid run of
        the baseline.

        Of the oracle's gains, the least one that meets the floors counts: the physical limit at that throughput.
        """
        base = _by_link(self._result.of(self.group, str(self._expected.relative_to)))
        out = []
        for link, rows in _by_link(self._result.of(self.group, scheme)).items():
            if link not in base:
                continue
            gains = sorted({row.get("gain", 1.0) for row in rows})
            points = [
                (gain, self._ratio([row for row in rows if row.get("gain", 1.0) == gain], base[link])) for gain in gains
            ]
            floors = [name for name, sign in self._signs.items() if sign > 0]
            enough = (each for each in points if floors and all(self._holds(name, each[1][name]) for name in floors))
            gain, point = next(enough, points[-1] if floors else points[0])
            if not any(math.isnan(value) for value in point.values()):
                out.append((link, gain, point))
        return out

    def _ratio(self, ours: Sequence[Row], base: Sequence[Row]) -> dict[str, float]:
        """Returns ratios over the seeds in which the baseline has every figure; infinitely bad if nothing was
        delivered.
        """
        known = {row["seed"] for row in base if all(_finite(row.get(name)) for name in self._signs)}
        seeds = known & {row["seed"] for row in ours}

        def mean(rows: Sequence[Row], name: str) -> float:
            worst = 0.0 if self._signs[name] > 0 else math.inf
            values = [row[name] if _finite(row.get(name)) else worst for row in rows if row["seed"] in seeds]
            return float(np.mean(values)) if values else math.nan

        return {n: mean(ours, n) / below if (below := mean(base, n)) > 0 else math.nan for n in self._signs}

    def _holds(self, name: str, value: float) -> bool:
        target = self._expected.figures[name]
        if target.at_least is not None:
            return value >= target.at_least
        return target.at_most is not None and value <= target.at_most

    def target(self) -> str:
        """Returns the target, in words."""
        bounds = []
        for name, target in self._expected.figures.items():
            bound = f"≥ {self._number(name, target.at_least)}" if target.at_least is not None else ""
            bound = f"≤ {self._number(name, target.at_most)}" if target.at_most is not None else bound
            bounds.append(f"{_title(name)} {bound}")
        relative = self._expected.relative_to
        return ", ".join(bounds) + (f" of {relative}'s (median link)" if relative else "")

    def _say(self, values: Mapping[str, float]) -> str:
        said = ", ".join(f"{_title(name)} {self._number(name, value)}" for name, value in values.items())
        return said + (f" of {self._expected.relative_to}'s" if self._expected.relative_to else "")

    def _said(self, scheme: str) -> str:
        values = self._of(scheme)
        if values is None:
            return "not run" if scheme != ORACLE else ""
        if any(math.isnan(value) for value in values.values()):
            return ""
        return self._say(values) + (self._operating_point() if scheme == ORACLE else "")

    def _operating_point(self) -> str:
        """Returns how much the oracle has in flight, if it is another amount than in the tables."""
        gains = {gain for _, gain, _ in self._ratios(ORACLE)} if self._expected.relative_to else {1.0}
        if gains <= {1.0}:
            return ""
        least, most = min(gains), max(gains)
        amount = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        return f" (with {amount} BDP in flight, as the target needs; tables: 1 BDP)"

    def _absolute(self, scheme: str) -> str:
        rows = self._result.of(self.group, scheme)
        values = {name: _mean(rows, name) for name in self._signs}
        if not rows:
            return f"{scheme} was not run"
        said = [f"{_title(name)} {_absolute(name, value)}" for name, value in values.items() if math.isfinite(value)]
        return ", ".join(said) + (" (mean run)" if said else "")

    def _number(self, name: str, value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "n/a"
        if self._expected.relative_to:
            return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
        return _absolute(name, value)

    def _detail(self) -> str:
        """Returns the worst link of the first figure, and the number of the policy's decisions."""
        rows, name = self._result.of(self.group, self._result.policy), next(iter(self._signs))
        if self._expected.relative_to:
            points = self._ratios(self._result.policy)
            link, _, point = min(points, key=lambda item: self._signs[name] * item[2][name])
            said = f"worst link: {self._say(point)} ({link}); {len(points)} links"
        else:
            worst = min(rows, key=lambda row: self._signs[name] * (row[name] if _finite(row.get(name)) else math.inf))
            value = worst.get(name)
            said = f"worst run: {_title(name)} {self._number(name, value)} ({worst['link']}); {len(rows)} runs"
        asked = _mean(rows, "inferences_per_s")
        return said + (f"; {asked:.1f} inferences/s" if math.isfinite(asked) else "")


def _policy_faults(result: Evaluation) -> list[str]:
    # Continuous actions that differ may be counted to the same value.
    acts = {} if result.meta.get("continuous") else result.actions
    counts = [np.asarray(by[result.policy]).sum(axis=0) for by in acts.values() if result.policy in by]
    total = sum(counts, np.zeros(1))
    if not counts or total.sum() == 0 or total.max() / total.sum() < CONSTANT_SHARE or _by_category(result):
        return []
    action, share = result.meta["action_values"][int(total.argmax())], total.max() / total.sum()
    return [f"the policy is constant: {action:g} in {_percent(share)} of its decisions"]


def _by_category(result: Evaluation) -> bool:
    """Returns whether the policy acts differently in different categories; if so, a certain policy is not constant."""
    counts = [np.asarray(by[result.policy]) for by in result.actions.values() if result.policy in by]
    if not counts:
        return False
    visited = [category for category in np.sum(counts, axis=0) if category.sum() >= VISITED]
    return len({int(category.argmax()) for category in visited}) > 1


def _training_faults(training: Sequence[Row], result: Evaluation) -> list[str]:
    """Returns a fault if the median reward after exploration has settled is not higher than at first.

    Medians are used for the reward's long lower tail. Evolution is exempt: it maximises the objective, and the links of
    its generations differ by more than it gains.
    """
    if len(training) < 10:
        return []
    tenth = len(training) // 10
    first, last = training[:tenth], training[-2 * tenth :]
    faults = []
    count = 0 if result.meta.get("continuous") else len(result.meta.get("action_values", []))
    entropy = _mean(last, "entropy")
    if count and entropy < COLLAPSED_NATS and not _by_category(result):
        faults.append(f"the policy's entropy collapsed to {entropy:.3f} nats (uniform: {math.log(count):.2f})")
    before, after = (_median([row["reward_mean"] for row in part]) for part in (first, last))
    if after <= before and "score" not in training[0]:
        faults.append(f"{NOT_RISEN}: {before:.2f} at first, {after:.2f} at the end")
    return faults


def _by_link(rows: Sequence[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row["link"], []).append(row)
    return out


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _mean(rows: Sequence[Row], figure: str) -> float:
    values = [float(row[figure]) for row in rows if _finite(row.get(figure))]
    return float(np.mean(values)) if values else math.nan


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _title(figure: str) -> str:
    title = FIGURES[figure].title if figure in FIGURES else figure
    return title[:1].lower() + title[1:] if not title[1:2].isupper() else title


def _absolute(figure: str, value: float) -> str:
    """Returns the value with enough digits to differ from a target of a whole percent; rounded down: 98.996 is not 99
    %.
    """
    if figure not in FIGURES:
        return f"{value:.4g}"
    unit = FIGURES[figure].unit
    return _percent(value) if unit == "share" else f"{show(figure, value)} {unit}"


def _percent(share: float) -> str:
    return "n/a" if not math.isfinite(share) else f"{math.floor(share * 1000 + 1e-9) / 10:.1f} %"
