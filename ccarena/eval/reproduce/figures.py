"""Plots of a suite like the paper's, with its points: bars, lines, rates over time, curves of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ccarena.eval.reproduce.checks import Claim, Judged
from ccarena.eval.reproduce.suite import Figure as Spec
from ccarena.eval.reproduce.suite import Loaded
from ccarena.eval.reproduce.values import Measured, Row
from ccarena.pages import Axis, Chart, Even, Figure, charts
from ccarena.pages.charts import Interval, Style, Trace

__all__ = ["PAPER", "beside_the_paper", "figures"]

PAPER = "paper"
"""Name of the paper's points in a plot, in brackets after that of a series."""
STATES = {
    "holds": Style("var(--blue)", symbol="circle"),
    "differs": Style("var(--orange)", symbol="diamond"),
    "does not hold": Style("var(--vermilion)", symbol="x"),
}


def figures(loaded: Loaded, rows: Sequence[Row]) -> list[Figure]:
    """Returns the plots of the suite's file for which `rows` have data."""
    out = []
    for spec, value in loaded.figures:
        parts = list(_charts(loaded, spec, value, rows))
        if parts:
            columns = 2 if len(parts) > 1 else 1
            title = spec.title or loaded.suite.title
            out.append(Figure(title, parts, columns=columns, same_x=spec.kind == "over_time"))
    return out


def beside_the_paper(loaded: Loaded, judged: Sequence[Judged]) -> Figure | None:
    """Plots measured values over the paper's, a row per claim with numbers; None if no claim has any."""
    found: dict[str, list[tuple[str, float, str]]] = {}
    names: list[str] = []
    for number, (claim, result) in enumerate(zip(loaded.claims, judged, strict=True), start=1):
        for part, values in zip(claim.parts, result.values, strict=True):
            paper = part.paper
            if paper is None or len(values) % len(paper.values):
                continue
            expected = paper.values * (len(values) // len(paper.values))
            for ours, theirs in zip(values, expected, strict=True):
                if theirs > 0 and math.isfinite(ours) and ours > 0:
                    name = f"{number}. {result.claim}"
                    names += [] if name in names else [name]
                    text = f"{result.claim}: {ours:.4g} measured, {theirs:g} in the paper"
                    found.setdefault(result.state, []).append((name, ours / theirs, text))
    if not names:
        return None
    traces = []
    for state, points in found.items():
        claims, ratios, texts = (list(column) for column in zip(*points, strict=True))
        look = STATES.get(state, Style(charts.MUTED, symbol="square"))
        traces.append(charts.marks(state, ratios, claims, look, size=9, text=texts))
    every = [ratio for points in found.values() for _, ratio, _ in points]
    reach = 1.15 * max(2.0, max(every), 1 / min(every))
    ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if 1 / reach <= t <= reach]
    x = Axis("measured over the paper's (log)", log=True, low=1 / reach, high=reach, ticks=ticks)
    y = Axis(
        "",
        category=True,
        low=-0.5,
        high=len(names) - 0.5,
        reversed=True,
        labels=names,
        ticks=range(len(names)),
        short=[name.partition(" ")[0] for name in names],
    )
    # Categories take their order from the first trace.
    order = {
        **{"type": "scatter", "mode": "markers", "name": "", "showlegend": False},
        **{"x": [None] * len(names), "y": names, "marker": {"color": charts.INK}},
    }
    return Figure("measured beside the paper", [Chart(x, y, [order, *traces], height=100 + 26 * len(names))])


def _charts(loaded: Loaded, spec: Spec, value: Measured | None, rows: Sequence[Row]) -> Iterator[Chart]:
    where = {axis: str(label) for axis, label in spec.where.items()}
    default_x = "time (s)" if spec.kind == "over_time" else spec.x.replace("_", " ")
    for panel in list(loaded.axes[spec.panels]) if spec.panels else [""]:
        chosen = {**where, **({spec.panels: panel} if panel else {})}
        present = _matching(rows, chosen)
        if not present:
            continue
        if spec.kind == "over_time":
            traces, y = _over_time(spec, present)
        elif spec.kind == "curves":
            traces, y = _curves(present), spec.y_label
        else:
            traces = _series(loaded, spec, value, rows, chosen) if value is not None else []
            y = spec.y_label
        if not traces:
            continue
        targets = [] if spec.target is None else spec.target if isinstance(spec.target, list) else [spec.target]
        bars = spec.kind == "bars"
        yield Chart(
            Axis(spec.x_label or default_x, log=spec.log_x and not bars, category=bars),
            Axis(y, log=spec.log_y, from_zero=not spec.log_y),
            traces,
            title=f"{spec.panels.replace('_', ' ')} {panel}" if panel else "",
            unified=spec.kind == "over_time",
            levels=[(target, f"{target:g}") for target in targets],
        )


def _matching(rows: Sequence[Row], chosen: Mapping[str, str]) -> list[Row]:
    return [row for row in rows if all(row["cell"].get(axis) == label for axis, label in chosen.items())]


