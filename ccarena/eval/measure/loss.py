"""Shares of lost packets."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["loss_shares", "losses_of_flow"]


def loss_shares(dropped: float, lost: float, delivered: float) -> dict[str, float]:
    """Returns `loss_share` and `queue_drop_share` of packets, some `dropped` by queues and some `lost` by links.

    A link loses packets at random, in an outage or by a policer, before its queue, or damages them behind it. Loss is
    all together, over the packets that came (Pantheon: 1 - egress / ingress).
    """
    offered = dropped + lost + delivered
    shares = {"loss_share": dropped + lost, "queue_drop_share": dropped}
    return {name: gone / offered if offered else 0.0 for name, gone in shares.items()}


def losses_of_flow(gone: Sequence[Sequence[int]], left: int) -> dict[str, float]:
    """Returns `loss_shares` of one flow on its path.

    `gone`: for each link of it, how many packets went by each kind of GONE; `left`: how many left the last one.
    """
    dropped, lost, policed, damaged = map(sum, zip(*gone, strict=True))
    return loss_shares(dropped, lost + policed + damaged, left - gone[-1][-1])
