"""Aurora's reward (its paper, §4.2): 10 throughput - 1000 latency - 2000 loss.

Throughput is in packets/s of 1500 bytes, latency in s, and loss the lost share of packets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.envs.rewards import Columns


def aurora(
    report: Columns, throughput: float = 10.0, latency: float = 1000.0, loss: float = 2000.0
) -> NDArray[np.float32]:
    """Returns `throughput` × packets/s - `latency` × mean RTT in s - `loss` × lost share of packets, `[N]`."""
    columns = [report.throughput_mbps, report.rtt_ms, report.loss_ratio]
    return _core.reward("aurora", columns, [throughput, latency, loss])
