"""Plots of the page, from an `Evaluation` and a training's progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena.eval.heldout.evaluation import ORACLE, Evaluation
from ccarena.pages import charts
from ccarena.pages.blocks import Figure
from ccarena.pages.charts import Axis, Chart, Style
from ccarena.pages.over_time import LEAST_DELAY_MS, Course, delay_axis
from ccarena.pages.over_time import over_time as drawn_over_time

__all__ = ["action_map", "category_shares", "learning_curve", "over_time", "queue_cdf", "throughput_delay"]

POLICY = Style("var(--blue)", "solid", "circle")
STYLES = {
    "cubic": Style("var(--vermilion)", "solid", "square"),
    "bbr": Style("var(--green)", "dash", "diamond"),
    "reno": Style("var(--purple)", "dashdot", "triangle-up"),
    ORACLE: Style(charts.INK, "longdash", "star"),
}
CONSTANTS = (Style("var(--sky)", "dot", "circle-open"), Style("var(--orange)", "dot", "square-open"))
SPARE = (
    Style("var(--wine)", "dash", "x"),
    Style("var(--teal)", "dot", "cross"),
    Style("var(--olive)", "dashdot", "pentagon"),
)
COLOURS = {name: Style(f"var(--{name})") for name in ("green", "yellow", "vermilion", "blue")}
CATEGORIES = COLOURS | {"red": COLOURS["vermilion"]}
"""Colours of categories: a name that is a colour has it, others take them in turn."""
NAMES = {"cubic": "CUBIC", "bbr": "BBR", "reno": "Reno", ORACLE: "one-RTT-late oracle"}
BUDGET_MS = 5.0
BLUES = ("#c6dbef", "#6baed6", "#2b7bba", "#08519c")
QUEUE_TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def name_of(scheme: str, policy: str = "") -> str:
    """Returns the name of a scheme in plots; `policy` is the evaluated one."""
    return f"{scheme} (this policy)" if scheme == policy else NAMES.get(scheme, scheme)


def look_of(category: str, index: int) -> Style:
    """Returns the look of a category, the `index`th of its kind."""
    return CATEGORIES.get(category, tuple(COLOURS.values())[index % len(COLOURS)])


def learning_curve(progress: Sequence[Mapping[str, Any]], shares: Mapping[str, Sequence[str]]) -> Figure:
    """Plots reward and, if there are any, entropy and shares of categories, from the lines of `progress.jsonl`."""
    decisions, x = [row["decisions"] for row in progress], Axis("decisions")
    ink = Style(charts.INK)
    reward = charts.line("reward", decisions, [row.get("reward_mean") for row in progress], ink, width=2)
    parts = [Chart(x, Axis("reward"), [dict(reward, showlegend=False)], "Reward per decision (mean)", 260)]
    if any("entropy" in row for row in progress):
        entropy = charts.line("entropy", decisions, [row.get("entropy") for row in progress], ink, width=2)
        y = Axis("entropy (nats)", from_zero=True)
        parts.append(Chart(x, y, [dict(entropy, showlegend=False)], "Entropy of the policy", 260))
    for name, categories in shares.items():
        if not any(f"{name}_{categories[0]}" in row for row in progress):
            continue
        areas = [
            charts.line(
                f"{category} {name}",
                decisions,
                [100 * (row.get(f"{name}_{category}") or 0.0) for row in progress],
                look_of(category, index),
                stack=name,
            )
            for index, category in enumerate(categories)
        ]
        parts.append(Chart(x, Axis("share (%)", low=0, high=100), areas, f"Decisions by {name}", 260, unified=True))
    return Figure("learning curve", parts, columns=min(len(parts), 3), same_x=True)


def over_time(series: Mapping[str, Any], result: Evaluation) -> Figure:
    """Plots rate and capacity, and the largest queueing delay of each bin, of every scheme on one link."""
    time_s = series["time_s"]
    courses = [
        Course(
            name_of(scheme, result.policy),
            style_of(scheme, result),
            lines["rate_mbps"],
            lines["queueing_delay_ms"],
            bold=scheme == result.policy,
            shown=scheme not in result.meta.get("constants", []),
        )
        for scheme, lines in _policy_last(series["schemes"], result.policy)
    ]
    bin_s = time_s[1] - time_s[0] if len(time_s) > 1 else 0.1
    label = f"{series['group']} ({series['link']})"
    caption = f"Base RTT {series['base_rtt_ms']:g} ms, buffer {series['buffer_packets']} packets."
    budget_ms = BUDGET_MS if "share_within_budget" in result.figures else None
    return drawn_over_time(label, bin_s, series["capacity_mbps"], courses, budget_ms=budget_ms, caption=caption)


def throughput_delay(result: Evaluation) -> Figure:
    """Plots utilisation against p95 queueing delay: one small mark per run, one large mark per scheme at the median."""
    parts = []
    for group in result.groups():
        traces = []
        drawn: list[float] = []
        for scheme in result.schemes():
            runs = [
                run
                for run in result.of(group, scheme)
                if run["queueing_delay_p95_ms"] is not None and run.get("gain", 1.0) == 1.0
            ]
            if not runs:
                continue
            delay = [max(run["queueing_delay_p95_ms"], LEAST_DELAY_MS) for run in runs]
            drawn += delay
            use = [100 * run["utilisation"] for run in runs]
            look, name = style_of(scheme, result), name_of(scheme, result.policy)
            texts = [f"{run['link']}, seed {run['seed']}" for run in runs]
            traces.append(charts.marks(name, delay, use, look, size=6, opacity=0.35, text=texts))
            middle = [float(np.median(delay))], [float(np.median(use))]
            traces.append(charts.marks(name, *middle, look, size=15, text=["median"]))
        curve = _oracle_curve(result, group)
        if len(curve) > 1:
            delay, use, gain = (list(column) for column in zip(*curve, strict=True))
            drawn += delay
            texts = [f"gain {value:g}" for value in gain]
            traces.append(charts.line(name_of(ORACLE), delay, use, Style(charts.INK, "dot"), text=texts))
        x = delay_axis("p95 queueing delay (ms, log)", drawn, room=0.04)
        parts.append(Chart(x, Axis("utilisation (%)"), traces, _capital(group), 340))
    return Figure("throughput against delay", parts, columns=2)


def queue_cdf(result: Evaluation) -> Figure:
    """Plots the share of the time with at most k packets queued, pooled over a group's runs (ACCT's Fig. 5a)."""
    parts = []
    for group in result.groups():
        traces = []
        for scheme, spent in _policy_last(result.queue_ns.get(group, {}), result.policy):
            share = 100 * np.cumsum(spent) / max(np.sum(spent), 1)
            # Only where it changes: a deep buffer has a thousand lengths.
            kept = np.flatnonzero(np.diff(share, prepend=-1.0, append=101.0)[:-1] > 1e-3)
            # Moved by one packet, so that an empty queue has a place on the logarithmic axis.
            look, name = style_of(scheme, result), name_of(scheme, result.policy)
            traces.append(charts.line(name, (kept + 1).tolist(), share[kept].tolist(), look, width=2, steps=True))
        if traces:
            ticks, labels = [k + 1 for k in QUEUE_TICKS], [str(k) for k in QUEUE_TICKS]
            x = Axis("queued packets (log)", log=True, ticks=ticks, labels=labels)
            y = Axis("share of the time (%)", low=0, high=101)
            parts.append(Chart(x, y, traces, _capital(group), 320))
    return Figure("queue length distribution", parts, columns=2)


def category_shares(result: Evaluation) -> Figure:
    """Plots the shares of categories in decisions, for the policy and for constant actions of its scheme."""
    parts = []
    for group in result.groups():
        counts = {
            name_of(scheme, result.policy): np.asarray(result.actions.get(group, {}).get(scheme, 0)).sum(axis=-1)
            for scheme in (result.policy, *result.meta.get("constants", []))
        }
        shares = {name: 100 * count / count.sum() for name, count in counts.items() if np.sum(count) > 0}
        if not shares:
            continue
        names = list(shares)
        traces = [
            charts.bars(category, names, [shares[n][at] for n in names], look_of(category, at), across=True)
            for at, category in enumerate(result.meta["categories"])
        ]
        x, y = Axis("share of decisions (%)", low=0, high=100), Axis("", reversed=True)
        parts.append(Chart(x, y, traces, _capital(group), 90 + 34 * len(names), bars="stack"))
    return Figure("decisions by category", parts, columns=2)


def action_map(result: Evaluation) -> Figure:
    """Plots the frequency of each action after an interval of each category, in % of the policy's decisions there."""
    categories, actions = result.meta["categories"], result.meta["action_values"]
    seen = [np.asarray(by[result.policy]) for by in result.actions.values() if result.policy in by]
    counts = sum(seen, np.zeros((len(categories), len(actions))))
    total = counts.sum(axis=1)
    share = 100 * counts / np.maximum(total, 1)[:, None]
    rows = [f"{category} ({int(n):,})" for category, n in zip(categories, total, strict=True)]
    cells = charts.cells(
        rows,
        len(actions),
        [[charts.ramp(BLUES, value / 100) if value >= 0.05 else "" for value in row] for row in share],
        [[f"{value:.0f}" if value >= 0.5 else "" for value in row] for row in share],
        [
            [f"{name}: {action:g} in {value:.1f} %" for action, value in zip(actions, row, strict=True)]
            for name, row in zip(rows, share, strict=True)
        ],
    )
    names = [f"{action:g}" for action in actions]
    ticks = [at + 0.5 for at in range(len(actions))]
    x = Axis("action chosen", low=0, high=len(actions), ticks=ticks, labels=names)
    chart = Chart(x, Axis("category before (decisions)", reversed=True), [cells], height=110 + 44 * len(categories))
    return Figure("actions by category", [chart], caption="In % of the decisions after that category.")


