"""What a trained ACCT policy is expected to reach, whether it did, and the verdict: "learned", or what is wrong.

The expectations are the figures that ACCT's paper shows (§III), made exact, with a floor on utilisation so that an
idle sender cannot meet them. Each is stated beside what CUBIC got and what a controller that knew capacity one RTT late
could have got (`oracle`), so that a reader sees which part of a miss is physics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ccarena.acct import spec
from ccarena.eval.heldout.evaluation import ACCT, CONSTANT_ALPHAS, ORACLE, Evaluation

__all__ = ["Expectation", "Verdict", "judge"]

BASELINE = "cubic"
UNLEARNED = f"acct α={CONSTANT_ALPHAS[0]}"

BUDGET_SHARE, CONSTANT_UTILISATION = 0.99, 0.95
QUEUE_SHARE, STEPS_UTILISATION = 0.80, 0.90
DELAY_RATIO, THROUGHPUT_RATIO = 0.50, 0.85

COLLAPSED_NATS = 0.02
"""Entropy below which the policy's choice is certain in practice: ln 15 = 2.71 is uniform over the 15 actions."""
CONSTANT_SHARE = 0.99
"""Share of one action in all decisions above which the policy is called constant."""
VISITED = 10
"""Decisions after which a zone counts as visited."""
MARGIN = 0.005
"""A constant α counts as better than the policy if it is at least as good in both figures and better by this in one."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Expectation:
    """One claim, its target and what was measured, beside what others got, in words.

    `unlearned` is the scheme with one action always, `Verdict.unlearned`: what its own rules leave possible.
    """

    group: str
    claim: str
    target: str
    measured: str
    holds: bool
    cubic: str
    unlearned: str
    oracle: str
    detail: str
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """The expectations and everything else that is wrong. `line` is the sentence that ends a summary."""

    expectations: list[Expectation]
    faults: list[str]
    notes: list[str]
    unlearned: str = "ACCT unlearned (α = 1)"
    """Who `Expectation.unlearned` describes."""
    source: str = "The figures that ACCT's paper shows, made exact."
    """Where the expectations come from, a sentence."""

    @property
    def learned(self) -> bool:
        """Whether all expectations hold and nothing else is wrong."""
        return bool(self.expectations) and not self.faults and all(e.holds for e in self.expectations)

    @property
    def line(self) -> str:
        """One sentence: "learned", or what is wrong."""
        if not self.expectations and not self.faults:
            return "verdict: none, no expectation was tested"
        if self.learned:
            return f"verdict: learned ({len(self.expectations)} of {len(self.expectations)} expectations hold)"
        off = [f"{e.group}: {e.measured}; expected {e.target}" for e in self.expectations if not e.holds]
        return "verdict: not learned: " + "; ".join(off + self.faults)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"learned": self.learned, "line": self.line, **asdict(self)}


def judge(result: Evaluation, training: Sequence[Row] = ()) -> Verdict:
    """Hold an evaluation against the expectations of its groups, and the training's progress against what is healthy.

    `training` are the lines of `progress.jsonl`, oldest first. Groups without rows of the policy are not judged.
    """
    expectations = [_expect(result, group) for group in result.groups() if result.of(group, ACCT)]
    has_policy = bool(expectations)
    faults = _policy_faults(result) + _training_faults(training, _by_zone(result)) if has_policy else []
    notes = list(result.warnings)
    for alpha, groups in _beaten_by(result).items():
        notes += [f"{group}: ACCT with α = {alpha} always does better than the policy" for group in groups]
    if any(row.get("synthetic") for row in result.rows):
        notes.append("the cellular expectation was held against synthetic traces only")
    return Verdict(expectations, faults, notes)


def _expect(result: Evaluation, group: str) -> Expectation:
    link_set = result.of(group, ACCT)[0]["link_set"]
    return {"constant": _constant, "steps": _steps, "cellular": _cellular}[link_set](result, group)


def _constant(result: Evaluation, group: str) -> Expectation:
    return _share_expectation(
        result,
        group,
        claim="Constant capacity (5-100 Mbit/s, base RTT 10-100 ms): the queueing delay stays within the 5 ms budget.",
        figure="share_within_budget",
        least=(BUDGET_SHARE, CONSTANT_UTILISATION),
        words="of the time within 5 ms",
    )


def _steps(result: Evaluation, group: str) -> Expectation:
    return _share_expectation(
        result,
        group,
        claim="Capacity redrawn in 5-100 Mbit/s every 4 s: at most 5 packets are queued.",
        figure="share_within_5_packets",
        least=(QUEUE_SHARE, STEPS_UTILISATION),
        words="of the time at most 5 queued",
    )


def _share_expectation(
    result: Evaluation, group: str, claim: str, figure: str, least: tuple[float, float], words: str
) -> Expectation:
    """A share of the time and a utilisation, both pooled over all runs of the group (they are equally long)."""

    def say(share: float, use: float) -> str:
        return f"{_percent(share)} {words}, {_percent(use)} utilisation"

    def of(scheme: str) -> tuple[float, float]:
        rows = [row for row in result.of(group, scheme) if row.get("gain", 1.0) == 1.0]
        return _mean(rows, figure), _mean(rows, "utilisation")

    share, use = of(ACCT)
    rows = result.of(group, ACCT)
    low_share = min(rows, key=lambda row: _number(row[figure]))
    low_use = min(rows, key=lambda row: _number(row["utilisation"]))
    detail = (
        f"worst links: {_percent(_number(low_share[figure]))} {words} ({low_share['link']}); "
        f"{_percent(_number(low_use['utilisation']))} utilisation ({low_use['link']}); {len(rows)} runs"
    )
    return Expectation(
        group,
        claim,
        target=f"≥ {100 * least[0]:.0f} % {words}, ≥ {100 * least[1]:.0f} % utilisation",
        measured=say(share, use),
        holds=share >= least[0] and use >= least[1],
        cubic=say(*of(BASELINE)) if result.of(group, BASELINE) else "not run",
        unlearned=say(*of(UNLEARNED)) if result.of(group, UNLEARNED) else "not run",
        oracle=say(*of(ORACLE)),
        detail=detail,
        values={figure: share, "utilisation": use},
    )


def _cellular(result: Evaluation, group: str) -> Expectation:
    """Ratios to CUBIC per trace (means over seeds), then the median trace of each ratio."""
    claim = f"{group.capitalize()}, 20 ms one way: much less queueing delay than CUBIC at nearly its throughput."
    floor = f"throughput ≥ {100 * THROUGHPUT_RATIO:.0f} % of CUBIC's"
    target = f"p95 delay ≤ {DELAY_RATIO:.2f} of CUBIC's, {floor} (median trace)"
    if not result.of(group, BASELINE):
        return Expectation(group, claim, target, "CUBIC was not run", False, "not run", "", "", "")
    cubic = _by_link(result.of(group, BASELINE))

    def beside_cubic(scheme: str) -> dict[str, list[Row]]:
        """The scheme's rows on the links on which CUBIC has a valid run."""
        return {name: rows for name, rows in _by_link(result.of(group, scheme)).items() if name in cubic}

    ratios = {name: _ratios(rows, cubic[name]) for name, rows in beside_cubic(ACCT).items()}
    if not ratios:
        return Expectation(group, claim, target, "no link has a valid run of both", False, "", "", "", "")
    plain = [_ratios(rows, cubic[name]) for name, rows in beside_cubic(UNLEARNED).items()]
    delay, rate = _median_trace(list(ratios.values()))

    # The oracle's smallest gain that is fast enough shows how little delay is possible at that throughput.
    bounds = []
    for name, rows in beside_cubic(ORACLE).items():
        gains = sorted({row["gain"] for row in rows})
        points = [_ratios([row for row in rows if row["gain"] == gain], cubic[name]) for gain in gains]
        bounds.append(next((point for point in points if point[1] >= THROUGHPUT_RATIO), points[-1]))
    worst = max(ratios, key=lambda name: ratios[name][0])
    cubic_rows = result.of(group, BASELINE)

    def say(d: float, t: float) -> str:
        return f"p95 delay {d:.2f} of CUBIC's, throughput {_percent(t)} of CUBIC's"

    return Expectation(
        group,
        claim,
        target,
        measured=say(delay, rate),
        holds=delay <= DELAY_RATIO and rate >= THROUGHPUT_RATIO,
        cubic=f"p95 delay {_median(cubic_rows, 'queueing_delay_p95_ms'):.0f} ms, "
        f"{_median(cubic_rows, 'throughput_mbps'):.2f} Mbit/s (median run)",
        unlearned=say(*_median_trace(plain)) if plain else "not run",
        oracle=say(*_median_trace(bounds)),
        detail=f"worst trace by delay: {say(*ratios[worst])} ({worst}); {len(ratios)} traces",
        values={"delay_ratio": delay, "throughput_ratio": rate},
    )


