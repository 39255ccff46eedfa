"""Figures of the leaderboard: what is stored of a run, its meaning, and the direction that is better."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ccarena.eval.compete.matches import GIVEN as BESIDE_OTHERS
from ccarena.eval.heldout.evaluate import GIVEN
from ccarena.eval.leaderboard.checks import Check, number
from ccarena.eval.measure.record import COUNTERS
from ccarena.eval.measure.table import FIGURES, Figure, columns, normalised_power

__all__ = ["BESIDE", "SCORE", "TERMS", "definitions", "heading", "meeting", "own_score", "ranges", "solo", "stored"]

SCORE = "score"
"""Figure that decides ranks."""


def solo() -> list[str]:
    """Returns the figures of a flow alone on the link, the score first; what a sender counts is none."""
    return [SCORE, *(name for name in columns(GIVEN - {COUNTERS}, ()) if name != SCORE)]


def own_score(figures: Mapping[str, float | None], base_rtt_ms: float) -> float:
    """Returns the score in a user's scenario: of the flow's own part of the capacity, as others may fill the link."""
    throughput, capacity, delay = (
        math.nan if (value := figures[name]) is None else value
        for name in ("throughput_mbps", "capacity_mbps", "queueing_delay_mean_ms")
    )
    used = throughput / capacity if capacity > 0 and math.isfinite(throughput) else 0.0
    return normalised_power(used, delay, base_rtt_ms)


def meeting() -> list[str]:
    """Returns the figures of a flow beside another: means over both orders of starting."""
    return columns(BESIDE_OTHERS, ())


def stored() -> list[str]:
    """Returns the figures of runs that a store has columns for."""
    return list(dict.fromkeys((*solo(), *meeting())))


def ranges() -> dict[str, Check]:
    """Returns the check of the values that each figure of a run can have."""
    return {name: number(*FIGURES[name].range) for name in stored()}


def definitions() -> dict[str, Figure]:
    """Returns the figures of pages by name."""
    return {name: FIGURES[name] for name in (*stored(), "cpu_ns")}


BESIDE: Mapping[str, str] = {
    "Share beside others": "Mean over meetings with each other, where pairs met: 0.5 is fair.",
    "Fairness beside others": "Jain's index, mean over the same meetings: 1 is two equal flows, 0.5 one that has all.",
    "Harm to others' throughput": "What the others lose beside it, of what they have alone; over the same meetings.",
    "Harm to others' delay": "What is added to the others' round trips: mean over the same meetings.",
}
"""Figures of ranks over meetings, as the table of ranks calls them."""
TERMS: Mapping[str, str] = {
    "Interval (low, high)": "95 %, a bootstrap over traces, and over seeds within each trace.",
    "Better": "A is better than B if its scores are, on average over traces, higher in a paired t-test of their "
    "logarithms. Holm's procedure allows for the comparison of all pairs of a track: the probability of one false "
    "finding or more is at most 5 % in each group of traces. In a group of fewer than six traces the test is over "
    "their seeds, too, and says something of these traces alone.",
    "Rank": "1 plus the number of better entrants on the same track; entrants without a clear difference share a rank.",
    "Win probability": "The share of runs, of the same link and seed, in which A's score is higher; a tie counts half.",
}
"""Figures from which ranks are made."""


def heading(figure: str) -> str:
    """Returns a figure's title with its unit; a share needs none."""
    about = FIGURES[figure]
    return about.title if about.unit == "share" else f"{about.title} ({about.unit})"
