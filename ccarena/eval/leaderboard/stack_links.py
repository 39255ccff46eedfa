"""Links on which programs of others are compared by default: few and short, because each run takes real time.

They are one of each kind that a congestion control has to cope with: constant capacity with a short round trip, a
cellular link, and a long round trip.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ccarena.core.files import digest
from ccarena.eval.leaderboard.links import MODEL, BoardTrace, Place, traces_of

__all__ = ["DURATION_S", "SEEDS", "STACK_LINKS", "stack_places"]

STACK_LINKS = "stacks"
"""Name of the set, for `--traces`."""
DURATION_S, SEEDS = 8.0, 3
"""Defaults: with 14 entrants, 3 links and 3 seeds all runs take less than 20 minutes, one at a time."""


def stack_places(duration_s: float) -> list[Place]:
    """Returns the links of the set. Their base delays and buffers are one to two and a half BDP, and their own."""
    (walking,) = traces_of(["lte-walking"])
    return [
        Place(_constant("wired-24mbps", 24.0), 10.0, 100, duration_s),
        Place(walking, 20.0, 200, duration_s),
        Place(_constant("long-12mbps", 12.0), 100.0, 200, duration_s),
    ]


def _constant(name: str, rate_mbps: float) -> BoardTrace:
    return BoardTrace(name, MODEL, digest(f"constant {rate_mbps:g}".encode()), partial(_service, rate_mbps))


def _service(rate_mbps: float, duration_s: float, seed: int) -> dict[str, Any]:
    return {"type": "constant", "rate_mbps": rate_mbps}
