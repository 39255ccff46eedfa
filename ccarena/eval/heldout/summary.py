"""Summary of an evaluation: the table, the digest for a policy's metadata, and the terminal's output."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.core.terminal import print_table, visible
from ccarena.eval.heldout.evaluation import ORACLE, Evaluation
from ccarena.eval.heldout.expectations import Verdict, judge
from ccarena.eval.heldout.gain import Gain, Part
from ccarena.eval.heldout.headroom import EVERY, Headroom, headroom, league_scores
from ccarena.eval.measure.figure_text import bounded, heading
from ccarena.eval.measure.figure_text import with_interval as text_with_interval
from ccarena.eval.measure.sample import Interval, confidence_interval
from ccarena.eval.measure.table import FIGURES
from ccarena.pages.states import STATES, state_of
from ccarena.policies.answers import GAINS, WHY, Answer

__all__ = [
    "SUMMARY",
    "digest",
    "gain_table",
    "headroom_table",
    "label",
    "league_table",
    "mean_of",
    "mean_rows",
    "means",
    "parts_table",
    "print_answers",
    "print_first",
    "print_summary",
    "summary_table",
    "with_interval",
]

SUMMARY = (
    "utilisation",
    "throughput_mbps",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "signal_delay_p95_ms",
    "power",
    "sage_score",
    "share_within_budget",
    "share_within_5_packets",
    "loss_share",
    "queue_drop_share",
)


def summary_table(result: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows): the means of `SUMMARY` for each group's schemes over links and seeds, ± the interval
    over seeds.
    """
    figures = [figure for figure in SUMMARY if figure in result.figures]
    head = ["links", "scheme", *(heading(figure) for figure in figures)]
    rows = []
    for group in result.groups():
        for scheme in result.schemes():
            runs = _counted(result, group, scheme)
            if runs:
                name = label(scheme, scheme if scheme in result.policies else "")
                rows.append([group, name, *(with_interval(figure, runs) for figure in figures)])
    return head, rows


def mean_rows(result: Evaluation) -> list[dict[str, Any]]:
    """Returns a row per group, scheme and figure: mean over links and seeds, interval, and the number of runs."""
    rows = []
    for group in result.groups():
        for scheme in result.schemes():
            runs = _counted(result, group, scheme)
            for figure in result.figures:
                known = [row for row in runs if row.get(figure) is not None]
                if known:
                    found = bounded(figure, _interval(figure, known))
                    bounds = {"mean": found.mean, "low": found.low, "high": found.high, "n": len(known)}
                    rows.append(
                        {"group": group, "scheme": scheme, "figure": figure, "unit": FIGURES[figure].unit, **bounds}
                    )
    return rows


def _counted(result: Evaluation, group: str, scheme: str) -> list[dict[str, Any]]:
    """Returns the valid rows that enter means; of the oracle's gains, that of one bandwidth-delay product."""
    return [row for row in result.of(group, scheme) if row.get("gain", 1.0) == 1.0]


def digest(result: Evaluation, verdict: Verdict) -> dict[str, Any]:
    """Returns the evaluation in short: verdict, and each group's and scheme's means, for a policy's metadata."""
    known = [each.as_dict() for each in headroom(result)]
    league = {"headroom": known, "scores": league_scores(result)}
    short = {"verdict": verdict.as_dict(), "means": means(result), "meta": result.meta}
    return short | ({"league": league} if known else {})


def means(result: Evaluation) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the means of `SUMMARY` by group and scheme."""
    return {
        group: {
            scheme: {figure: mean_of(runs, figure) for figure in SUMMARY}
            for scheme in result.schemes()
            if (runs := _counted(result, group, scheme))
        }
        for group in result.groups()
    }


def print_summary(result: Evaluation, verdict: Verdict | None, page: Path | None = None) -> None:
    """Prints the summary table, warnings and expectations. The caller prints the answers last (`print_answers`)."""
    from rich.console import Console

    seeds = result.meta["seeds"]
    many = f" and {seeds} seeds, ± half of the 95 % interval over seeds" if seeds > 1 else ", one seed"
    title = f"backend {result.meta['backend']}: mean over links{many}"
    print_table(title, *summary_table(result), left=2)
    if known := headroom(result):
        print_table("the league: scores", *league_table(league_scores(result)), left=1)
        print_table("the league: what is left to learn", *headroom_table(known), left=1)
    console = Console(highlight=False, soft_wrap=True)

    def say(text: str, style: str | None = None) -> None:
        console.print(visible(text), style=style, markup=False)

    if verdict is None:
        return
    if verdict.gain is not None:
        gain = verdict.gain
        title = f"compared with rules without learning, by {gain.objective}: {gain.tested}"
        print_table(title, *gain_table(gain), left=1)
        if gain.best is not None and gain.parts:
            print_table(f"over {gain.best.label}, by links", *parts_table(gain.parts), left=1)
    for note in verdict.notes:
        say(f"note: {note}", "bold")
    for item in verdict.expectations:
        look = STATES[state_of(item.state)]
        say(f"{look.sign} {item.state}: {item.group}: {item.measured}", look.terminal)
        say(f"        expected {item.target}")
        if item.baseline:
            say(f"        {label(verdict.baseline)}: {item.baseline}")
        if item.constant:
            say(f"        {verdict.constant}: {item.constant}")
        if item.oracle:
            say(f"        knowing capacity one RTT late: {item.oracle}")
    if page is not None:
        say(f"page: {page}")


def headroom_table(known: Sequence[Headroom]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows): the headroom of each family of the league."""
    head = ["family", "links", "oracle", "causal oracle", "best fixed window", "best heuristic", "its score"]
    head += ["headroom [95 %]", "over the best of each link", "within reach [95 %]", "more than 5 %?", "bound"]
    rows = []
    for each in known:
        links = f"{each.links}" + (f" ({each.synthetic} generated)" if each.synthetic else "")
        row = [each.family, links, *map(_score, (each.oracle, each.causal, each.window)), label(each.best)]
        row += [_score(each.score), _gain(each.gain, each.low, each.high), f"{100 * each.gain_of_links:.0f} %"]
        rows.append([*row, _gain(each.reach, each.reach_low, each.reach_high), each.answer, each.bound])
    return head, rows


