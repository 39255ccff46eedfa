"""Applications: flows that arrive by the seed, and the figures of transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: applications are not tested (run make)")

import ccarena
from ccarena.scenarios.tables import application_tables

LINK: dict[str, Any] = {
    "service": {"type": "constant", "rate_mbps": 10},
    "queue": {"type": "droptail", "packets": 2000},
    "delay_ms": 10,
}


def run(*flows: dict[str, Any], seconds: float = 5.0, seeds: int = 1) -> ccarena.Results:
    document = {"duration_s": seconds, "links": [LINK], "flows": [{"scheme": "cubic", **flow} for flow in flows]}
    return ccarena.run(document, seeds=seeds)


def test_each_seed_has_arrivals_of_its_own_which_repeat() -> None:
    flow = {"name": "web", "app": {"type": "poisson", "load": 0.4, "sizes": "hadoop"}}
    first, again = run(flow, seeds=2), run(flow, seeds=2)
    starts = [[each["start_s"] for each in one.result["flows"]] for one in (*first, *again)]
    assert starts[:2] == starts[2:] and starts[0] != starts[1]
    assert [each["name"] for each in first[0].result["flows"]][:2] == ["web-0", "web-1"]


def test_slowdown_is_completion_over_the_ideal_one() -> None:
    """A window above the transfer sends it at the link's rate, so that nothing but the last segment's wait is slow."""
    sizes = [14_480, 144_800, 1_448_000]
    window = {"scheme": "fixed", "params": {"window": 2000}, "delayed_ack": False}
    results = run({**window, "app": {"type": "transfers", "sizes_bytes": sizes, "gap_s": 1.5}})
    assert len(results[0].result["flows"][0]["completion_s"]) == 3
    row = results.columns("summary")
    means = dict(zip(row["figure"], row["mean"], strict=True))
    for name in ("small", "medium", "large"):
        assert means[f"fct_slowdown_{name}_p50"] == pytest.approx(1.0, abs=0.05), name
    assert means["fct_finished"] == 1.0


def test_classes_count_all_flows_of_a_scheme_and_unfinished_transfers_are_told() -> None:
    transfer: dict[str, Any] = {"app": {"type": "transfers", "sizes_bytes": [50_000]}}
    late: dict[str, Any] = {"app": {"type": "transfers", "sizes_bytes": [50_000_000]}}
    results = run(transfer, {**transfer, "start_s": 1}, late, {**transfer, "scheme": "reno", "start_s": 2}, seconds=3)
    [(head, cells)] = application_tables(results.runs)
    assert head[:2] == ["scheme", "link"] and [row[:2] for row in cells] == [["cubic", "link0"], ["reno", "link0"]]
    table = results.columns("flows")
    np.testing.assert_allclose(table["fct_finished"], [2 / 3, 2 / 3, 2 / 3, 1.0])
    assert np.isnan(table["fct_slowdown_large_p50"]).all() and (table["fct_slowdown_small_p50"] > 1).all()


def test_runs_without_transfers_have_no_columns_of_them() -> None:
    assert not any(name.startswith("fct") for name in run({}, seconds=1).columns("flows"))


def test_incast_collapses_where_the_queue_is_short_and_not_where_it_is_long() -> None:
    app = {"type": "incast", "flows": 40, "size_bytes": 30_000, "every_s": 2.0}
    slow = {}
    for packets in (20, 2000):
        link = {**LINK, "queue": {"type": "droptail", "packets": packets}}
        document = {"duration_s": 4, "links": [link], "flows": [{"scheme": "reno", "app": app}]}
        slow[packets] = float(np.nanmean(ccarena.run(document).columns("flows")["fct_slowdown_p99"]))
    assert slow[20] > 1.2 * slow[2000]
