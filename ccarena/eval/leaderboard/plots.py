"""Plots of the leaderboard: throughput against delay, wins, competition, and cells over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena.eval.leaderboard.entrants import ORACLE
from ccarena.eval.leaderboard.listing import rank_of
from ccarena.eval.leaderboard.ranking import mark_of
from ccarena.pages import Axis, Block, Chart, Figure, charts
from ccarena.pages.charts import Trace
from ccarena.pages.grid import HeatMap
from ccarena.pages.over_time import Course, delay_axis, over_time

__all__ = ["cloud", "competition", "over_time_of", "scatter", "where_it_stands", "win_bars", "win_map", "wins_of"]

# Orange and blue stay apart for colour-blind readers; white is the middle.
BOTH_WAYS = ("#b35806", "#f1a340", "#f7f7f7", "#67a9cf", "#2166ac")
HARM = ("#f7f7f7", "#fdae6b", "#a63603")
_CIRCLE = np.linspace(0.0, 2 * math.pi, 33)


Entrants = Mapping[int, Mapping[str, Any]]
Names = Mapping[int, str]


def scatter(name: str, rows: Sequence[Mapping[str, Any]], entrants: Entrants, names: Names) -> Figure:
    """Plots utilisation against queueing delay: a mark and an ellipse per entrant of a group, and the Pareto front."""
    marked = [(row["entrant"], row["mark"]) for row in rows if row["mark"]]
    return _against_delay(f"utilisation against delay, {name}", marked, "utilisation (share)", entrants, names)


def cloud(name: str, runs: Sequence[Mapping[str, Any]], entrants: Entrants, names: Names) -> Figure:
    """Plots throughput against queueing delay on one place: means and standard deviations over seeds."""
    points: dict[int, list[tuple[float | None, float | None]]] = {}
    for run in runs:
        points.setdefault(run["entrant"], []).append((run["queueing_delay_mean_ms"], run["throughput_mbps"]))
    marked = [(entrant, at) for entrant, mine in points.items() if (at := mark_of(mine, of_mean=False))]
    return _against_delay(f"throughput against delay, {name}", marked, "throughput (Mbit/s)", entrants, names)


def _against_delay(
    label: str, marked: Sequence[tuple[int, Sequence[float]]], y: str, entrants: Entrants, names: Names
) -> Figure:
    """Plots marks; baselines and oracles appear by a click in the legend."""
    traces: list[Trace] = []
    points = [(at[0], at[1], entrant) for entrant, at in marked if entrants[entrant]["track"] != ORACLE]
    front = [p for p in points if not any((q[0] <= p[0] and q[1] >= p[1] and q[:2] != p[:2]) for q in points)]
    front.sort(key=lambda point: point[0])
    look = charts.Style(charts.MUTED, "dash")
    traces.append(
        charts.line("nobody beats both", [math.exp(p[0]) for p in front], [p[1] for p in front], look, width=1.2)
    )
    for at, (entrant, mark) in enumerate(sorted(marked, key=lambda each: entrants[each[0]]["kind"] == "baseline")):
        look = charts.style(at)
        name, delay_ms = names[entrant], math.exp(mark[0])
        said = f"{name}: {mark[1]:.3g}, {delay_ms:.3g} ms"
        hidden = {"visible": "legendonly"} if entrants[entrant]["kind"] == "baseline" else {}
        dot = charts.marks(name, [delay_ms], [mark[1]], look, size=10, text=[said])
        traces.append({**dot, "hoverinfo": "text", **hidden})
        if mark[2] > 0 or mark[4] > 0:
            x, height = _ellipse(mark)
            traces.append({**charts.line(name, x, height, look, width=1.0), "hoverinfo": "skip", **hidden})
    drawn = [ms for trace in traces for ms in trace["x"]]
    delay = delay_axis("mean queueing delay (ms, log)", drawn)
    return Figure(label, [Chart(delay, Axis(y, from_zero=True), traces, height=440)])


def _ellipse(mark: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns the points one standard deviation from a mark; delay is the exponential of its logarithm."""
    values, vectors = np.linalg.eigh(np.array([[mark[2], mark[3]], [mark[3], mark[4]]]))
    axes = vectors * np.sqrt(np.maximum(values, 0.0))
    around = axes @ np.stack([np.cos(_CIRCLE), np.sin(_CIRCLE)])
    return np.exp(mark[0] + around[0]).tolist(), (mark[1] + around[1]).tolist()


