"""Room of a receiver that bounds what a run with an untried controller costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["FEWEST_PACKETS", "MOST_BDPS", "receiver_room"]

FEWEST_PACKETS = 4096
MOST_BDPS = 16.0
"""Packets at least, and bandwidth-delay products. A controller that doubles its window for ever then costs no more than
others.
"""


def receiver_room(links: Sequence[Mapping[str, Any]], base_rtt_ms: float) -> int:
    """Returns `receive_window_packets` of a flow over these links."""
    rates = [link["service"].get("rate_mbps", 0.0) for link in links]
    return max(FEWEST_PACKETS, round(MOST_BDPS * max(rates, default=0.0) * base_rtt_ms / 12.0))
