"""Astraea's idea of a reward: throughput, delay and loss, and how fairly the learners share the bottleneck."""

import numpy as np


def fair(report, privileged, fairness=0.5, delay=0.5, loss=2.0):
    """Utilisation of all learners, minus delay, loss and `fairness` times the distance from the fair share, `[N]`.

    `learners_mean_mbps`, `flows` and `fair_share_mbps` are privileged: no observation can name them.
    """
    used = privileged.learners_mean_mbps * privileged.flows / np.maximum(privileged.capacity_mbps, 0.01)
    share = privileged.own_mbps / np.maximum(privileged.fair_share_mbps, 0.01)
    stretch = report.queueing_delay_ms / np.maximum(report.rtt_min_ms, 1.0)
    penalty = delay * np.minimum(stretch, 4.0) + loss * report.packet_loss_ratio
    return np.minimum(used, 1.0) - penalty - fairness * np.minimum(np.abs(share - 1.0), 2.0)