def wins_of(group: Mapping[str, Any]) -> dict[tuple[int, int], float]:
    """Returns win probabilities of the first over the second, for both orders of each pair."""
    out = {}
    for one, other, share in group["wins"]:
        if share is not None:
            out[one, other], out[other, one] = share, 1.0 - share
    return out


def win_map(name: str, group: Mapping[str, Any], label: Mapping[int, str]) -> HeatMap:
    """Returns the win probabilities of all pairs of those with a `label`, the best score first."""
    wins = wins_of(group)
    order = [row["entrant"] for row in group["rows"] if row["entrant"] in label]
    values = [[wins.get((one, other), math.nan) for other in order] for one in order]
    return HeatMap(f"who wins against whom, {name}", [label[each] for each in order], values, values, BOTH_WAYS)


def win_bars(entrant: int, group: Mapping[str, Any], label: Mapping[int, str]) -> Figure | None:
    """Plots one entrant's win probabilities over all others, the strongest last; None without meetings."""
    wins = sorted((share, label[other]) for (one, other), share in wins_of(group).items() if one == entrant)
    if not wins:
        return None
    names = [name for _, name in wins]
    bars = charts.bars("wins", names, [100 * share for share, _ in wins], charts.style(0), across=True)
    axis = Axis("wins (% of runs)", low=0, high=100)
    chart = Chart(axis, Axis("", category=True), [bars], height=80 + 22 * len(names))
    return Figure(f"wins of {label[entrant]}", [chart])


def where_it_stands(entrant: int, groups: Mapping[str, Mapping[str, Any]]) -> tuple[str, list[str]] | None:
    """Returns a summary and sentences: the traces on which its score is best and worst relative to the median of all
    schemes.
    """
    found = []
    for name, group in groups.items():
        row = next((row for row in group["rows"] if row["entrant"] == entrant), None)
        if row is None or not name.startswith("trace "):
            continue
        median = float(np.median([other["score"] for other in group["rows"]]))
        if median > 0 and row["score"] > 0:
            place = f", rank {rank_of(row)}" if row["rank"] else f" ({row['why']})" if row["why"] else ""
            found.append((row["score"] / median, f"{name.removeprefix('trace ')}: {row['score']:.3f}{place}"))
    if len(found) < 2:
        return None
    found.sort(reverse=True)
    best, worst = found[: min(3, len(found) // 2)], found[-min(3, len(found) // 2) :]
    said = [f"{text}, {ratio:.2f} of the median" for ratio, text in (*best, *worst)]
    return "The traces on which its score is best and worst beside the median of all entrants there.", said


def competition(
    means: Sequence[Mapping[str, Any]], places: Mapping[int, Mapping[str, Any]], label: Names, rival: int | None
) -> dict[str, Sequence[Block]]:
    """Returns a heat map of shares and two of harm for each place where pairs met, by the place's name in the choice.

    Places where all met the entrant `rival` alone have none.
    """
    out: dict[str, Sequence[Block]] = {}
    paired = [mean["place"] for mean in means if rival not in (mean["entrant"], mean["opponent"])]
    for number in dict.fromkeys(paired):
        pairs = {(mean["entrant"], mean["opponent"]): mean for mean in means if mean["place"] == number}
        order = [each for each in label if any(each == one for one, _ in pairs)]
        names = [label[each] for each in order]
        for figure, title in (
            ("share", "row's share (%)"),
            ("harm_throughput", "harm to row's rate (%)"),
            ("harm_delay", "harm to row's delay (%)"),
        ):
            values = [[_value(pairs.get((one, other)), figure) for other in order] for one in order]
            shades = [[min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0 for value in row] for row in values]
            name = f"{places[number]['name']}: {title}"
            out[name] = [HeatMap(name, names, values, shades, BOTH_WAYS if figure == "share" else HARM)]
    return out


def _value(mean: Mapping[str, Any] | None, figure: str) -> float:
    value = None if mean is None else mean[figure]
    return math.nan if value is None else float(value)


def over_time_of(name: str, series: Mapping[int, Mapping[str, Any]], names: Names, shown: Sequence[int]) -> Figure:
    """Plots every entrant's rate and delay on a place; those not `shown` appear by a click in the legend."""
    first = next(iter(series.values()))
    courses = [
        Course(
            names[number],
            charts.style(at),
            one["rate_mbps"],
            one["queueing_delay_ms"],
            shown=number in shown,
        )
        for at, (number, one) in enumerate(series.items())
    ]
    caption = "Grey is the capacity; the delay is the largest of each bin."
    return over_time(name, first["bin_s"], first["capacity_mbps"], courses, caption=caption)
