"""Page of `ccarena fidelity`: every case's errors in multiples of the bounds, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.pages import (
    Axis,
    Block,
    Callout,
    Cell,
    Chart,
    Choice,
    Figure,
    Items,
    Page,
    Section,
    State,
    Table,
    charts,
    images,
)
from ccarena.pages.charts import Interval, Style
from ccarena.pages.states import worst

__all__ = ["figures", "save"]

PANELS = (("throughput_mbps", "Throughput"), ("mean", "Mean queueing delay"), ("p95", "p95 queueing delay"))
OUTCOMES: Mapping[str, tuple[Style, State]] = {
    "within": (Style("var(--blue)", symbol="circle"), "good"),
    "chaotic, judged on throughput": (Style("var(--orange)", symbol="diamond"), "partly"),
    "missed": (Style("var(--vermilion)", symbol="x"), "bad"),
}
WIDEST = 4.0
"""Largest drawn multiple of the bound; larger ones leave the chart."""
ROW_PX = 20


def save(
    path: Path,
    result: Mapping[str, Any],
    *,
    ours: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    findings: Sequence[str],
    repeat: Sequence[str],
) -> Path:
    """Writes the page, or an image of its figures, to `path` (see `images.save`, whose errors these are).

    `ours` names the other side of the comparison: simulated or emulated. `head` and `rows` are the table that the
    terminal shows, a row per case, and `findings` the lines below it.
    """
    cases, bounds = result["cases"], result["bounds"]
    drawn = figures(cases, bounds, ours)
    states = [OUTCOMES[_outcome(case)][1] for case in cases]
    table: list[list[str | Cell]] = [
        [row[0], Cell(row[-1], state), *row[1:-1]] for row, state in zip(rows, states, strict=True)
    ]
    within = sum(case["within"] for case in cases)
    headline = f"{within} of {len(cases)} cases are within the bounds" if cases else "No case has a valid run"
    sections = [Section("Every case", f"Each figure as the kernel measured it, {ours} as a median with the middle 80 % "
                        "of the runs in parentheses, and the error beyond the kernel's range.",
                        [Table(head, table, words=2)])]  # fmt: skip
    if cases:
        options: dict[str, Sequence[Block]] = {figure.label: [figure] for figure in drawn}
        lead = (
            "A row per case. Zero is the middle of what the kernel's runs span (grey); green is allowed, a mark is the "
            f"{ours} median and its bar the middle 80 %. What is farther out than {WIDEST:g} bounds leaves the chart."
        )
        sections.insert(0, Section("Errors", lead, [Choice("Figure", options)]))
    page = Page(
        title="Fidelity to kernel TCP",
        kind="fidelity",
        lead=f"How far {ours} runs are from runs of kernel TCP over the same link.",
        facts={
            "Cases": str(len(cases)),
            "Bounds": f"throughput {_bound(bounds, 'throughput_mbps')}, delays {_bound(bounds, 'mean')}",
        },
        repeat=repeat,
        findings=[Callout(worst(states), headline, [Items(findings)])],
        sections=sections,
    )
    return images.save(path, page, drawn)


def figures(cases: Sequence[Mapping[str, Any]], bounds: Mapping[str, float], ours: str = "simulated") -> list[Figure]:
    """Returns a figure for throughput and for each delay, of `compare`'s results; zero is the middle of the kernel's
    range.
    """
    return [Figure(title, [_chart(cases, key, _bound(bounds, key), ours)]) for key, title in PANELS]


def _bound(bounds: Mapping[str, float], key: str) -> str:
    if key == "throughput_mbps":
        return f"{bounds['throughput_rel']:.0%}"
    return f"{bounds['delay_rel']:.0%} or {bounds['delay_ms']:g} ms"


def _chart(cases: Sequence[Mapping[str, Any]], key: str, unit: str, ours: str) -> Chart:
    names = [case["name"] for case in cases]
    span = np.array([_scaled(case, key, case["measured"][key]) for case in cases]).reshape(-1, 2)
    traces = [
        charts.spans("allowed", names, span[:, 0] - 1, span[:, 1] + 1, "var(--allowed)", 0.9),
        charts.spans("kernel's runs", names, span[:, 0] - 0.02, span[:, 1] + 0.02, charts.MUTED, 0.5),
    ]
    for outcome, (look, _) in OUTCOMES.items():
        chosen = [case for case in cases if _outcome(case) == outcome]
        if not chosen:
            continue
        median = [_scaled(case, key, [case["simulated"]["median"][key]])[0] for case in chosen]
        spread = np.array([_scaled(case, key, case["simulated"]["spread"][key]) for case in chosen])
        texts = [_numbers(case, key, ours) for case in chosen]
        across = Interval(spread[:, 0], spread[:, 1])
        traces.append(charts.marks(outcome, median, [case["name"] for case in chosen], look, text=texts, across=across))
    x = Axis(f"difference in bounds ({unit})", low=-WIDEST, high=WIDEST)
    y = Axis("", category=True, low=-0.5, high=len(cases) - 0.5, reversed=True)
    return Chart(x, y, traces, height=110 + ROW_PX * len(cases), bars="overlay")


def _scaled(case: Mapping[str, Any], key: str, values: Sequence[float]) -> list[float]:
    """Returns distances from the middle of the kernel's range, in multiples of the bound."""
    middle = sum(case["measured"][key]) / 2
    return [(value - middle) / case["bounds"][key] for value in values]


def _numbers(case: Mapping[str, Any], key: str, ours: str) -> str:
    low, high = case["measured"][key]
    return f"{case['name']}: kernel {low:.4g} to {high:.4g}, {ours} {case['simulated']['median'][key]:.4g}"


def _outcome(case: Mapping[str, Any]) -> str:
    if not case["within"]:
        return "missed"
    return "chaotic, judged on throughput" if case["chaotic"] else "within"
