"""Tables from the rows of `compete`: means with intervals, a table, and a matrix for each figure of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.measure.figure_text import bounded
from ccarena.eval.measure.sample import Interval, confidence_interval
from ccarena.eval.measure.table import FIGURES
from ccarena.scenarios.backends import counts

__all__ = [
    "HEAD",
    "WIDE_HEAD",
    "Matrix",
    "cells",
    "interval",
    "left_out",
    "matrices",
    "number",
    "summarise",
    "wide_cells",
]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Matrix:
    """Matrix of the pairs of one link: entry [i, j] is `entrants[i]` at the first base RTT, `entrants[j]` at the
    second.

    It is NaN if a pair did not run.
    """

    link: str
    rtts_ms: tuple[float, float]
    entrants: list[str]
    figures: dict[str, NDArray[np.float64]]
    """Means of `share`, `harm_throughput` and `harm_delay`, as in the table."""
    fair: NDArray[np.float64]
    """Fair shares."""


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Returns means over seeds, with intervals, for each link, match and competitor.

    Flows of one entry and base RTT count together, except those of invalid runs and of programs that failed. Each
    figure becomes `{mean, low, high}`, of the means of the seeds over orders. `share_first` and `share_last` are its
    share when it started first and last, `converged` the part of its flows that ever did.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["link"], row["match"], row["match_rtts_ms"], row["entrant"], row["base_rtt_ms"])
        groups.setdefault(key, []).append(row)
    out = []
    for (link, match, rtts, entrant, rtt_ms), all_rows in groups.items():
        flows, mine = len(rtts.split("+")), [row for row in all_rows if counts(row)]
        entry: dict[str, Any] = {
            "link": link,
            "match": match,
            "match_rtts_ms": rtts,
            "entrant": entrant,
            "base_rtt_ms": rtt_ms,
            "runs": len({(row["seed"], row["order"]) for row in mine}),
            "fair_share": all_rows[0]["fair_share"],
            "share_first": _mean([row["share"] for row in mine if row["place"] == 1]),
            "share_last": _mean([row["share"] for row in mine if row["place"] == flows]),
            "converged": _mean([float(math.isfinite(row["convergence_time_s"])) for row in mine]),
        }
        for figure in FIGURES:
            if figure in all_rows[0] and figure != "fair_share":
                found = _over_seeds(mine, figure)
                entry[figure] = {"mean": found.mean, "low": found.low, "high": found.high}
        out.append(entry)
    return out


def left_out(rows: Sequence[Row]) -> list[str]:
    """Returns sentences on the runs that no mean counts: those with a late emulator, and those of failed programs."""
    failed: dict[tuple[str, str], dict[tuple[Any, ...], str]] = {}
    late, runs = set(), set()
    for row in rows:
        run = (row["link"], row["match"], row["match_rtts_ms"], row["seed"], row["order"])
        runs.add(run)
        if row.get("error"):
            failed.setdefault((row["link"], row["match"]), {})[run] = row["error"]
        elif not row.get("valid", True):
            late.add(run)
    said = []
    for (link, match), errors in failed.items():
        of = sum(run[:2] == (link, match) for run in runs)
        first = next(iter(errors.values()))
        said.append(f"{len(errors)} of {of} runs of {match.replace('+', ' + ')} on {link} failed; {first}.")
    if late:
        said.append(
            f"In {len(late)} of {len(runs)} runs, or in their flows' runs alone, the emulator was late each time. "
            "Run them again on a quieter machine."
        )
    return said


HEAD = (
    *("match", "entrant", "RTT ms", "Mbit/s", "solo Mbit/s", "share %", "rate harm %", "delay harm %"),
    *("queue ms", "convergence s", "converged %", "Jain"),
)


WIDE_HEAD = (
    *("match", "entrant", "RTT (ms)", "rate (Mbit/s)", "solo rate (Mbit/s)", "share (%)", "share if first (%)"),
    *(
        "rate harm (%)",
        "delay harm (%)",
        "mean queue (ms)",
        "p95 queue (ms)",
        "loss (%)",
        "queue drops (%)",
        "convergence (s)",
        "converged (%)",
        "Jain",
    ),
)


def cells(summary: Sequence[Row]) -> list[list[str]]:
    """Returns the table of one link's entries of `summarise`, with the columns of `HEAD`."""
    return [
        [
            *_who(entry),
            number(entry["throughput_mbps"]["mean"], 2),
            number(entry["solo_throughput_mbps"]["mean"], 2),
            interval(entry["share"], 1, 100),
            interval(entry["harm_throughput"], 1, 100),
            number(100 * entry["harm_delay"]["mean"], 1),
            number(entry["queueing_delay_mean_ms"]["mean"], 1),
            number(entry["convergence_time_s"]["mean"], 1),
            number(100 * entry["converged"], 0),
            number(entry["jain_weighted"]["mean"], 3),
        ]
        for entry in summary
    ]


