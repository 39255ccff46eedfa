"""Power as a reward: throughput over delay, both relative to the best that the flow has measured or can have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccarena.envs.rewards import Columns


def power(report: Columns, loss: float = 1.0, delay: float = 1.0) -> NDArray[np.float32]:
    """Returns ln(throughput) - `delay` · ln(RTT / least RTT) - `loss` · lost packets per hundred acknowledged, `[N]`.

    The logarithm of Kleinrock's power (1979) with a price of losses; below 0.01 Mbit/s and 1 ms it stays level.
    """
    rate = np.log(np.maximum(report.throughput_mbps, 0.01))
    stretch = np.log(np.maximum(report.rtt_ms, 1.0) / np.maximum(report.rtt_min_ms, 1.0))
    lost = 100.0 * report.lost_packets / np.maximum(report.acked_packets + report.lost_packets, 1.0)
    return (rate - delay * np.maximum(stretch, 0.0) - loss * lost).astype(np.float32, copy=False)
