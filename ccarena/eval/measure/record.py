"""A run as figures see it: its flows and links over a part of its time, and what their figures share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ccarena import traces
from ccarena.core.base_delay import least_delay_ms
from ccarena.errors import ScenarioError
from ccarena.eval.measure.packet_log import LinkPackets, PacketLog, Percentiles, Sums, link_packets
from ccarena.eval.measure.queueing import time_in_queue_length_ns

__all__ = [
    *("COUNTERS", "FLOWS", "LEARNERS", "MACHINE", "MATCH", "PACKETS", "RECEIVED", "REQUIREMENT", "SERIES", "SOLE"),
    *("MEDIA", "NEEDS_OF_APPLICATIONS", "TRACE", "TRANSFERS", "VIDEO"),
    *("Record", "Subject", "needs_met"),
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_Made = TypeVar("_Made")

_OF_ITS_STACK = frozenset(
    {
        *("retransmitted_packets", "lost_packets", "timeouts", "decisions"),
        *("reordered", "spurious_retransmits", "undone_recoveries"),
    }
)
"""Counters of a sender that no packet on the link tells."""

PACKETS = "packets"
"""The packets of every link (`record.packets`)."""
SERIES = "series"
"""Bytes that links carried in each bin (`record.series`)."""
RECEIVED = "received bytes"
"""Bytes that receivers got: of a whole run, or of a part with `record.series`."""
COUNTERS = "counters"
"""Counters of the sender over the whole run."""
TRACE = "delivery opportunities"
"""The link's delivery opportunities: of a trace, or drawn from a preset by a seed of its own."""
FLOWS = "several flows"
REQUIREMENT = "a requirement"
"""The flow's requirement (`requirement` in the scenario)."""
MATCH = "runs alone"
"""The figures of each flow without the others (`ccarena compete`)."""
SOLE = "one flow"
"""A single flow on a link of its own."""
LEARNERS = "a trial's learners"
"""Learners of a trial, whose figures the native code computes (`ccarena.envs.trials`)."""
MACHINE = "real time"
"""A backend in real time."""
TRANSFERS = "transfers"
"""A flow with transfers."""
MEDIA = "real-time media"
"""A flow of real-time media."""
VIDEO = "adaptive video"
"""A flow of adaptive video."""


def _has_transfers(entry: Mapping[str, Any], of_flow: Mapping[str, Any]) -> bool:
    return entry.get("app", {}).get("type") == "transfers" or "size_bytes" in of_flow.get("application", {})


def _has_column(name: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], bool]:
    return lambda _, of_flow: name in of_flow.get("application", {})


NEEDS_OF_APPLICATIONS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    TRANSFERS: _has_transfers,
    MEDIA: _has_column("frame_bytes"),
    VIDEO: _has_column("chunk_mbps"),
}
"""Decides for each need of applications' figures whether a flow meets it, by its entry in the scenario and its
result."""


def needs_met(entry: Mapping[str, Any], of_flow: Mapping[str, Any]) -> list[str]:
    """Returns the needs of applications' figures that a flow meets."""
    return [need for need, met in NEEDS_OF_APPLICATIONS.items() if met(entry, of_flow)]


_ALL_NS = (-(2**63), 2**63 - 1)


def _edges_ns(from_s: float, to_s: float) -> tuple[int, int]:
    return math.floor(from_s * 1e9), math.floor(to_s * 1e9)


