"""Comparison of a link model with measured tables: figures of the table, and those of many traces of the model.

A recording is cut into equal intervals (its rows', at least a second). For every session of the table the model draws a
trace of the same length, `DRAWS` times with other seeds. A figure of the table agrees with the model if it lies between
the 5th and the 95th percentile of these draws. Figures:

- mean and percentiles of the rate over all sessions, and the coefficient of variation of the sessions' means;
- coefficient of variation and autocorrelation within a session, whose own mean is subtracted;
- outages (below `OUTAGE_MBPS`): share of time, number per minute, mean length;
- step at 15 s: how much larger the changes from interval to interval are in the phase of 15 s where they are largest
  than in the median phase (Starlink reallocates every 15 s; without a period of 15 s it is a little above 1);
- percentiles and the step of the one-way delay, and the mean loss, if the table has them.

`distance` is the largest difference of both distributions of the rate (Kolmogorov and Smirnov).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import TraceError
from ccarena.traces import models

__all__ = ["DRAWS", "OUTAGE_MBPS", "Comparison", "Figure", "Session", "compare", "session"]

DRAWS = 40
OUTAGE_MBPS = 1.0
LAGS_S = (1, 5, 15, 60)
PERIOD_S = 15
SHORTEST_S = 100.0
"""Shortest session for figures within a session."""
PERCENTILES = (5, 25, 50, 75, 95)


@dataclasses.dataclass(frozen=True)
class Session:
    """Conditions in equal intervals."""

    interval_s: float
    rates_mbps: NDArray[np.float64]
    delays_ms: NDArray[np.float64] | None = None
    losses: NDArray[np.float64] | None = None

    @property
    def duration_s(self) -> float:
        """Returns its length."""
        return self.interval_s * self.rates_mbps.size


@dataclasses.dataclass(frozen=True)
class Figure:
    """Figure of the table, and its 5th, 50th and 95th percentile over the model's draws."""

    name: str
    unit: str
    table: float
    low: float
    median: float
    high: float

    @property
    def agrees(self) -> bool:
        """Returns whether the table's value lies between the percentiles."""
        return self.low <= self.table <= self.high


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Model beside tables."""

    model: str
    sessions: int
    duration_s: float
    figures: tuple[Figure, ...]
    distance: float

    @property
    def agreeing(self) -> int:
        """Returns how many figures agree."""
        return sum(figure.agrees for figure in self.figures)


def session(
    spans_s: NDArray[np.float64],
    rates_mbps: NDArray[np.float64],
    delays_ms: NDArray[np.float64] | None = None,
    losses: NDArray[np.float64] | None = None,
    interval_s: float | None = None,
) -> Session:
    """Returns rows of any lengths as means over equal intervals: the rows' median length, and at least 1 s."""
    interval = interval_s or max(float(np.median(spans_s)), 1.0)
    ends = np.concatenate(([0.0], np.cumsum(spans_s)))
    edges = np.arange(0.0, ends[-1] + 1e-9, interval)

    def means(values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        if values is None:
            return None
        gathered = np.concatenate(([0.0], np.cumsum(values * spans_s)))
        return np.diff(np.interp(edges, ends, gathered)) / interval

    rates = means(rates_mbps)
    assert rates is not None
    return Session(interval, rates, means(delays_ms), means(losses))


def compare(model: str, sessions: Sequence[Session], draws: int = DRAWS) -> Comparison:
    """Compares a model with the sessions of a table, all with the same interval.

    Raises:
        ConfigError: there is no such model.
        TraceError: the sessions are too short to compare, or their intervals differ.
    """
    if not any(one.duration_s >= SHORTEST_S for one in sessions):
        raise TraceError(f"no session lasts {SHORTEST_S:g} s; a comparison needs one at least that long")
    if len(intervals := {round(one.interval_s, 3) for one in sessions}) > 1:
        raise TraceError(
            f"the sessions have intervals of {sorted(intervals)} s; compare tables of one interval at a time"
        )
    wanted = _figures(sessions)
    found: list[dict[str, float]] = []
    rates: list[NDArray[np.float64]] = []
    for number in range(draws):
        drawn = [_drawn(model, one, number * len(sessions) + index) for index, one in enumerate(sessions)]
        found.append({name: value for name, (_, value) in _figures(drawn).items()})
        rates += [one.rates_mbps for one in drawn]
    figures = []
    for name, (unit, value) in wanted.items():
        # A draw that is all outage, or without variance, lacks some figures.
        drawn_values = [one[name] for one in found if name in one]
        if drawn_values:
            figures.append(Figure(name, unit, value, *_percentiles(drawn_values)))
    own = np.concatenate([one.rates_mbps for one in sessions])
    total = sum(one.duration_s for one in sessions)
    return Comparison(model, len(sessions), total, tuple(figures), _distance(own, np.concatenate(rates)))


def _percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, median, high = np.percentile(values, (5, 50, 95)).tolist()
    return low, median, high


def _drawn(model: str, like: Session, seed: int) -> Session:
    rows = models.draw(model, like.duration_s, seed)
    spans_s = np.full(len(rows), rows[1, 0] / 1000)
    _, rates, delays, losses = rows.T
    drawn = session(spans_s, rates, delays, losses, like.interval_s)
    size = like.rates_mbps.size
    delays_ms = drawn.delays_ms[:size] if like.delays_ms is not None and drawn.delays_ms is not None else None
    lost = drawn.losses[:size] if like.losses is not None and drawn.losses is not None else None
    return Session(like.interval_s, drawn.rates_mbps[:size], delays_ms, lost)


def _figures(sessions: Sequence[Session]) -> dict[str, tuple[str, float]]:
    """Returns figures by name, each with its unit."""
    interval_s = sessions[0].interval_s
    long = [one for one in sessions if one.duration_s >= SHORTEST_S]
    rates = [one.rates_mbps for one in long]
    pooled = np.concatenate([one.rates_mbps for one in sessions])
    out = {"mean rate": ("Mbit/s", float(pooled.mean()))}
    for percent in PERCENTILES:
        out[f"rate p{percent}"] = ("Mbit/s", float(np.percentile(pooled, percent)))
    if len(long) > 1:
        out["variation of sessions"] = ("", float(np.std([each.mean() for each in rates]) / pooled.mean()))
    variance = _covariance(rates, 0)
    out["variation within"] = ("", math.sqrt(variance) / float(pooled.mean()) if pooled.any() else 0.0)
    for lag_s in LAGS_S:
        steps = round(lag_s / interval_s)
        if abs(steps * interval_s - lag_s) < 0.01 * lag_s and steps >= 1 and variance > 0:
            out[f"autocorrelation {lag_s} s"] = ("", _covariance(rates, steps) / variance)
    lengths = np.concatenate([_runs(one.rates_mbps < OUTAGE_MBPS) for one in sessions]) * interval_s
    minutes = pooled.size * interval_s / 60
    out["outages, share"] = ("", float(np.mean(pooled < OUTAGE_MBPS)))
    out["outages"] = ("per min", lengths.size / minutes)
    out["outage, mean"] = ("s", float(lengths.mean()) if lengths.size else 0.0)
    out["rate step at 15 s"] = ("", _step(rates, interval_s))
    if (delays := _given(sessions, lambda one: one.delays_ms)) is not None:
        for percent in (5, 50, 95):
            out[f"delay p{percent}"] = ("ms", float(np.percentile(np.concatenate(delays), percent)))
        of_long = [one.delays_ms for one in long if one.delays_ms is not None]
        out["delay step at 15 s"] = ("", _step(of_long, interval_s))
    if (losses := _given(sessions, lambda one: one.losses)) is not None:
        out["mean loss"] = ("", float(np.concatenate(losses).mean()))
    return {name: (unit, value) for name, (unit, value) in out.items() if not math.isnan(value)}


def _given(
    sessions: Sequence[Session], of: Callable[[Session], NDArray[np.float64] | None]
) -> list[NDArray[np.float64]] | None:
    found = [values for one in sessions if (values := of(one)) is not None]
    return found if len(found) == len(sessions) else None


def _covariance(rates: Sequence[NDArray[np.float64]], steps: int) -> float:
    """Returns the mean of the sessions' autocovariances."""
    each = [(x - x.mean()) for x in rates]
    return float(np.mean([np.mean(x[: x.size - steps] * x[steps:]) for x in each]))


def _runs(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return edges[1::2] - edges[::2]


def _step(values: Sequence[NDArray[np.float64]], interval_s: float) -> float:
    """Returns the mean over sessions of largest / median mean change by phase of 15 s; NaN if intervals do not fit."""
    phases = round(PERIOD_S / interval_s)
    if phases < 3 or abs(phases * interval_s - PERIOD_S) > 1e-6:
        return math.nan
    ratios = []
    for each in values:
        changes = np.abs(np.diff(each))
        by_phase = [float(changes[phase::phases].mean()) for phase in range(phases)]
        if (usual := float(np.median(by_phase))) > 0:
            ratios.append(max(by_phase) / usual)
    return float(np.mean(ratios)) if ratios else math.nan


def _distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    points = np.concatenate((first, second))
    shares = [np.searchsorted(np.sort(each), points, side="right") / each.size for each in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())
