"""Tables of ranks, as the terminal, the pages and docs/leaderboard.md list them: in groups, with short names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ccarena.eval.leaderboard.comparison import agreement
from ccarena.eval.leaderboard.entrants import ORACLE, TRACKS

__all__ = ["Line", "agreement_of", "lines", "rank_of", "score_of", "short_names", "tracks_of", "visible_of"]

_RULES = {"constant": "constant", "law": "tuned", "base": "base"}
"""Short names of the kinds of baseline rules (`ccarena.eval.heldout.rules`)."""
_BY = re.compile(r" (by \w+): ")
"""Pattern of the column by which a rule's actions are chosen, in its label."""
Entrants = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Line:
    """Entrant of a table."""

    row: Mapping[str, Any]
    """Row of the ranking (`ranking.Row`)."""
    rank: str
    """Places of its group, such as "1–3"; "–" without a rank."""
    name: str
    detail: str
    """Numbers that the short name leaves out."""
    why: str
    """Reason for no rank."""


def lines(group: Mapping[str, Any], entrants: Entrants, track: str, baselines: bool = False) -> list[Line]:
    """Returns the entrants of a track: those with a rank in the order of their scores, then those without one.

    `baselines` are listed last, with the oracles, if they are asked for.
    """
    names = short_names(entrants)
    parts: list[list[Line]] = [[], [], []]
    for row in group["rows"]:
        entrant = entrants[row["entrant"]]
        if entrant["track"] not in (track, *([ORACLE] if baselines else [])):
            continue
        part = 2 if entrant["kind"] == "baseline" else 0 if row["rank"] else 1
        parts[part].append(Line(row, rank_of(row), *names[row["entrant"]], row["why"]))
    return [*parts[0], *parts[1], *(parts[2] if baselines else [])]


def tracks_of(group: Mapping[str, Any], entrants: Entrants) -> list[str]:
    """Returns the tracks of the entrants of a group that are no baselines."""
    there = {
        entrants[row["entrant"]]["track"] for row in group["rows"] if entrants[row["entrant"]]["kind"] != "baseline"
    }
    return [track for track in TRACKS if track in there]


def score_of(row: Mapping[str, Any]) -> str:
    """Returns a row's score with its interval, which a single run has not."""
    interval = f" [{row['low']:.3f}, {row['high']:.3f}]" if row["low"] is not None else ""
    return f"{row['score']:.3f}{interval}"


def visible_of(group: Mapping[str, Any], track: str) -> str:
    """Returns a sentence on the smallest difference that the tests of a track see; empty if there are none."""
    seen = group["visible"].get(track)
    if seen is None:
        return ""
    if seen["share"] is None:
        return "Differences cannot be seen: too few independent traces, or nobody to compare."
    median, least, most = (f"{100 * share:.0f}" if share < 10 else "more than 1000" for share in seen["share"])
    span = "" if least == most else f" ({least} to {most} %)"
    traces = "trace" if seen["blocks"] == 1 else "traces"
    return (
        f"Smallest visible difference of neighbours: {median} % of the score{span}, with 80 % power "
        f"over {'the seeds of ' if seen['few'] else ''}{seen['blocks']} independent {traces}."
    )


def agreement_of(group: Mapping[str, Any], first: Mapping[str, Any], entrants: Entrants, track: str) -> str:
    """Returns a sentence on how far the order of a track's ranked entrants is that of the ranking `first`."""
    then = {row["entrant"]: row["score"] for row in first["rows"]}
    rows = [line.row for line in lines(group, entrants, track) if line.row["rank"] and line.row["entrant"] in then]
    if len(rows) < 2:
        return ""
    before = sorted(rows, key=lambda row: -then[row["entrant"]])
    moved = sum(one is not other for one, other in zip(rows, before, strict=True))
    if not moved:
        return f"{track}: the order is the same as by the default score."
    tau = agreement([row["score"] for row in rows], [then[row["entrant"]] for row in rows])
    return f"{track}: {moved} of {len(rows)} entrants change places; Kendall's tau with the default order is {tau:.2f}."


def short_names(entrants: Entrants) -> dict[int, tuple[str, str]]:
    """Returns each entrant's short name, and what it leaves out: the numbers of a baseline rule."""
    rules = {
        f"{entrant['label']}: {rule['label']}": (f"{entrant['label']} rule {_rule(rule)}", str(rule["label"]))
        for entrant in entrants.values()
        for rule in entrant["rules"]
        if "label" in rule and "kind" in rule
    }
    short = {number: rules[entrant["label"]] for number, entrant in entrants.items() if entrant["label"] in rules}
    labels = [name for name, _ in short.values()] + [str(entrant["label"]) for entrant in entrants.values()]
    return {
        number: short[number]
        if number in short and labels.count(short[number][0]) == 1
        else (str(entrant["label"]), "")
        for number, entrant in entrants.items()
    }


def _rule(rule: Mapping[str, Any]) -> str:
    by = _BY.search(str(rule["label"]))
    return by[1] if by else _RULES.get(rule["kind"], str(rule["kind"]))


def rank_of(row: Mapping[str, Any]) -> str:
    """Returns the places of a row's group; "–" without a rank."""
    if not row["rank"]:
        return "–"
    return str(row["rank"]) if row["rank"] == row["last"] else f"{row['rank']}–{row['last']}"
