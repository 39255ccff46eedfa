"""The heat maps of `ccarena compete`: shares and harm of every pair, a row of panels per link and pair of base RTTs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import MissingDependencyError
from ccarena.eval.compete.tables import Matrix

__all__ = ["figure"]

INK = "#222222"
# Orange and blue stay apart for colour-blind readers; white is a fair share.
SHARES = [[0.0, "#b35806"], [0.25, "#fdb863"], [0.5, "#f7f7f7"], [0.75, "#92c5de"], [1.0, "#2166ac"]]
HARM = [[0.0, "#f7f7f7"], [0.5, "#fdae6b"], [1.0, "#a63603"]]
PANELS = (
    ("share", "Row's share (%)"),
    ("harm_throughput", "Harm to row's rate (%)"),
    ("harm_delay", "Harm to row's delay (%)"),
)
CELL_PX = 52


def figure(found: Sequence[Matrix]) -> Any:
    """A plotly figure of `matrices`: what each row gets beside each column.

    Raises MissingDependencyError if plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "report", "a heat map") from error
    longest = max((len(name) for matrix in found for name in matrix.entrants), default=5)
    widest = max((len(matrix.entrants) for matrix in found), default=2)
    heights = [max(len(matrix.entrants), 2) * CELL_PX for matrix in found]
    between = 120 + 4 * longest  # for tilted labels below, a heading and titles above
    panels = sum(heights) + between * (len(found) - 1)
    fig = make_subplots(
        rows=len(found), cols=3, subplot_titles=[title for _, title in PANELS] * len(found), shared_yaxes=True,
        horizontal_spacing=0.03, vertical_spacing=between / panels if len(found) > 1 else 0.0, row_heights=heights,
    )  # fmt: skip
    for row, matrix in enumerate(found, start=1):
        for column, (key, _) in enumerate(PANELS, start=1):
            value = matrix.figures[key]
            share = key == "share"
            colour = _against_fair(value, matrix.fair) if share else np.clip(value, 0.0, 1.0)
            heat = go.Heatmap(
                x=matrix.entrants, y=matrix.entrants, z=colour, zmin=0, zmax=1, xgap=2, ygap=2,
                colorscale=SHARES if share else HARM, showscale=False, customdata=100 * value,
                hovertemplate="%{y} beside %{x}: %{customdata:.1f} %<extra></extra>",
            )  # fmt: skip
            fig.add_trace(heat, row=row, col=column)
            for i, name in enumerate(matrix.entrants):
                for j, other in enumerate(matrix.entrants):
                    if np.isfinite(value[i, j]):
                        dark = colour[i, j] > 0.85 or (share and colour[i, j] < 0.12)
                        fig.add_annotation(
                            x=other, y=name, text=f"{round(100 * value[i, j])}", showarrow=False, row=row, col=column,
                            font={"color": "#ffffff" if dark else INK, "size": 13},
                        )  # fmt: skip
            if column == 1:
                top = fig.get_subplot(row, column).yaxis.domain[1]
                fig.add_annotation(
                    text=f"<b>{_where(matrix)}</b>", x=0, y=top, xref="paper", yref="paper", yshift=24,
                    xanchor="left", yanchor="bottom", showarrow=False, font={"size": 14},
                )  # fmt: skip
        fig.update_yaxes(autorange="reversed", row=row)
    fig.update_xaxes(showgrid=False, type="category", tickangle=-30)
    fig.update_yaxes(showgrid=False, type="category")
    top_px, bottom_px = 80, 40 + 4 * longest
    fig.update_layout(
        template="plotly_white",
        width=3 * max(widest, 4) * CELL_PX * 1.3 + 8 * longest + 80,
        height=panels + top_px + bottom_px,
        margin={"l": 30 + 8 * longest, "r": 20, "t": top_px, "b": bottom_px},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
    )
    return fig


def _against_fair(share: NDArray[np.float64], fair: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares on a scale on which 0.5 is fair: straight from 0 to fair and from fair to 1."""
    return np.where(share <= fair, 0.5 * share / fair, 0.5 + 0.5 * (share - fair) / (1.0 - fair))


def _where(matrix: Matrix) -> str:
    row, column = matrix.rtts_ms
    if row == column:
        return f"{matrix.link}; base RTT {row:g} ms"
    return f"{matrix.link}; base RTT {row:g} ms of the row, {column:g} ms of the column"
