"""A suite's figures as the paper draws them: bars, lines, rates over time, curves of a model."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.eval.reproduce.suite import Figure, Loaded
from ccarena.eval.reproduce.values import Measured, Row
from ccarena.files import write_atomically

__all__ = ["draw"]

INK, GRID, CAPACITY = "#222222", "#e4e7eb", "#d5dae1"
# Okabe and Ito's colours, which stay apart for colour-blind readers; each series also has its own marker and dash.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#44AA99", "#999933")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon", "hexagon", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
WIDTH, PANEL_HEIGHT, GAP = 760, 250, 60
QUICK = "; QUICK: few seeds or a shorter sweep, no basis for a conclusion"


SCRIPT = "plotly.min.js"
IMAGE_TIMEOUT_S = 60.0
"""A browser that draws images now and then never answers."""


def draw(loaded: Loaded, rows: Sequence[Row], folder: Path, quick: bool, root: Path | None = None) -> list[Path]:
    """Writes each figure to `folder` as figure.html, .svg and .png (figure-2.html and so on for further ones).

    The pages need no network: the script that they use is in `root` (default: `folder`), which all suites share.
    Returns the files. Without plotly there are none; without kaleido and a browser there is no .svg and .png.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        return []
    script = (root or folder) / SCRIPT
    if not script.is_file():
        write_atomically(script, get_plotlyjs())
    written = []
    for number, (spec, value) in enumerate(loaded.figures, start=1):
        figure = _figure(loaded, spec, value, rows, quick)
        if figure is None:
            continue
        stem = folder / ("figure" if number == 1 else f"figure-{number}")
        page, images = stem.with_suffix(".html"), [stem.with_suffix(suffix) for suffix in (".svg", ".png")]
        mark = f"<!-- {hashlib.sha256(figure.to_json().encode()).hexdigest()} -->"
        if not _drawn(page, images, mark):
            for image in images:
                image.unlink(missing_ok=True)
            html = figure.to_html(include_plotlyjs=os.path.relpath(script, folder), div_id=stem.name)
            write_atomically(page, f"{html}{mark}\n")
            for image in images:
                data = _image(figure, image.suffix[1:])
                if data is None:
                    break
                image.write_bytes(data)
        written += [path for path in (page, *images) if path.is_file()]
    return written


def _drawn(page: Path, images: Sequence[Path], mark: str) -> bool:
    """Whether this very figure is there with its images, which take seconds each."""
    return all(path.is_file() for path in (page, *images)) and page.read_text("utf-8").endswith(f"{mark}\n")


def _image(figure: Any, form: str) -> bytes | None:
    """The figure as an image; none without kaleido and a browser, or if that does not answer in time."""
    if _silent:
        return None
    images: list[bytes] = []

    def draw_image() -> None:
        # Plotly and kaleido raise ValueError, RuntimeError or their own classes without the package or Chrome.
        with contextlib.suppress(Exception):
            images.append(figure.to_image(format=form, scale=2 if form == "png" else 1))

    thread = threading.Thread(target=draw_image, daemon=True)
    thread.start()
    thread.join(IMAGE_TIMEOUT_S)
    if thread.is_alive():
        _silent.append(form)
    return images[0] if images else None


_silent: list[str] = []
"""The image that the browser did not give; it is not asked again in this process."""


def _figure(loaded: Loaded, spec: Figure, value: Measured | None, rows: Sequence[Row], quick: bool) -> Any:
    from plotly.subplots import make_subplots

    where = {axis: str(label) for axis, label in spec.where.items()}
    panels = list(loaded.axes[spec.panels]) if spec.panels else [""]
    panels = [panel for panel in panels if _matching(rows, {**where, **({spec.panels: panel} if panel else {})})]
    if not panels:
        return None
    figure = make_subplots(
        rows=len(panels), cols=1, subplot_titles=[panel and f"{spec.panels} {panel}" for panel in panels],
        vertical_spacing=GAP / (len(panels) * (PANEL_HEIGHT + GAP)),
    )  # fmt: skip
    for index, panel in enumerate(panels, start=1):
        chosen = {**where, **({spec.panels: panel} if panel else {})}
        if spec.kind == "over_time":
            _over_time(figure, index, spec, _matching(rows, chosen))
        elif spec.kind == "curves":
            _curves(figure, index, _matching(rows, chosen))
        elif value is not None:
            _series(figure, index, loaded, spec, value, rows, chosen)
        targets = [] if spec.target is None else spec.target if isinstance(spec.target, list) else [spec.target]
        for target in targets:
            figure.add_hline(target, row=index, col=1, line={"color": INK, "dash": "dot", "width": 1})
    default_x = "time (s)" if spec.kind == "over_time" else spec.x.replace("_", " ")
    figure.update_xaxes(
        title_text=spec.x_label or default_x, type="log" if spec.log_x else None, row=len(panels), col=1
    )
    figure.update_yaxes(title_text=spec.y_label, type="log" if spec.log_y else None)
    if not spec.log_y:
        figure.update_yaxes(rangemode="tozero")
    title = f"{spec.title or loaded.suite.title}<br><sup>{loaded.suite.paper}{QUICK if quick else ''}</sup>"
    figure.update_layout(
        template="plotly_white", width=WIDTH, height=(PANEL_HEIGHT + GAP) * len(panels) + 90, title={"text": title},
        font={"color": INK}, legend={"tracegroupgap": 0}, barmode="group", margin={"t": 90, "b": 60},
    )  # fmt: skip
    figure.update_xaxes(gridcolor=GRID, linecolor=INK, showline=True, ticks="outside")
    figure.update_yaxes(gridcolor=GRID, linecolor=INK, showline=True, ticks="outside")
    return figure


