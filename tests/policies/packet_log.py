"""A TCP sender's measurements out of a run's records alone: transmissions, and the acknowledgements that arrived.

Nothing here reads the controller. The code follows RFC 6298 (RTTs) and draft-cheng-iccrg-delivery-rate-estimation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MSS = 1448
"""Payload of a segment in bytes."""


@dataclass
class Sent:
    """First transmission of a segment, and the sender's state at that time."""

    time_ns: int
    sent_before: int
    """Segments sent before it, retransmissions included."""
    delivered: int
    delivered_ns: int
    """Segments delivered before, and the time of the newest acknowledgement; 0 before one."""
    first_ns: int
    flight_ns: int
    """Starts of its delivery-rate sample: by departures, and by deliveries."""
    again: bool = False
    """It was sent again."""


@dataclass
class Heard:
    """An acknowledgement and the sender's state after it."""

    time_ns: int
    rtt_ns: int | None
    rate_bps: float | None
    """RTT and delivery-rate samples."""
    rtt_min_ns: int
    srtt_ns: float
    delivered: int
    cumulative: int
    """Segments acknowledged cumulatively."""
    repeated: int
    """Retransmissions on their way."""
    newest: Sent | None
    """Segment of the RTT sample."""
    sent: int
    """Segments sent so far."""


@dataclass
class _Sender:
    segments: dict[int, Sent] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    sent: int = 0
    last_ns: int = -1
    delivered_ns: int = 0
    first_ns: int = 0
    flight_ns: int = 0
    rtt_min_ns: int = 0
    srtt_ns: float = 0.0

    def send(self, time_ns: int, sequence: int) -> None:
        if len(self.arrived) == len(self.segments):
            self.first_ns = self.flight_ns = time_ns
        # Of two departures at one time the second counts as 1 ns later, so that their order is known.
        self.last_ns = max(time_ns, self.last_ns + 1)
        now = (self.sent, len(self.arrived), self.delivered_ns, self.first_ns, self.flight_ns)
        self.segments[sequence] = Sent(self.last_ns, *now, again=sequence in self.segments)
        self.sent += 1

    def hear(self, time_ns: int, cumulative: int, blocks: list[tuple[int, int]], echo_ns: int) -> Heard:
        acked = [self.segments[k] for k in range(cumulative) if k not in self.arrived]
        named = {k for first, end in blocks for k in range(max(first, cumulative), end)}
        sacked = [self.segments[k] for k in sorted(named - self.arrived)]
        self.arrived |= named | set(range(cumulative))
        self.delivered_ns = self.flight_ns = time_ns
        first, newest = self._sampled(acked, sacked, echo_ns)
        rtt_ns = rate = None
        if first is not None and newest is not None:
            rtt_ns = time_ns - newest.time_ns
            self.rtt_min_ns = min(rtt_ns, self.rtt_min_ns or rtt_ns)
            smoothed_ns = time_ns - first.time_ns
            self.srtt_ns = self.srtt_ns + (smoothed_ns - self.srtt_ns) / 8 if self.srtt_ns else smoothed_ns
        sent = sorted((*acked, *sacked), key=lambda each: each.sent_before)
        if sent:
            last = sent[-1]
            self.first_ns = last.time_ns
            span_ns = max(last.time_ns - last.first_ns, time_ns - last.flight_ns)
            if span_ns >= self.rtt_min_ns:
                rate = (len(self.arrived) - last.delivered) * MSS * 8e9 / span_ns
        repeated = sum(sent.again for k, sent in self.segments.items() if k not in self.arrived)
        return Heard(
            time_ns,
            rtt_ns,
            rate,
            self.rtt_min_ns,
            self.srtt_ns,
            len(self.arrived),
            cumulative,
            repeated,
            newest,
            self.sent,
        )

    def _sampled(self, acked: list[Sent], sacked: list[Sent], echo_ns: int) -> tuple[Sent | None, Sent | None]:
        """Returns the segments whose RTTs are for the smoothed RTT and for congestion control (`tcp_ack_update_rtt`).

        Segments that were sent again have none (Karn). If there is no other, the echoed time tells which was heard.
        """
        once = [[each for each in group if not each.again] for group in (acked, sacked)]
        if len(once[0]) < len(acked):
            once[0] = []
        if any(once):
            return (once[0] or once[1])[0], (once[1] or once[0])[-1]
        repeated = next((each for each in acked if 0 <= each.time_ns - echo_ns < 1000), None)
        return repeated, repeated


def heard(flow: Mapping[str, Any]) -> list[Heard]:
    """Returns what the sender of a recorded flow knew after each acknowledgement."""
    sent, acks = flow["transmissions"], flow["acks"]
    blocks = list(zip(acks["block_starts"].tolist(), acks["block_ends"].tolist(), strict=True))
    last = np.cumsum(acks["sacked"], dtype=int)
    events = [(int(t), 1, int(k), [], 0) for t, k in zip(sent["sent_ns"], sent["sequence"], strict=True)]
    columns = (acks[column] for column in ("time_ns", "cumulative", "sacked", "echo_ns"))
    for t, cumulative, count, echo_ns, end in zip(*columns, last, strict=True):
        events.append((int(t), 0, int(cumulative), blocks[end - count : end], int(echo_ns)))
    # At one time an acknowledgement precedes the segments that it lets go.
    sender, out = _Sender(), []
    for time_ns, is_sent, sequence, named, echo_ns in sorted(events, key=lambda event: event[:2]):
        if is_sent:
            sender.send(time_ns, sequence)
        else:
            out.append(sender.hear(time_ns, sequence, named, echo_ns))
    return out
