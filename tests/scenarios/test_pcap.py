"""Captures of simulated runs, read byte by byte and by tshark and tcptrace."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: captures not tested (run make)")

import ccarena
from ccarena.errors import ConfigError
from ccarena.scenarios import pcap
from ccarena.scenarios.pcap import first_sequence
from ccarena.scenarios.results import Results

LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10, "queue": {"type": "droptail", "packets": 30}}
DOCUMENT: dict[str, Any] = {
    "duration_s": 4,
    "links": [{**LINK, "loss": 0.005}],
    "flows": [
        {"scheme": "cubic"},
        {"scheme": "reno", "start_s": 1, "app": {"type": "transfers", "sizes_bytes": [99_000]}},
    ],
}


@pytest.fixture(scope="module")
def results() -> Results:
    return ccarena.run(DOCUMENT)


@pytest.fixture(scope="module")
def capture(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results.pcap(tmp_path_factory.mktemp("pcap") / "run.pcap")


def records(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Time in ns, original length and bytes of each packet."""
    data = path.read_bytes()
    assert struct.unpack_from("<IHHiIII", data) == (0xA1B23C4D, 2, 4, 0, 0, 80, 101)
    at = 24
    while at < len(data):
        s, ns, kept, length = struct.unpack_from("<IIII", data, at)
        yield s * 10**9 + ns, length, data[at + 16 : at + 16 + kept]
        at += 16 + kept


def summed(data: bytes) -> int:
    """Internet checksum over words; 0xffff over data that contains its own."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_headers_are_right_byte_by_byte(results: Results, capture: Path) -> None:
    times, data, acks = [], 0, 0
    for time_ns, length, packet in records(capture):
        times.append(time_ns)
        assert packet[0] == 0x45 and packet[9] == 6 and summed(packet[:20]) == 0xFFFF
        assert struct.unpack_from(">H", packet, 2)[0] == length
        header = (packet[32] >> 4) * 4
        assert 20 + header == len(packet)
        pseudo = packet[12:20] + struct.pack(">HH", 6, length - 20)
        assert summed(pseudo + packet[20:]) == 0xFFFF
        data, acks = (data + 1, acks) if length > len(packet) else (data, acks + 1)
    assert times == sorted(times)
    flows = results[0].result["flows"]
    assert data == sum(flow["sent_packets"] for flow in flows)
    assert acks == sum(len(flow["acks"]["time_ns"]) for flow in flows)


def test_sequence_numbers_wrap(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcap, "first_sequence", lambda flow: 2**32 - 1_000_000)
    path = results.pcap(tmp_path / "run.pcap")
    own = [packet for _, _, packet in records(path) if {packet[15], packet[19]} == {0} and 10 in packet[12:14]]
    data = [struct.unpack_from(">I", packet, 24)[0] for packet in own if packet[12:14] == b"\x0a\x00"]
    acks = [struct.unpack_from(">I", packet, 28)[0] for packet in own if packet[12:14] == b"\x0a\x01"]
    for numbers in (data, acks):
        assert min(numbers) < 3_000_000 and max(numbers) > 2**32 - 1_000_001, "the numbers did not wrap"
    table = results.columns("packets")
    assert len(set(data)) == len(set(table["sequence"][table["flow"] == "flow0"]))
    if shutil.which("tshark"):
        assert fields(path, "tcp.analysis.ack_lost_segment", "frame.number") == []


def test_marks_and_sizes_follow_the_flow(tmp_path: Path) -> None:
    marking = {**LINK, "queue": {"type": "codel", "ecn": True}}
    flow = {"scheme": "reno", "ecn": True, "header_bytes": 40, "ack_bytes": 40}
    results = ccarena.run({"duration_s": 3, "links": [marking], "flows": [flow]})
    flags = [(packet[1], packet[33], len(packet)) for _, _, packet in records(results.pcap(tmp_path / "ecn.pcap"))]
    assert {tos for tos, _, _ in flags} == {0, 2} and {size for _, _, size in flags} == {40}, "no timestamps"
    (reported,) = results[0].result["flows"]
    assert sum(1 for _, flag, _ in flags if flag & 0x40) > 0
    assert sum(1 for _, flag, _ in flags if flag & 0x80) == pytest.approx(reported["ecn_reductions"], abs=1)


def fields(capture: Path, shown: str, *names: str) -> list[list[str]]:
    options = [part for name in names for part in ("-e", name)]
    command = ["tshark", "-r", str(capture), "-Y", shown, "-T", "fields", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="TSHARK IS NOT INSTALLED: captures not read by Wireshark")
def test_tshark_agrees_with_the_figures(results: Results, capture: Path) -> None:
    assert fields(capture, "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0", "frame.number") == []
    for index, flow in enumerate(results[0].result["flows"]):
        mine = f"ip.src == 10.0.0.{index}"
        rows = fields(capture, f"{mine} && tcp.len > 0", "tcp.seq_raw", "tcp.len", "frame.time_relative")
        assert len(rows) == flow["sent_packets"]
        numbers = [int(number) for number, _, _ in rows]
        assert len(numbers) - len(set(numbers)) == flow["retransmitted_packets"]
        heard = fields(capture, f"ip.dst == 10.0.0.{index}", "tcp.ack_raw")
        acked = (int(heard[-1][0]) - first_sequence(index)) % 2**32
        # What is received in the last half RTT is not acknowledged by the end.
        assert acked == pytest.approx(flow["delivered_bytes"], abs=12e6 / 8 * 0.06)
    (cubic, _) = results[0].result["flows"]
    seen = fields(capture, "ip.src == 10.0.0.0 && tcp.analysis.retransmission", "frame.number")
    assert len(seen) == pytest.approx(cubic["retransmitted_packets"], rel=0.1)
    rtt = [float(value) for (value,) in fields(capture, "ip.dst == 10.0.0.0", "tcp.analysis.ack_rtt") if value]
    assert min(rtt) * 1e3 == pytest.approx(cubic["rtt_min_ms"], rel=0.01)
    assert fields(capture, "tcp.analysis.ack_lost_segment || tcp.analysis.window_full", "frame.number") == []


@pytest.mark.skipif(shutil.which("tcptrace") is None, reason="TCPTRACE IS NOT INSTALLED: captures not read by it")
def test_tcptrace_counts_the_same(results: Results, capture: Path) -> None:
    done = subprocess.run(
        ["tcptrace", "-l", "-n", str(capture)], capture_output=True, text=True, timeout=60, check=True
    )
    first = done.stdout[done.stdout.index("TCP connection 1") :]
    cubic = results[0].result["flows"][0]
    found = {}
    for line in first.splitlines():
        name, _, rest = line.strip().partition(":")
        found.setdefault(name, rest.split()[0] if rest.split() else "")
    assert int(found["actual data pkts"]) == cubic["sent_packets"]
    assert int(found["rexmt data pkts"]) == cubic["retransmitted_packets"]


def test_what_cannot_be_written_is_said(results: Results, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        results.pcap(tmp_path / "file" / "run.pcap")
    with pytest.raises(ConfigError, match="run = 1: expected 0 to 0"):
        results.pcap(tmp_path / "run.pcap", run=1)
