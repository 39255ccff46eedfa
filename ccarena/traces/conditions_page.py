"""Statistics and page of conditions traces: each column over time and its distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.pages import Axis, Block, Chart, Choice, Figure, Page, Section, Table, charts, images
from ccarena.traces.conditions import Conditions

__all__ = ["HEAD", "cells", "describe", "plot"]

HEAD = ("trace", "s", "column", "mean", "least", "p5", "p50", "p95", "greatest", "steps/min")
_LABELS = {"rate_mbps": "rate (Mbit/s)", "delay_ms": "one-way delay (ms)", "loss": "loss (probability)"}
_SHARES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}


def describe(trace: Conditions) -> dict[str, Any]:
    """Returns `duration_s` (None if one row holds for ever) and the statistics of each column, weighted by time."""
    found: dict[str, Any] = {"duration_s": None if trace.period_ms is None else trace.period_ms / 1e3}
    for column in trace.columns:
        values, spans_ms = trace.weighted(column)
        found[column] = {
            "mean": trace.mean(column),
            "least": float(values.min()),
            **{name: _quantile(trace, column, share) for name, share in _SHARES.items()},
            "greatest": float(values.max()),
            "steps_per_min": values.size * 60e3 / spans_ms.sum() if values.size > 1 else 0.0,
        }
    return found


def cells(name: str, described: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns the rows of a trace in a table under `HEAD`, one for each column."""
    length = "for ever" if described["duration_s"] is None else f"{described['duration_s']:.1f}"
    return [
        (name, length, column, *(f"{value:.4g}" for value in figures.values()))
        for column, figures in described.items()
        if column != "duration_s"
    ]


def plot(traces: Mapping[str, Conditions], path: Path, repeat: Sequence[str] = ()) -> Path:
    """Writes conditions traces by name to `path`: a page (.html) or an image.

    Raises ConfigError for another suffix or if the file cannot be written, MissingDependencyError if an image needs a
    browser.
    """
    images.check_suffix(path)
    figures = {name: _figure(name, trace) for name, trace in traces.items()}
    options: dict[str, Sequence[Block]] = {name: [figure] for name, figure in figures.items()}
    rows = [row for name, trace in traces.items() for row in cells(name, describe(trace))]
    page = Page(
        title=", ".join(traces) if len(traces) <= 3 else f"{len(traces)} conditions traces",
        kind="traces",
        lead="Rate, one-way delay and loss of links over time.",
        facts={"Traces": str(len(traces))},
        repeat=repeat,
        sections=[
            Section("Conditions", "Over one pass of the trace.", [Choice("Trace", options)]),
            Section("Statistics", "Of one pass, weighted by time.", [Table(HEAD, rows)]),
        ],
    )
    return images.save(path, page, [next(iter(figures.values()))])


def _figure(name: str, trace: Conditions) -> Figure:
    drawn = []
    for index, column in enumerate(trace.columns):
        times_ms, values = trace.columns[column].T
        end_ms = trace.period_ms or 1e3
        at = [*(times_ms / 1e3).tolist(), end_ms / 1e3]
        steps = charts.line(column, at, [*values.tolist(), float(values[-1])], charts.style(index), steps=True)
        drawn.append(
            Chart(Axis("time (s)", from_zero=True), Axis(_LABELS[column], from_zero=True), [steps], column, 240)
        )
    return Figure(name, drawn)


def _quantile(trace: Conditions, column: str, share: float) -> float:
    values, spans_ms = trace.weighted(column)
    order = np.argsort(values)
    reached = np.cumsum(spans_ms[order])
    return float(values[order][min(np.searchsorted(reached, share * reached[-1]), values.size - 1)])
