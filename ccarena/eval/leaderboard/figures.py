"""Figures of the leaderboard: what is stored of a run, its meaning, and the direction that is better."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ccarena.eval.leaderboard.checks import Check, number
from ccarena.eval.measure.metrics import FIGURES, Figure

__all__ = ["BESIDE", "DEFINITIONS", "MEETING", "RANGES", "SCORE", "SOLO", "STORED", "TERMS", "heading", "score_of"]

SCORE = "score"
"""Figure that decides ranks."""
SOLO = (
    *(SCORE, "throughput_mbps", "utilisation", "queueing_delay_mean_ms", "queueing_delay_p95_ms"),
    *("signal_delay_p95_ms", "self_inflicted_delay_ms", "power", "loss_share", "capacity_mbps"),
)
"""Figures of a flow alone on the link."""
MEETING = (
    *("throughput_mbps", "share", "harm_throughput", "harm_delay", "jain_index", "queueing_delay_mean_ms"),
    *("queueing_delay_p95_ms", "loss_share", "utilisation"),
)
"""Figures of a flow beside another: means over both orders of starting."""
STORED = tuple(dict.fromkeys((*SOLO, *MEETING)))
RANGES: Mapping[str, Check] = {
    **dict.fromkeys(STORED, number(0.0, 1e12)),
    **dict.fromkeys((SCORE, "loss_share", "share", "jain_index"), number(0.0, 1.0)),
    **dict.fromkeys(("harm_throughput", "harm_delay"), number(-1e12, 1.0)),
    "self_inflicted_delay_ms": number(-1e12, 1e12),
    # Capacity and delivery are counted over a whole run: a buffer that is full at its start adds a little.
    "utilisation": number(0.0, 2.0),
}
"""Ranges of each figure of a run."""
_OWN = {
    SCORE: Figure(
        "Score",
        "share",
        3,
        "Normalised power: utilisation times base RTT over mean RTT, the base RTT plus the mean queueing delay "
        "(Kleinrock, ICC 1979); 1 is a full link without a queue. Over links it is the geometric mean.",
    ),
    "capacity_mbps": Figure("Capacity", "Mbit/s", 2, "What the link could have carried, over the run."),
    "share": Figure("Share", "share", 2, "Of the throughput of both flows; 0.5 is fair (docs/compete.md)."),
    "harm_throughput": Figure(
        "Harm to throughput", "share", 2, "(alone - beside the other) / alone (Ware et al., HotNets 2019)."
    ),
    "harm_delay": Figure(
        "Harm to delay", "share", 2, "(beside - alone) / beside, of base RTT plus mean queueing delay (Ware et al.)."
    ),
    "cpu_ns": Figure(
        "CPU per decision",
        "ns",
        0,
        "Native code, one core of the machine of the runs. Of a scheme: an acknowledgement of a long flow in its "
        "steady state, less what a controller that does nothing takes. Of a policy: one run of its network in float32, "
        "once per interval of its clock. Blank of what is computed from each link's capacity.",
    ),
}
DEFINITIONS: Mapping[str, Figure] = {name: _OWN.get(name) or FIGURES[name] for name in (*STORED, "cpu_ns")}
"""Title, unit, digits and definition of each figure."""
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
    about = DEFINITIONS[figure]
    return about.title if about.unit == "share" else f"{about.title} ({about.unit})"


def score_of(figures: Mapping[str, float], base_rtt_ms: float) -> float:
    """Returns the score of a single run, in [0, 1]: see `DEFINITIONS`; 0 if nothing came through."""
    delay_ms = figures.get("queueing_delay_mean_ms", math.nan)
    if not math.isfinite(delay_ms):
        return 0.0
    return figures["utilisation"] * base_rtt_ms / (base_rtt_ms + delay_ms)
