"""A row per case and a panel per figure: the simulated runs beside the kernel's, in multiples of the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.errors import MissingDependencyError
from ccarena.eval.fidelity.recorded import DELAY_MS, DELAY_REL, THROUGHPUT_REL
from ccarena.traces.plot import save_figure

__all__ = ["figure", "save"]

DELAY_BOUND = f"{DELAY_REL:.0%} or {DELAY_MS:g} ms"
PANELS = (
    ("throughput_mbps", "Throughput", f"{THROUGHPUT_REL:.0%}"),
    ("mean", "Mean queueing delay", DELAY_BOUND),
    ("p95", "p95 queueing delay", DELAY_BOUND),
)
# How cases come out: colour (Okabe and Ito, 2008) and marker.
OUTCOMES = {
    "within": ("#0072B2", "circle"),
    "chaotic, judged on throughput": ("#E69F00", "diamond"),
    "missed": ("#D55E00", "x"),
}
INK, ALLOWED, KERNEL = "#222222", "#d5ebe3", "#7a8490"
WIDEST = 4.0
"""Multiples of the bound that are drawn at most; what lies farther out is seen to leave the panel."""


def figure(cases: Sequence[Mapping[str, Any]]) -> Any:
    """A plotly figure of `compare`'s results. Zero is the middle of what the kernel's runs span.

    Green is what is allowed, grey what the kernel's runs span, a mark the simulated median, its bar the spread.
    Raises MissingDependencyError if plotly is not installed.
    """
    try:
        from plotly.graph_objects import Bar, Scatter
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "report", "plotting") from error
    titles = [title for _, title, _ in PANELS]
    fig = make_subplots(rows=1, cols=3, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.02)
    names = [case["name"] for case in cases]
    for column, (key, _, unit) in enumerate(PANELS, start=1):
        at = {"row": 1, "col": column}
        span = np.array([_scaled(case, key, case["measured"][key]) for case in cases])
        first = column == 1
        for label, low, high, colour, width in (
            ("allowed", span[:, 0] - 1, span[:, 1] + 1, ALLOWED, 0.9),
            ("kernel's runs", span[:, 0] - 0.02, span[:, 1] + 0.02, KERNEL, 0.5),
        ):
            bar = Bar(
                y=names, x=high - low, base=low, orientation="h", width=width, marker={"color": colour},
                name=label, legendgroup=label, showlegend=first, hoverinfo="skip",
            )  # fmt: skip
            fig.add_trace(bar, **at)
        for outcome, (colour, symbol) in OUTCOMES.items():
            chosen = [case for case in cases if _outcome(case) == outcome]
            if not chosen:
                continue
            x = np.array([_scaled(case, key, [case["simulated"]["median"][key]])[0] for case in chosen])
            spread = np.array([_scaled(case, key, case["simulated"]["spread"][key]) for case in chosen])
            bars = {"array": np.maximum(spread[:, 1] - x, 0), "arrayminus": np.maximum(x - spread[:, 0], 0)}
            marks = Scatter(
                x=x, y=[case["name"] for case in chosen], mode="markers", name=outcome, legendgroup=outcome,
                showlegend=first, marker={"color": colour, "symbol": symbol, "size": 7},
                error_x={"type": "data", "thickness": 1.2, "width": 2, "color": colour, **bars},
                text=[_numbers(case, key) for case in chosen], hovertemplate="%{y}<br>%{text}<extra></extra>",
            )  # fmt: skip
            fig.add_trace(marks, **at)
        fig.update_xaxes(title_text=f"difference in bounds ({unit})", range=[-WIDEST, WIDEST], dtick=1, **at)
    fig.update_yaxes(range=[len(cases) - 0.5, -0.5], tickfont={"size": 11}, showgrid=False)
    fig.update_layout(
        template="plotly_white",
        barmode="overlay",
        height=170 + 18 * len(cases),
        width=1500,
        margin={"l": 10, "r": 20, "t": 90, "b": 55},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        legend={"orientation": "h", "yanchor": "top", "y": 1, "yref": "container", "x": 0},
    )
    return fig


def save(cases: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Writes `figure` to `path`; raises what `traces.plot.save_figure` does."""
    return save_figure(figure(cases), path)


def _scaled(case: Mapping[str, Any], key: str, values: Sequence[float]) -> list[float]:
    """From the middle of the kernel's range, in multiples of the bound."""
    middle = sum(case["measured"][key]) / 2
    return [(value - middle) / case["bounds"][key] for value in values]


def _numbers(case: Mapping[str, Any], key: str) -> str:
    low, high = case["measured"][key]
    return f"kernel {low:.4g} to {high:.4g}, simulated {case['simulated']['median'][key]:.4g}"


def _outcome(case: Mapping[str, Any]) -> str:
    if not case["within"]:
        return "missed"
    return "chaotic, judged on throughput" if case["chaotic"] else "within"
