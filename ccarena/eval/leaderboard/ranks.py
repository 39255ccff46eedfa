"""Data of the page's table of ranks, which its script shows by group of links, score and the reader's own weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ccarena.eval.leaderboard.entrants import ASSISTED, END_TO_END, ORACLE
from ccarena.eval.leaderboard.figures import SCORE, SCORES, SHARING, heading
from ccarena.eval.leaderboard.listing import rank_of, score_of, short_names, visible_of
from ccarena.eval.measure.table import FIGURES, POWERS

__all__ = ["Groups", "parts_of", "ranks_script"]

Groups = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Groups of a ranking by name and score."""
SHOWN = ("utilisation", "queueing_delay_mean_ms")
"""Figures beside the score; the share beside CUBIC follows."""


def ranks_script(groups: Groups, entrants: Mapping[int, Mapping[str, Any]]) -> str:
    """Returns the script that gives `ranks.js` its data."""
    names = short_names(entrants)
    data = {
        "scores": [
            {"name": name, "title": FIGURES[name].title, "definition": FIGURES[name].definition} for name in SCORES
        ],
        "tracks": [END_TO_END, ASSISTED],
        "oracle": ORACLE,
        "figures": [*map(heading, SHOWN), "Share beside CUBIC"],
        "digits": [*(FIGURES[name].digits for name in SHOWN), 2],
        "entrants": {
            number: {
                **dict(zip(("name", "detail"), names[number], strict=True)),
                "track": entrant["track"],
                "baseline": entrant["kind"] == "baseline",
            }
            for number, entrant in entrants.items()
        },
        "groups": [_group(name, by_score) for name, by_score in groups.items()],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"window.ccarenaRanks = JSON.parse({json.dumps(text)});\n"


def _group(name: str, by_score: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    figures = {
        row["entrant"]: [*(row["figures"][name] for name in SHOWN), row["beside"]["share"]]
        for row in by_score[SCORE]["rows"]
    }
    return {
        "name": name,
        "figures": figures,
        "rows": {score: [_row(row) for row in group["rows"]] for score, group in by_score.items()},
        "visible": {
            score: {track: visible_of(group, track) for track in group["visible"]} for score, group in by_score.items()
        },
        "parts": parts_of(by_score),
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("entrant", "rank", "score", "why")}
    return {**kept, "places": rank_of(row), "interval": score_of(row)}


def parts_of(by_score: Mapping[str, Mapping[str, Any]]) -> dict[int, list[float | None]]:
    """Returns the logarithms of the parts of each entrant's scores: utilisation, base RTT over mean RTT, sharing.

    A power's logarithm is the sum of the first two, each times its exponent; the parts solve this for two powers.
    """
    log = {
        score: {row["entrant"]: math.log(row["score"]) for row in by_score.get(score, {"rows": []})["rows"]}
        for score in ("score", "score_throughput", SHARING)
    }
    (a, b), (c, d) = POWERS["score"], POWERS["score_throughput"]
    out: dict[int, list[float | None]] = {}
    for entrant, one in log[SCORE].items():
        other, sharing = log["score_throughput"].get(entrant), log[SHARING].get(entrant)
        parts: list[float | None] = [None, None, sharing]
        if other is not None:
            parts[:2] = [(d * one - b * other) / (a * d - b * c), (a * other - c * one) / (a * d - b * c)]
        out[entrant] = [None if part is None else float(f"{part:.6g}") for part in parts]
    return out
