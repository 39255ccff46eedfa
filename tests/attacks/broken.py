"""A small model of BBRv3, right or broken: broken, it never forgets the largest bandwidth that it has seen."""

from __future__ import annotations

import ccarena

CYCLE_S = 2.0
"""Time between two probes for bandwidth."""


class Model(ccarena.Controller):
    """Start-up, drain and probes of BBRv3 (draft-ietf-ccwg-bbr-06) without its bounds by loss.

    With `forgets = 1` the maximum bandwidth is that of the last two cycles, as in the draft; with 0 it is that of the
    whole flow.
    """

    def __init__(self, forgets=0):
        self.forgets = forgets
        self.state, self.since_s = "startup", 0.0
        self.current = self.previous = 0.0
        self.full = self.full_rounds = 0
        self.round_ends = 0

    def on_ack(self, ack):
        if ack.rtt_ms is None or ack.delivery_rate_mbps is None:
            return
        self.current = max(self.current, ack.delivery_rate_mbps)
        bandwidth = max(self.current, self.previous)
        bdp = bandwidth * ack.min_rtt_ms / 8 * 1000 / self.mss_bytes
        if self.state == "startup" and ack.acked_to >= self.round_ends:
            self.round_ends = ack.sent_to
            self.full_rounds = 0 if bandwidth > 1.25 * self.full else self.full_rounds + 1
            self.full = max(self.full, bandwidth)
            if self.full_rounds >= 3:
                self.state, self.since_s = "drain", ack.now_s
        elif self.state == "drain" and (ack.in_flight_packets <= bdp or ack.now_s - self.since_s > 3e-3 * ack.srtt_ms):
            self.state, self.since_s = "cruise", ack.now_s
        elif self.state == "cruise" and ack.now_s - self.since_s > CYCLE_S:
            self.state, self.since_s = "up", ack.now_s
        elif self.state == "up" and ack.now_s - self.since_s > 2e-3 * ack.min_rtt_ms:
            self.state, self.since_s = "drain", ack.now_s
            if self.forgets:
                self.previous, self.current = self.current, 0.0
        gain = {"startup": 2.77, "drain": 0.5, "cruise": 1.0, "up": 1.25}[self.state]
        self.pacing_rate = max(0.05, gain * bandwidth)
        self.window = max(4.0, 2.0 * bdp)
