"""The plot of an evaluation for `Outcome.plot`: utilisation against queueing delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccarena.errors import MissingDependencyError
from ccarena.eval.heldout.evaluation import Evaluation

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["figure"]

# Colours that stay apart for colour-blind readers (Okabe and Ito, 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#44AA99", "#999933", "#000000")
LEAST_DELAY_MS = 0.1


def figure(result: Evaluation) -> go.Figure:
    """A plotly figure: a panel per group of links, a mark per run; up and to the left is better.

    Raises MissingDependencyError if plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "report", "a plot") from error
    groups, seen = result.groups(), set()
    drawn = make_subplots(rows=1, cols=max(1, len(groups)), subplot_titles=groups, shared_yaxes=True)
    for column, group in enumerate(groups, start=1):
        for index, scheme in enumerate(result.schemes()):
            runs = [row for row in result.of(group, scheme) if row["queueing_delay_p95_ms"] is not None]
            runs = [row for row in runs if row.get("gain", 1.0) == 1.0]
            marks = go.Scatter(
                x=[max(row["queueing_delay_p95_ms"], LEAST_DELAY_MS) for row in runs],
                y=[100 * row["utilisation"] for row in runs],
                text=[f"{row['link']}, seed {row['seed']}" for row in runs],
                mode="markers", name=scheme, legendgroup=scheme, showlegend=scheme not in seen,
                marker={"color": COLOURS[index % len(COLOURS)], "size": 9, "opacity": 0.7},
            )  # fmt: skip
            if runs:
                drawn.add_trace(marks, 1, column)
                seen.add(scheme)
        drawn.update_xaxes(type="log", title_text="p95 queueing delay (ms)", row=1, col=column)
    drawn.update_yaxes(title_text="utilisation (%)", row=1, col=1)
    return drawn.update_layout(template="plotly_white", height=420)
