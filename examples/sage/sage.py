"""Sage's reward for one flow, as its published code computes it, scaled to 1 at most."""

import numpy as np


def reward(report, privileged):
    """Squared share of the capacity, twice the loss taken off, times the RTT ratio if that is below 0.8, `[N]`."""
    share = (report.throughput_mbps - 2 * report.loss_mbps) / np.maximum(privileged.capacity_mbps, 0.01)
    emptiness = report.rtt_min_ms / np.maximum(report.srtt_ms, 0.01)
    return np.sign(share) * np.minimum(share**2, 1.0) * np.where(emptiness >= 0.8, 1.0, emptiness)
