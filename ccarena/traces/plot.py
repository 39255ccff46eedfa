"""The page of traces: capacity over time, its distribution and its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, TraceError
from ccarena.pages import Axis, Block, Chart, Choice, Figure, Page, Section, Table, Text, charts, images
from ccarena.traces import stats
from ccarena.traces.stats import rates_mbps

__all__ = ["plot"]

MOST_TOGETHER = 6
"""Most traces in one chart; of more, the reader chooses one."""
QUANTILES = 400
"""Points of a plotted distribution."""
MOST_WINDOWS = 100_000
"""Points of one plotted trace."""


def plot(
    traces: Mapping[str, NDArray[np.uint32]], path: Path, window_ms: int | None = None, repeat: Sequence[str] = ()
) -> Path:
    """Writes traces by name, as rates in windows of `window_ms`, to `path`: a page (.html) or an image.

    By default, `window_ms` is 100, or larger if the longest trace would have more than `MOST_WINDOWS` windows.

    Raises:
        ConfigError: another suffix, a wrong window, or the file cannot be written.
        TraceError: a trace is shorter than one window.
        MissingDependencyError: an image needs a browser.
    """
    images.check_suffix(path)  # before the work of drawing
    longest = max(int(times[-1]) for times in traces.values())
    least = -(-longest // MOST_WINDOWS)
    window_ms = max(stats.WINDOW_MS, least) if window_ms is None else window_ms
    if window_ms < least:
        raise ConfigError(f"window_ms is {window_ms}; expected at least {least} for a trace of {longest / 1000:g} s")
    rates = {name: rates_mbps(times, window_ms) for name, times in traces.items()}
    for name, found in rates.items():
        if not found.size:
            last = int(traces[name][-1])
            raise TraceError(f"{name}: the trace lasts {last} ms, less than a window of {window_ms} ms")
    figures = {name: _figure(name, {name: found}, window_ms) for name, found in rates.items()}
    if 1 < len(rates) <= MOST_TOGETHER:
        figures = {"all together": _figure("traces", rates, window_ms), **figures}
    described = {name: stats.describe(times, name) for name, times in traces.items()}
    options: dict[str, Sequence[Block]] = {name: [figure] for name, figure in figures.items()}
    page = Page(
        title=", ".join(traces) if len(traces) <= 3 else f"{len(traces)} traces",
        kind="traces",
        lead="The capacity of links over time, as delivery opportunities of 1500 bytes each.",
        facts={"Traces": str(len(traces)), "Averaged over": f"{window_ms} ms"},
        repeat=repeat,
        findings=[Text(stats.in_words(name, one)) for name, one in described.items()][:MOST_TOGETHER],
        sections=[
            Section(
                "Capacity",
                "Over time, and for how much of the time it was at most so high.",
                [Choice("Trace", options)],
            ),
            Section(
                "Statistics",
                f"Of windows of {stats.WINDOW_MS} ms: percentiles, the coefficient of variation (CV), and the "
                f"autocorrelation r after a lag. An outage is a gap of {stats.OUTAGE_MS} ms or more.",
                [Table(stats.HEAD, [stats.cells(name, one) for name, one in described.items()])],
            ),
        ],
    )
    return images.save(path, page, [next(iter(figures.values()))])


def _figure(label: str, rates: Mapping[str, NDArray[np.float64]], window_ms: int) -> Figure:
    over_time, distribution = [], []
    for index, (name, found) in enumerate(rates.items()):
        look = charts.style(index)
        time = charts.Even(window_ms / 2000, window_ms / 1000)
        over_time.append(charts.line(name, time, found, look, width=1.2))
        share = np.linspace(0.0, 1.0, min(found.size, QUANTILES))
        distribution.append(
            charts.line(name, np.quantile(found, share).tolist(), (100 * share).tolist(), look, width=2)
        )
    capacity = f"capacity (Mbit/s, {window_ms} ms)"
    return Figure(
        label,
        [
            Chart(Axis("time (s)", from_zero=True), Axis(capacity, from_zero=True), over_time, "Over time", 320),
            Chart(
                Axis(capacity, from_zero=True),
                Axis("share of the time (%)", low=0, high=100),
                distribution,
                "Distribution: at most so much",
                300,
            ),
        ],
    )