def _series(loaded: Loaded, spec: Spec, value: Measured, rows: Sequence[Row], chosen: Mapping[str, str]) -> list[Trace]:
    """Returns lines or bars: `y` over the labels of `x`, one series per label of `by`, and the paper's points."""
    present = _matching(rows, chosen)
    names = {axis: _labels(loaded, present, axis) for axis in (spec.x, spec.by) if axis}
    _, measure = _measure(spec.y)
    quoted = _quoted(loaded.claims, rows) if measure is not None else []
    traces, paper = [], []
    for number, by in enumerate(names.get(spec.by, [""])):
        ys: list[float] = []
        low: list[float] = []
        high: list[float] = []
        said: list[tuple[str, float]] = []
        for x in names[spec.x]:
            point = {**chosen, spec.x: x, **({spec.by: by} if by else {})}
            result = value(rows, point)
            ys.append(result.values[0] if result.values else math.nan)
            ends = result.intervals[0] if result.intervals else (math.nan, math.nan)
            low.append(ends[0])
            high.append(ends[1])
            said += [(x, numeral) for one in quoted if (numeral := one.at(measure or (), spec.x, point)) is not None]
        interval = Interval(low, high) if np.isfinite(low).any() else None
        name, look = by or "measured", charts.style(number)
        if spec.kind == "bars":
            traces.append(charts.bars(name, names[spec.x], ys, look, interval))
        else:
            at = [_number(x) for x in names[spec.x]]
            traces.append(charts.line(name, at, ys, look, width=2, markers=True, interval=interval))
        if said:
            xs = [x if spec.kind == "bars" else _number(x) for x, _ in said]
            open_mark = Style(look.colour if spec.kind != "bars" else charts.INK, symbol="circle-open")
            name = f"{by} ({PAPER})" if by else PAPER
            paper.append(charts.marks(name, xs, [y for _, y in said], open_mark, size=12))
    return [*traces, *paper]


@dataclass(frozen=True)
class _Said:
    """Numbers of the paper for a measure, by the label of an axis ("" for a single one)."""

    measure: tuple[Any, ...]
    fixed: Mapping[str, str]
    along: str
    numbers: Mapping[str, float]

    def at(self, measure: tuple[Any, ...] | None, x: str, point: Mapping[str, str]) -> float | None:
        """Returns the paper's number for a point of a plot, at whose x axis `x` is; None if the paper has none."""
        if measure != self.measure or any(point.get(axis) != label for axis, label in self.fixed.items()):
            return None
        if self.along:
            return self.numbers.get(point[x]) if self.along == x else None
        return self.numbers[""] if x in self.fixed else None


def _quoted(claims: Sequence[Claim], rows: Sequence[Row]) -> list[_Said]:
    """Returns the paper's numbers in the claims."""
    out = []
    for claim in claims:
        nodes = [part.measured for part in claim.model.all_of] if claim.model.all_of else [claim.model.measured]
        for node, part in zip(nodes, claim.parts, strict=True):
            said, measure = _measure(node)
            value, paper = part.measured, part.paper
            if paper is None or measure is None:
                continue
            along = said.get("along") or ""
            along = along if isinstance(along, str) else along[0] if len(along) == 1 else None
            where = {axis: str(label) for axis, label in (said.get("where") or {}).items() if axis != along}
            labels = value(rows, claim.chosen).labels if along else ("",)
            if along is not None and len(labels) == len(paper.values):
                numbers = dict(zip(labels, paper.values, strict=True))
                out.append(_Said(measure, {**where, **claim.chosen}, along, numbers))
    return out


def _measure(node: Any) -> tuple[Mapping[str, Any], tuple[Any, ...] | None]:
    """Returns (selection of a claim's or plot's value, key that identifies the measure); None for a computed value."""
    unit = ""
    if isinstance(node, Mapping) and list(node) == ["percent"]:
        node, unit = node["percent"], "percent"
    if not isinstance(node, Mapping) or "value" not in node:
        return {}, None
    flow = node.get("flow")
    return node, (unit, node["value"], None if flow == "all" or isinstance(flow, list) else flow)


def _over_time(spec: Spec, rows: Sequence[Row]) -> tuple[list[Trace], str]:
    """Returns the series of the first seed, and the y axis: rates of each flow and the capacity, its periods, or the
    delay.
    """
    series = next((row["series"] for row in rows if "series" in row), None)
    if series is None:
        return [], ""
    time = Even(0.5 * series["bin_s"], series["bin_s"])
    if spec.series == "queueing_ms":
        delay = charts.line("queueing delay", time, series["queueing_ms"], charts.style(0))
        return [delay], spec.y_label or "queueing delay (ms)"
    traces = []
    if not spec.log_y and spec.series == "received_mbps":
        traces.append(charts.area("capacity", Even(0.0, series["bin_s"]), series["capacity_mbps"]))
    for number, (name, rates) in enumerate(series[spec.series].items()):
        shown = [rate if (rate and rate > 0) or not spec.log_y else None for rate in rates]
        traces.append(charts.line(name, time, shown, Style(charts.style(number).colour), width=1.6))
    return traces, spec.y_label


def _curves(rows: Sequence[Row]) -> list[Trace]:
    """Returns the curves in a computed suite's rows."""
    curves = [(row, name, curve) for row in rows for name, curve in (row.get("curves") or {}).items()]
    traces = []
    for number, (row, name, curve) in enumerate(curves):
        text = ", ".join([*row["cell"].values(), name]) if len(rows) > 1 else name
        traces.append(charts.line(text, curve["x"], curve["y"], charts.style(number)))
    return traces


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