def _score(score: float) -> str:
    return f"{score:.3f}" if math.isfinite(score) else "–"


def _gain(gain: float, *interval: float) -> str:
    low, high = (f"{100 * end:.0f}" if math.isfinite(end) else "–" for end in interval)
    return f"{100 * gain:.0f} % [{low}, {high}]"


def league_table(scores: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows): the scores of all entrants in each family of the league."""
    families = list(dict.fromkeys(name for each in scores.values() for name in each if name != EVERY))
    rows = [
        [label(who), *(f"{each[name]:.3f}" if name in each else "–" for name in (EVERY, *families))]
        for who, each in scores.items()
    ]
    return ["entrant", "mean", *families], rows


def print_answers(answers: Sequence[Answer], label: str = "") -> None:
    """Prints each question with its answer; `label` names the policy if there are several."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for each in answers:
        look = STATES[each.state]
        question = f"{label}: {each.question}" if label else each.question
        console.print(visible(f"{question} "), end="", markup=False)
        console.print(visible(f"{look.sign} {each.sentence}"), style=look.terminal, markup=False)
    if not label:
        console.print(f"why, and a training whose network gains (`ccarena train --config {GAINS}`): {WHY}")


def print_first(result: Evaluation, total: int) -> None:
    """Prints the answers of a part of the links on stderr, each policy's on a line."""
    runs = {(row["group"], row["link"], row["seed"]) for row in result.rows}
    for label_ in result.policies:
        answer = judge(result.of_policy(label_)).learned
        who = f"{label_}: " if len(result.policies) > 1 else ""
        at = f"first verdict, after {len(runs)} of {total} links"
        print(visible(f"{at}: {who}{answer.question} {STATES[answer.state].sign} {answer.sentence}"), file=sys.stderr)


def gain_table(gain: Gain) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows): the policy, then each rule without learning, with scores and the policy's gain
    over it.
    """
    head = [
        "without learning",
        "objective, trained",
        "tested",
        "policy's gain [95 %]",
        "Mbit/s",
        "p95 signal delay, ms",
    ]
    rows = []
    for each in (gain.policy, *gain.rules):
        figures = [each.trained, each.score, None, each.throughput_mbps, each.signal_delay_to_end_p95_ms]
        said = ["–" if x is None or not math.isfinite(x) else f"{x:.4g}" for x in figures]
        said[2] = "" if each is gain.policy else each.said
        rows.append([label(each.label, gain.policy.label), *said])
    return head, rows


def parts_table(parts: Sequence[Part]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows): on each set of links the policy's gain over the deciding rule, and their means'
    ratios.
    """
    head = ["links", "policy's gain [95 %]", "throughput, of the rule's", "p95 signal delay, of the rule's"]
    rows = [
        [f"{part.link_set} ({part.links})", part.said, f"{part.throughput:.3g}", f"{part.signal_delay_p95:.3g}"]
        for part in parts
    ]
    return head, rows


def label(scheme: str, policy: str = "") -> str:
    """Returns the name of a scheme in tables; `policy` is the evaluated one."""
    known = {"cubic": "CUBIC", "bbr": "BBR", "reno": "Reno", ORACLE: "one RTT late"}
    return f"{scheme} (policy)" if scheme == policy else known.get(scheme, scheme)


def with_interval(figure: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the mean over `rows`, ± half of its 95 % confidence interval over its seeds (Student's t)."""
    return text_with_interval(figure, _interval(figure, rows))


def _interval(figure: str, rows: Sequence[Mapping[str, Any]]) -> Interval:
    """Returns the mean over `rows` with its interval over seeds, each seed's value being its mean over links; NaN of
    one seed.
    """
    seeds: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], []).append(row)
    interval = confidence_interval([mean_of(of_seed, figure) for of_seed in seeds.values()])
    mean, half = mean_of(rows, figure), interval.high - interval.mean
    return Interval(mean, mean - half, mean + half, interval.n)


def mean_of(rows: Sequence[Mapping[str, Any]], figure: str) -> float:
    """Returns the mean over the rows that have the figure, NaN if none has."""
    values = [row[figure] for row in rows if row.get(figure) is not None]
    if len(values) == 1:  # of most seeds
        return float(values[0])
    return float(np.mean(values)) if values else math.nan
