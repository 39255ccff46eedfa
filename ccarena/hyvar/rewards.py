"""Hyvar's reward, and Orca's, which differs in details only (slides):

    R = ((thr - ε loss) / RTT) / (thr_max / RTT_min)

R is 1 at the highest throughput so far with empty queues. Throughput and loss are rates in one unit, RTT the mean,
thr_max and RTT_min the extremes of the flow so far. The slides do not give ε: 5 is our value. Two options are ours:

- `lately`: thr_max forgets. If capacity varies, the highest throughput of minutes ago says nothing of the present.
- `inference_ms`: an inference has a cost. Otherwise the reasoner asks at its shortest period while there is a queue,
  although the purpose of Hyvar is to ask seldom.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccarena.envs.rewards import Columns


def hyvar(report: Columns, epsilon: float = 5.0, lately: float = 0.0, inference_ms: float = 0.0) -> NDArray[np.float32]:
    """Returns ((thr - ε loss) / RTT) / (thr_max / RTT_min) - inference_ms / interval, `[N]`; 0 before anything arrives.
    thr and loss are rates, RTT is the mean, and thr_max the flow's highest throughput, with `lately` = 1 of the last 10
    to 15 s.
    """
    useful = report.throughput_mbps - epsilon * report.loss_mbps
    highest = report.throughput_lately_mbps if lately >= 0.5 else report.throughput_max_mbps
    best = highest * report.rtt_ms
    power = useful * report.rtt_min_ms
    reward = np.divide(power, best, out=np.zeros_like(power), where=best > 0)
    if inference_ms > 0:
        reward -= inference_ms / np.maximum(report.interval_ms, 1.0)
    return reward.astype(np.float32, copy=False)
