"""Aurora's reward (its paper, §4.2): 10 throughput - 1000 latency - 2000 loss.

Throughput is in packets/s, latency in s, and loss the lost share of packets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccarena.envs.rewards import Columns

PACKET_BITS = 12_000.0
"""A packet of Aurora's throughput: 1500 bytes."""


def aurora(
    report: Columns, throughput: float = 10.0, latency: float = 1000.0, loss: float = 2000.0
) -> NDArray[np.float32]:
    """Returns `throughput` × packets/s - `latency` × mean RTT in s - `loss` × lost share of packets, `[N]`."""
    packets_per_s = report.throughput_mbps * np.float32(1e6 / PACKET_BITS)
    reward = throughput * packets_per_s - latency * report.rtt_ms / 1e3
    return (reward - loss * report.loss_ratio).astype(np.float32, copy=False)
