"""A first reward: keep the link busy, and the queueing delay near a target."""

import numpy as np


def calm(report, privileged, target_ms=10.0, price=0.5):
    """Share of the link that the flow used, minus `price` for every `target_ms` of queueing delay, `[N]`.

    `report` is what the sender knows. `privileged` is what only the simulator knows: the reward may use it, since no
    reward is needed once the policy is trained.
    """
    used = report.throughput_mbps / np.maximum(privileged.capacity_mbps, 0.01)
    return np.minimum(used, 1.0) - price * np.minimum(report.queueing_delay_ms / target_ms, 10.0)
