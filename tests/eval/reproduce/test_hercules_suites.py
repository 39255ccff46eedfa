"""Hercules' suites: all of them run, shortened, and measure each of their claims."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.eval.reproduce import runs, suite
from ccarena.eval.reproduce.analytic_hercules import requirement_penalty

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")

SHORT = {"duration_s": 6, "arrival_s": 2, "dwell_s": 4}
"""Constants of quick runs, shorter still."""


@pytest.fixture
def shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    load = suite.load

    def shorter(*named: Any) -> suite.Loaded:
        loaded = load(*named)
        quick = loaded.suite.quick
        constants = {**quick.constants, **{key: SHORT[key] for key in SHORT if key in loaded.suite.constants}}
        changed = loaded.suite.model_copy(update={"quick": quick.model_copy(update={"constants": constants})})
        return dataclasses.replace(loaded, suite=changed)

    monkeypatch.setattr(suite, "load", shorter)
    # Starting a browser for each figure takes seconds.


@pytest.mark.usefixtures("shortened")
def test_every_suite_runs_and_measures_each_claim(tmp_path: Path) -> None:
    words = ["reproduce", "hercules", "--quick", "--seeds", "1", "--jobs", "2"]
    assert cli.main([*words, "--out", str(tmp_path)]) == 0
    folders = sorted(tmp_path.glob("hercules/*"))
    assert [f"hercules/{folder.name}" for folder in folders] == suite.find(["hercules"]) and len(folders) >= 11
    for folder in folders:
        digest = json.loads((folder / "claims.json").read_text("utf-8"))
        assert digest["runs"] > 0 and not digest["failed"]
        # In seconds nobody settles beside a full queue, or after the capacity falls.
        late = ("Duration beside ", "Where nobody starts, ")
        judged = [claim for claim in digest["claims"] if not claim["claim"].startswith(late)]
        assert [claim for claim in judged if claim["state"] == "not tested"] == []


def flows_of(run: runs.Run) -> list[dict[str, Any]]:
    """The flows of a run that are not the variant of hercules/loss that has the code's constants."""
    return [] if run.cell.get("scheme") == "hercules-code" else run.spec["document"]["flows"]


def test_suites_share_the_conditions_that_they_say() -> None:
    """Packets and acknowledgements of QUIC, one column of constants, one lateness where it is not swept."""
    for name in suite.find(["hercules"]):
        scenario = suite.load(name).suite.scenario
        if scenario is None:
            continue
        packets = {(f["mss_bytes"], f["header_bytes"], f["initial_window"]) for f in scenario["flows"]}
        assert packets == {(1225, 67, 32)}, name
        swept = name in ("hercules/jitter", "hercules/conditions")
        if name != "hercules/conditions":
            assert {f["ack_policy"]["type"] for f in scenario["flows"]} == {"quic"}, name
            expanded = runs.expand(suite.load(name), True, 1)
            by_scheme = {flow["scheme"]: flow for run in expanded for flow in flows_of(run)}
            assert by_scheme["hercules"]["params"]["loss_scaled_by_h"] == 1, name
            assert all(not flow.get("params") for scheme, flow in by_scheme.items() if scheme != "hercules"), name
        assert scenario["links"][0]["jitter_ms"] == ("${jitter_ms}" if swept else 1), name


def test_the_requirement_penalty_is_the_papers() -> None:
    row = requirement_penalty(2, [-1, 2])
    assert row["run"]["at_minimum"] == pytest.approx(0.25) and row["run"]["at_maximum"] == pytest.approx(0.75)
    xs, ys = row["curves"]["H"]["x"], row["curves"]["H"]["y"]
    assert (xs[0], xs[-1]) == (-1, 2) and ys == sorted(ys) and ys[len(ys) // 2] == pytest.approx(0.5)
