"""Charts as plain data in plotly.js's vocabulary: axes with units, and traces.

Colours are names of the style sheet's variables, such as `var(--blue)`, so that one chart suits the light and the dark
theme. The series' colours are Okabe and Ito's (2008), which colour-blind readers can tell apart. Each series also has
its own dash and marker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "INK",
    "MUTED",
    "STYLES",
    "Axis",
    "Chart",
    "Even",
    "Style",
    "area",
    "bars",
    "cells",
    "line",
    "marks",
    "style",
]

INK, MUTED, CAPACITY = "var(--ink)", "var(--muted)", "var(--capacity)"
Trace = Mapping[str, Any]


@dataclass(frozen=True)
class Style:
    """Look of a series in every chart of a page."""

    colour: str
    dash: str = "solid"
    symbol: str = "circle"


STYLES = (
    Style("var(--blue)", "solid", "circle"),
    Style("var(--vermilion)", "solid", "square"),
    Style("var(--green)", "dash", "diamond"),
    Style("var(--purple)", "dashdot", "triangle-up"),
    Style("var(--orange)", "solid", "x"),
    Style("var(--sky)", "dash", "cross"),
    Style("var(--wine)", "dot", "star"),
    Style("var(--teal)", "dashdot", "pentagon"),
    Style("var(--olive)", "longdash", "hexagon"),
    Style(INK, "dot", "triangle-down"),
)


def style(index: int) -> Style:
    """Returns the look of the `index`th series."""
    return STYLES[index % len(STYLES)]


@dataclass(frozen=True)
class Axis:
    """An axis and its title, which names the unit."""

    title: str
    log: bool = False
    low: float | None = None
    high: float | None = None
    """Ends of the axis in its unit; None lets the data decide."""
    from_zero: bool = False
    ticks: Sequence[float] = ()
    labels: Sequence[str] = ()
    """Positions of ticks and their labels, which replace the numbers."""
    short: Sequence[str] = ()
    """Short labels or category names for narrow screens."""
    reversed: bool = False
    category: bool = False
    """Positions on the axis are words."""

    def layout(self) -> dict[str, Any]:
        """Returns the axis as plotly's layout."""
        out: dict[str, Any] = {"title": {"text": self.title}}
        if self.log:
            # Labels at 1, 2 and 5 of each decade.
            out |= {"type": "log", "dtick": "D2"}
        if self.category:
            out["type"] = "category"
        if self.low is not None or self.high is not None:
            out["range"] = [self._end(self.low), self._end(self.high)]
        elif self.from_zero and not self.log:
            out["rangemode"] = "tozero"
        if self.ticks:
            out |= {"tickmode": "array", "tickvals": list(self.ticks)}
        if self.labels:
            out["ticktext"] = list(self.labels)
        if self.reversed:
            out |= {"range": out["range"][::-1]} if "range" in out else {"autorange": "reversed"}
        return out

    def _end(self, value: float | None) -> float | None:
        return value if value is None or not self.log else math.log10(value)


@dataclass(frozen=True)
class Chart:
    """One pair of axes."""

    x: Axis
    y: Axis
    traces: Sequence[Trace]
    title: str = ""
    height: int = 300
    """Height in pixels."""
    unified: bool = False
    """Hovering shows all series at that x instead of the nearest mark."""
    bars: Literal["group", "stack", "overlay"] = "group"
    """Arrangement of bars at one position: side by side, stacked, or one in front of the other."""
    levels: Sequence[tuple[float, str]] = ()
    """Dotted horizontal lines, by y, with their labels."""

    def plain(self) -> dict[str, Any]:
        """Returns the chart as the page's script takes it."""
        layout = {"xaxis": self.x.layout(), "yaxis": self.y.layout()}
        layout["hovermode"] = "x unified" if self.unified else "closest"  # type: ignore[assignment]
        layout["barmode"] = self.bars  # type: ignore[assignment]
        if self.levels:
            layout["shapes"] = [  # type: ignore[assignment]
                {
                    **{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level},
                    "line": {"color": INK, "dash": "dot", "width": 1},
                    "label": {"text": text, "textposition": "end", "font": {"size": 11, "color": INK}},
                }
                for level, text in self.levels
            ]
        out = {"traces": [dict(trace) for trace in self.traces], "layout": layout, "height": self.height}
        return out | ({"short": list(self.y.short)} if self.y.short else {})


@dataclass(frozen=True)
class Even:
    """Evenly spaced positions, which a page need not store one by one."""

    start: float
    step: float


@dataclass(frozen=True)
class Interval:
    """Ends of intervals about values; NaN where there is none."""

    low: Iterable[float]
    high: Iterable[float]


def line(
    name: str,
    x: Even | Sequence[Any],
    y: Iterable[float | None],
    look: Style,
    *,
    width: float = 1.6,
    steps: bool = False,
    shown: bool = True,
    markers: bool = False,
    stack: str = "",
    interval: Interval | None = None,
    text: Sequence[str] = (),
) -> Trace:
    """Returns a line through (x, y) with gaps where y is None or NaN. With `shown` False a click in the legend shows
    it.

    Lines of one `stack` are areas on top of each other.
    """
    out: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "line": {"color": look.colour, "dash": look.dash, "width": width, "shape": "hv" if steps else "linear"},
        "y": _numbers(y),
        **_positions(x),
    }
    if markers:
        out["marker"] = {"color": look.colour, "symbol": look.symbol, "size": 7}
    if not shown:
        out["visible"] = "legendonly"
    if stack:
        out |= {"stackgroup": stack, "line": {"color": look.colour, "width": 0.5}}
    if interval is not None:
        out["error_y"] = _error(out["y"], interval, look.colour)
    if text:
        out["text"] = list(text)
    return out


