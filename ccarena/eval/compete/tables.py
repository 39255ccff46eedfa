"""From the rows of `compete` to what is shown: means with intervals, a table, and a matrix for each figure of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.metrics import Interval, confidence_interval

__all__ = ["HEAD", "Matrix", "cells", "matrices", "summarise"]

FIGURES = (
    "throughput_mbps",
    "solo_throughput_mbps",
    "share",
    "harm_throughput",
    "harm_delay",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "solo_queueing_delay_mean_ms",
    "loss_share",
    "convergence_time_s",
    "satisfaction",
    "jain_index",
    "utilisation",
)
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Matrix:
    """Pairs of one link: entry [i, j] is of `entrants[i]` at the first base RTT beside `entrants[j]` at the second.

    NaN where a pair did not run.
    """

    link: str
    rtts_ms: tuple[float, float]
    entrants: list[str]
    figures: dict[str, NDArray[np.float64]]
    """`share`, `harm_throughput`, `harm_delay`. Beside itself at the same RTT: the share of who started first."""
    fair: NDArray[np.float64]
    """Fair shares."""


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each link, match and competitor (flows of one entry and base RTT together): means over seeds, with intervals.

    Each of `FIGURES` becomes `{mean, low, high}`, of the means of the seeds over orders; `share_first` and `share_last`
    are its share when it started first and last, `converged` the part of its flows that ever did.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["link"], row["match"], row["match_rtts_ms"], row["entrant"], row["base_rtt_ms"])
        groups.setdefault(key, []).append(row)
    out = []
    for (link, match, rtts, entrant, rtt_ms), mine in groups.items():
        flows = len(rtts.split("+"))
        entry: dict[str, Any] = {
            "link": link,
            "match": match,
            "match_rtts_ms": rtts,
            "entrant": entrant,
            "base_rtt_ms": rtt_ms,
            "runs": len({(row["seed"], row["order"]) for row in mine}),
            "fair_share": mine[0]["fair_share"],
            "share_first": _mean([row["share"] for row in mine if row["place"] == 1]),
            "share_last": _mean([row["share"] for row in mine if row["place"] == flows]),
            "converged": float(np.mean([math.isfinite(row["convergence_time_s"]) for row in mine])),
        }
        for figure in FIGURES:
            if figure in mine[0]:
                interval = _over_seeds(mine, figure)
                entry[figure] = {"mean": interval.mean, "low": interval.low, "high": interval.high}
        out.append(entry)
    return out


HEAD = (
    *("match", "who", "RTT ms", "Mbit/s", "alone", "share %", "rate harm %", "delay harm %"),
    *("queue ms", "converges s", "ever %", "Jain"),
)


def cells(summary: Sequence[Row]) -> list[list[str]]:
    """The table of one link's entries of `summarise`, as `HEAD` says."""
    return [
        [
            entry["match"].replace("+", " + "),
            entry["entrant"],
            f"{entry['base_rtt_ms']:g}",
            _number(entry["throughput_mbps"]["mean"], 2),
            _number(entry["solo_throughput_mbps"]["mean"], 2),
            _interval(entry["share"]),
            _interval(entry["harm_throughput"]),
            _number(100 * entry["harm_delay"]["mean"], 1),
            _number(entry["queueing_delay_mean_ms"]["mean"], 1),
            _number(entry["convergence_time_s"]["mean"], 1),
            _number(100 * entry["converged"], 0),
            _number(entry["jain_index"]["mean"], 3),
        ]
        for entry in summary
    ]


def matrices(rows: Sequence[Row], entrants: Sequence[str]) -> list[Matrix]:
    """The pairs among `entrants`, a matrix per link and pair of base RTTs, the smaller RTT in the rows."""
    pairs: dict[tuple[str, tuple[float, float]], list[Row]] = {}
    for row in rows:
        rtts = tuple(sorted(float(rtt) for rtt in row["match_rtts_ms"].split("+")))
        if len(rtts) == 2:
            pairs.setdefault((row["link"], (rtts[0], rtts[1])), []).append(row)
    out = []
    for (link, rtts_ms), mine in pairs.items():
        names = [name for name in entrants if any(row["entrant"] == name for row in mine)]
        shape = (len(names), len(names))
        figures = {key: np.full(shape, math.nan) for key in ("share", "harm_throughput", "harm_delay")}
        fair = np.full(shape, math.nan)
        for i, row_name in enumerate(names):
            for j, column_name in enumerate(names):
                found = [row for row in mine if _is_cell(row, row_name, column_name, rtts_ms)]
                if not found:
                    continue
                fair[i, j] = found[0]["fair_share"]
                twins = row_name == column_name and rtts_ms[0] == rtts_ms[1]
                for key, values in figures.items():
                    kept = [row for row in found if row["place"] == 1] if twins and key == "share" else found
                    values[i, j] = _over_seeds(kept, key).mean
        out.append(Matrix(link, rtts_ms, names, figures, fair))
    return out


def _is_cell(row: Row, entrant: str, other: str, rtts_ms: tuple[float, float]) -> bool:
    """Whether the flow of `row` is `entrant`, at the first base RTT, beside `other` at the second."""
    return row["entrant"] == entrant and row["base_rtt_ms"] == rtts_ms[0] and row["opponents"] == other


def _over_seeds(rows: Sequence[Row], figure: str) -> Interval:
    """Of the means of each seed."""
    seeds: dict[int, list[float]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], []).append(row[figure])
    return confidence_interval([_mean(values) for values in seeds.values()])


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def _interval(value: Mapping[str, float]) -> str:
    """In percent."""
    half = value["high"] - value["mean"]
    return _number(100 * value["mean"], 1) + (f" ± {100 * half:.1f}" if math.isfinite(half) else "")
