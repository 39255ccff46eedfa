"""The report's figures, from an `Evaluation` and a training's progress: plotly figures with units, in one look.

Colours are Okabe and Ito's, which stay apart for colour-blind readers; each scheme also has its own dash and marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ccarena.eval.heldout.evaluation import ORACLE, Evaluation

__all__ = ["action_map", "category_shares", "learning_curve", "over_time", "queue_cdf", "throughput_delay"]

INK, GRID, CAPACITY = "#222222", "#e4e7eb", "#d5dae1"
# colour, dash, marker
STYLES: dict[str, tuple[str, str, str]] = {
    "cubic": ("#D55E00", "solid", "square"),
    "bbr": ("#009E73", "dash", "diamond"),
    "reno": ("#CC79A7", "dashdot", "triangle-up"),
    ORACLE: ("#000000", "longdash", "star"),
}
POLICY = ("#0072B2", "solid", "circle")
CONTROLS = (("#56B4E9", "dot", "circle-open"), ("#E69F00", "dot", "circle-cross-open"))
SPARE = (("#882255", "dash", "x"), ("#44AA99", "dot", "cross"), ("#999933", "dashdot", "pentagon"))
COLOURS = {"green": "#009E73", "yellow": "#F0E442", "red": "#D55E00", "blue": "#0072B2"}
"""Of categories: a name that is a colour has it, others take them in turn."""
NAMES = {
    "cubic": "CUBIC",
    "bbr": "BBR",
    "reno": "Reno",
    ORACLE: "one-RTT-late oracle",
}
LEAST_DELAY_MS = 0.1
BUDGET_MS = 5.0
DELAY_TICKS = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000]


def name_of(scheme: str, policy: str = "") -> str:
    """How a scheme is called in figures, `policy` being the one that is evaluated."""
    return f"{scheme} (this policy)" if scheme == policy else NAMES.get(scheme, scheme)


def colour_of(category: str, index: int) -> str:
    """Of a category, the `index`th of its kind."""
    return COLOURS.get(category, tuple(COLOURS.values())[index % len(COLOURS)])


def learning_curve(progress: Sequence[Mapping[str, Any]], shares: Mapping[str, Sequence[str]]) -> go.Figure:
    """Reward and, where there are any, entropy and shares of categories, from the lines of `progress.jsonl`."""
    decisions = [row["decisions"] for row in progress]
    lines = [("reward_mean", "Reward per decision (mean)", "reward")]
    if any("entropy" in row for row in progress):
        lines.append(("entropy", "Entropy of the policy", "entropy (nats)"))
    shown = [name for name, categories in shares.items() if any(f"{name}_{categories[0]}" in row for row in progress)]
    titles = [title for _, title, _ in lines] + [f"Decisions by {name}" for name in shown]
    figure = make_subplots(
        rows=len(titles), cols=1, shared_xaxes=True, vertical_spacing=0.07, subplot_titles=tuple(titles)
    )
    for row, (key, _, unit) in enumerate(lines, start=1):
        line = go.Scatter(
            x=decisions, y=[point.get(key) for point in progress], line={"color": INK, "width": 2}, showlegend=False
        )
        figure.add_trace(line, row, 1)
        figure.update_yaxes(title_text=unit, row=row, col=1)
        if key == "entropy":
            figure.update_yaxes(rangemode="tozero", row=row, col=1)
    for row, name in enumerate(shown, start=len(lines) + 1):
        for index, category in enumerate(shares[name]):
            share = [100 * (point.get(f"{name}_{category}") or 0.0) for point in progress]
            line_style = {"width": 0.5, "color": colour_of(category, index)}
            area = go.Scatter(x=decisions, y=share, name=f"{category} {name}", stackgroup=name, line=line_style)
            figure.add_trace(area, row, 1)
        figure.update_yaxes(title_text="share (%)", range=[0, 100], row=row, col=1)
    figure.update_xaxes(title_text="decisions", row=len(titles), col=1)
    return _styled(figure, height=180 + 500 * len(titles) // 3)


def over_time(series: Mapping[str, Any], result: Evaluation) -> go.Figure:
    """Rate beside capacity, and the largest queueing delay of each 100 ms, of every scheme on one link."""
    time_s = np.asarray(series["time_s"])
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.55, 0.45])
    capacity = go.Scatter(
        x=time_s,
        y=series["capacity_mbps"],
        name="capacity",
        fill="tozeroy",
        fillcolor=CAPACITY,
        line={"width": 0, "shape": "hv"},
        hoverinfo="skip",
    )
    figure.add_trace(capacity, 1, 1)
    for scheme, lines in _policy_last(series["schemes"], result.policy):
        colour, dash, _ = style_of(scheme, result)
        line = {"color": colour, "dash": dash, "width": 2.2 if scheme == result.policy else 1.3}
        shared = {
            "x": time_s,
            "mode": "lines",
            "name": name_of(scheme, result.policy),
            "legendgroup": scheme,
            "legendrank": 1 if scheme == result.policy else 1000,
            "line": line,
            "visible": "legendonly" if scheme in result.meta.get("controls", []) else True,
        }
        delay = [None if value is None else max(value, LEAST_DELAY_MS) for value in lines["queueing_delay_ms"]]
        figure.add_trace(go.Scatter(y=lines["rate_mbps"], **shared), 1, 1)
        figure.add_trace(go.Scatter(y=delay, showlegend=False, **shared), 2, 1)
    figure.add_hline(BUDGET_MS, row=2, col=1, line={"color": INK, "dash": "dot", "width": 1})
    figure.add_annotation(
        text="5 ms budget",
        x=1,
        xref="x2 domain",
        y=np.log10(BUDGET_MS),
        yref="y2",
        showarrow=False,
        yshift=9,
        bgcolor="rgba(255,255,255,0.7)",
        xanchor="right",
    )
    figure.update_yaxes(title_text="rate (Mbit/s)", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="queueing delay (ms, log)", type="log", tickvals=DELAY_TICKS, row=2, col=1)
    figure.update_xaxes(title_text="time (s)", row=2, col=1)
    return _styled(figure, height=560)


def throughput_delay(result: Evaluation) -> go.Figure:
    """Utilisation against p95 queueing delay: one small mark per run, one large mark per scheme at the median."""
    groups = result.groups()
    figure = _grid(groups)
    for index, group in enumerate(groups):
        row, column = divmod(index, 2)
        for scheme in result.schemes():
            runs = [
                r
                for r in result.of(group, scheme)
                if r["queueing_delay_p95_ms"] is not None and r.get("gain", 1.0) == 1.0
            ]
            if not runs:
                continue
            delay = np.maximum([run["queueing_delay_p95_ms"] for run in runs], LEAST_DELAY_MS)
            use = np.array([100 * run["utilisation"] for run in runs])
            colour, _, symbol = style_of(scheme, result)
            text = [f"{run['link']}, seed {run['seed']}" for run in runs]
            marks = go.Scatter(
                x=delay, y=use, text=text, mode="markers",
                name=name_of(scheme, result.policy), legendgroup=scheme, showlegend=False,
                marker={"color": colour, "symbol": symbol, "size": 6, "opacity": 0.35},
            )  # fmt: skip
            median = go.Scatter(
                x=[np.median(delay)], y=[np.median(use)], mode="markers",
                name=name_of(scheme, result.policy), legendgroup=scheme,
                showlegend=index == 0, marker={"color": colour, "symbol": symbol, "size": 15, "line": {"width": 1.5}},
            )  # fmt: skip
            figure.add_trace(marks, row + 1, column + 1)
            figure.add_trace(median, row + 1, column + 1)
        curve = _oracle_curve(result, group)
        if len(curve) > 1:
            line = go.Scatter(
                x=[point[0] for point in curve], y=[point[1] for point in curve], mode="lines", name=name_of(ORACLE),
                text=[f"gain {point[2]:g}" for point in curve],
                legendgroup=ORACLE, showlegend=False, line={"color": STYLES[ORACLE][0], "dash": "dot", "width": 1.5},
            )  # fmt: skip
            figure.add_trace(line, row + 1, column + 1)
        figure.update_xaxes(
            type="log", tickvals=DELAY_TICKS, title_text="p95 queueing delay (ms, log)", row=row + 1, col=column + 1
        )
        figure.update_yaxes(title_text="utilisation (%)", row=row + 1, col=column + 1)
    return _styled(figure, height=420 * ((len(groups) + 1) // 2))


def _oracle_curve(result: Evaluation, group: str) -> list[tuple[float, float, float]]:
    """(p95 delay, utilisation, gain) of the oracle's median run for each gain."""
    rows = [row for row in result.of(group, ORACLE) if row["queueing_delay_p95_ms"] is not None]
    points = []
    for gain in sorted({row["gain"] for row in rows}):
        runs = [row for row in rows if row["gain"] == gain]
        delay = float(np.median([max(row["queueing_delay_p95_ms"], LEAST_DELAY_MS) for row in runs]))
        points.append((delay, float(np.median([100 * row["utilisation"] for row in runs])), gain))
    return points


