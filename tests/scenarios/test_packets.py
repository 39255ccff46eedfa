"""Packets at the ends of flows: counts, delays and fates, memory, and Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: packets not tested (run make)")

import ccarena
from ccarena.errors import ConfigError
from ccarena.scenarios import packets
from ccarena.scenarios.results import Results

LINK: dict[str, Any] = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}
SHALLOW: dict[str, Any] = {**LINK, "queue": {"type": "droptail", "packets": 20}, "loss": 0.005}
TWO: dict[str, Any] = {"duration_s": 3, "links": [SHALLOW], "flows": [{"scheme": "cubic"}, {"scheme": "bbr"}]}


@pytest.fixture(scope="module")
def results() -> Results:
    return ccarena.run(TWO, seeds=2)


def test_counts_are_those_of_flows_and_links(results: Results) -> None:
    table = results.columns("packets")
    for run in results:
        mine = table["seed"] == run.seed
        (link,) = run.result["links"]
        fates = {fate: int(((table["fate"] == fate) & mine).sum()) for fate in packets.FATES}
        assert fates["dropped"] == link["dropped_packets"] > 0 and fates["lost"] == link["lost_packets"] > 0
        assert fates["marked"] == 0 and fates["under way"] < 60
        for flow in run.result["flows"]:
            own = mine & (table["flow"] == flow["name"])
            assert own.sum() == flow["sent_packets"]
            assert table["bytes"][own & (table["fate"] == "delivered")].sum() == flow["wire_bytes"]
            sequences = table["sequence"][own]
            assert own.sum() - len(np.unique(sequences)) == flow["retransmitted_packets"] > 0
            assert np.all(np.diff(table["sent_ns"][own]) >= 0)


def test_delays_are_those_of_the_links_log(results: Results) -> None:
    table, links = results.columns("packets"), results.columns("link_packets")
    arrived = np.isfinite(table["one_way_delay_ms"]) & (table["seed"] == 1)
    flow = arrived & (table["flow"] == "flow0")
    left = (links["seed"] == 1) & (links["flow"] == "flow0")
    # The link takes packets as they are sent and keeps their order; the last ones leave it and do not arrive.
    count = int(flow.sum())
    assert table["queueing_delay_ms"][flow] == pytest.approx(links["queueing_delay_ms"][left][:count], abs=1e-4)
    whole = (links["departure_ns"] - links["arrival_ns"])[left][:count] / 1e6 + 10
    assert table["one_way_delay_ms"][flow] == pytest.approx(whole, abs=1e-9)


def test_a_path_of_two_links_adds_their_queues_and_marks_are_fates() -> None:
    marking = {**LINK, "queue": {"type": "codel", "ecn": True}}
    document = {
        "duration_s": 3,
        "links": [{**LINK, "name": "a"}, {**marking, "service": {"type": "constant", "rate_mbps": 9}, "name": "b"}],
        "flows": [{"scheme": "reno", "ecn": True, "path": ["a", "b"]}],
    }
    results = ccarena.run(document)
    table = results.columns("packets")
    dropped = sum(link["dropped_packets"] for link in results[0].result["links"])
    assert (table["fate"] == "marked").sum() > 0 and (table["fate"] == "dropped").sum() == dropped
    arrived = np.isfinite(table["one_way_delay_ms"])
    own_ms = table["bytes"] * 8e-3 / 12 + table["bytes"] * 8e-3 / 9
    rest = table["one_way_delay_ms"] - table["queueing_delay_ms"] - own_ms
    assert rest[arrived] == pytest.approx(20.0, abs=1e-3)


def test_a_packet_takes_at_most_40_bytes(results: Results) -> None:
    pytest.importorskip("pandas", reason="PANDAS IS NOT INSTALLED: data frames not tested (ccarena[frames])")
    frame = results.packets()
    assert frame.memory_usage(deep=True, index=False).sum() / len(frame) < 34
    assert frame.groupby("fate", observed=True).size().sum() == len(frame)
    assert set(frame.scheme.unique()) == {"cubic", "bbr"}


def test_parquet_is_written_flow_by_flow_and_read_in_parts(results: Results, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="PYARROW IS NOT INSTALLED: Parquet files not tested")
    path = results.write_packets(tmp_path / "packets.parquet")
    file = parquet.ParquetFile(path)
    assert file.num_row_groups == 4
    table = results.columns("packets")
    read = [batch.to_pydict() for batch in file.iter_batches(batch_size=1000)]
    for name, column in table.items():
        values = np.asarray([value for batch in read for value in batch[name]])
        assert np.array_equal(values, column, equal_nan=column.dtype.kind == "f"), name
    with pytest.raises(ConfigError, match="no packets to write"):
        Results(()).write_packets(tmp_path / "none.parquet")


def test_what_was_not_recorded_is_said() -> None:
    bare = ccarena.run(TWO, packets=False)
    for ask in (lambda: bare.columns("packets"), lambda: bare.pcap("x.pcap")):
        with pytest.raises(ConfigError, match="no packets were recorded; run it with packets=True"):
            ask()
    asked = ccarena.run({**TWO, "record": {"transmissions": True}}, packets=False)
    assert len(asked.columns("packets")["sent_ns"]) == sum(f["sent_packets"] for f in asked[0].result["flows"])


def test_recording_changes_no_result(results: Results) -> None:
    bare = ccarena.run(TWO, seeds=2, packets=False)
    for one, other in zip(results, bare, strict=True):
        for flow, same in zip(one.result["flows"], other.result["flows"], strict=True):
            assert flow["delivered_bytes"] == same["delivered_bytes"] and flow["lost_packets"] == same["lost_packets"]
