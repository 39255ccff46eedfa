"""Plots of `Results` for papers: rates and delays of one run over time, and what all runs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ccarena.core.columns import of_rows
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.measure.queueing import queueing_delay_ms
from ccarena.pages.paper_files import Width
from ccarena.scenarios import row_plots
from ccarena.scenarios.one_run import Run, numbered
from ccarena.scenarios.over_time import binned
from ccarena.scenarios.tables import flow_rows

if TYPE_CHECKING:
    from ccarena.pages.paper import PaperFigure

__all__ = ["KINDS", "plot"]

KINDS = ("rate", "delay", *row_plots.KINDS)
OVER_TIME = ("rate", "delay")


def plot(
    runs: Sequence[Run],
    kind: str,
    *,
    figure: str | None,
    x: str | None,
    by: str | Sequence[str] | None,
    run: int | None,
    ellipse: row_plots.Ellipse | None,
    width: Width,
) -> PaperFigure:
    """Returns a plot of one of `KINDS`; arguments are those of `Results.plot`."""
    row_plots.check_kind(kind, KINDS)
    if kind in OVER_TIME:
        if given := [name for name, value in (("figure", figure), ("x", x), ("by", by)) if value is not None]:
            raise ConfigError(f'{given[0]} has no effect on a plot "{kind}", which is of one run over time')
        return _over_time(numbered(runs, run or 0), kind, width)
    if run is not None:
        raise ConfigError(f'run = {run} has no effect on a plot "{kind}", which is of all runs; leave it out')
    valid = [each for each in runs if each.valid]
    rows = flow_rows(valid)
    labels = _labels(valid, rows, by, x)
    if kind == "line" and by is not None and x is not None:
        _check_pooled(valid, rows, labels, by, x)
    if kind == "cdf" and figure is None:
        return _packets(valid, labels, width)
    return row_plots.of_rows(
        kind, row_plots.Plotted(of_rows(rows), labels), figure=figure, x=x, ellipse=ellipse, width=width
    )


def _over_time(run: Run, kind: str, width: Width) -> PaperFigure:
    """Returns every flow's rate in front of the capacity, or each link's mean queueing delay."""
    from ccarena.pages import paper

    course = binned(run)
    with paper.Drawing(width) as (figure, (axes,)):
        if kind == "rate":
            paper.area(axes, course.time_s, course.capacity_mbps, course.bin_s)
        lines = course.rates_mbps if kind == "rate" else course.delays_ms
        for index, (label, values) in enumerate(lines.items()):
            # A value is that of its bin, and stands in the bin's middle.
            axes.plot(course.time_s + course.bin_s / 2, values, label=label, **paper.line_look(index))
        axes.set(xlabel="time (s)", xlim=(0, len(course.time_s) * course.bin_s))
        axes.set_ylabel("rate (Mbit/s)" if kind == "rate" else "mean queueing delay (ms)")
        axes.set_ylim(bottom=0)
    return figure


def _packets(runs: Sequence[Run], labels: Sequence[str], width: Width) -> PaperFigure:
    """Returns the distribution of packets' queueing delays at the link of each flow's path with the least capacity."""
    samples: dict[str, list[Any]] = {}
    subjects = [(run, flow) for run in runs for flow in run.measured().flows]
    for label, (run, flow) in zip(labels, subjects, strict=True):
        if "log" not in flow.of_link:
            raise ConfigError(
                f'{run.scenario}: no packets were recorded, whose delays a plot "cdf" shows; run with packets=True, or '
                'name a figure of whole runs, such as figure="queueing_delay_p95_ms"'
            )
        samples.setdefault(label, []).append(queueing_delay_ms(flow.log))
    pooled = {label: np.concatenate(parts) for label, parts in samples.items()}
    if not any(sample.size for sample in pooled.values()):
        raise ConfigError("nothing to plot: no packet left a link; run for longer")
    return row_plots.cumulative(pooled, "queueing delay (ms)", "share of packets (%)", width)


def _check_pooled(
    runs: Sequence[Run], rows: Sequence[Mapping[str, Any]], labels: Sequence[str], by: str | Sequence[str], x: str
) -> None:
    """Raises ConfigError if a point of a line would be a mean over several values of another axis of the sweep."""
    names = [by] if isinstance(by, str) else list(by)
    for axis in dict.fromkeys(axis for run in runs for axis in run.axes if axis not in (*names, x)):
        values: dict[tuple[str, str], set[str]] = {}
        for label, row in zip(labels, rows, strict=True):
            values.setdefault((label, str(row.get(x))), set()).add(str(row.get(axis)))
        if several := next((sorted(found) for found in values.values() if len(found) > 1), None):
            raise ConfigError(
                f"by = {by!r}: a point would be a mean over {axis} ({', '.join(several)}), which is no seed; expected "
                f"by={[*names, axis]!r}, or the runs of one {axis} alone"
            )


def _labels(
    runs: Sequence[Run], rows: Sequence[Mapping[str, Any]], by: str | Sequence[str] | None, x: str | None
) -> list[str]:
    """Returns each row's group: the columns `by`, else as little of flow, scheme and scenario as tells rows apart."""
    if by is not None:
        names = [by] if isinstance(by, str) else list(by)
        known = rows[0].keys() if rows else ()
        if unknown := [name for name in names if name not in known]:
            raise ConfigError(f'by = "{unknown[0]}": the table has no such column{did_you_mean(unknown[0], known)}')
        return [", ".join(str(row[name]) for name in names) for row in rows]
    several = len({(row["scenario"], row["seed"], row["scheme"]) for row in rows}) < len(rows)
    labels = [f"{row['flow']} ({row['scheme']})" if several else str(row["scheme"]) for row in rows]
    axes = [axis for run in runs[:1] for axis in run.axes if axis not in ("scheme", x)]
    if axes:
        return [
            ", ".join([label, *(f"{axis} {row[axis]}" for axis in axes)])
            for row, label in zip(rows, labels, strict=True)
        ]
    places: dict[str, set[str]] = {}
    for row, label in zip(rows, labels, strict=True):
        places.setdefault(label, set()).add(row["scenario"])
    if x in (runs[0].axes if runs else ()) or all(len(found) == 1 for found in places.values()):
        return labels
    return [f"{row['scenario']}: {label}" for row, label in zip(rows, labels, strict=True)]
