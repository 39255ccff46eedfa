"""The packets that a link recorded.

Conventions, the same for every scheme and every backend: 1 Mbit/s = 10^6 bit/s, and bytes are IP bytes on the wire
unless a name says payload. The log holds packets that left the link within the run. What was still queued at the end is
in no figure, so that a scheme with a standing queue looks slightly better than it is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena import _core

__all__ = ["SHARES", "TAIL", "LinkPackets", "PacketLog", "Percentiles", "Sums", "link_packets"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PacketLog:
    """Packets that one link delivered, in departure order: equally long arrays.

    `arrival_ns` and `departure_ns` are int64. The others are int64 or, as the simulator writes them, uint32, whose
    differences would wrap.

    `arrival_ns`, `departure_ns`: entering the queue, last bit sent. `flow`: index of the flow. `bytes`: IP bytes.
    `serialisation_ns`: own transmission time, 0 on a trace-driven link.
    """

    arrival_ns: Ints
    departure_ns: Ints
    flow: Ints
    bytes: Ints
    serialisation_ns: Ints

    @classmethod
    def from_arrays(cls, log: Mapping[str, ArrayLike]) -> PacketLog:
        """Builds a log from the simulator's `links[i]["log"]`, of whose arrays it is a view."""
        return cls(**{name: _signed(np.asarray(log[name])) for name in cls.__dataclass_fields__})

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def of_flow(self, flow: int) -> PacketLog:
        """Returns only the packets of `flow`."""
        mine = self.flow == flow
        return self if mine.all() else self.where(mine)

    def where(self, chosen: NDArray[np.bool_]) -> PacketLog:
        """Returns only the packets that are `chosen`."""
        return self.rows(np.flatnonzero(chosen))

    def rows(self, rows: Ints) -> PacketLog:
        """Returns only the packets in these rows."""
        return PacketLog(**{name: getattr(self, name).take(rows) for name in self.__dataclass_fields__})

    def left_within(self, from_s: float, to_s: float) -> PacketLog:
        """Returns only the packets that left the link in (from, to]."""
        return self.where((self.departure_ns > from_s * 1e9) & (self.departure_ns <= to_s * 1e9))


def _signed(array: NDArray[Any]) -> Ints:
    if array.dtype == np.uint32:
        return array
    return array.view(np.int64) if array.dtype == np.uint64 else array.astype(np.int64, copy=False)


GONE = ("drops", "losses", "policed", "corrupted")
"""Ways in which packets do not arrive: dropped by the queue, lost or policed before it, or damaged behind it."""


class Sums(NamedTuple):
    """Counts and sums over a flow's packets, or all, that one link delivered."""

    packets: int
    bytes: int
    active_bytes: int
    """IP bytes that left the link in the flow's time."""
    queueing_ns: int
    whole_ns: int
    """Sum of the times from entering the queue until the last bit is sent."""
    gone: Sequence[int]
    """Packets that went at the link, by each of GONE."""


class Percentiles(NamedTuple):
    """Percentiles over the same packets, in ms without propagation."""

    queueing_ms: Sequence[float]
    """Queueing delays at each of SHARES."""
    whole_ms: float
    """Time from entering the queue until the last bit is sent, at TAIL."""
    signal_ms: float
    """Signal delays at TAIL."""


SHARES, TAIL = (0.50, 0.95, 0.99), 0.95
"""Shares at which percentiles are taken: of queueing delays, and of the others."""


class LinkPackets:
    """Packets that one link of a run recorded, with cached intermediate results that the figures of its flows share."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.log = PacketLog.from_arrays(record["log"])
        self._of_flow: dict[int, PacketLog] = {}
        self._gone = [_gone(record.get(kind)) for kind in GONE]

    def of_flow(self, flow: int) -> PacketLog:
        """Returns the packets of one flow that the link delivered."""
        if flow not in self._of_flow:
            # One flow is asked for on most links with one, and none of its rows has to be found.
            alone = flow == 0 and not self.log.flow.any()
            self._of_flow[flow] = self.log if alone else self.log.rows(self._log_rows.of(flow))
        return self._of_flow[flow]

    def gone_ns(self, flow: int) -> Ints:
        """Returns when packets of one flow went, kind by kind of GONE."""
        return np.concatenate(
            [at_ns[rows.of(flow)] for (at_ns, _), rows in zip(self._gone, self._gone_rows, strict=True)]
        )

    def sums(
        self, window_ns: tuple[int, int], active_ns: Sequence[tuple[int, int]], all_ns: tuple[int, int]
    ) -> list[Sums]:
        """Returns the sums of flows 0, 1, ... and, last, of all packets, over those that left or went in (from, to].

        `active_ns`: the time of each flow; `all_ns`: the time that counts for all packets.
        """
        return [Sums(*of) for of in _core.sums_of_flows(self._native, self._gone, window_ns, active_ns, all_ns)]

    def percentiles(
        self, window_ns: tuple[int, int], pauses: Sequence[tuple[int | None, Ints] | None], each: bool = True
    ) -> list[Percentiles | None]:
        """Returns the percentiles of flows 0, 1, ... over packets that left in (from, to], one pass for all.

        `pauses`: for each flow the time after which its application pauses, if it does, and when packets of it went
        (`signal_delay_ms`); None leaves the flow out. `each`: False takes all packets as those of flow 0.
        """
        columns = self._native if each else {**self._native, "flow": None}
        found = _core.percentiles_of_flows(columns, window_ns, pauses, SHARES, TAIL)
        return [None if of is None else Percentiles(*of) for of in found]

    @functools.cached_property
    def _native(self) -> dict[str, NDArray[Any] | None]:
        """The log as the native code takes it."""
        narrow = dict.fromkeys(("flow", "bytes", "serialisation_ns"), np.uint32)
        names = self.log.__dataclass_fields__
        return {name: np.ascontiguousarray(getattr(self.log, name), narrow.get(name, np.int64)) for name in names}

    @functools.cached_property
    def _log_rows(self) -> _ByFlow:
        return _ByFlow(self.log.flow)

    @functools.cached_property
    def _gone_rows(self) -> list[_ByFlow]:
        return [_ByFlow(flow) for _, flow in self._gone]


_NONE = np.empty(0, np.int64), np.empty(0, np.uint32)


def _gone(packets: Mapping[str, Any] | None) -> tuple[Ints, NDArray[np.uint32]]:
    """Returns when packets went, and of which flow each was."""
    if not packets or not len(packets["flow"]):
        return _NONE
    at_ns = np.ascontiguousarray(packets["time_ns"], np.uint64).view(np.int64)
    return at_ns, np.ascontiguousarray(packets["flow"], np.uint32)


class _ByFlow:
    """The rows of each flow, in order."""

    def __init__(self, flow: NDArray[Any]) -> None:
        self._order = _core.rows_by_flow(np.ascontiguousarray(flow, dtype=np.uint32))
        self._sorted = flow[self._order]

    def of(self, flow: int) -> Ints:
        low, high = (self._sorted.searchsorted(edge) for edge in (flow, flow + 1))
        return self._order[low:high]


def link_packets(result: Mapping[str, Any]) -> list[LinkPackets]:
    """Returns the packets of every link of a run that recorded them; none if it did not."""
    return [LinkPackets(link) for link in result["links"] if "log" in link]
