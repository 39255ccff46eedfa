"""Reward of a scalable sender: a rate near the fair share, and a short queue.

The reward of a round trip is the product of two numbers, each 1 at best:

- the smaller of rate / fair share and fair share / rate. The fair share is the capacity over the active flows;
- D / (D + queueing delay). At a queueing delay of D the reward is half of what it is at none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.envs.rewards import Columns


def l4s(report: Columns, privileged: Columns, delay_ms: float = 10.0) -> NDArray[np.float32]:
    """Returns (min(rate, share) / max(rate, share)) D / (D + queueing delay), `[N]`, with D = `delay_ms`."""
    columns = [privileged.own_mbps, privileged.fair_share_mbps, report.queueing_delay_ms]
    return _core.reward("l4s", columns, [delay_ms])
