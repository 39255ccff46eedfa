"""Plots of tables of runs for papers, by entrant: throughput against delay, distributions, bars and lines.

A row is a run of an entrant, with its figures. Means are over seeds, each seed's value being its mean over the
entrant's rows of that seed (links, matches), so that intervals say how another draw would differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ccarena.core.columns import Columns
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.measure.figure_text import bounded, heading
from ccarena.eval.measure.sample import Interval, confidence_interval
from ccarena.eval.measure.table import FIGURES
from ccarena.pages.paper_files import Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ccarena.pages.paper import PaperFigure

__all__ = ["KINDS", "Ellipse", "Plotted", "check_kind", "cumulative", "of_rows"]

Floats = NDArray[np.float64]
Ellipse = Literal["mean", "runs"]
KINDS = ("scatter", "cdf", "bar", "line")
"""Kinds of plots that every table of runs has."""
LEAST_SEEDS = 4
"""Least number of seeds for a confidence region in two dimensions: that of three has 16 times the standard deviation
as its radius. Fewer have the interval of each figure."""
MOST_STEPS = 500
"""Most steps of a distribution; of more values, quantiles at equal distances are drawn."""
LOG_FROM = 20.0
"""Ratio of the largest to the smallest delay from which their axis is logarithmic."""
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---")
"""Hatches of bars, which tell them apart without colours."""


@dataclass(frozen=True)
class Plotted:
    """Rows to plot, and what a kind of plot shows unless the caller names something else."""

    rows: Columns
    """Rows of valid runs, with `seed`."""
    labels: Sequence[str]
    """Entrant of each row, or what else rows are grouped by."""
    throughput: str = "throughput_mbps"
    delay: str = "queueing_delay_p95_ms"

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise ConfigError("nothing to plot: there are no valid runs; run something, or see the warnings of the run")

    @classmethod
    def by(cls, rows: Columns, column: str, **shown: str) -> Plotted:
        """Returns the rows, told apart by a column. Raises ConfigError if there is no such column."""
        if rows and column not in rows:
            raise ConfigError(f'by = "{column}": the table has no such column{did_you_mean(column, rows)}')
        return cls(rows, [str(cell) for cell in rows[column]] if rows else [], **shown)

    def values(self, figure: str) -> Floats:
        """Returns a figure of every row, shares in percent. Raises ConfigError if rows do not have it."""
        known = [name for name in FIGURES if name in self.rows]
        if figure not in known:
            raise ConfigError(f'figure = "{figure}": these runs have no such figure{did_you_mean(figure, known)}')
        found = np.asarray(self.rows[figure], dtype=np.float64)
        if not np.isfinite(found).any():
            needed = "; run with packets=True" if "packets" in FIGURES[figure].needs else "; name another figure"
            raise ConfigError(f"{figure} is not known of any run{needed}")
        return found * 100.0 if FIGURES[figure].unit == "share" else found

    def entrants(self) -> Iterator[tuple[int, str, NDArray[np.bool_]]]:
        """Yields number, label and rows of each entrant, in the order of their first rows."""
        labels = np.asarray(self.labels)
        for index, label in enumerate(dict.fromkeys(self.labels)):
            yield index, label, labels == label

    def by_seed(self, chosen: NDArray[np.bool_], *figures: Floats) -> list[list[float]]:
        """Returns each figure's means per seed over the chosen rows in which all of the figures are known."""
        chosen = chosen & np.isfinite(np.asarray(figures)).all(axis=0)
        seeds = self.rows["seed"][chosen]
        return [[float(figure[chosen][seeds == seed].mean()) for seed in np.unique(seeds)] for figure in figures]


def check_kind(kind: str, known: Sequence[str], elsewhere: str = "") -> None:
    """Raises ConfigError if there is no such `kind`; `elsewhere` says who draws other kinds."""
    if kind not in known:
        hint = did_you_mean(kind, known)
        raise ConfigError(f'no plot "{kind}"{hint if "did you" in hint else f"; expected {_listed(known)}"}{elsewhere}')


