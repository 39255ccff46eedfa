"""Figures of the leaderboard: what is stored of a run, its meaning, and the direction that is better."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ccarena.eval.compete.matches import GIVEN as BESIDE_OTHERS
from ccarena.eval.heldout.evaluate import GIVEN
from ccarena.eval.leaderboard.checks import Check, number
from ccarena.eval.measure.record import COUNTERS
from ccarena.eval.measure.table import FIGURES, POWERS, Figure, columns, normalised_power

__all__ = [
    *("BESIDE", "RIVAL", "SCORE", "SCORES", "SHARING", "TERMS"),
    *("definitions", "heading", "meeting", "own_scores", "ranges", "solo", "stored"),
]

SCORE, SHARING = "score", "score_sharing"
"""Figure that decides ranks unless the reader names another, and the figure that decides ranks beside `RIVAL`."""
SCORES = (*POWERS, SHARING)
"""Figures that can decide ranks."""
RIVAL = "cubic"
"""Scheme beside which shares count: most of the Internet's traffic."""


def solo() -> list[str]:
    """Returns the figures of a flow alone on the link, the score first; what a sender counts is none."""
    return [SCORE, *(name for name in columns(GIVEN - {COUNTERS}, ()) if name != SCORE)]


def own_scores(figures: Mapping[str, float | None], base_rtt_ms: float) -> dict[str, float]:
    """Returns the scores in a user's scenario: of the flow's own part of the capacity, as others may fill the link."""
    throughput, capacity, delay = (
        math.nan if (value := figures[name]) is None else value
        for name in ("throughput_mbps", "capacity_mbps", "queueing_delay_mean_ms")
    )
    used = throughput / capacity if capacity > 0 and math.isfinite(throughput) else 0.0
    return {name: normalised_power(used, delay, base_rtt_ms, powers) for name, powers in POWERS.items()}


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
    "Share beside CUBIC": "Its throughput over both flows' throughput, mean over meetings with CUBIC: 0.5 is fair.",
    "Sharing with CUBIC": "The lesser of both flows' shares over the fair share: 1 is fair, 0 is a flow without any.",
    "Harm to CUBIC's throughput": "What CUBIC loses beside it, of what CUBIC has alone.",
    "Harm to CUBIC's delay": "What is added to CUBIC's round trips beside it.",
}
"""Figures of ranks over meetings with `RIVAL`, as tables call them."""
TERMS: Mapping[str, str] = {
    "Interval (low, high)": "95 %, a bootstrap over traces, and over seeds within each trace.",
    "Better": "A is better than B if its scores are, on average over traces, higher in a paired t-test of their "
    "logarithms. Holm's procedure allows for the comparison of all pairs of a track: the probability of one false "
    "finding or more is at most 5 % in each group of traces. In a group of fewer than six traces the test is over "
    "their seeds, too, and says something of these traces alone.",
    "Rank": "Entrants of a track are in the order of their scores. A group ends before the first entrant that its best "
    "is better than. The rank is the range of the group's places.",
    "Smallest visible difference": "The difference of two neighbours' scores that the test finds with a probability of "
    "80 %, as a share of the score (Bloom 1995): the median, and the range, over neighbours in the order.",
    "Kendall's tau": "Agreement of two orders: 1 is the same order, 0 is none, -1 is the opposite order.",
    "Win probability": "The share of runs, of the same link and seed, in which A's score is higher; a tie counts half.",
}
"""Terms of ranks."""


def heading(figure: str) -> str:
    """Returns a figure's title with its unit; a share needs none."""
    about = FIGURES[figure]
    return about.title if about.unit == "share" else f"{about.title} ({about.unit})"
