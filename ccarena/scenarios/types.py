"""The scenario document as types: what an editor completes and mypy checks, and at run time plain dictionaries.

`Scenario(links=[Link(service={"type": "constant", "rate_mbps": 48})], flows=[Flow(scheme="cubic")])` is a dictionary
and nothing else. What a document may say is checked in one place, by the native code (docs/scenario.md), which also
fills in the defaults; these types hold names and types of keys alone, and a test holds them against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

__all__ = ["Flow", "Link", "Record", "Scenario"]


class _Link(TypedDict):
    service: Mapping[str, Any]


class Link(_Link, total=False):
    """A link: queue, server, wire. Delays in ms, one way."""

    name: str
    queue: Mapping[str, Any]
    delay_ms: float
    jitter_ms: float
    wakes_ms: float
    loss: float
    outages: Mapping[str, float] | None
    router: bool | str | Mapping[str, Any]


class _Flow(TypedDict):
    scheme: str | Mapping[str, Any]


class Flow(_Flow, total=False):
    """A flow: sender, path, application. Times in s from the run's start, rates in Mbit/s."""

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
    ecn: bool
    initial_window: int
    receive_window_packets: int | None
    mss_bytes: int
    header_bytes: int
    ack_bytes: int


class Record(TypedDict, total=False):
    """What is recorded beside the sums: per packet, per bin, per decision."""

    packets: bool
    series: bool
    reports: bool
    bin_ms: float


class _Scenario(TypedDict):
    links: Sequence[Link]
    flows: Sequence[Flow]


class Scenario(_Scenario, total=False):
    """A scenario: who sends over which links, for how long and with which seed."""

    version: int
    duration_s: float
    seed: int
    record: Record