def style_of(scheme: str, result: Evaluation) -> Style:
    """Returns the look of a scheme; those that are not listed share the spare ones, by name."""
    if scheme == result.policy:
        return POLICY
    constants = result.meta.get("constants", [])
    if scheme in constants:
        return CONSTANTS[constants.index(scheme) % len(CONSTANTS)]
    return STYLES.get(scheme) or SPARE[sum(scheme.encode()) % len(SPARE)]


def _oracle_curve(result: Evaluation, group: str) -> list[tuple[float, float, float]]:
    """Returns (p95 delay, utilisation, gain) of the oracle's median run for each gain."""
    rows = [row for row in result.of(group, ORACLE) if row["queueing_delay_p95_ms"] is not None]
    points = []
    for gain in sorted({row["gain"] for row in rows}):
        runs = [row for row in rows if row["gain"] == gain]
        delay = float(np.median([max(row["queueing_delay_p95_ms"], LEAST_DELAY_MS) for row in runs]))
        points.append((delay, float(np.median([100 * row["utilisation"] for row in runs])), gain))
    return points


def _policy_last(schemes: Mapping[str, Any], policy: str) -> list[tuple[str, Any]]:
    """Sorts the policy to the end, since the last one drawn lies on top."""
    return sorted(schemes.items(), key=lambda item: item[0] == policy)


def _capital(group: str) -> str:
    return group[:1].upper() + group[1:]
