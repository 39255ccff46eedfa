"""Template of a search: the expression in the marked line is replaced (docs/search.md)."""

import ccarena


class Holed(ccarena.Controller):
    """Adds a step to the window with each acknowledgement."""

    def __init__(self, target_ms=5.0):
        self.target_ms = target_ms

    def on_ack(self, ack):
        if ack.rtt_ms is None:
            return
        queue = ack.rtt_ms - ack.min_rtt_ms
        step = (self.target_ms - queue) / self.window  # search: queue, self.target_ms, self.window
        self.window = min(max(2, self.window + step), 2000)
