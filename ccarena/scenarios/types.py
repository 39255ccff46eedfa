"""Types of the scenario document for editors and mypy; plain dictionaries at run time.

`Scenario(links=[Link(service={"type": "constant", "rate_mbps": 48})], flows=[Flow(scheme="cubic")])` is an ordinary
dictionary. The native code alone checks a document (docs/scenario.md) and fills in the defaults. These types hold only
names and types of keys, and a test compares them with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

__all__ = ["Flow", "Link", "Record", "Scenario"]


class Link(TypedDict, total=False):
    """Link: queue, server, wire. Delays in ms, one way. `service` is required unless `conditions` has rates."""

    name: str
    service: Mapping[str, Any]
    conditions: Mapping[str, float | str | bool] | None
    queue: Mapping[str, Any]
    delay_ms: float | Mapping[str, Any]
    jitter_ms: float
    wakes_ms: float
    loss: float | Mapping[str, Any]
    policer: Mapping[str, float | str] | None
    shaper: Mapping[str, float | None] | None
    reorder: Mapping[str, float] | None
    duplicate: float | Mapping[str, float] | None
    corrupt: float | Mapping[str, float] | None
    outages: Mapping[str, float] | None
    router: bool | str | Mapping[str, Any]


class _Flow(TypedDict):
    scheme: str | Mapping[str, Any]


class Flow(_Flow, total=False):
    """Flow: sender, path, application. Times in s from the run's start, rates in Mbit/s."""

    name: str
    count: int
    params: Mapping[str, float]
    policy: str | Mapping[str, float] | None
    start_s: float
    stop_s: float | None
    path: Sequence[str]
    return_path: Sequence[str]
    base_rtt_ms: float
    app: Mapping[str, Any]
    desired_mbps: float | Sequence[Mapping[str, float]]
    requirement: Mapping[str, float] | None
    weight: float
    changes: Sequence[Mapping[str, Any]]
    sack: bool
    slow_start: bool
    delayed_ack: bool
    min_rto_ms: float
    ack_policy: Mapping[str, Any]
    burst_bytes: int | None
    ecn: bool | str
    peer_ecn: bool | str
    l4s: bool
    initial_window: int
    receive_window_packets: int | None
    mss_bytes: int
    header_bytes: int
    ack_bytes: int


class Record(TypedDict, total=False):
    """Recordings besides the sums: per packet, per bin, per decision."""

    packets: bool
    transmissions: bool
    series: bool
    reports: bool
    trajectories: str | Mapping[str, Any]
    bin_ms: float


class _Scenario(TypedDict):
    links: Sequence[Link]
    flows: Sequence[Flow]


class Scenario(_Scenario, total=False):
    """Scenario: its flows and links, its duration and its seed."""

    version: int
    duration_s: float
    seed: int
    record: Record
