"""Draws traces: capacity over time and its distribution."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, MissingDependencyError, TraceError
from ccarena.traces.stats import rates_mbps

__all__ = ["check_suffix", "figure", "plot", "save_figure"]

_IMAGES = {".svg", ".png", ".pdf"}
# Colours that stay apart for colour-blind readers (Okabe and Ito, 2008).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def figure(traces: Mapping[str, NDArray[np.uint32]], window_ms: int = 100) -> Any:
    """A plotly figure of traces by name: rate in windows of `window_ms` over time on the left, its CDF on the right.

    Raises:
        ConfigError: `window_ms` is not at least 1.
        TraceError: a trace is shorter than one window.
        MissingDependencyError: plotly is not installed.
    """
    if window_ms < 1:
        raise ConfigError(f"window_ms is {window_ms}; expected at least 1")
    try:
        from plotly.graph_objects import Scattergl
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError.for_extra("plotly", "report", "plotting a trace") from error
    fig = make_subplots(rows=1, cols=2, column_widths=[0.7, 0.3], shared_yaxes=True, horizontal_spacing=0.03)
    for i, (name, times) in enumerate(traces.items()):
        rates = rates_mbps(times, window_ms)
        if not rates.size:
            raise TraceError(f"{name}: the trace lasts {int(times[-1])} ms, less than a window of {window_ms} ms")
        look = {"name": name, "legendgroup": name, "line": {"color": _COLOURS[i % len(_COLOURS)], "width": 1}}
        starts_s = np.arange(rates.size) * (window_ms / 1000)
        share = np.arange(1, rates.size + 1) / rates.size
        fig.add_trace(Scattergl(x=starts_s, y=rates, mode="lines", **look), row=1, col=1)
        fig.add_trace(Scattergl(x=share, y=np.sort(rates), mode="lines", showlegend=False, **look), row=1, col=2)
    fig.update_xaxes(title_text="time (s)", row=1, col=1)
    fig.update_xaxes(title_text="share of time at or below", range=[0, 1], row=1, col=2)
    fig.update_yaxes(title_text=f"capacity (Mbit/s, {window_ms} ms)", rangemode="tozero", row=1, col=1)
    fig.update_layout(template="plotly_white", legend={"orientation": "h", "y": 1.12})
    return fig


def plot(traces: Mapping[str, NDArray[np.uint32]], path: str | os.PathLike[str], window_ms: int = 100) -> Path:
    """Writes `figure` to `path`: `.html` (self-contained) or `.svg`, `.png`, `.pdf` (these need kaleido).

    Raises:
        ConfigError: another suffix, or a wrong window.
        TraceError: a trace is too short, or the file cannot be written.
        MissingDependencyError: plotly, kaleido or kaleido's browser is missing.
    """
    path = Path(path)
    check_suffix(path)  # before the work of drawing
    fig = figure(traces, window_ms)
    if path.suffix.lower() in _IMAGES:
        fig.update_layout(width=1200, height=450)
    return save_figure(fig, path)


def save_figure(fig: Any, path: Path) -> Path:
    """Writes a plotly figure to `path`, whose suffix says in which form (see `plot`).

    Raises:
        ConfigError: another suffix.
        TraceError: the file cannot be written.
        MissingDependencyError: kaleido or its browser is missing.
    """
    suffix = check_suffix(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if suffix == ".html":
            fig.write_html(path, include_plotlyjs=True)
        else:
            path.write_bytes(_image(fig, suffix))
    except OSError as error:
        raise TraceError(f"{path}: cannot write the plot: {error.strerror}") from error
    return path


def check_suffix(path: Path) -> str:
    """The form of picture that `path` names, such as ".png". Raises ConfigError if it is none that can be written."""
    suffix = path.suffix.lower()
    if suffix != ".html" and suffix not in _IMAGES:
        raise ConfigError(f'{path}: cannot plot to "{suffix}"; expected .html, .svg, .png or .pdf')
    return suffix


def _image(fig: Any, suffix: str) -> bytes:
    try:
        data: bytes = fig.to_image(format=suffix[1:])
    except Exception as error:
        # Plotly and kaleido raise ValueError, RuntimeError or their own classes when the package or Chrome is missing.
        reason = str(error).strip().split("\n", 1)[0]
        raise MissingDependencyError(
            f'plotting to {suffix} needs the Python package "kaleido" and a Chrome that it can start ({reason}); '
            '`pip install "ccarena[images]"` and `kaleido_get_chrome`, or plot to .html, which needs neither'
        ) from error
    return data
