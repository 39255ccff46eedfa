"""Capture of a simulated run at its senders: what tcpdump would show there, for Wireshark and tcptrace.

A nanosecond pcap file of raw IPv4 packets, headers only. Flow i is a TCP connection from 10.0.X.Y, port 5001, to
10.1.X.Y, port 80, where X.Y is i. Headers have what the simulator has: sequence numbers in bytes, which wrap,
acknowledgements with selectively acknowledged blocks (RFC 2018), timestamps in ms (RFC 7323), and the bits of ECN (RFC
3168). Checksums are right for payloads of zeros.

Departures: the simulator begins with established connections, so that there is no handshake; the receiver's clock is
the time at which its acknowledgement reaches the sender; IDs of IPv4 count a flow's packets; windows stand at 65535.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.core.files import replacing
from ccarena.errors import ConfigError, cannot_write
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.packets import transmissions

__all__ = ["first_sequence", "write"]

Ints = NDArray[np.int64]

NANOSECONDS, RAW = 0xA1B23C4D, 101
"""Magic number of a pcap file with nanoseconds; link type of packets that begin with their IP header."""
SNAPLEN = 80
"""Most bytes of a packet that are kept: an IPv4 header and the longest TCP header."""
PER_WRITE = 1 << 16
"""Packets whose bytes are made at once."""
TIMESTAMPS_FROM = 52
"""Least header of a scenario's flow that has room for timestamps: 20 bytes IPv4, 20 TCP, 12 for the option."""
ACK, ECE, CWR = 0x10, 0x40, 0x80
FIELDS = np.dtype(
    [
        *[("version", "u1"), ("tos", "u1"), ("length", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1")],
        *[("protocol", "u1"), ("ip_sum", ">u2"), ("source", ">u4"), ("target", ">u4")],
        *[("source_port", ">u2"), ("target_port", ">u2"), ("sequence", ">u4"), ("ack", ">u4"), ("offset", "u1")],
        *[("flags", "u1"), ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2")],
    ]
)
STAMPS = np.dtype([("head", ">u4"), ("value", ">u4"), ("echo", ">u4")])
BLOCKS_HEAD = np.dtype([("nops", ">u2"), ("kind", "u1"), ("size", "u1")])


@dataclass(frozen=True)
class _Segments:
    """Packets of one flow and direction whose headers are equally long."""

    flow: int
    time_ns: Ints
    is_ack: bool
    payload: Ints
    sequence: Ints
    ack: Ints
    flags: NDArray[np.uint8]
    ecn: NDArray[np.uint8]
    """Code point of the IP header (RFC 3168 §5)."""
    number: Ints
    """Number of the packet in its flow and direction."""
    stamps: tuple[Ints, Ints] | None
    """The timestamps option's value and echo."""
    blocks: Ints
    """Edges of blocks, `[packets, 2 * blocks]`."""

    def headers(self, rows: Ints) -> NDArray[np.uint8]:
        """Returns the headers of some packets, `[packets, bytes]`."""
        options = _options(self, rows)
        head = np.zeros(len(rows), FIELDS)
        head["version"], head["ttl"], head["protocol"], head["fragment"] = 0x45, 64, 6, 0x4000
        head["tos"] = self.ecn[rows]
        header = FIELDS.itemsize + options.shape[1]
        head["length"] = header + self.payload[rows]
        head["id"] = self.number[rows] & 0xFFFF
        sender, receiver = (0x0A000000 + self.flow, 5001), (0x0A010000 + self.flow, 80)
        here, there = (receiver, sender) if self.is_ack else (sender, receiver)
        (head["source"], head["source_port"]), (head["target"], head["target_port"]) = here, there
        head["sequence"], head["ack"] = self.sequence[rows] & 0xFFFFFFFF, self.ack[rows] & 0xFFFFFFFF
        head["offset"] = (header - 20) // 4 << 4
        head["flags"], head["window"] = self.flags[rows], 65535
        head["ip_sum"] = _checksum(_words(head)[:, :10])
        # Source, target, protocol and length of the pseudo-header (RFC 9293 §3.1).
        pseudo = np.column_stack([_words(head)[:, 6:10], np.full(len(rows), 6), header - 20 + self.payload[rows]])
        head["tcp_sum"] = _checksum(np.column_stack([pseudo, _words(head)[:, 10:], _words(options)]))
        return np.column_stack([_bytes(head), options])


def write(run: Run, path: str | os.PathLike[str]) -> Path:
    """Writes the run's packets in the order of their times, and returns the path.

    Raises ConfigError if the run is not simulated, no packets were recorded or the file cannot be written.
    """
    if run.backend != SIM:
        raise ConfigError(
            f"{run.scenario}: captures are made of simulated runs; on {run.backend} tcpdump captures the real packets"
        )
    target = Path(path)
    groups = [group for index in range(len(run.result["flows"])) for group in _of_flow(run, index)]
    time_ns = np.concatenate([group.time_ns for group in groups] or [np.zeros(0, np.int64)])
    of_group = np.repeat(np.arange(len(groups)), [len(group.time_ns) for group in groups])
    row = np.concatenate([np.arange(len(group.time_ns)) for group in groups] or [np.zeros(0, np.int64)])
    # An acknowledgement precedes what it allows to be sent at once.
    sent = np.asarray([not group.is_ack for group in groups])[of_group]
    order = np.lexsort((sent, time_ns))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, SNAPLEN, RAW))
            for start in range(0, order.size, PER_WRITE):
                chosen = order[start : start + PER_WRITE]
                file.write(_records(groups, of_group[chosen], row[chosen]))
    except OSError as error:
        raise cannot_write(target, error) from error
    return target


def first_sequence(flow: int) -> int:
    """Returns the number of a flow's first byte. Connections begin anywhere, and so do these (Knuth's hash)."""
    return 2654435769 * (flow + 1) % 2**32


def _records(groups: list[_Segments], of_group: Ints, row: Ints) -> bytes:
    """Returns packets with their record headers, in order."""
    kept = np.zeros(len(row), np.int64)
    made = []
    for index in np.unique(of_group):
        at = np.flatnonzero(of_group == index)
        group, rows = groups[index], row[at]
        head = group.headers(rows)
        record = np.zeros(len(rows), [("s", "<u4"), ("ns", "<u4"), ("kept", "<u4"), ("length", "<u4")])
        record["s"], record["ns"] = np.divmod(group.time_ns[rows], 1_000_000_000)
        record["kept"], record["length"] = head.shape[1], head.shape[1] + group.payload[rows]
        made.append((at, np.column_stack([_bytes(record), head])))
        kept[at] = made[-1][1].shape[1]
    starts = np.cumsum(kept) - kept
    out = np.zeros(int(kept.sum()), np.uint8)
    for at, data in made:
        out[starts[at][:, None] + np.arange(data.shape[1])] = data
    return out.tobytes()


def _of_flow(run: Run, index: int) -> Iterator[_Segments]:
    """Yields the data of a flow, and its acknowledgements by their numbers of blocks."""
    flow, about = run.result["flows"][index], run.document["flows"][index]
    sent, acks = transmissions(run, flow), flow["acks"]
    payload = sent["bytes"].astype(np.int64) - int(about["header_bytes"])
    offsets = _offsets(sent["sequence"], payload) + first_sequence(index)
    heard_ns, sent_ns = acks["time_ns"].astype(np.int64), sent["sent_ns"].astype(np.int64)
    stamped = min(int(about["header_bytes"]), int(about["ack_bytes"])) >= TIMESTAMPS_FROM
    # The newest acknowledgement when a packet is sent; zero before there is one.
    newest = np.searchsorted(heard_ns, sent_ns, "right")
    echo = np.concatenate([[0], _ticks(heard_ns)])[newest]
    yield _Segments(
        flow=index,
        time_ns=sent_ns,
        is_ack=False,
        payload=payload,
        sequence=offsets[sent["sequence"]],
        ack=np.ones(len(sent_ns), np.int64),
        flags=np.where(sent["flags"] & 2, ACK | CWR, ACK).astype(np.uint8),
        # ECT(1) if the flag of L4S is set, else ECT(0).
        ecn=np.where(sent["flags"] & 4, 1, (sent["flags"] & 1) * 2).astype(np.uint8),
        number=np.arange(len(sent_ns)),
        stamps=(_ticks(sent_ns), echo) if stamped else None,
        blocks=np.zeros((len(sent_ns), 0), np.int64),
    )
    first = np.cumsum(acks["sacked"], dtype=np.int64) - acks["sacked"]
    for blocks in np.unique(acks["sacked"]):
        mine = np.flatnonzero(acks["sacked"] == blocks)
        at = first[mine][:, None] + np.arange(int(blocks))
        edges = np.stack([offsets[acks["block_starts"][at]], offsets[acks["block_ends"][at]]], axis=2)
        yield _Segments(
            flow=index,
            time_ns=heard_ns[mine],
            is_ack=True,
            payload=np.zeros(len(mine), np.int64),
            sequence=np.ones(len(mine), np.int64),
            ack=offsets[acks["cumulative"][mine]],
            flags=np.where(acks["flags"][mine] & 1, ACK | ECE, ACK).astype(np.uint8),
            ecn=np.zeros(len(mine), np.uint8),
            number=mine,
            stamps=(_ticks(heard_ns[mine]), _ticks(acks["echo_ns"][mine].astype(np.int64))) if stamped else None,
            blocks=edges.reshape(len(mine), 2 * int(blocks)),
        )


def _offsets(sequence: NDArray[Any], payload: Ints) -> Ints:
    """Returns the number of payload bytes before each segment, and after the last."""
    size = np.zeros(int(sequence.max()) + 1 if len(sequence) else 0, np.int64)
    size[sequence] = payload
    return np.concatenate([[0], np.cumsum(size)])


def _ticks(time_ns: Ints) -> Ints:
    """Returns a timestamp option's clock in ms, which begins at 1: zero means that nothing is echoed."""
    return time_ns // 1_000_000 + 1


def _options(segments: _Segments, rows: Ints) -> NDArray[np.uint8]:
    parts = [np.zeros((len(rows), 0), np.uint8)]
    if segments.stamps is not None:
        stamps = np.zeros(len(rows), STAMPS)
        stamps["head"] = 0x0101080A  # two times no operation, then the option (RFC 7323 appendix A)
        stamps["value"], stamps["echo"] = (each[rows] & 0xFFFFFFFF for each in segments.stamps)
        parts.append(_bytes(stamps))
    if edges := segments.blocks.shape[1]:
        head = np.zeros(len(rows), BLOCKS_HEAD)
        head["nops"], head["kind"], head["size"] = 0x0101, 5, 2 + 4 * edges
        parts += [_bytes(head), _bytes((segments.blocks[rows] & 0xFFFFFFFF).astype(">u4"))]
    return np.column_stack(parts)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


def _words(array: NDArray[Any]) -> NDArray[np.int64]:
    return _bytes(array).view(">u2").astype(np.int64)


def _checksum(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the Internet checksum (RFC 1071) of each row."""
    total = words.sum(axis=1)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    return np.asarray(~total & 0xFFFF)
