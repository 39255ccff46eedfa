"""Ranking of entrants, and its confidence.

The score of a run is a figure of `SCORES`; over links and seeds it is the geometric mean. Its interval (95 %) is a
bootstrap over blocks, and over seeds within each block. All links of a block are drawn together, because they share a
trace's capacity, and all entrants meet the same draws.

Entrants of a track are ordered by score, and cut into groups (`comparison.groups`): a group ends before the first
entrant that the group's best is better than. The rank of all entrants in a group is the range of their places in the
order, such as 1 to 3. Tests are over blocks (`comparison`). With fewer than `FEW_BLOCKS`, units are each block with
each seed, and the result holds for these traces alone.

The *win probability* of A over B is the share of runs, of the same link and seed, in which A's score is higher; ties
count half.

An entrant has a rank in a group of links if it ran on all of them with all seeds and was trained on none of them.
Baselines have scores and no ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.leaderboard.comparison import better, groups, visible
from ccarena.eval.leaderboard.entrants import ORACLE
from ccarena.eval.leaderboard.figures import SCORES, SHARING, solo
from ccarena.eval.leaderboard.links import CLASSES, SCENARIO
from ccarena.eval.measure.table import LEAST_SCORE
from ccarena.traces.held_out import derives_from

__all__ = ["FEW_BLOCKS", "OVERALL", "UNSEEN", "Row", "describe", "first_of", "groups_of", "mark_of", "rank", "seen_by"]

OVERALL, UNSEEN = "all traces", "traces that nobody was trained on"
MISSING = "runs are missing"
"""Reason why an entrant has no rank."""
RESAMPLES = 1000
FEW_BLOCKS = 6
LEAST_DELAY_MS = 0.1
"""Least delay in a logarithm; smaller ones are raised to it."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """Entrant in a group of links."""

    entrant: int
    rank: int | None
    """First place of its group in the order of scores; None without a rank, for the reason in `why`."""
    last: int | None
    """Last place of its group."""
    score: float
    low: float
    """Lower end of the interval; NaN of a single draw, which has none."""
    high: float
    runs: int
    why: str = ""

    def plain(self) -> dict[str, Any]:
        """Returns JSON data."""
        return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in vars(self).items()}


def rank(
    scores: Iterable[tuple[int, int, int, float]],
    places: Sequence[Mapping[str, Any]],
    entrants: Sequence[Mapping[str, Any]],
    seed: int = 0,
    wins: bool = True,
) -> dict[str, Any]:
    """Returns the ranking from `Store.scores`, `places` and `entrants`, as plain data.

    `groups` has by name the places and the rows (as `Row`) in the order of their scores. `visible` has by track the
    smallest differences that its tests see (`comparison.visible`), and the number of blocks. `wins` has, if asked for,
    in groups of several traces, the win probability of the first over the second, by pairs of numbers of ranked
    entrants. The same input gives the same ranking.
    """
    rows = np.array(list(scores), dtype=[("place", int), ("entrant", int), ("seed", int), ("score", float)])
    ran = set(rows["place"].tolist())
    known = [place for place in places if place["id"] in ran]
    out: dict[str, Any] = {"entrants": len(set(rows["entrant"].tolist())), "runs": len(rows), "groups": {}}
    for name, group in groups_of(known, entrants).items():
        out["groups"][name] = _rank_group(rows, group, entrants, seed, wins)
    return out


def describe(
    ranking: Mapping[str, Any],
    means: Sequence[Mapping[str, Any]],
    meetings: Sequence[Mapping[str, Any]] = (),
    rival: int | None = None,
) -> None:
    """Adds the `figures` of its entrant to each row of a `ranking`, means over the group's places, and its `mark`.

    Means of scores are geometric, those of other figures arithmetic.
    `beside` has means over its meetings with the entrant `rival` on the group's places: its share, its score, and the
    harm that the rival takes. A mark is its place in the plot against delay, `[x, y, xx, xy, yy]`. x is the natural
    logarithm of the mean queueing delay in ms, y the mean utilisation; then come the variances and covariance of the
    two over traces. `means` and `meetings` are the store's.
    """
    of: dict[int, dict[int, Mapping[str, Any]]] = {}
    for mean in means:
        of.setdefault(int(mean["entrant"]), {})[int(mean["place"])] = mean
    names = [name for name in solo() if name not in SCORES]
    for group in ranking["groups"].values():
        places = set(group["places"])
        met = [meeting for meeting in meetings if meeting["place"] in places]
        for row in group["rows"]:
            mine = [each for place in group["places"] if (each := of.get(row["entrant"], {}).get(place)) is not None]
            row["figures"] = {name: _mean([each[name] for each in mine]) for name in names}
            row["beside"] = _beside(row["entrant"], met, rival)
            row["mark"] = mark_of([(each["queueing_delay_mean_ms"], each["utilisation"]) for each in mine])


def _beside(entrant: int, met: Sequence[Mapping[str, Any]], rival: int | None) -> dict[str, float | None]:
    """Returns an entrant's share and score beside the rival, and the harm that the rival takes."""
    own = [meeting for meeting in met if (meeting["entrant"], meeting["opponent"]) == (entrant, rival)]
    harmed = [meeting for meeting in met if (meeting["entrant"], meeting["opponent"]) == (rival, entrant)]
    return {
        "share": _mean([meeting["share"] for meeting in own]),
        SHARING: _geometric([meeting[SHARING] for meeting in own]),
        **{name: _mean([meeting[name] for meeting in harmed]) for name in ("harm_throughput", "harm_delay")},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(f"{math.fsum(known) / len(known):.5g}") if known else None


def _geometric(scores: Sequence[float | None]) -> float | None:
    mean = _mean([math.log(max(score, LEAST_SCORE)) for score in scores if score is not None])
    return None if mean is None else float(f"{math.exp(mean):.5g}")


def mark_of(points: Sequence[tuple[float | None, float | None]], of_mean: bool = True) -> list[float]:
    """Returns the place of points (delay in ms, y) in a plot against delay, as in `describe`; empty without points.

    The variances are those of the mean, or of the points if `of_mean` is False. Those of the logarithm follow from
    those of the delay to first order (delta method).
    """
    at = np.array([(x, y) for x, y in points if x is not None and y is not None])
    if not len(at):
        return []
    delay, y = at.mean(axis=0)
    delay = max(delay, LEAST_DELAY_MS)
    spread = np.cov(at.T) / (len(at) if of_mean else 1) if len(at) > 1 else np.zeros((2, 2))
    found = (math.log(delay), y, spread[0, 0] / delay**2, spread[0, 1] / delay, spread[1, 1])
    return [float(f"{value:.5g}") for value in found]


def groups_of(
    places: Sequence[Mapping[str, Any]], entrants: Sequence[Mapping[str, Any]]
) -> dict[str, list[Mapping[str, Any]]]:
    """Returns the groups of places with ranks: all, those that no entrant was trained on, classes and traces.

    Users' scenarios are a class, and each one is a group; the groups over traces have none of them.
    """
    scenarios = [place for place in places if place["moves"] == SCENARIO]
    places = [place for place in places if place["moves"] != SCENARIO]
    fresh = [place for place in places if not any(seen_by(entrant, place) for entrant in entrants)]
    out: dict[str, list[Mapping[str, Any]]] = {OVERALL: list(places)} if places else {}
    if 0 < len(fresh) < len(places):
        out[UNSEEN] = fresh
    for moves in CLASSES:
        mine = [place for place in places if place["moves"] == moves]
        if mine:
            out[moves] = mine
    for place in places:
        out.setdefault(f"trace {place['trace']}", []).append(place)
    if scenarios:
        out[SCENARIO] = scenarios
    return out | {f"{SCENARIO} {place['trace']}": [place] for place in scenarios}


def seen_by(entrant: Mapping[str, Any], place: Mapping[str, Any]) -> bool:
    """Returns whether an entrant was trained on a place's trace, its recording or a preset fitted to the same
    recording.
    """
    return any(
        derives_from(each.get("name", "")) == place["origin"] or each.get("digest") == place["trace_digest"]
        for each in entrant["trained_on"]
        if each.get("kind") != "distribution"
    )


def first_of(names: Sequence[str]) -> str | None:
    """Returns the group that is shown first: of traces that nobody was trained on, else of all; None without groups."""
    return next((name for name in (UNSEEN, OVERALL, *names) if name in names), None)


def _rank_group(
    rows: NDArray[Any], group: Sequence[Mapping[str, Any]], entrants: Sequence[Mapping[str, Any]], seed: int, wins: bool
) -> dict[str, Any]:
    traces = {int(place["id"]): str(place["trace"]) for place in group}
    blocks = {int(place["id"]): _block(place) for place in group}
    mine = rows[np.isin(rows["place"], list(traces))]
    present, entrant_at = np.unique(mine["entrant"], return_inverse=True)
    known_as = {entrant["id"]: entrant for entrant in entrants}
    who = [known_as[number] for number in present.tolist()]
    columns, column_at = np.unique(mine[["place", "seed"]], return_inverse=True)
    table = np.full((len(who), len(columns)), np.nan)
    table[entrant_at, column_at] = np.log(np.maximum(mine["score"], LEAST_SCORE))
    weights = _weights([(blocks[place], at) for place, at in columns.tolist()], seed)
    whole = np.isfinite(table).all(axis=1)
    means = np.nanmean(table, axis=1)
    # What is not whole has no rank, and its interval is of what there is.
    there = weights @ np.isfinite(table).T.astype(np.float64)
    drawn = weights @ np.nan_to_num(table).T / np.where(there > 0, there, np.nan)
    why = [_why(entrant, group, bool(all_there)) for entrant, all_there in zip(who, whole, strict=True)]
    ranks: dict[int, tuple[int | None, int | None]] = {}
    unranked = (None, None)
    seen: dict[str, Any] = {}
    for track in sorted({str(entrant["track"]) for entrant in who}):
        ranked = [k for k, entrant in enumerate(who) if entrant["track"] == track and not why[k]]
        if not ranked:
            continue
        units = _units(table[ranked], columns, blocks)
        order = groups(means[ranked].tolist(), better(units))
        count = len(set(blocks.values()))
        seen[track] = {
            **{"blocks": count, "few": count < FEW_BLOCKS},
            "share": visible(units, [k for each in order for k in each]),
        }
        before = 0
        for each in order:
            ranks |= {ranked[k]: (before + 1, before + len(each)) for k in each}
            before += len(each)
    lows, highs = np.nanquantile(drawn, [0.025, 0.975], axis=0)
    if len({(blocks[place], at) for place, at in columns.tolist()}) < 2:  # a single draw has no interval
        lows, highs = np.full((2, len(who)), np.nan)
    out = [
        Row(
            int(who[k]["id"]),
            ranks.get(k, unranked)[0],
            ranks.get(k, unranked)[1],
            math.exp(float(means[k])),
            math.exp(float(lows[k])),
            math.exp(float(highs[k])),
            int(np.isfinite(table[k]).sum()),
            why[k],
        )
        for k in np.argsort(-means, kind="stable").tolist()
    ]
    compared = [k for k in range(len(who)) if who[k]["kind"] != "baseline" or who[k]["beside"]]
    compared = compared if wins and len(set(traces.values())) > 1 else []
    won = [[int(who[i]["id"]), int(who[j]["id"]), _wins(table, i, j)] for i in compared for j in compared if i < j]
    return {"places": list(traces), "rows": [row.plain() for row in out], "visible": seen, "wins": won}


def _block(place: Mapping[str, Any]) -> str:
    """Returns what a place is drawn with: its trace, or the recording that this was fitted to."""
    return str(place["trace"] if place["moves"] == SCENARIO else place["origin"])


def _units(table: Floats, columns: NDArray[Any], blocks: Mapping[int, str]) -> Floats:
    """Returns means of log scores over what is drawn together, `[units, entrants]`: see the module."""
    of = [blocks[place] for place in columns["place"].tolist()]
    few = len(set(of)) < FEW_BLOCKS
    units = list(zip(of, columns["seed"].tolist() if few else [0] * len(of), strict=True))
    return np.array([table[:, [u == unit for u in units]].mean(axis=1) for unit in dict.fromkeys(units)])


def _weights(columns: Sequence[tuple[str, int]], seed: int) -> Floats:
    """Returns the count of each column (block, seed) in each resample, `[resamples, columns]`."""
    rng = np.random.Generator(np.random.PCG64(seed))
    at: dict[str, dict[int, list[int]]] = {}
    for column, (block, number) in enumerate(columns):
        at.setdefault(block, {}).setdefault(number, []).append(column)
    drawn = rng.multinomial(len(at), [1 / len(at)] * len(at), RESAMPLES)
    out = np.zeros((RESAMPLES, len(columns)))
    for cluster, seeds in enumerate(at.values()):
        # A block that is drawn n times has its seeds drawn n times, each time as many as it has.
        counts = rng.multinomial(drawn[:, cluster] * len(seeds), [1 / len(seeds)] * len(seeds))
        for count, places in zip(counts.T, seeds.values(), strict=True):
            out[:, places] = count[:, None]
    return out


def _wins(table: Floats, one: int, other: int) -> float | None:
    """Returns the share of common runs in which `one` is better."""
    both = np.isfinite(table[one]) & np.isfinite(table[other])
    if not both.any():
        return None
    difference = table[one, both] - table[other, both]
    return round(float(np.mean(difference > 0) + 0.5 * np.mean(difference == 0)), 3)


def _why(entrant: Mapping[str, Any], group: Sequence[Mapping[str, Any]], whole: bool) -> str:
    """Returns the reason why an entrant has no rank in a group; empty if it has one."""
    if entrant["kind"] == "baseline":
        return "an oracle" if entrant["track"] == ORACLE else "a baseline rule"
    seen = sorted({str(place["trace"]) for place in group if seen_by(entrant, place)})
    if seen:
        named = ", ".join(seen[:3]) + (f" and {len(seen) - 3} more" if len(seen) > 3 else "")
        return f"trained on {named}" if len(group) > 1 else "trained on this trace"
    return "" if whole else MISSING
