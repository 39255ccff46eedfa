"""Statistics of a trace: rate, variability, memory and outages.

The definitions are those under which figures for public traces have been published, so that they can be compared:

- rate: one opportunity is 1500 bytes; 1 Mbit/s is 10^6 bit/s;
- coefficient of variation and autocorrelation: of the number of opportunities in consecutive windows of 100 ms;
- estimator of the autocorrelation: the biased one, sum(x[i] x[i+k]) / sum(x[i]^2), after the mean is subtracted;
- outage: a gap of at least 200 ms between opportunities, the time before the first one included;
- apparent sigma of window w: the sigma, in packets/s after one second, of a Brownian motion of the rate.

Sprout assumes such a motion (Winstein et al., NSDI 2013, section 3.1). The means of adjacent windows of length w then
differ with variance 2/3 sigma^2 w, to which the counting of Poisson arrivals adds 2 rate/w. The variance is measured
and solved for sigma. On a real link, the apparent sigma falls as w grows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.traces.files import check, runs

__all__ = ["HEAD", "Counter", "TraceStats", "cells", "describe", "in_words", "rates_mbps"]

OPPORTUNITY_BYTES = 1500
WINDOW_MS = 100
OUTAGE_MS = 200
LAGS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
SHOWN_LAGS_S = (0.1, 1.0, 5.0)
SIGMA_WINDOWS_S = (0.1, 0.2, 0.5, 1.0)


@dataclasses.dataclass(frozen=True)
class TraceStats:
    """Statistics of one trace; NaN where it is too short to tell."""

    opportunities: int
    duration_s: float
    mean_mbps: float
    cv: float
    p5_mbps: float
    """Percentiles of the rate in windows of 100 ms."""
    p50_mbps: float
    p95_mbps: float
    autocorrelation: dict[float, float]
    """Autocorrelation by lag in seconds."""
    outages_per_min: float
    outage_mean_s: float
    """Mean length of an outage; zero without outages, as the maximum."""
    outage_max_s: float
    apparent_sigma_packets_per_s: dict[float, float]
    """Apparent sigma by window in seconds, in packets/s after one second; zero where counting noise explains all."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as JSON data: keys are text, NaN becomes None."""

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {f"{key:g}": plain(item) for key, item in value.items()}
            return None if isinstance(value, float) and math.isnan(value) else value

        return {key: plain(value) for key, value in dataclasses.asdict(self).items()}


