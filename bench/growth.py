"""Draws how the cost of a packet in the simulator grows with flows, links and window: docs/images/growth.svg."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ccarena.errors import MissingDependencyError
from ccarena.measurements import Entry
from ccarena.traces.plot import save_figure

IMAGE = Path("docs", "images", "growth.svg")
PREFIX = "simulator/growth/"
PANELS = {
    "flows": "flows on one link (10 Mbit/s each)",
    "links": "links of a parking lot",
    "window": "window of one flow (packets)",
}


def draw(entries: Sequence[Entry], path: Path = IMAGE) -> None:
    """Writes the plot of those `entries` that say how the cost grows: a panel each for flows, links and window.

    Raises MissingDependencyError if plotly, kaleido or its browser is missing, TraceError if `path` cannot be written.
    """
    save_figure(figure(entries), path)


def figure(entries: Sequence[Entry]) -> Any:
    """The plotly figure. Raises MissingDependencyError if plotly is missing."""
    try:
        from plotly.graph_objects import Scatter
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "report", "drawing measurements") from error
    fig = make_subplots(rows=1, cols=len(PANELS), shared_yaxes=True, horizontal_spacing=0.03)
    for column, (what, title) in enumerate(PANELS.items(), start=1):
        points = curve(entries, what)
        look = {"mode": "lines+markers", "line": {"color": "#0072B2"}, "showlegend": False}
        fig.add_trace(
            Scatter(x=[size for size, _ in points], y=[cost for _, cost in points], **look), row=1, col=column
        )
        fig.update_xaxes(title_text=title, type="log", dtick=1, row=1, col=column)
    fig.update_yaxes(rangemode="tozero")
    fig.update_yaxes(title_text="cost of a packet on a link (ns)", row=1, col=1)
    fig.update_layout(template="plotly_white", width=900, height=300, margin={"t": 20, "r": 20})
    return fig


def curve(entries: Sequence[Entry], what: str) -> list[tuple[int, float]]:
    """Sizes and the cost of a packet at each in ns."""
    start = f"{PREFIX}{what}/"
    return sorted((int(e.name.removeprefix(start)), float(e.value)) for e in entries if e.name.startswith(start))