def area(name: str, x: Even | Sequence[float], y: Iterable[float | None]) -> Trace:
    """Returns capacity as a grey area in steps behind everything; each step reaches to the next position."""
    heights = _numbers(y)
    return {
        **{"type": "scatter", "mode": "lines", "name": name, "fill": "tozeroy", "fillcolor": CAPACITY},
        "line": {"width": 0, "shape": "hv", "color": CAPACITY},
        "y": heights + heights[-1:] if isinstance(x, Even) else heights,
        **_positions(x),
    }


def marks(
    name: str,
    x: Sequence[Any],
    y: Sequence[Any],
    look: Style,
    *,
    size: int = 7,
    opacity: float = 1.0,
    text: Sequence[str] = (),
    across: Interval | None = None,
) -> Trace:
    """Returns a mark at each (x, y); `text` is shown on hovering, `across` are intervals of x."""
    marker = {"color": look.colour, "symbol": look.symbol, "size": size, "opacity": opacity}
    out: dict[str, Any] = {"type": "scatter", "mode": "markers", "name": name, "marker": marker}
    out |= {"x": _numbers(x), "y": _numbers(y)}
    if text:
        out["text"] = list(text)
    if across is not None:
        out["error_x"] = _error(out["x"], across, look.colour)
    return out


def bars(
    name: str,
    labels: Sequence[Any],
    lengths: Iterable[float | None],
    look: Style,
    interval: Interval | None = None,
    across: bool = False,
) -> Trace:
    """Returns a bar over each label, or a horizontal one if `across`."""
    out: dict[str, Any] = {"type": "bar", "name": name, "marker": {"color": look.colour}}
    values = _numbers(lengths)
    out |= {"x": values, "y": list(labels), "orientation": "h"} if across else {"x": list(labels), "y": values}
    if interval is not None:
        out["error_x" if across else "error_y"] = _error(values, interval, INK)
    return out


def spans(
    name: str, labels: Sequence[str], low: Iterable[float], high: Iterable[float], colour: str, width: float
) -> Trace:
    """Returns a bar from `low` to `high` for each label on the y axis, `width` of a row thick."""
    starts = list(low)
    return {
        **{
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(labels),
            "base": _numbers(starts),
            "width": width,
        },
        "x": _numbers(b - a for a, b in zip(starts, high, strict=True)),
        "marker": {"color": colour},
        "hoverinfo": "skip",
    }


def cells(rows: Sequence[str], columns: int, colours: Sequence[Sequence[str]], texts: Sequence[Sequence[str]],
          hover: Sequence[Sequence[str]]) -> Trace:  # fmt: skip
    """Returns a heat map with a cell per row and column, and its text; the x axis runs from 0 to `columns`.

    Cell j is centred on j + 0.5. An empty colour leaves the cell out.
    """
    at = [(i, j) for i in range(len(rows)) for j in range(columns) if colours[i][j]]
    return {
        **{"type": "bar", "orientation": "h", "showlegend": False, "width": 0.96, "textposition": "inside"},
        **{"insidetextanchor": "middle", "textangle": 0, "constraintext": "inside", "name": ""},
        "y": [rows[i] for i, _ in at],
        "base": [j + 0.02 for _, j in at],
        "x": [0.96] * len(at),
        "marker": {"color": [colours[i][j] for i, j in at], "line": {"width": 0}},
        "text": [texts[i][j] for i, j in at],
        "textfont": {"size": 12, "color": [on(colours[i][j]) for i, j in at]},
        "hovertext": [hover[i][j] for i, j in at],
        "hoverinfo": "text",
    }


def ramp(colours: Sequence[str], share: float) -> str:
    """Returns the colour at `share`, 0 to 1, of the way through `colours`, evenly spaced `#rrggbb`."""
    share = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    index = min(int(share), len(colours) - 2)
    parts = zip(_rgb(colours[index]), _rgb(colours[index + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (share - index)):02x}" for a, b in parts)


def on(colour: str) -> str:
    """Returns black or white, whichever is read more easily on `#rrggbb` (WCAG 2.2's relative luminance)."""
    linear = [c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for part in _rgb(colour)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#111111"


def _rgb(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _positions(x: Even | Sequence[Any]) -> dict[str, Any]:
    return {"x0": x.start, "dx": x.step} if isinstance(x, Even) else {"x": _numbers(x)}


def _numbers(values: Iterable[Any]) -> list[Any]:
    """Rounds to four significant digits, more than a screen shows; a number that is not finite is a gap."""
    return [_number(value) for value in values]


def _number(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else float(f"{value:.4g}")


def _error(values: Sequence[Any], interval: Interval, colour: str) -> dict[str, Any]:
    def reach(low: Any, high: Any) -> float:
        return max(high - low, 0.0) if low is not None and high is not None and math.isfinite(high - low) else 0.0

    up = [_number(reach(value, high)) for value, high in zip(values, interval.high, strict=True)]
    down = [_number(reach(low, value)) for value, low in zip(values, interval.low, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1,
        "width": 3,
        "color": colour,
    }