def _matching(rows: Sequence[Row], chosen: Mapping[str, str]) -> list[Row]:
    return [row for row in rows if all(row["cell"].get(axis) == label for axis, label in chosen.items())]


def _series(
    figure: Any,
    panel: int,
    loaded: Loaded,
    spec: Figure,
    value: Measured,
    rows: Sequence[Row],
    chosen: Mapping[str, str],
) -> None:
    """Lines or bars: `y` over the labels of `x`, one series per label of `by`."""
    import plotly.graph_objects as go

    present = _matching(rows, chosen)
    names = {axis: _labels(loaded, present, axis) for axis in (spec.x, spec.by) if axis}
    for number, by in enumerate(names.get(spec.by, [""])):
        xs, ys, low, high = [], [], [], []
        for x in names[spec.x]:
            point = {**chosen, spec.x: x, **({spec.by: by} if by else {})}
            result = value(rows, point)
            y = result.values[0] if result.values else math.nan
            ends = result.intervals[0] if result.intervals else (math.nan, math.nan)
            xs.append(x if spec.kind == "bars" else _number(x))
            ys.append(y if math.isfinite(y) else None)
            low.append(max(y - ends[0], 0.0) if math.isfinite(y - ends[0]) else 0.0)
            high.append(max(ends[1] - y, 0.0) if math.isfinite(ends[1] - y) else 0.0)
        colour = COLOURS[number % len(COLOURS)]
        shared: dict[str, Any] = {"name": by or spec.y_label, "legendgroup": by, "showlegend": panel == 1 and bool(by)}
        if any(low) or any(high):
            shared["error_y"] = {"array": high, "arrayminus": low, "symmetric": False, "thickness": 1, "width": 3}
        if spec.kind == "bars":
            figure.add_trace(go.Bar(x=xs, y=ys, marker={"color": colour}, **shared), panel, 1)
            figure.update_xaxes(type="category", row=panel, col=1)
        else:
            line = {"color": colour, "dash": DASHES[number % len(DASHES)], "width": 2}
            marker = {"symbol": MARKERS[number % len(MARKERS)], "size": 7}
            figure.add_trace(go.Scatter(x=xs, y=ys, mode="lines+markers", line=line, marker=marker, **shared), panel, 1)


def _over_time(figure: Any, panel: int, spec: Figure, rows: Sequence[Row]) -> None:
    """The series of the first seed: rates of each flow before the capacity, its periods, or the queueing delay."""
    import plotly.graph_objects as go

    series = next((row["series"] for row in rows if "series" in row), None)
    if series is None:
        return
    bin_s = series["bin_s"]
    time_s = [round((i + 0.5) * bin_s, 6) for i in range(len(series["capacity_mbps"]))]
    if spec.series == "queueing_ms":
        trace = go.Scatter(
            x=time_s, y=series["queueing_ms"], mode="lines", line={"color": COLOURS[0]}, showlegend=False
        )
        figure.add_trace(trace, panel, 1)
        figure.update_yaxes(title_text=spec.y_label or "queueing delay (ms)", row=panel, col=1)
        return
    if not spec.log_y and spec.series == "throughput_mbps":
        capacity = go.Scatter(
            x=time_s, y=series["capacity_mbps"], name="capacity", mode="lines", fill="tozeroy", fillcolor=CAPACITY,
            line={"width": 0, "shape": "hv"}, legendgroup="capacity", showlegend=panel == 1,
        )  # fmt: skip
        figure.add_trace(capacity, panel, 1)
    for number, (name, rates) in enumerate(series[spec.series].items()):
        line = {
            "color": COLOURS[number % len(COLOURS)],
            "width": 1.6,
            "dash": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        shown = [rate if (rate and rate > 0) or not spec.log_y else None for rate in rates]
        trace = go.Scatter(
            x=time_s, y=shown, name=name, mode="lines", line=line, legendgroup=name, showlegend=panel == 1
        )
        figure.add_trace(trace, panel, 1)


def _curves(figure: Any, panel: int, rows: Sequence[Row]) -> None:
    """The curves that a computed suite's rows bring along."""
    import plotly.graph_objects as go

    curves = [(row, name, curve) for row in rows for name, curve in (row.get("curves") or {}).items()]
    for number, (row, name, curve) in enumerate(curves):
        text = ", ".join([*row["cell"].values(), name]) if len(rows) > 1 else name
        line = {"color": COLOURS[number % len(COLOURS)], "dash": DASHES[number // len(COLOURS) % len(DASHES)]}
        shown = text not in {trace.name for trace in figure.data}
        trace = go.Scatter(
            x=curve["x"], y=curve["y"], mode="lines", name=text, line=line, legendgroup=text, showlegend=shown
        )
        figure.add_trace(trace, panel, 1)


def _labels(loaded: Loaded, rows: Sequence[Row], axis: str) -> list[str]:
    if axis == "flow":
        return [flow["name"] for flow in rows[0]["flows"]] if rows else []
    present = {row["cell"][axis] for row in rows}
    return [label for label in loaded.axes[axis] if label in present]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
