"""The layouts of actions, observations and reports, as the native schemes `hyvar`, `orca` and `aurora` write them.

The native extension is the authority; a test holds this page against `ccarena._core.schemes()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Final

HISTORY: Final = 10
"""Entries of each series, one per monitoring period or interval, oldest first."""


@dataclass(frozen=True)
class Layout:
    """What a scheme with continuous actions observes, reports and takes."""

    id: str
    """Name and version of the observation; a policy artifact states which one it was trained on."""
    series: tuple[str, ...]
    """Names of the observation's series, each `HISTORY` long."""
    report_fields: tuple[str, ...]
    """Columns of a report, float32, one row per decision."""
    bounds: tuple[float, float]
    """Of the action, a scalar."""

    @property
    def observation_size(self) -> int:
        """Length of the observation, float32."""
        return HISTORY * len(self.series)

    @cached_property
    def report(self) -> SimpleNamespace:
        """Column by name: `reports[:, HYBRID.report.rtt_ms]`."""
        return SimpleNamespace(**{name: column for column, name in enumerate(self.report_fields)})


HYBRID: Final = Layout(
    id="hyvar-1",
    series=(
        "throughput_ratio",
        "delivery_ratio",
        "rtt_ratio",
        "srtt_ratio",
        "loss_ratio",
        "window_ratio",
        "interval_ratio",
    ),
    report_fields=(
        "case",
        "action",
        "throughput_mbps",
        "throughput_max_mbps",
        "loss_mbps",
        "loss_ratio",
        "lost_packets",
        "rtt_ms",
        "rtt_min_ms",
        "srtt_ms",
        "queueing_delay_ms",
        "cwnd_packets",
        "mtp_ms",
        "mtp_least_ms",
        "mtp_most_ms",
        "periods",
        "interval_ms",
        "acked_packets",
        "time_s",
    ),
    bounds=(-2.0, 2.0),
)
"""Of Hyvar and Orca. The slides' seven quantities, without dimension: throughput over the highest so far; throughput
over window / RTT_min; mean RTT, and smoothed RTT, over RTT_min; lost share of bytes; window over highest throughput x
RTT_min; length of the period over RTT_min. The action a multiplies the window by 2^a.

A report covers `interval_ms`, the time since the learner was last asked: that many `periods`, for which lengths from
`mtp_least_ms` to `mtp_most_ms` were chosen; `mtp_ms` is the next. `case` is the state reasoner's (0: it was not
asked)."""

AURORA: Final = Layout(
    id="aurora-1",
    series=("latency_gradient", "latency_ratio", "send_ratio"),
    report_fields=(
        "action",
        "rate_mbps",
        "throughput_mbps",
        "loss_ratio",
        "sent_packets",
        "acked_packets",
        "lost_packets",
        "rtt_ms",
        "rtt_min_ms",
        "queueing_delay_ms",
        "latency_gradient",
        "send_ratio",
        "interval_ms",
        "time_s",
    ),
    bounds=(-10.0, 10.0),
)
"""Of Aurora (its paper, §4.1): slope of the RTT, mean RTT over RTT_min, packets sent over packets acknowledged. The
action a multiplies the rate by 1 + δa, or divides it by 1 - δa if negative."""

LAYOUTS: Final[dict[str, Layout]] = {"hyvar": HYBRID, "orca": HYBRID, "aurora": AURORA}
"""By scheme."""