def wide_cells(summary: Sequence[Row]) -> list[list[str]]:
    """Returns the same with more figures and all intervals, with the columns of `WIDE_HEAD`."""
    return [
        [
            *_who(entry),
            interval(entry["throughput_mbps"], 2),
            interval(entry["solo_throughput_mbps"], 2),
            interval(entry["share"], 1, 100),
            number(100 * entry["share_first"], 1),
            interval(entry["harm_throughput"], 1, 100),
            interval(entry["harm_delay"], 1, 100),
            interval(entry["queueing_delay_mean_ms"], 1),
            interval(entry["queueing_delay_p95_ms"], 1),
            interval(entry["loss_share"], 3, 100),
            interval(entry["queue_drop_share"], 3, 100),
            interval(entry["convergence_time_s"], 1),
            number(100 * entry["converged"], 0),
            interval(entry["jain_weighted"], 3),
        ]
        for entry in summary
    ]


def _who(entry: Row) -> list[str]:
    return [entry["match"].replace("+", " + "), entry["entrant"], f"{entry['base_rtt_ms']:g}"]


def matrices(summary: Sequence[Row], entrants: Sequence[str]) -> list[Matrix]:
    """Returns the pairs among `entrants` in the entries of `summarise`, a matrix per link and pair of base RTTs.

    The smaller RTT is in the rows.
    """
    pairs: dict[tuple[str, tuple[float, float]], dict[tuple[str, str], Row]] = {}
    for entry in summary:
        seats = list(zip(entry["match"].split("+"), map(float, entry["match_rtts_ms"].split("+")), strict=True))
        if len(seats) != 2 or not {label for label, _ in seats} <= set(entrants):
            continue
        # Who is in the row: at the smaller base RTT, or where both have the same, the one that the entry is about.
        (near, near_ms), (far, far_ms) = sorted(seats, key=lambda s: (s[1], s[0] != entry["entrant"]))
        if (near, near_ms) == (entry["entrant"], entry["base_rtt_ms"]):
            pairs.setdefault((entry["link"], (near_ms, far_ms)), {})[near, far] = entry
    out = []
    for (link, rtts_ms), found in pairs.items():
        names = [name for name in entrants if any(name in pair for pair in found)]
        shape = (len(names), len(names))
        figures = {key: np.full(shape, math.nan) for key in ("share", "harm_throughput", "harm_delay")}
        fair = np.full(shape, math.nan)
        for (near, far), entry in found.items():
            at = names.index(near), names.index(far)
            fair[at] = entry["fair_share"]
            for key, values in figures.items():
                values[at] = entry[key]["mean"]
        out.append(Matrix(link, rtts_ms, names, figures, fair))
    return out


def _over_seeds(rows: Sequence[Row], figure: str) -> Interval:
    """Returns the interval of the means of each seed."""
    seeds: dict[int, list[float]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], []).append(row[figure])
    return bounded(figure, confidence_interval([_mean(values) for values in seeds.values()]))


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def number(value: float, digits: int) -> str:
    """Returns a value with `digits` digits after the point; a dash if there is none."""
    # Without the sign of a zero.
    return f"{round(value, digits) + 0.0:.{digits}f}" if math.isfinite(value) else "–"


def interval(value: Mapping[str, float], digits: int, unit: float = 1.0) -> str:
    """Returns a mean ± half of its interval, if several seeds give one, in `unit`s: 100 for percent.

    Of an interval that ends at the figure's bound, both ends are given.
    """
    mean, low, high = (unit * value[name] for name in ("mean", "low", "high"))
    if not math.isfinite(high):
        return number(mean, digits)
    if math.isclose(high - mean, mean - low, rel_tol=1e-9, abs_tol=1e-12):
        return f"{number(mean, digits)} ± {high - mean:.{digits}f}"
    return f"{number(mean, digits)} [{number(low, digits)}, {number(high, digits)}]"
