"""NewReno as in the registry (`crates/ccarena-cc/src/schemes/cwnd.rs`), to its last packet."""

import ccarena

INFINITE = 0x7FFF_FFFF


class Reno(ccarena.Controller):
    """Slow start and additive increase, halved by a loss episode (RFC 5681, RFC 6582), as Linux does it."""

    def __init__(self):
        self.window = self.initial_window
        self.threshold = INFINITE
        self.credit = 0
        self.prior = None
        self.acked_to = 0

    def on_ack(self, ack):
        advanced, self.acked_to = ack.acked_to > self.acked_to, ack.acked_to
        in_slow_start = self.window < self.threshold
        limited = ack.window_limited or (in_slow_start and self.window < 2 * ack.in_flight_before_packets)
        if not advanced or ack.recovery in ("recovery", "reduction") or not limited:
            return
        left = ack.acked_packets
        if in_slow_start:
            grown = min(self.window + left, self.threshold)
            left -= grown - self.window
            self.window = grown
        if left:
            if self.credit >= self.window:
                self.credit = 0
                self.window += 1
            per_growth = self.window
            self.credit += left
            self.window += self.credit // per_growth
            self.credit %= per_growth

    def on_loss(self, loss):
        if loss.new_episode:
            self.prior = (self.window, self.current_threshold())
            self.threshold = max(self.window // 2, 2)
        if loss.timeout:
            in_flight = -int(-loss.in_flight_packets // 1)
            self.window = min(in_flight + 1, self.window)
            self.credit = 0
        elif loss.new_episode:
            self.window = min(self.window, self.threshold)
            self.credit = 0

    def current_threshold(self):
        return max(self.threshold, self.window // 2 + self.window // 4)

    def on_spurious_loss(self, now_s):
        if self.prior:
            self.window, self.threshold = max(self.window, self.prior[0]), max(self.threshold, self.prior[1])
            self.prior = None

    def on_idle_restart(self, now_s, idle_s, rto_s):
        if idle_s > rto_s:
            self.threshold = self.current_threshold()
            floor = min(self.initial_window, self.window)
            halvings = min(int((round(idle_s * 1e9) - 1) // max(round(rto_s * 1e9), 1)), 31)
            self.window = max(self.window >> halvings, floor)
            self.credit = 0
