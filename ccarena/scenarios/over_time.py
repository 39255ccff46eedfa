"""Rates and delays of one run over time, in bins that a plot can show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccarena.scenarios.one_run import Run
from ccarena.scenarios.tables import flow_series, link_series

__all__ = ["MOST_LINES", "Binned", "binned"]

LEAST_BIN_S = 0.1
"""Shortest bin, s: in shorter ones, single packets make a rate jump."""
MOST_BINS = 400
"""Most bins of one line."""
MOST_LINES = 24
"""Most flows that are drawn over time, and most links."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Binned:
    """Run in bins of `bin_s`; NaN where nothing was sent."""

    bin_s: float
    capacity_of: str
    """Name of the link whose capacity it is: the first of the first flow's path."""
    capacity_mbps: Floats
    rates_mbps: dict[str, Floats]
    """IP bytes that each of the first `MOST_LINES` flows received, by name and scheme."""
    delays_ms: dict[str, Floats]
    """Mean queueing delay of what left each of the first `MOST_LINES` links, by name."""

    @property
    def time_s(self) -> Floats:
        """Returns the starts of the bins."""
        return np.arange(self.capacity_mbps.size, dtype=np.float64) * self.bin_s


def binned(run: Run) -> Binned:
    """Returns rates, capacity and delays of a run."""
    links = link_series(run)
    way = run.document["flows"][0]["path"][0]
    of_link = next(link for link in links if len(link["link"]) and link["link"][0] == way)
    step_s = float(run.document["record"]["bin_ms"]) * 1e-3
    every = max(1, round(LEAST_BIN_S / step_s), -(-len(of_link["time_s"]) // MOST_BINS))
    return Binned(
        bin_s=every * step_s,
        capacity_of=way,
        capacity_mbps=_means(of_link["capacity_mbps"], every),
        rates_mbps={
            f"{flow['flow'][0]} ({flow['scheme'][0]})": _means(flow["received_mbps"], every)
            for flow in flow_series(run, MOST_LINES)
            if len(flow["time_s"])
        },
        delays_ms={
            str(link["link"][0]): _means(link["queueing_delay_ms"], every)
            for link in links[:MOST_LINES]
            if len(link["time_s"])
        },
    )


def _means(values: Floats, every: int) -> Floats:
    """Returns means over `every` consecutive values without the NaNs; NaN if all are."""
    starts = np.arange(0, values.size, every)
    known = np.isfinite(values)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    return np.divide(sums, counts, out=np.full(starts.size, np.nan), where=counts > 0)