def _policy_faults(result: Evaluation) -> list[str]:
    faults = []
    counts = sum((np.asarray(by[ACCT]).sum(axis=0) for by in result.actions.values() if ACCT in by), np.zeros(1))
    if counts.sum() > 0 and counts.max() / counts.sum() >= CONSTANT_SHARE and not _by_zone(result):
        alpha = spec.ACTIONS[int(counts.argmax())]
        faults.append(
            f"the policy is constant: α = {alpha} in {_percent(counts.max() / counts.sum())} of its decisions"
        )
    for alpha, groups in _beaten_by(result).items():
        if groups == [group for group in result.groups() if result.of(group, ACCT)]:
            faults.append(f"learning brought nothing: ACCT with α = {alpha} always does better on every kind of link")
    return faults


def _by_zone(result: Evaluation) -> bool:
    """Whether the policy prefers different actions in different zones. If so, low entropy does not mean a constant."""
    counts = [np.asarray(by[ACCT]) for by in result.actions.values() if ACCT in by]
    if not counts:
        return False
    visited = [zone for zone in np.sum(counts, axis=0) if zone.sum() >= VISITED]
    return len({int(zone.argmax()) for zone in visited}) > 1


def _beaten_by(result: Evaluation) -> dict[int, list[str]]:
    """For each constant α, the groups in which it beats the policy."""
    out: dict[int, list[str]] = {}
    for alpha in CONSTANT_ALPHAS:
        label = f"acct α={alpha}"
        judged = [group for group in result.groups() if result.of(group, ACCT) and result.of(group, label)]
        out[alpha] = [group for group in judged if _no_worse(result, group, label)]
    return out


