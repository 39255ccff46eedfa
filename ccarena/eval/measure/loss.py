"""Shares of lost packets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.measure.packet_log import GONE, LinkPackets

__all__ = ["loss_shares", "losses_of_flow"]

Ints = NDArray[np.int64]


def loss_shares(dropped: float, lost: float, delivered: float) -> dict[str, float]:
    """Returns `loss_share` and `queue_drop_share` of packets, some `dropped` by queues and some `lost` by links.

    A link loses packets at random, in an outage or by a policer, before its queue, or damages them behind it. Loss is
    all together, over the packets that came (Pantheon: 1 - egress / ingress).
    """
    offered = dropped + lost + delivered
    shares = {"loss_share": dropped + lost, "queue_drop_share": dropped}
    return {name: gone / offered if offered else 0.0 for name, gone in shares.items()}


def losses_of_flow(
    way: Sequence[LinkPackets], flow: int, from_s: float = -math.inf, to_s: float = math.inf
) -> dict[str, float]:
    """Returns `loss_shares` of one flow in (from, to] on its path: `way` are the packets of its links."""

    def count(times_ns: Ints) -> int:
        if math.isinf(from_s) and math.isinf(to_s):
            return times_ns.size
        return int(np.count_nonzero((times_ns > from_s * 1e9) & (times_ns <= to_s * 1e9)))

    dropped, lost, policed, damaged = ([count(link.gone_ns(kind, flow)) for link in way] for kind in GONE)
    arrived = count(way[-1].of_flow(flow).departure_ns) - damaged[-1]
    return loss_shares(sum(dropped), sum(lost) + sum(policed) + sum(damaged), arrived)
