"""The layout of ACCT's actions, observations and reports, as the native scheme `acct` writes them.

The native extension is the authority; a test holds this page against `ccarena._core.schemes()`.
"""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Final

OBSERVATION_ID: Final = "acct-1"
"""Name and version of the observation layout; a policy artifact states which one it was trained on."""

ACTIONS: Final[tuple[int, ...]] = (1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
"""Values of α by action index, in packets of window growth per round trip (paper, eq. 4)."""


class Zone(IntEnum):
    """Operating zone of a decision interval (paper, §II-B), as reports carry it."""

    GREEN = 0
    """Below the advertised rate, queueing delay within the budget."""
    YELLOW = 1
    """At or above the advertised rate, within the budget."""
    RED = 2
    """At or above the advertised rate, over the budget."""
    BLUE = 3
    """Below the advertised rate, over the budget: the bottleneck does not signal."""


HISTORY: Final = 8
"""Entries of each series, one per decision interval, oldest first."""

SERIES: Final[dict[str, int]] = {"throughput": 1, "delay": 1, "zone": len(Zone), "window": 1}
"""Channels of each series, in the order of the observation: throughput (MB/s, acknowledged bytes over the mean RTT),
queueing delay over its budget, one-hot zone (channel by channel), cwnd over twnd."""

SCALARS: Final[tuple[str, ...]] = ("loss_rate_pps", "previous_action")
"""What follows the series: packets lost per second, and the value of α (not its index) that is in force."""


def _series_slices() -> dict[str, slice]:
    slices, start = {}, 0
    for name, channels in SERIES.items():
        slices[name] = slice(start, start + channels * HISTORY)
        start += channels * HISTORY
    return slices


SERIES_SLICES: Final[dict[str, slice]] = _series_slices()
"""Where in the observation each series is; `[channels, HISTORY]` row-major."""

SCALAR_SLICE: Final = slice(SERIES_SLICES["window"].stop, SERIES_SLICES["window"].stop + len(SCALARS))
"""Where in the observation the scalars are."""

OBSERVATION_SIZE: Final[int] = SCALAR_SLICE.stop
"""Length of the observation, float32."""

REPORT_FIELDS: Final[tuple[str, ...]] = (
    "zone",
    "alpha",
    "previous_alpha",
    "lost_packets",
    "throughput_mbps",
    "rtt_ms",
    "rtt_min_ms",
    "queueing_delay_ms",
    "delay_ratio",
    "cwnd_packets",
    "twnd_packets",
    "advertised_mbps",
    "interval_ms",
    "acked_packets",
    "loss_rate_pps",
    "time_s",
)
"""Columns of a report, float32, one row per decision interval. `alpha` was in force during the interval,
`previous_alpha` during the one before; `time_s` is when the interval ended."""

REPORT: Final = SimpleNamespace(**{name: column for column, name in enumerate(REPORT_FIELDS)})
"""Column by name: `reports[:, REPORT.zone]`."""
