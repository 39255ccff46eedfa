"""Recordings: rates of a link, each with its start and span, read from rows with times.

A row's rate holds until the time of the next row, the last one's for the median interval. Rows with one time share the
interval in equal parts. An interval longer than `max_gap` medians is a gap, and a time that goes back starts a new
session. `GAPS` lists the treatments of gaps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, TraceError
from ccarena.traces.clock import Clock

__all__ = ["GAPS", "MAX_MBPS", "Gaps", "Part", "Recording", "hold", "take"]

GAPS = {
    "refuse": "name the row",
    "hold": "the rate before it holds",
    "outage": "the rate before it holds for the median interval, then it is 0",
    "cut": "leave it out and join what is around it",
    "split": "one trace per session",
}
MAX_MBPS = 10_000.0
"""Highest plausible rate: a rate above it counts as a fault of the recorder, unless the caller allows more."""


MOST_BESIDE = {"delay_ms": 100_000.0, "loss": 1.0}
"""Largest values beside rates, as of a conditions trace."""


@dataclasses.dataclass(frozen=True)
class Gaps:
    """The treatment of gaps."""

    action: str = "refuse"
    """One of `GAPS`."""
    longer_than: float = 60.0
    """Shortest gap, in median intervals."""


@dataclasses.dataclass(frozen=True)
class Part:
    """The range of a recording to take: seconds from its start, or times as its table has them; empty is open."""

    start: str = ""
    end: str = ""


@dataclasses.dataclass(frozen=True)
class Recording:
    """Rates in the order of time. Time between rows is left out: an outage is a row with rate 0."""

    name: str
    """Name of the recording in errors."""
    lines: NDArray[np.int64]
    """Lines of the rows in the file, from 1."""
    starts_s: NDArray[np.float64]
    """Starts of the rows on the table's clock."""
    spans_s: NDArray[np.float64]
    rates_mbps: NDArray[np.float64]
    """Rates of the rows; NaN for rows that `kept` leaves out."""
    beside: Mapping[str, NDArray[np.float64]] = dataclasses.field(default_factory=dict)
    """Values of the rows beside rates: `delay_ms` (one way) and `loss` (probability), if they were recorded."""
    has_rates: bool = True
    """Flag that rates were recorded; without them `rates_mbps` is 0."""

    def __len__(self) -> int:
        return int(self.lines.size)

    @property
    def duration_s(self) -> float:
        """Returns the length of all rows."""
        return float(self.spans_s.sum())

    @property
    def mean_mbps(self) -> float:
        """Returns the mean rate over all rows."""
        return float(self.rates_mbps @ self.spans_s) / self.duration_s

    @property
    def kept(self) -> Recording:
        """Returns the recording without the rows that have no rate, time included."""
        return self.only(~np.isnan(self.rates_mbps))

    def only(self, rows: NDArray[np.bool_]) -> Recording:
        """Returns the recording with the selected `rows` alone; the time of the others is dropped."""
        return dataclasses.replace(
            self,
            lines=self.lines[rows],
            starts_s=self.starts_s[rows],
            spans_s=self.spans_s[rows],
            rates_mbps=self.rates_mbps[rows],
            beside={name: values[rows] for name, values in self.beside.items()},
        )

    def part(self, part: Part, clock: Clock | None) -> Recording:
        """Returns the rows between two points; a row across a point is shortened. Raises ConfigError as `take` does."""
        elapsed = np.cumsum(self.spans_s) - self.spans_s
        begins, ends = np.zeros(len(self)), self.spans_s  # within each row
        for option, text in (("--from", part.start), ("--until", part.end)):
            if text:
                seconds, relative = _point(option, text, clock, float(self.starts_s[0]))
                within = seconds - (elapsed if relative else self.starts_s)
                begins, ends = (
                    (np.maximum(begins, within), ends) if option == "--from" else (begins, np.minimum(ends, within))
                )
        return dataclasses.replace(self, starts_s=self.starts_s + begins, spans_s=ends - begins).only(ends > begins)

    def check(self, max_mbps: float = MAX_MBPS) -> Recording:
        """Returns the recording. Raises TraceError, naming the row, for a rate above `max_mbps`."""
        wrong = ~((self.rates_mbps >= 0) & (self.rates_mbps <= max_mbps))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise TraceError(
                f"{self.name}:{self.lines[row]}: a rate of {self.rates_mbps[row]:g} Mbit/s; expected 0 to {max_mbps:g} "
                "(leave such rows out with --drop, check --unit, or allow more with --max-mbps)"
            )
        for name, values in self.beside.items():
            wrong = ~((values >= 0) & (values <= MOST_BESIDE[name]))
            if wrong.any():
                row = int(np.argmax(wrong))
                raise TraceError(
                    f"{self.name}:{self.lines[row]}: {name} is {values[row]:g}; expected 0 to {MOST_BESIDE[name]:g} "
                    "(leave such rows out with --drop, or check --delay-unit and --loss-unit)"
                )
        return self