def queue_cdf(result: Evaluation) -> go.Figure:
    """Share of the time with at most k packets queued, pooled over a group's runs (ACCT's Fig. 5a)."""
    groups = [group for group in result.groups() if group in result.queue_ns]
    figure = _grid(groups)
    for index, group in enumerate(groups):
        row, column = divmod(index, 2)
        for scheme, spent in _policy_last(result.queue_ns[group], result.policy):
            colour, dash, _ = style_of(scheme, result)
            share = 100 * np.cumsum(spent) / max(np.sum(spent), 1)
            line = go.Scatter(
                # Moved by one packet, so that an empty queue has a place on the logarithmic axis.
                x=np.arange(len(share)) + 1, y=share, mode="lines",
                name=name_of(scheme, result.policy), legendgroup=scheme,
                legendrank=1 if scheme == result.policy else 1000, showlegend=index == 0,
                line={"color": colour, "dash": dash, "shape": "hv", "width": 2},
            )  # fmt: skip
            figure.add_trace(line, row + 1, column + 1)
        ticks = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        figure.update_xaxes(
            type="log", tickvals=[k + 1 for k in ticks], ticktext=[str(k) for k in ticks],
            title_text="queued packets (log)", row=row + 1, col=column + 1,
        )  # fmt: skip
        figure.update_yaxes(title_text="share of the time (%)", range=[0, 101], row=row + 1, col=column + 1)
    return _styled(figure, height=380 * ((len(groups) + 1) // 2))


def category_shares(result: Evaluation) -> go.Figure:
    """In which category decisions were taken, for the policy and for its scheme with one action always."""
    labels: list[list[str]] = [[], []]
    shares: list[list[float]] = []
    for group in result.groups():
        for scheme in (result.policy, *result.meta.get("controls", [])):
            counts = np.asarray(result.actions.get(group, {}).get(scheme, 0))
            if counts.sum() > 0:
                labels[0].append(group)
                labels[1].append("policy" if scheme == result.policy else scheme)
                shares.append(list(counts.sum(axis=1) / counts.sum()))
    figure = go.Figure()
    for index, category in enumerate(result.meta["categories"]):
        heights, colour = [100 * share[index] for share in shares], colour_of(category, index)
        figure.add_trace(go.Bar(x=labels, y=heights, name=category, marker_color=colour))
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title_text="share of decisions (%)", range=[0, 100])
    return _styled(figure, height=380)


def action_map(result: Evaluation) -> go.Figure:
    """How often the policy chooses each action after an interval of each category, in % of its decisions there."""
    categories, actions = result.meta["categories"], result.meta["action_values"]
    seen = [np.asarray(by[result.policy]) for by in result.actions.values() if result.policy in by]
    counts = sum(seen, np.zeros((len(categories), len(actions))))
    total = counts.sum(axis=1)
    share = 100 * counts / np.maximum(total, 1)[:, None]
    names = [f"{category} ({int(n):,})" for category, n in zip(categories, total, strict=True)]
    figure = go.Figure(
        go.Heatmap(
            x=[f"{action:g}" for action in actions],
            y=names,
            z=share,
            text=[[f"{value:.0f}" if value >= 0.5 else "" for value in row] for row in share],
            texttemplate="%{text}",
            colorscale="Blues",
            zmin=0,
            zmax=100,
            colorbar={"title": "% of the<br>category"},
        )
    )
    figure.update_xaxes(title_text="action chosen", type="category")
    figure.update_yaxes(title_text="category before (decisions)", autorange="reversed", showgrid=False)
    return _styled(figure, height=320)


def style_of(scheme: str, result: Evaluation) -> tuple[str, str, str]:
    """(colour, dash, marker) of a scheme; those that are not listed share the spare ones, by name."""
    if scheme == result.policy:
        return POLICY
    controls = result.meta.get("controls", [])
    if scheme in controls:
        return CONTROLS[controls.index(scheme) % len(CONTROLS)]
    return STYLES.get(scheme) or SPARE[sum(scheme.encode()) % len(SPARE)]


def _policy_last(schemes: Mapping[str, Any], policy: str) -> list[tuple[str, Any]]:
    """What is drawn last lies on top."""
    return sorted(schemes.items(), key=lambda item: item[0] == policy)


def _grid(groups: Sequence[str]) -> go.Figure:
    rows = max(1, (len(groups) + 1) // 2)
    return make_subplots(
        rows=rows,
        cols=2,
        subplot_titles=[group[:1].upper() + group[1:] for group in groups],
        vertical_spacing=0.4 / (rows + 0.5),
        horizontal_spacing=0.09,
    )


def _styled(figure: go.Figure, height: int) -> go.Figure:
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 70, "r": 20, "t": 60, "b": 55},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.04, "x": 0},
        hovermode="closest",
    )
    figure.update_xaxes(gridcolor=GRID, zeroline=False, linecolor="#9aa3ad")
    figure.update_yaxes(gridcolor=GRID, zeroline=False, linecolor="#9aa3ad")
    return figure
