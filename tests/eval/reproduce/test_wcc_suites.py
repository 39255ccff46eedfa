"""WCC's suites: each loads, expands and gives sane rows in its quick form."""

from __future__ import annotations

import pytest

from ccarena.eval.reproduce import runs, suite

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not tested (run make)")

SIMULATED = ["ack", "buffer", "delay", "dynamic", "flows", "motivation", "round-trip", "testbed"]


def first_per_scheme(name: str) -> list[runs.Run]:
    """One run of the quick form for each scheme that the suite compares."""
    expanded = runs.expand(suite.load(f"wcc/{name}"), quick=True, seeds=1)
    return list({run.cell.get("scheme", ""): run for run in reversed(expanded)}.values())


@pytest.mark.parametrize("name", SIMULATED)
def test_quick_runs_share_the_link(name: str) -> None:
    for run in first_per_scheme(name):
        row = runs.perform(run)
        flows = row["flows"]
        assert len(flows) >= 2 and sum(flow["sent_packets"] for flow in flows) > 1000, run.title
        assert 2000 < row["run"]["total_mbps"] <= 10_001, run.title


def test_fluid_models_reach_the_limits_of_the_observations() -> None:
    expanded = runs.expand(suite.load("wcc/fluid"), quick=True)
    rows = {(run.cell["model"], run.cell["w_bar"]): runs.perform(run) for run in expanded}
    for model in ("ai", "md"):
        at_threshold, above = rows[model, "threshold"]["run"], rows[model, "10"]["run"]
        assert at_threshold["from_roots"] == pytest.approx(0, abs=1e-9) and at_threshold["swing"] == 0
        assert above["swing"] > 0.1
    assert rows["ai", "10"]["run"]["ratio"] > 2**0.5 > rows["md", "10"]["run"]["ratio"]
    curve = rows["ai", "10"]["curves"]["weight 2"]
    assert len(curve["x"]) == len(curve["y"]) > 100 and min(curve["y"]) > 0


def test_surfaces_over_the_weights_are_symmetric() -> None:
    expanded = runs.expand(suite.load("wcc/stability"), quick=True)
    rows = {(run.cell["quantity"], run.cell["model"]): runs.perform(run) for run in expanded}
    for model in ("ai", "md"):
        assert rows["radius", model]["run"]["most"] < 1
        ratios = rows["ratio", model]["run"]
        assert ratios["least"] * ratios["most"] == pytest.approx(1, rel=1e-3) and ratios["most"] > 1
