"""Marks: who gets them, what results say of them, and which queues are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: marks not tested (run make)")

import ccarena
from ccarena import cli
from ccarena.errors import ScenarioError
from ccarena.scenarios.tables import interval_note, mark_table


def _link(document: dict[str, Any]) -> dict[str, Any]:
    """Runs a document. Returns the result of its only link."""
    (run,) = ccarena.run(document)
    (link,) = run.result["links"]
    return dict(link)


def _document(queue: dict[str, Any], *flows: dict[str, Any]) -> dict[str, Any]:
    link = {"service": {"type": "constant", "rate_mbps": 12}, "queue": queue, "delay_ms": 10}
    return {"duration_s": 5, "links": [link], "flows": list(flows)}


@pytest.mark.parametrize(
    "queue",
    [
        {"type": "dualpi2"},
        {"type": "step", "packets": 100, "mark_packets": 10},
        {"type": "step", "packets": 100, "mark_ms": 5},
        {"type": "codel", "ecn": True},
        {"type": "fq_codel"},
        {"type": "pie", "ecn": True},
        {"type": "red", "ecn": True, "min_bytes": 15_000, "max_bytes": 60_000},
    ],
    ids=lambda queue: "-".join(map(str, queue.values())),
)
def test_flows_with_ecn_are_marked_and_others_dropped_as_the_result_says(queue: dict[str, Any]) -> None:
    marked = _link(_document(queue, {"scheme": "cubic", "ecn": True}))
    assert marked["marked_ect0_packets"] > 0 == marked["marked_ect1_packets"]
    assert marked["dropped_not_ect_packets"] == 0
    dropped = _link(_document(queue, {"scheme": "cubic"}))
    assert dropped["marked_ect0_packets"] == dropped["marked_ect1_packets"] == 0
    assert 0 < dropped["dropped_not_ect_packets"] <= dropped["dropped_packets"]


def test_results_have_the_delay_of_each_queue_of_dualpi2_and_tables_the_figures() -> None:
    results = ccarena.run(_document({"type": "dualpi2"}, {"scheme": "cubic", "ecn": True}))
    (run,) = results
    (link,) = run.result["links"]
    l4s, classic = link["queues"]
    assert l4s == {"name": "l4s", "delivered_packets": 0, "delay_p50_ms": None, "delay_p99_ms": None}
    # One packet may be in transmission at the end.
    assert classic["delivered_packets"] - link["delivered_packets"] in (0, 1)
    assert 1 < classic["delay_p50_ms"] <= classic["delay_p99_ms"] < 100
    table = results.columns("links")
    assert table["classic_queue_delay_p99_ms"][0] == pytest.approx(classic["delay_p99_ms"])
    assert table["marked_ect0_packets"][0] > 0
    assert math.isnan(table["l4s_queue_delay_p99_ms"][0])


def test_readers_are_shown_the_marks_of_links_that_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = _document({"type": "dualpi2"}, {"scheme": "cubic", "ecn": True}, {"scheme": "prague"})
    results = ccarena.run(document, seeds=2)
    counted = results.columns("links")
    head, ((name, *cells),) = mark_table(results.runs) or ([], [[""]])
    shown = dict(zip(head[1:], (float(cell.partition(" ±")[0].replace(",", "")) for cell in cells), strict=True))
    assert name == "link0" and len(shown) == 7
    assert shown["Marked, with ECT(1) (packets)"] == round(float(counted["marked_ect1_packets"].mean())) > 0
    assert shown["p99 delay of the L4S queue (ms)"] < shown["p50 delay of the classic queue (ms)"]
    assert interval_note(results.runs).startswith("Intervals are over 2 runs, so few that they are wide")
    assert interval_note(results.runs[:1]) == ""
    file = tmp_path / "l4s.yaml"
    file.write_text(json.dumps(document))
    assert cli.main(["eval", "--scenario", str(file), "--out", str(tmp_path / "out"), "--seeds", "2"]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "out" / "page.html").read_text()
    assert "links that mark" in printed and printed.count("Intervals are over 2 runs, ") == 1
    assert "p99 delay of the classic queue" in page and "Intervals are over 2 runs, " in page
    # A queue without two parts has no delays of them, and links that mark nothing have no row.
    one_queue = mark_table(
        ccarena.run(_document({"type": "codel", "ecn": True}, {"scheme": "cubic", "ecn": True})).runs
    )
    assert one_queue is not None and len(one_queue[0]) == 4
    assert mark_table(ccarena.run(_document({"type": "codel", "ecn": True}, {"scheme": "cubic"})).runs) is None


def test_the_base_probability_holds_the_target_delay() -> None:
    queue = {"type": "dualpi2", "target_ms": 20}
    link = _link({**_document(queue, *[{"scheme": "reno", "ecn": True}] * 4), "duration_s": 30})
    assert link["queues"][1]["delay_p50_ms"] == pytest.approx(20, rel=0.35)


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"type": "dualpi2", "coupling": 0.5}, r"links\[0\].queue.coupling.*1 to 255"),
        ({"type": "dualpi2", "coupling": 256}, r"links\[0\].queue.coupling.*1 to 255"),
        ({"type": "dualpi2", "classic_percent": 101}, r"links\[0\].queue.classic_percent.*0 to 100"),
        ({"type": "step", "packets": 9, "mark_bytes": 1, "mark_ms": 1}, r"queue.mark_ms.*one threshold"),
        ({"type": "fq_codel", "ce_threshold_l4s": True}, r"queue.ce_threshold_l4s.*ce_threshold_ms above 0"),
        ({"type": "step"}, "exactly one limit"),
    ],
)
def test_parameters_out_of_range_are_refused(queue: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        ccarena.run(_document(queue, {"scheme": "cubic"}))
