"""Statistics of a trace: rate, variability, memory and outages.

The definitions are those under which figures for public traces have been published, so that they can be compared:

- rate: one opportunity is 1500 bytes; 1 Mbit/s is 10^6 bit/s;
- coefficient of variation and autocorrelation: of the number of opportunities in consecutive windows of 100 ms, the
  autocorrelation with the biased estimator, sum(x[i] x[i+k]) / sum(x[i]^2), whose x have the mean subtracted;
- outage: a gap of at least 200 ms between opportunities, the time before the first one included;
- apparent sigma of window w: if the rate did a Brownian motion with sigma packets/s after one second, as Sprout assumes
  (Winstein et al., NSDI 2013, section 3.1), then the means of adjacent windows of length w would differ with variance
  2/3 sigma^2 w, and counting Poisson arrivals would add 2 rate/w. Solved for sigma. A real link's falls as w grows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.traces.files import check

__all__ = ["HEAD", "TraceStats", "autocorrelation", "cells", "describe", "in_words", "rates_mbps"]

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
    """By lag in seconds."""
    outages_per_min: float
    outage_mean_s: float
    """Zero without outages, as the maximum."""
    outage_max_s: float
    apparent_sigma_packets_per_s: dict[float, float]
    """By window in seconds, in packets/s after one second; zero where counting noise explains all."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON allows it: keys are text, NaN becomes None."""

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {f"{key:g}": plain(item) for key, item in value.items()}
            return None if isinstance(value, float) and math.isnan(value) else value

        return {key: plain(value) for key, value in dataclasses.asdict(self).items()}


def rates_mbps(times_ms: ArrayLike, window_ms: int = WINDOW_MS) -> NDArray[np.float64]:
    """Mean capacity in Mbit/s in consecutive whole windows, `float64[duration // window_ms]`."""
    counts = _counts(np.asarray(times_ms, dtype=np.int64), window_ms)
    return counts.astype(np.float64) * (OPPORTUNITY_BYTES * 8 / 1000 / window_ms)


def autocorrelation(series: NDArray[np.float64], lag: int) -> float:
    """The autocorrelation of `series` at `lag` samples (biased estimator); NaN if too short or constant."""
    x = series - series.mean() if series.size else series
    power = float(x @ x)
    return float(x[:-lag] @ x[lag:]) / power if 0 < lag < x.size and power > 0 else math.nan


def describe(times_ms: ArrayLike, name: str = "trace") -> TraceStats:
    """The statistics of a trace of millisecond timestamps, as defined above.

    Raises:
        TraceError: `times_ms` is not a trace; `name` stands in the message.
    """
    times = check(times_ms, name).astype(np.int64)
    duration_s = int(times[-1]) / 1000
    rates = rates_mbps(times)
    mean = times.size * OPPORTUNITY_BYTES * 8 / 1e6 / duration_s
    gaps = np.diff(times, prepend=0)
    outages_s = gaps[gaps >= OUTAGE_MS] / 1000
    p5, p50, p95 = np.percentile(rates, (5, 50, 95)).tolist() if rates.size else (math.nan,) * 3
    return TraceStats(
        opportunities=times.size,
        duration_s=duration_s,
        mean_mbps=mean,
        cv=float(rates.std() / rates.mean()) if rates.size and rates.any() else math.nan,
        p5_mbps=p5,
        p50_mbps=p50,
        p95_mbps=p95,
        autocorrelation={lag: autocorrelation(rates, round(lag * 1000 / WINDOW_MS)) for lag in LAGS_S},
        outages_per_min=outages_s.size * 60 / duration_s,
        outage_mean_s=float(outages_s.mean()) if outages_s.size else 0.0,
        outage_max_s=float(outages_s.max()) if outages_s.size else 0.0,
        apparent_sigma_packets_per_s={window: _apparent_sigma(times, window) for window in SIGMA_WINDOWS_S},
    )


def _counts(times: NDArray[np.int64], window_ms: int) -> NDArray[np.int64]:
    windows = int(times[-1]) // window_ms
    # A timestamp t is the millisecond that ends at t, so that a window (a, b] holds its own length of them.
    return np.bincount((times.clip(1) - 1) // window_ms, minlength=windows)[:windows]


def _apparent_sigma(times: NDArray[np.int64], window_s: float) -> float:
    rates = _counts(times, round(window_s * 1000)) / window_s
    if rates.size < 3:
        return math.nan
    variance = float(np.mean(np.diff(rates) ** 2)) - 2 * float(rates.mean()) / window_s
    return math.sqrt(max(variance, 0.0) * 1.5 / window_s)


_LAGS = tuple(f"r({lag:g}s)" for lag in SHOWN_LAGS_S)
HEAD = ("trace", "s", "Mbit/s", "p5", "p95", "CV", *_LAGS, "outages/min", "mean s", "max s")


def cells(name: str, one: TraceStats) -> tuple[str, ...]:
    """The row of a trace in a table under `HEAD`."""
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
    """A trace in one sentence."""
    outages = f"{one.outages_per_min:.1f} outages a minute, the longest {one.outage_max_s:.2f} s"
    return (
        f"{name}: {one.mean_mbps:.2f} Mbit/s on average over {one.duration_s:.0f} s, between {one.p5_mbps:.2f} and "
        f"{one.p95_mbps:.2f} Mbit/s for nine tenths of the time; {outages if one.outages_per_min else 'no outages'}."
    )
