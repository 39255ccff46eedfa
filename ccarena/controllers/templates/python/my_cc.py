"""A controller that keeps a short queue, and halves its window at a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ccarena

if TYPE_CHECKING:  # what editors and type checkers know of events
    from ccarena._core import Ack, Loss

LEAST = 2.0
"""Smallest window, packets: one packet alone waits for a delayed acknowledgement."""


class MyCc(ccarena.Controller):
    """Adds a packet per round trip while the queue is shorter than `target_ms`, and else gives part of the window back.

    Arguments of `__init__` are the parameters that `my_cc.py:MyCc@target_ms=5` sets.
    """

    def __init__(self, target_ms: float = 10) -> None:
        self.target_ms = target_ms
        self.window = float(self.initial_window)
        self.starting = True  # doubles each round trip until it meets a queue or a loss
        self.decreased_at = 0  # what was sent at the last decrease, byte

    def on_ack(self, ack: Ack) -> None:
        """Follows the queue, which is the RTT above the smallest RTT."""
        if ack.rtt_ms is None or ack.min_rtt_ms is None:
            return
        queue_ms = ack.rtt_ms - ack.min_rtt_ms
        if queue_ms < self.target_ms:
            # A window that the application does not use says nothing about the path (RFC 7661).
            if ack.window_limited:
                self.window += ack.acked_packets if self.starting else ack.acked_packets / self.window
        elif ack.acked_to > self.decreased_at:
            # Once per round trip, the more the longer the queue is, and at most half of the window.
            self.starting = False
            self.window = max(LEAST, self.window * (1 - 0.5 * (queue_ms - self.target_ms) / queue_ms))
            self.decreased_at = ack.sent_to

    def on_loss(self, loss: Loss) -> None:
        """Halves the window once per episode; after a timeout it begins anew."""
        if loss.timeout:
            self.window, self.starting = LEAST, True
        elif loss.new_episode:
            self.window, self.starting = max(LEAST, self.window / 2), False
