"""Packets that come late, twice or damaged: counts, logs, fates and the loss figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: impairments not tested (run make)")

import ccarena
from ccarena.errors import ScenarioError

LINK: dict[str, Any] = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}
IMPAIRED: dict[str, Any] = {
    **LINK,
    "reorder": {"probability": 0.02, "late_ms": 3},
    "duplicate": {"probability": 0.01, "correlation": 0.5},
    "corrupt": 0.005,
}


def test_records_count_log_and_tell_the_fate_of_impaired_packets() -> None:
    document = {"duration_s": 5, "links": [IMPAIRED], "flows": [{"scheme": "bbr"}]}
    results = ccarena.run(document, packets=True)
    (run,) = results
    (link,), (flow,) = run.result["links"], run.result["flows"]
    for kind, share in (("reordered", 0.02), ("duplicated", 0.01), ("corrupted", 0.005)):
        count = link[f"{kind}_packets"]
        assert count == len(link[kind]["time_ns"]) == len(link[kind]["flow"])
        assert 0.5 * share < count / link["delivered_packets"] < 2 * share
    assert flow["duplicate_packets"] >= link["duplicated_packets"] > 0
    table = results.columns("packets")
    assert (table["fate"] == "corrupted").sum() == link["corrupted_packets"]
    # The receiver gets what leaves the link, without the damaged, and copies besides.
    received = link["delivered_packets"] - link["corrupted_packets"] + link["duplicated_packets"]
    assert received - flow["wire_bytes"] / 1500 < 60
    gone = link["dropped_packets"] + link["lost_packets"] + link["corrupted_packets"]
    measured = results.columns("flows")["loss_share"][0]
    assert measured == pytest.approx(gone / link["arrived_packets"], rel=0.05)


def test_a_log_changes_nothing_and_a_seed_gives_the_same_run() -> None:
    document = {
        "duration_s": 3,
        "links": [IMPAIRED, {**IMPAIRED, "name": "back", "corrupt": None}],
        "flows": [{"scheme": "cubic", "path": ["link0"], "return_path": ["back"]}],
    }
    runs = [ccarena.run(document, packets=kept)[0].result for kept in (False, True, True)]
    same = [[run["flows"][0][name] for name in ("delivered_bytes", "sent_packets", "rtt_mean_ms")] for run in runs]
    assert same[0] == same[1] == same[2]
    assert runs[0]["links"][1]["reordered_packets"] > 10


def test_an_impairment_without_its_time_is_refused() -> None:
    link = {**LINK, "reorder": {"probability": 0.1}}
    with pytest.raises(ScenarioError, match=r"links\[0\]\.reorder\.late_ms: missing; expected milliseconds"):
        ccarena.run({"links": [link], "flows": [{"scheme": "cubic"}]})


@pytest.mark.parametrize("keep_order", [True, False])
def test_a_delay_that_falls_keeps_order_or_not_and_base_rtts_are_of_the_least(keep_order: bool) -> None:
    steps = [{"at_s": 0, "delay_ms": 40}, {"at_s": 1, "delay_ms": 10}, {"at_s": 2, "delay_ms": 25}]
    link = {**LINK, "delay_ms": {"steps": steps, "keep_order": keep_order}}
    app = {"type": "cbr", "rate_mbps": 10}
    results = ccarena.run({"duration_s": 3, "links": [link], "flows": [{"scheme": "reno", "app": app}]}, packets=True)
    (run,) = results
    assert run.document["flows"][0]["base_rtt_ms"] == 20
    assert 20 < run.result["flows"][0]["rtt_min_ms"] < 23
    table = results.columns("packets")
    sent, late = table["sent_ns"], table["one_way_delay_ms"]
    arrived = np.isfinite(late)
    arrivals = sent[arrived] + (late[arrived] * 1e6).astype(np.int64)
    overtaken = int((np.diff(arrivals) < -1000).sum())
    assert (overtaken > 0) is (run.result["links"][0]["reordered_packets"] > 0) is (not keep_order)
    wire_ms = (late - table["queueing_delay_ms"])[arrived]
    assert wire_ms.min() == pytest.approx(11, abs=0.3) and wire_ms.max() == pytest.approx(41, abs=0.3)


def test_a_policer_holds_the_rate_and_its_drops_are_counted_as_losses() -> None:
    link = {**LINK, "policer": {"rate_mbps": 4, "burst_bytes": 20_000}}
    document = {"duration_s": 4, "links": [link], "flows": [{"scheme": "bbr"}]}
    results = ccarena.run(document, packets=True)
    (run,) = results
    (of_link,) = run.result["links"]
    assert of_link["delivered_bytes"] <= 4e6 / 8 * 4 + 20_000 + 1500
    assert of_link["dropped_packets"] == of_link["lost_packets"] == 0 < of_link["policed_packets"]
    assert len(of_link["policed"]["time_ns"]) == of_link["policed_packets"]
    assert (results.columns("packets")["fate"] == "policed").sum() == of_link["policed_packets"]
    share = of_link["policed_packets"] / of_link["arrived_packets"]
    assert results.columns("flows")["loss_share"][0] == pytest.approx(share, rel=0.05)
    assert results.columns("links")["loss_share"][0] == pytest.approx(share, rel=0.05)
    marked = {**link, "policer": {**link["policer"], "action": "mark"}}
    flows = [{"scheme": "reno", "ecn": True}]
    (run,) = ccarena.run({**document, "links": [marked], "flows": flows})
    assert run.result["links"][0]["policed_packets"] == 0 < run.result["flows"][0]["ecn_reductions"]