def take(sessions: list[Recording], part: Part, clock: Clock | None = None) -> list[Recording]:
    """Returns the kept rows of `part` in each session; sessions without any are left out.

    `clock` is the one that read the table. Raises:
        ConfigError: a point cannot be read.
        TraceError: nothing is left.
    """
    parts = [taken for session in sessions if len(taken := session.part(part, clock).kept)]
    if not parts:
        given = f"from {part.start or 'the start'} until {part.end or 'the end'}"
        lasts = sum(session.duration_s for session in sessions)
        raise TraceError(f"{sessions[0].name}: no rows {given}; the recording lasts {lasts:g} s")
    return parts


def hold(
    name: str,
    lines: NDArray[np.int64],
    times_s: NDArray[np.float64],
    rate: Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]],
    gaps: Gaps,
    single_s: float = 1.0,
    beside: Mapping[str, NDArray[np.float64]] | None = None,
) -> list[Recording]:
    """Returns the recordings in rows with times: one, unless `gaps` splits them.

    Args:
        name: stands in errors.
        lines: where the rows stand in the file.
        times_s: of the rows, in the order of the file.
        rate: the rates in Mbit/s of rows (by number) that last so many seconds; called once.
        gaps: what is done at gaps.
        single_s: how long rows last that all have one time.
        beside: values of the rows beside rates (`Recording.beside`).

    Raises TraceError, naming the row, at a gap that is refused, and where time goes back unless `gaps` cuts or splits.
    """
    firsts = np.flatnonzero(np.diff(times_s, prepend=np.nan) != 0)  # of each group of rows with one time
    steps = np.diff(times_s[firsts])
    median = float(np.median(steps[steps > 0])) if (steps > 0).any() else single_s
    back, gap = steps < 0, steps > gaps.longer_than * median
    _refuse(name, lines[firsts], steps, median, back, gap, gaps)
    shortened = back | gap if gaps.action in ("cut", "split") else gap & (gaps.action == "outage")
    lengths = np.append(np.where(shortened, median, steps), median)
    counts = np.diff(firsts, append=times_s.size)
    group = np.repeat(np.arange(firsts.size), counts)
    spans = (lengths / counts)[group]
    rows = np.arange(times_s.size)
    starts = times_s + (rows - firsts[group]) * spans
    rates = rate(rows, spans)
    if gaps.action == "outage":  # one more row after the group before each gap
        ends = firsts[1:][gap]
        rows = np.insert(rows, ends, ends - 1)
        starts = np.insert(starts, ends, (times_s[firsts[:-1]] + median)[gap])
        spans = np.insert(spans, ends, (steps - median)[gap])
        rates = np.insert(rates, ends, rates[ends - 1] * 0.0)  # what is left out stays so
    others = {column: values[rows] for column, values in (beside or {}).items()}
    whole = Recording(name, lines[rows], starts, spans, rates, others)
    if gaps.action != "split":
        return [whole]
    session = np.repeat(np.append(0, np.cumsum(back | gap)), counts)
    return [whole.only(session == number) for number in range(int(session[-1]) + 1)]


def _refuse(
    name: str,
    lines: NDArray[np.int64],
    steps: NDArray[np.float64],
    median: float,
    back: NDArray[np.bool_],
    gap: NDArray[np.bool_],
    gaps: Gaps,
) -> None:
    refused = back | gap if gaps.action == "refuse" else back if gaps.action in ("hold", "outage") else back & False
    if not refused.any():
        return
    row = int(np.argmax(refused))
    where = f"{name}:{lines[row + 1]}:"
    if back[row]:
        raise TraceError(
            f"{where} time goes back by {-steps[row]:g} s; expected one session in the order of time "
            "(--gaps split writes a trace per session, --gaps cut joins them)"
        )
    raise TraceError(
        f"{where} no row for {steps[row]:g} s, {steps[row] / median:.0f} times the usual {median:g} s; "
        "say with --gaps hold, outage, cut or split what it is, or allow it with --max-gap"
    )


def _point(option: str, text: str, clock: Clock | None, first: float) -> tuple[float, bool]:
    """Returns a point in seconds, and whether it counts from the start of the recording."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if not 0 <= seconds < float("inf"):
            raise ConfigError(f"{option} is {text}; expected seconds from the start, 0 or more")
        return seconds, True
    if clock is None or not clock.dated:
        raise ConfigError(f"{option} is {text}; expected seconds from the start, since the rows have no dates")
    try:
        return clock.at(text, first), False
    except ValueError as error:
        raise ConfigError(f"{option} is {text}; expected {error}") from error
