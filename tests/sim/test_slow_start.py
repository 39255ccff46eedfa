"""Losses of one slow start: a staircase over the buffer, with steps at half of the windows 10, 20, 40, ... packets.

A window of W packets below the bandwidth-delay product arrives in a burst at twice the link's rate, so that its queue
peaks at W / 2. The first burst that does not fit ends slow start one round trip later. Where buffer and W / 2 are
equal, one packet decides between two round trips, and so between two counts of losses (docs/fidelity.md).
"""

from __future__ import annotations

import pytest

import ccarena

WINDOW = 160
"""Packets: the last window of a slow start from 10 packets that is no larger than the products below."""


def losses(product: int, buffer: int) -> int:
    """Packets that Reno loses in slow start, on 40 ms with a bandwidth-delay product and a buffer in packets."""
    link = {
        "service": {"type": "constant", "rate_mbps": product * 1500 * 8 / 40_000},
        "queue": {"type": "droptail", "packets": buffer},
        "delay_ms": 20,
    }
    result = ccarena.run({"duration_s": 1.5, "links": [link], "flows": [{"scheme": "reno"}]})[0].result
    return int(result["flows"][0]["lost_packets"])


@pytest.mark.parametrize("product", [170, 200, 240, 300])
def test_the_step_stands_at_half_a_window_whatever_the_product(product: int) -> None:
    below = [losses(product, buffer) for buffer in (50, 60, 70, WINDOW // 2 - 2)]
    above = [losses(product, buffer) for buffer in (WINDOW // 2 + 2, 90, 100)]
    # A window of 160 ends slow start: its losses are those of the burst that follows, half of it.
    assert all(abs(lost - WINDOW / 2) <= 4 for lost in below), (product, below)
    # One round trip later, the burst is of 320 packets, or what the link and the buffer hold is exceeded.
    assert all(lost >= WINDOW - 2 for lost in above), (product, above)
