"""The controller of docs/write-a-controller.md: it keeps a short queue, and then also holds its own beside CUBIC."""

import ccarena


class Delay(ccarena.Controller):
    """Keeps `target_ms` of queue: one packet more per round trip below it, one less above it."""

    def __init__(self, target_ms=5):
        self.target_ms = target_ms

    def on_ack(self, ack):
        if ack.rtt_ms:
            step = ack.acked_packets / self.window
            self.window += step if ack.rtt_ms - ack.min_rtt_ms < self.target_ms else -step
            self.window = max(2, self.window)

    def on_loss(self, loss):
        if loss.new_episode:
            self.window = max(2, self.window / 2)


class Wary(Delay):
    """Grows like Reno for two seconds after a queueing delay of three targets, which somebody else has caused."""

    filled_s = -2.0

    def on_ack(self, ack):
        if ack.rtt_ms and ack.rtt_ms - ack.min_rtt_ms > 3 * self.target_ms:
            self.filled_s = ack.now_s
        if ack.now_s - self.filled_s < 2:
            self.window += ack.acked_packets / self.window
        else:
            super().on_ack(ack)