def of_rows(
    kind: str,
    plotted: Plotted,
    *,
    figure: str | None = None,
    x: str | None = None,
    ellipse: Ellipse | None = "mean",
    width: Width = "column",
) -> PaperFigure:
    """Returns the plot of one of `KINDS`.

    `figure` is on the y axis, and on the x axis of a distribution. `x` is the figure or column on the x axis of a
    scatter or line plot.
    """
    if kind == "scatter":
        return _scatter(plotted, figure or plotted.throughput, x or plotted.delay, ellipse, width)
    if kind == "line":
        return _line(plotted, figure or plotted.throughput, x, width)
    if x is not None:
        raise ConfigError(f'x = "{x}" has no effect on a plot "{kind}"; leave it out, or ask for "scatter" or "line"')
    if kind == "bar":
        return _bar(plotted, figure or plotted.throughput, width)
    name = figure or plotted.delay
    values = plotted.values(name)
    samples = {label: values[chosen] for _, label, chosen in plotted.entrants()}
    return cumulative(samples, _axis(name), "share of runs (%)", width)


def cumulative(samples: dict[str, Floats], x_label: str, y_label: str, width: Width) -> PaperFigure:
    """Returns the distribution of each sample; values that are not known are left out."""
    from ccarena.pages import paper

    with paper.Drawing(width) as (figure, (axes,)):
        for index, (label, sample) in enumerate(samples.items()):
            known = np.sort(sample[np.isfinite(sample)])
            if not known.size:
                continue
            if known.size > MOST_STEPS:
                share = np.linspace(0.0, 1.0, MOST_STEPS)
                known = known[np.minimum((share * known.size).astype(int), known.size - 1)]
            else:
                share = np.arange(1, known.size + 1) / known.size
            steps = np.concatenate([known[:1], known]), 100.0 * np.concatenate([[0.0], share])
            axes.plot(*steps, drawstyle="steps-post", label=label, **paper.line_look(index))
        axes.set(xlabel=x_label, ylabel=y_label, ylim=(0, 100))
        _delays(axes, np.concatenate([sample[np.isfinite(sample)] for sample in samples.values()]))
    return figure


def _scatter(plotted: Plotted, y_name: str, x_name: str, ellipse: Ellipse | None, width: Width) -> PaperFigure:
    from ccarena.pages import paper

    if ellipse not in ("mean", "runs", None):
        raise ConfigError(f'ellipse = "{ellipse}"; expected "mean", "runs" or None')
    x, y = plotted.values(x_name), plotted.values(y_name)
    with paper.Drawing(width) as (figure, (axes,)):
        for index, label, chosen in plotted.entrants():
            xs, ys = plotted.by_seed(chosen, x, y)
            if not xs:
                continue
            style = {**paper.look(index), "linestyle": ""}
            mark: dict[str, Any] = {"zorder": 3, "clip_on": False, "markeredgecolor": "white", "markeredgewidth": 0.4}
            axes.plot([np.mean(xs)], [np.mean(ys)], label=label, **style, **mark)
            if ellipse == "runs":
                both = chosen & np.isfinite(x) & np.isfinite(y)
                paper.region(axes, x[both], y[both], 1.0, style["color"])
            elif ellipse == "mean" and len(xs) >= LEAST_SEEDS:
                paper.region(axes, np.asarray(xs), np.asarray(ys), _mean_region(len(xs)), style["color"])
            elif ellipse == "mean":
                across, up = _interval(x_name, xs), _interval(y_name, ys)
                axes.errorbar(across.mean, up.mean, _reach(up), _reach(across), color=style["color"], linewidth=0.8,
                              fmt="none")  # fmt: skip
        axes.margins(0.08)
        axes.set(xlabel=_axis(x_name), ylabel=_axis(y_name))
        axes.autoscale_view()
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, 0.0), high)
        axes.set_ylim(bottom=max(axes.get_ylim()[0], 0.0))
        paper.better(axes)
    return figure