class Record:
    """A run's document, with every default filled in, and its result; figures are over (`from_s`, `to_s`]."""

    def __init__(
        self,
        document: Mapping[str, Any],
        result: Mapping[str, Any],
        window: tuple[float, float] | None = None,
        *,
        alone: Sequence[Mapping[str, float]] | None = None,
        learners: Sequence[int] | None = None,
    ) -> None:
        """Takes a run. Packets count if they leave their link within the window.

        `window`: the part of the run's time in s (default all); `alone`: each flow's figures without the others;
        `learners`: the numbers of the flows that learn, of a trial.
        """
        self.document, self.result, self.alone, self.learners = document, result, alone, learners
        self.duration_s = float(result["duration_s"])
        self.from_s, self.to_s = window or (0.0, self.duration_s)
        self.whole = self.from_s <= 0.0 and self.to_s >= self.duration_s
        self.bin_s = float(document["record"]["bin_ms"]) / 1e3
        # A flow stands in the document once, and in the result as often as its `count` says.
        self.entries = [flow for flow in document["flows"] for _ in range(flow["count"])]
        self._made: dict[Any, Any] = {}

    @functools.cached_property
    def flows(self) -> list[Subject]:
        """Each flow, on the link of its path with the least capacity."""
        at = {link["name"]: index for index, link in enumerate(self.result["links"])}
        paths = [[at[name] for name in flow["path"]] for flow in self.entries]
        return [Subject(self, min(path, key=self.capacity_bytes), index, path) for index, path in enumerate(paths)]

    @functools.cached_property
    def links(self) -> list[Subject]:
        """Each link, with all that crosses it."""
        return [Subject(self, index, None, [index]) for index in range(len(self.result["links"]))]

    @functools.cached_property
    def packets(self) -> list[LinkPackets]:
        """Each link's packets; none if they were not recorded."""
        return link_packets(self.result)

    def once(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """Returns what `make` returns, made when `key` is asked for first."""
        if key not in self._made:
            self._made[key] = make()
        made: _Made = self._made[key]
        return made

    @functools.cached_property
    def window_ns(self) -> tuple[int, int]:
        """The window, beyond whose edges no packet of a whole run is."""
        return _ALL_NS if self.whole else _edges_ns(self.from_s, self.to_s)

    def sums(self, link: int) -> list[Sums]:
        """Returns each flow's sums over the packets that left a link in the window, and last those of all packets."""

        def make() -> list[Sums]:
            active_ns = [_edges_ns(*flow.active_s) for flow in self.flows]
            return self.packets[link].sums(self.window_ns, active_ns, _edges_ns(*self.links[link].active_s))

        return self.once(("sums", link), make)

    def percentiles(self, link: int) -> list[Percentiles | None]:
        """Returns the percentiles of each flow that has this link, over the packets that left it in the window."""

        def make() -> list[Percentiles | None]:
            pauses = [flow.pauses if flow.link == link else None for flow in self.flows]
            return self.packets[link].percentiles(self.window_ns, pauses)

        return self.once(("percentiles", link), make)

    def read_packets(self) -> Record:
        """Makes the native passes over the packets that the flows' figures need, and returns the record.

        Over many runs, they are faster one after the other: packets displace from the caches what Python works with.
        """
        if PACKETS in self.given:
            for link in {link for flow in self.flows for link in flow.path}:
                self.sums(link)
            for link in {flow.link for flow in self.flows}:
                self.percentiles(link)
        return self

    def capacity_bytes(self, link: int) -> float:
        """Returns the IP bytes that a link could have delivered in the window."""
        if self.whole:
            return float(self.result["links"][link]["capacity_bytes"])
        return float(self.capacity_mbps(link).sum()) * self.bin_s * 125_000

    def capacity_mbps(self, link: int) -> Floats:
        """Returns a link's capacity in each of the run's bins within the window."""
        return self.bins(np.asarray(self.result["links"][link]["capacity_mbps"], dtype=np.float64))

    def bins(self, series: Floats) -> Floats:
        """Returns the bins of a series in the window, whose edges are rounded to bins."""
        return series[round(self.from_s / self.bin_s) : round(min(self.to_s, self.duration_s) / self.bin_s)]

    def series(self, part: Mapping[str, Any], what: str) -> Floats:
        """Returns a series of a flow or a link within the window. Raises ScenarioError if it was not recorded."""
        if "series" not in part:
            raise ScenarioError(
                "record.series: false, but a figure over a part of the run or over time needs `record: {series: true}`"
            )
        return self.bins(np.asarray(part["series"][what], dtype=np.float64))

    @functools.cached_property
    def given(self) -> frozenset[str]:
        """Needs of figures that the run meets."""
        flows, links = self.result["flows"], self.result["links"]
        known = {
            PACKETS: bool(self.packets),
            SERIES: all("series" in link for link in links),
            RECEIVED: self.whole or all("series" in flow for flow in flows),
            COUNTERS: self.whole,
            FLOWS: len(flows) > 1,
            MATCH: self.alone is not None,
            LEARNERS: self.learners is not None,
            SOLE: len(flows) == 1,
            MACHINE: self.result.get("machine") is not None,
        }
        return frozenset(need for need, there in known.items() if there)


class Subject:
    """A flow on a link, or all of a link's packets (`flow` None): what figures are of."""

    def __init__(self, record: Record, link: int, flow: int | None, path: Sequence[int]) -> None:
        self.record, self.link, self.flow, self.path = record, link, flow, path
        self.of_link: Mapping[str, Any] = record.result["links"][link]
        self._of_flow: Mapping[str, Any] = {} if flow is None else record.result["flows"][flow]
        self.entry: Mapping[str, Any] = {} if flow is None else record.entries[flow]
        self._is_program = (self.entry.get("foreign") or {}).get("type") == "command"
        stop = self._of_flow.get("stop_s")
        begin_s = max(record.from_s, float(self._of_flow.get("start_s") or 0.0))
        self.active_s = begin_s, min(record.to_s, record.duration_s if stop is None else float(stop))
        """Start and end of its time within the window."""
        self.length_s = max(self.active_s[1] - begin_s, 0.0)
        """Length of its time; 0 if it has none."""
        self.made: dict[str, Any] = {}
        """Figures and intermediate results by name."""

    def once(self, name: str, make: Callable[[Subject], _Made]) -> _Made:
        """Returns what `make` returns of this subject, made when `name` is asked for first."""
        if name not in self.made:
            self.made[name] = make(self)
        made: _Made = self.made[name]
        return made

    @functools.cached_property
    def given(self) -> frozenset[str]:
        """Needs of figures that the subject meets."""
        own = needs_met(self.entry, self._of_flow) if self.record.whole else []
        own += [REQUIREMENT] if self.entry.get("requirement") else []
        own += [TRACE] if self.opportunities_ms is not None else []
        return self.record.given.union(own) if own else self.record.given

    @property
    def capacity_mbps(self) -> Floats:
        """The link's capacity in each of the run's bins while the flow is there."""
        begin_s, until_s = self.active_s
        capacity = np.asarray(self.of_link["capacity_mbps"], dtype=np.float64)
        return capacity[round(begin_s / self.record.bin_s) : round(until_s / self.record.bin_s)]

    @property
    def delay_ms(self) -> float:
        """The link's least propagation delay."""
        return least_delay_ms(self.record.document["links"][self.link])

    @property
    def base_rtt_ms(self) -> float:
        """The flow's round-trip propagation delay; twice the link's delay of a link."""
        return float(self.entry.get("base_rtt_ms", 2 * self.delay_ms))

    @property
    def weight(self) -> float:
        """The flow's weight."""
        return float(self.entry["weight"])

    @property
    def least_mbps(self) -> float:
        """The least rate that the flow requires; NaN if it requires none."""
        requirement = self.entry.get("requirement")
        return float(requirement["min_mbps"]) if requirement else math.nan

    @property
    def completion_s(self) -> Sequence[float]:
        """Completion times of the flow's finished transfers, in their order."""
        return cast("Sequence[float]", self._of_flow.get("completion_s") or ())

    @property
    def application(self) -> Mapping[str, Sequence[float]]:
        """Columns that the flow's application recorded, by name."""
        return cast("Mapping[str, Sequence[float]]", self._of_flow.get("application") or {})

    @property
    def alone(self) -> Mapping[str, float]:
        """The flow's figures without the others."""
        assert self.flow is not None and self.record.alone is not None
        return self.record.alone[self.flow]

    @property
    def packets(self) -> LinkPackets:
        """The link's packets over the whole run."""
        return self.record.packets[self.link]

    @functools.cached_property
    def log(self) -> PacketLog:
        """Packets that left the link in the window."""
        log = self.packets.log if self.flow is None else self.packets.of_flow(self.flow)
        return log if self.record.whole else log.left_within(self.record.from_s, self.record.to_s)

    @property
    def sums(self) -> Sums:
        """Counts and sums over the packets that left the link in the window."""
        return self.record.sums(self.link)[-1 if self.flow is None else self.flow]

    @functools.cached_property
    def percentiles(self) -> Percentiles:
        """Percentiles over the packets that left the link in the window."""
        if self.flow is not None:
            found = self.record.percentiles(self.link)[self.flow]
        else:
            (found,) = self.packets.percentiles(self.record.window_ns, [self.pauses], each=False)
        assert found is not None, "a flow has its own link's"
        return found

    @functools.cached_property
    def queue_ns(self) -> Ints:
        """Time in which exactly k of its packets were queued, for k = 0, 1, ..."""
        return time_in_queue_length_ns(self.log, self.record.from_s, self.record.to_s)

    @property
    def of_all(self) -> Subject:
        """The link with all that crosses it."""
        return self.record.links[self.link]

    @functools.cached_property
    def departed_bytes(self) -> float:
        """IP bytes that left the link in the window."""
        if PACKETS in self.record.given:
            return float(self.sums.bytes)
        if self.record.whole:
            return float(self.of_link["delivered_bytes"])
        return float(self.record.series(self.of_link, "delivered_bytes").sum())

    @property
    def pauses(self) -> tuple[int | None, Ints]:
        """Time without a packet after which the flow's application pauses, if it does: the base RTT. Then also when
        packets were dropped, lost or damaged at the link (`signal_delay_ms`).
        """
        if self.flow is None or self.entry.get("app", {"type": "bulk"})["type"] == "bulk":
            return None, np.empty(0, np.int64)
        return round(self.base_rtt_ms * 1e6), self.packets.gone_ns(self.flow)

    def counter(self, name: str) -> Any:
        """Returns one of the sender's counters as it is; None if it is unknown, as of a program of somebody else."""
        return None if self._is_program and name in _OF_ITS_STACK else self._of_flow.get(name)

    def received_bytes(self, payload: bool) -> float:
        """Returns the IP bytes, or bytes of `payload`, that reached the flow's receiver in the window."""
        if self.record.whole:
            return float(self._of_flow["delivered_bytes" if payload else "wire_bytes"])
        return float(self.record.series(self._of_flow, "payload_bytes" if payload else "wire_bytes").sum())

    @property
    def opportunities_ms(self) -> Ints | None:
        """Delivery opportunities within the run, in ms from its start; None of a link that has none or is shaped."""
        return self.record.once(("opportunities", self.link), self._opportunities)

    def _opportunities(self) -> Ints | None:
        link, duration_s = self.record.document["links"][self.link], self.record.duration_s
        service = link["service"]
        if link.get("shaper") is not None:
            return None
        offset = int(service.get("offset_ms") or 0)
        if service["type"] == "cellular" and service.get("seed") is not None and not offset:
            return np.asarray(traces.generate(service["preset"], duration_s, service["seed"]), dtype=np.int64)
        if service["type"] != "trace":
            return None
        file = traces.find(service["file"])
        about = file.stat()
        return _of_trace(str(file), (about.st_mtime_ns, about.st_size), offset, duration_s)


@functools.lru_cache(maxsize=16)
def _of_trace(file: str, state: tuple[int, int], offset_ms: int, duration_s: float) -> Ints:
    """Returns the delivery opportunities of a run over a trace, whose file's `state` tells a change.

    All runs over a link share them.
    """
    stamps = traces.shared(file).astype(np.int64)
    period, end = int(stamps[-1]), round(duration_s * 1e3)
    laps = np.arange((offset_ms + end) // period + 1) * period
    every = (laps[:, None] + stamps[None, :]).ravel() - offset_ms
    found: Ints = every[(every >= 0) & (every <= end)]
    found.flags.writeable = False
    return found