def rates_mbps(times_ms: ArrayLike, window_ms: int = WINDOW_MS) -> NDArray[np.float64]:
    """Returns mean capacity in Mbit/s in consecutive whole windows, `float64[duration // window_ms]`."""
    times = np.asarray(times_ms, dtype=np.int64)
    windows = int(times[-1]) // window_ms
    counts = np.bincount((times.clip(1) - 1) // window_ms, minlength=windows)[:windows]
    return counts.astype(np.float64) * (OPPORTUNITY_BYTES * 8 / 1000 / window_ms)


def describe(times_ms: ArrayLike, name: str = "trace") -> TraceStats:
    """Returns the statistics of a trace of millisecond timestamps, as defined above.

    Raises:
        TraceError: `times_ms` is not a trace; `name` stands in the message.
    """
    counter = Counter()
    counter.add(check(times_ms, name))
    return counter.stats()


class Counter:
    """Counter of a trace's opportunities, chunk by chunk, that gives its statistics.

    Memory grows only with the number of windows with opportunities, not with the rate or the length of outages.
    """

    def __init__(self) -> None:
        self.opportunities = 0
        self.last_ms = 0
        self._outages_s: list[NDArray[np.float64]] = []
        self._places: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.int64]] = []

    def add(self, times: NDArray[np.uint32]) -> None:
        """Counts the next opportunities of the trace."""
        gaps = np.diff(times, prepend=np.uint32(self.last_ms))
        self._outages_s.append(gaps[gaps >= OUTAGE_MS] / 1000)
        # A timestamp t is the millisecond that ends at t, so that a window (a, b] holds its own length of them.
        places, counts = runs((times.astype(np.int64).clip(1) - 1) // WINDOW_MS)
        self._places.append(places)
        self._counts.append(counts)
        self.opportunities += times.size
        self.last_ms = int(times[-1])

    def stats(self) -> TraceStats:
        """Returns the statistics of what has been added, as a whole trace."""
        duration_s = self.last_ms / 1000
        windows = _Windows(self.last_ms // WINDOW_MS, np.concatenate(self._places), np.concatenate(self._counts))
        windows = windows.joined(1)  # chunks share a window
        factor = OPPORTUNITY_BYTES * 8 / 1000 / WINDOW_MS
        outages_s = np.concatenate(self._outages_s)
        p5, p50, p95 = (factor * value for value in windows.quantiles(0.05, 0.5, 0.95))
        return TraceStats(
            opportunities=self.opportunities,
            duration_s=duration_s,
            mean_mbps=self.opportunities * OPPORTUNITY_BYTES * 8 / 1e6 / duration_s,
            cv=windows.cv(),
            p5_mbps=p5,
            p50_mbps=p50,
            p95_mbps=p95,
            autocorrelation={lag: windows.autocorrelation(round(lag * 1000 / WINDOW_MS)) for lag in LAGS_S},
            outages_per_min=outages_s.size * 60 / duration_s,
            outage_mean_s=float(outages_s.mean()) if outages_s.size else 0.0,
            outage_max_s=float(outages_s.max()) if outages_s.size else 0.0,
            apparent_sigma_packets_per_s={window: _apparent_sigma(windows, window) for window in SIGMA_WINDOWS_S},
        )


@dataclasses.dataclass(frozen=True)
class _Windows:
    """Numbers of opportunities in `number` windows: `counts` at the sorted `places`, none elsewhere."""

    number: int
    places: NDArray[np.int64]
    counts: NDArray[np.int64]

    def joined(self, together: int) -> _Windows:
        """Returns windows `together` times as long; an incomplete last window is dropped."""
        places = self.places // together
        number = self.number // together
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        counts = np.add.reduceat(self.counts, firsts) if firsts.size else self.counts
        inside = places[firsts] < number
        return _Windows(number, places[firsts][inside], counts[inside])

    def quantiles(self, *shares: float) -> list[float]:
        """Returns quantiles of the counts, interpolated."""
        if not self.number:
            return [math.nan] * len(shares)
        ranked, zeros = np.sort(self.counts), self.number - self.counts.size

        def at(rank: int) -> float:
            return 0.0 if rank < zeros else float(ranked[rank - zeros])

        places = [divmod(share * (self.number - 1), 1) for share in shares]
        return [at(int(low)) * (1 - part) + at(min(int(low) + 1, self.number - 1)) * part for low, part in places]

    def cv(self) -> float:
        """Returns the coefficient of variation; NaN without any opportunity."""
        total, squares = self._sums()
        return math.sqrt(self.number * squares - total * total) / total if total else math.nan

    def autocorrelation(self, lag: int) -> float:
        """Returns the autocorrelation at `lag` windows (biased estimator); NaN if too short or constant."""
        n = self.number
        total, squares = self._sums()
        power = n * squares - total * total
        if not 0 < lag < n or power == 0:
            return math.nan
        ends = int(self.counts[self.places < n - lag].sum()) + int(self.counts[self.places >= lag].sum())
        return (n * n * self._products(lag) - n * total * ends + (n - lag) * total * total) / (n * power)

    def step_variance(self) -> float:
        """Returns the mean of the squared difference between adjacent windows."""
        first = int(self.counts[self.places == 0].sum())
        last = int(self.counts[self.places == self.number - 1].sum())
        return (2 * self._sums()[1] - first**2 - last**2 - 2 * self._products(1)) / (self.number - 1)

    def _sums(self) -> tuple[int, int]:
        return int(self.counts.sum()), int(self.counts @ self.counts)

    def _products(self, lag: int) -> int:
        """Returns the sum of x[i] x[i + lag]."""
        _, later, earlier = np.intersect1d(self.places, self.places + lag, assume_unique=True, return_indices=True)
        return int(self.counts[later] @ self.counts[earlier])


def _apparent_sigma(windows: _Windows, window_s: float) -> float:
    longer = windows.joined(round(window_s * 1000 / WINDOW_MS))
    if longer.number < 3:
        return math.nan
    rate = int(longer.counts.sum()) / longer.number / window_s
    variance = longer.step_variance() / window_s**2 - 2 * rate / window_s
    return math.sqrt(max(variance, 0.0) * 1.5 / window_s)


_LAGS = tuple(f"r({lag:g}s)" for lag in SHOWN_LAGS_S)
HEAD = ("trace", "s", "Mbit/s", "p5", "p95", "CV", *_LAGS, "outages/min", "mean s", "max s")


def cells(name: str, one: TraceStats) -> tuple[str, ...]:
    """Returns the row of a trace in a table under `HEAD`."""
    return (
        name,
        f"{one.duration_s:.0f}",
        *(f"{value:.2f}" for value in (one.mean_mbps, one.p5_mbps, one.p95_mbps, one.cv)),
        *(f"{one.autocorrelation[lag]:.2f}" for lag in SHOWN_LAGS_S),
        f"{one.outages_per_min:.1f}",
        f"{one.outage_mean_s:.2f}",
        f"{one.outage_max_s:.2f}",
    )


def in_words(name: str, one: TraceStats) -> str:
    """Returns a trace's statistics as one sentence."""
    outages = f"{one.outages_per_min:.1f} outages a minute, the longest {one.outage_max_s:.2f} s"
    return (
        f"{name}: {one.mean_mbps:.2f} Mbit/s on average over {one.duration_s:.0f} s, between {one.p5_mbps:.2f} and "
        f"{one.p95_mbps:.2f} Mbit/s for nine tenths of the time; {outages if one.outages_per_min else 'no outages'}."
    )
