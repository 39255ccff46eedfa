"""The plot of one run: rates beside capacity, and queueing delay, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.eval.scenarios import tables
from ccarena.eval.scenarios.one_run import Run
from ccarena.eval.scenarios.page import means

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["figure"]

BIN_S = 0.1
"""Shortest bin that is drawn: below, single packets make a rate jump."""
CAPACITY = "#d5dae1"
# Colours that stay apart for colour-blind readers (Okabe and Ito, 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def figure(run: Run) -> go.Figure:
    """A plotly figure of `run`: every flow's rate beside the links' capacity, and the links' mean queueing delay.

    Raises MissingDependencyError if plotly is not installed, ConfigError if the run has no series.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "report", "a plot") from error
    flows, links = tables.TABLES["flow_series"]([run]), tables.TABLES["link_series"]([run])
    if not flows or not links:
        raise ConfigError(f"{run.scenario}: the backend {run.backend} recorded no series to plot")
    drawn = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.6, 0.4])
    for index, link in enumerate(dict.fromkeys(links["link"].tolist())):
        mine = {name: values[links["link"] == link] for name, values in links.items()}
        time_s, capacity = _binned(mine["time_s"], mine["capacity_mbps"])
        first = index == 0
        drawn.add_trace(
            go.Scatter(
                x=time_s, y=capacity, name=f"capacity of {link}", fill="tozeroy" if first else None,
                fillcolor=CAPACITY, line={"color": "#9aa3ad", "width": 0 if first else 1, "shape": "hv"},
            ),
            1, 1,
        )  # fmt: skip
        time_s, delay = _binned(mine["time_s"], mine["queueing_delay_ms"])
        line = {"color": COLOURS[-1 - index % len(COLOURS)], "width": 1.3}
        drawn.add_trace(go.Scatter(x=time_s, y=delay, name=f"queue of {link}", line=line), 2, 1)
    for index, flow in enumerate(dict.fromkeys(flows["flow"].tolist())):
        chosen = flows["flow"] == flow
        time_s, rate = _binned(flows["time_s"][chosen], flows["throughput_mbps"][chosen])
        name = f"{flow} ({flows['scheme'][chosen][0]})"
        line = {"color": COLOURS[index % len(COLOURS)], "width": 1.5}
        drawn.add_trace(go.Scatter(x=time_s, y=rate, name=name, line=line), 1, 1)
    drawn.update_yaxes(title_text="rate (Mbit/s)", rangemode="tozero", row=1, col=1)
    drawn.update_yaxes(title_text="queueing delay (ms)", rangemode="tozero", row=2, col=1)
    drawn.update_xaxes(title_text="time (s)", row=2, col=1)
    title = f"{run.scenario}, seed {run.seed}, {run.backend}"
    return drawn.update_layout(template="plotly_white", height=560, title=title, hovermode="x unified")


def _binned(time_s: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over bins of `BIN_S` at least, and when they begin."""
    step_s = float(time_s[1] - time_s[0]) if time_s.size > 1 else BIN_S
    every = max(1, round(BIN_S / step_s))
    return time_s[::every], means(values, every)