def _mean_region(seeds: int) -> float:
    """Returns the radius, in standard deviations, of the 95 % confidence region of a mean in two dimensions
    (Hotelling 1931). The quantile of F with 2 and m degrees of freedom has a closed form.
    """
    m = seeds - 2
    quantile = m / 2 * (0.05 ** (-2 / m) - 1)
    return math.sqrt(2 * (seeds - 1) / (seeds * m) * quantile)


def _bar(plotted: Plotted, name: str, width: Width) -> PaperFigure:
    from ccarena.pages import paper

    values = plotted.values(name)
    with paper.Drawing(width) as (figure, (axes,)):
        labels = []
        for index, label, chosen in plotted.entrants():
            (means,) = plotted.by_seed(chosen, values)
            interval = _interval(name, means)
            error: dict[str, Any] = (
                {"yerr": _reach(interval), "error_kw": {"linewidth": 0.8}, "capsize": 2}
                if math.isfinite(interval.high)
                else {}
            )
            hatch = HATCHES[index % len(HATCHES)]
            axes.bar(index, interval.mean, 0.7, color=paper.look(index)["color"], edgecolor="white", hatch=hatch,
                     **error)  # fmt: skip
            labels.append(label)
        crowded = len(labels) * max(map(len, labels)) > (40 if width == "column" else 90)
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
        axes.set_xticks(range(len(labels)), labels, **turned)
        axes.grid(visible=False, axis="x")
        axes.set(ylabel=_axis(name))
    return figure


def _line(plotted: Plotted, name: str, x_name: str | None, width: Width) -> PaperFigure:
    from ccarena.pages import paper

    known = [key for key, column in plotted.rows.items() if column.dtype.kind in "iufbU"]
    if x_name is None or x_name not in known:
        hint = ", such as an axis of the sweep" if x_name is None else did_you_mean(x_name, known)
        raise ConfigError(f'x = "{x_name}": a plot "line" needs a column of the table on its x axis{hint}')
    values, column = plotted.values(name), plotted.rows[x_name]
    ordered = list(dict.fromkeys(column.tolist())) if column.dtype.kind == "U" else sorted(set(column.tolist()))
    at = range(len(ordered)) if column.dtype.kind == "U" else ordered
    with paper.Drawing(width) as (figure, (axes,)):
        for index, label, chosen in plotted.entrants():
            each = [_interval(name, plotted.by_seed(chosen & (column == value), values)[0]) for value in ordered]
            style = paper.look(index)
            axes.plot(at, [one.mean for one in each], label=label, **style)
            axes.fill_between(at, [one.low for one in each], [one.high for one in each], color=style["color"],
                              alpha=0.15, linewidth=0)  # fmt: skip
        if column.dtype.kind == "U":
            axes.set_xticks(list(at), ordered)
        axes.set(xlabel=_axis(x_name) if x_name in FIGURES else x_name, ylabel=_axis(name))
    return figure


def _interval(figure: str, values: Sequence[float]) -> Interval:
    """Returns the interval of values of a figure as `Plotted.values` has them, inside the figure's range."""
    unit = 100.0 if FIGURES[figure].unit == "share" else 1.0
    found = bounded(figure, confidence_interval([value / unit for value in values]))
    return Interval(unit * found.mean, unit * found.low, unit * found.high, found.n)


def _reach(interval: Interval) -> list[list[float]]:
    """Returns how far an error bar reaches below and above the mean."""
    return [[interval.mean - interval.low], [interval.high - interval.mean]]


def _axis(figure: str) -> str:
    """Returns a figure's title and unit as other axes have theirs, beginning small."""
    text = heading(figure)
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def _delays(axes: Axes, values: Floats) -> None:
    """Makes the x axis logarithmic if nearly all values are positive and they are far apart."""
    from matplotlib.ticker import LogLocator

    positive = values[values > 0]
    if positive.size and positive.size >= 0.9 * values.size:
        low, high = np.percentile(positive, [1, 99])
        if high > LOG_FROM * low:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