def _no_worse(result: Evaluation, group: str, label: str) -> bool:
    """Whether `label` beats the policy: no worse in utilisation and in delay, and better in one of them."""
    ours, theirs = result.of(group, ACCT), result.of(group, label)
    gains = [_mean(theirs, "utilisation") - _mean(ours, "utilisation")]
    if ours[0]["link_set"] == "cellular":
        gains.append(1.0 - _median(theirs, "queueing_delay_p95_ms") / _median(ours, "queueing_delay_p95_ms"))
    else:
        figure = "share_within_budget" if ours[0]["link_set"] == "constant" else "share_within_5_packets"
        gains.append(_mean(theirs, figure) - _mean(ours, figure))
    return all(gain >= 0 for gain in gains) and any(gain > MARGIN for gain in gains)


def _training_faults(training: Sequence[Row], by_zone: bool) -> list[str]:
    if len(training) < 10:
        return []
    tenth = len(training) // 10
    first, last = training[:tenth], training[-2 * tenth :]
    faults = []
    entropy = _mean(last, "entropy")
    if entropy < COLLAPSED_NATS and not by_zone:
        faults.append(
            f"the policy's entropy collapsed to {entropy:.3f} nats (uniform: {math.log(len(spec.ACTIONS)):.2f})"
        )
    before, after = _mean(first, "reward_mean"), _mean(last, "reward_mean")
    if after <= before:
        faults.append(f"the reward did not rise during training: {before:.1f} at first, {after:.1f} at the end")
    return faults


def _ratios(ours: Sequence[Row], cubic: Sequence[Row]) -> tuple[float, float]:
    """(p95 queueing delay, throughput) relative to CUBIC's: ratios of means over the seeds in which CUBIC got through.

    A scheme that delivered nothing in one of these seeds counts as infinitely late.
    """
    seeds = {row["seed"] for row in cubic if row["queueing_delay_p95_ms"] is not None} & {row["seed"] for row in ours}

    def over(figure: str, missing: float) -> float:
        def mean(rows: Sequence[Row]) -> float:
            values = [missing if row[figure] is None else row[figure] for row in rows if row["seed"] in seeds]
            return float(np.mean(values)) if values else math.nan

        base = mean(cubic)
        return mean(ours) / base if base > 0 else math.nan

    return over("queueing_delay_p95_ms", math.inf), over("throughput_mbps", 0.0)


def _median_trace(ratios: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The median trace of each of the two ratios; traces on which CUBIC delivered nothing are left out."""
    known = [ratio for ratio in ratios if not math.isnan(ratio[0])] or [(math.nan, math.nan)]
    return float(np.median([delay for delay, _ in known])), float(np.median([rate for _, rate in known]))


def _by_link(rows: Sequence[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row["link"], []).append(row)
    return out


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _mean(rows: Sequence[Row], figure: str) -> float:
    values = [_number(row.get(figure)) for row in rows]
    values = [value for value in values if math.isfinite(value)]
    return float(np.mean(values)) if values else math.nan


def _median(rows: Sequence[Row], figure: str) -> float:
    values = [_number(row.get(figure)) for row in rows]
    values = [value for value in values if math.isfinite(value)]
    return float(np.median(values)) if values else math.nan


def _percent(share: float) -> str:
    """A share in percent, rounded down to one digit, so that 98.996 % does not read as a target of 99 % met."""
    return "n/a" if not math.isfinite(share) else f"{math.floor(share * 1000) / 10:.1f} %"
