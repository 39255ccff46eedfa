"""`ccarena fidelity --live`: its rules, with simulated runs in the kernel's place."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: fidelity was not tested (run make)")

from ccarena import _core, cli
from ccarena.commands import fidelity as command
from ccarena.errors import ConfigError, RunnerError
from ccarena.eval.fidelity import live, live_wide, recorded
from ccarena.scenarios import backends
from ccarena.scenarios.backends import simulate


def on_time(document: Mapping[str, Any], valid: bool = True) -> dict[str, Any]:
    """A simulated run that says of itself what one in real time does."""
    return {**simulate(document), "machine": {"valid": valid, "lateness": {"p99_ms": 0.1 if valid else 7.0}}}


def setup(scheme: str, **fields: Any) -> live.Setup:
    [found] = [s for s in live.setups(duration_s=3.0) if s.name == f"12 Mbit/s 40 ms 1 BDP {scheme}"]
    document = copy.deepcopy(dict(found.document))
    document["flows"][0] |= fields
    return live.Setup(found.name, document)


def test_the_usual_setups_are_valid_and_all_different() -> None:
    chosen = live.setups()
    assert len({s.name for s in chosen}) == len(chosen) == (len(live.GRID) + 1) * (len(live.SCHEMES) + 1)
    for one in chosen:
        _core.validate_scenario(json.dumps(one.document))
        assert live.duration_s(one) == 15.0


def test_the_wider_setups_are_valid_and_all_different() -> None:
    chosen = live_wide.setups(2.0)
    assert len({s.name for s in chosen}) == len(chosen) > 25
    for one in chosen:
        result = simulate(live.variant(one.document, 0))
        assert live.figures(result)["throughput_mbps"] > 1, one.name


def test_a_simulator_is_near_itself() -> None:
    seen: list[tuple[int, int]] = []
    chosen = [setup("cubic"), setup("acct")]
    progress = lambda done, total: seen.append((done, total))  # noqa: E731
    result = live.live(chosen, 3, 2, progress=progress, run=lambda document: (on_time(document), 0))
    assert seen == [(k, 10) for k in range(1, 11)]
    cubic, acct = result["cases"]
    assert cubic["within"] and acct["within"] and result["within_fraction"] == 1 and result["invalid"] == []
    assert cubic["throughput_rel_error"] < 0.01 and "policy" not in cubic
    both = acct["policy"]
    assert both["within"] and both["reward_gap"] < 0.05 and both["delay_ms"]["simulated"] > 0
    assert result["backend"] == "kernel" and result["kernel"]


def test_a_gap_is_found() -> None:
    def gentler(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
        changed = copy.deepcopy(dict(document))
        changed["flows"][0]["policy"] = {"constant": 0}
        return on_time(changed), 0

    [case] = live.live([setup("acct", policy={"constant": 14})], 1, 1, run=gentler)["cases"]
    both = case["policy"]
    assert not both["within"] and both["reward"]["kernel"] > both["reward"]["simulated"]
    assert both["delay_gap"] > live.POLICY_REL


def test_late_runs_are_repeated_and_then_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    valid = iter([False, False, True, False, False, False])
    monkeypatch.setattr(backends, "execute", lambda document, backend: on_time(document, next(valid)))
    result = live.live([setup("cubic"), setup("reno")], 1, 1)
    assert [case["name"] for case in result["cases"]] == [setup("cubic").name]
    assert result["invalid"] == [setup("reno").name] and result["late_runs"] == 5
    shown = "\n".join(command.summary(result))
    assert "5 runs in which the emulator was late" in shown
    assert f"INVALID, because the emulator was late in every attempt: {setup('reno').name}" in shown


def test_figures_are_exact() -> None:
    document = live.variant(setup("cubic").document, 0)
    result = simulate(document)
    run = live.figures(result)
    log = result["links"][0]["log"]
    assert run["throughput_mbps"] == pytest.approx(log["bytes"].sum() * 8e-6 / 3.0)
    waited = (log["departure_ns"] - log["arrival_ns"] - log["serialisation_ns"]) / 1e6
    assert run["qdelay_ms"]["mean"] == pytest.approx(waited.mean())
    assert run["per_second"].shape == (3, 2)
    assert np.mean(run["per_second"][:, 0]) == pytest.approx(run["throughput_mbps"], rel=1e-3)


def test_variants_differ_in_seed_and_in_where_a_trace_begins() -> None:
    trace = {"type": "trace", "file": "x", "offset_ms": 5}
    document = {
        "seed": 3,
        "links": [{"service": trace}, {"service": {"type": "constant", "rate_mbps": 1}}],
        "flows": [],
    }
    before = copy.deepcopy(document)
    varied = live.variant(document, 2)
    assert (varied["seed"], varied["links"][0]["service"]["offset_ms"]) == (5, 5 + 2 * recorded.OFFSET_STEP_MS)
    assert varied["links"][1] == before["links"][1] and document == before
    assert varied["record"] == {"packets": True, "reports": True}


def test_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(backends, "execute", lambda document, backend: on_time(document))
    out = tmp_path / "out.json"
    words = ["fidelity", "--live", "--filter", "12 acct", "--duration-s", "2", "--offsets", "2", "--repeats", "1"]
    assert cli.main([*words, "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    assert [case["name"] for case in written["cases"]] == ["12 Mbit/s 40 ms 1 BDP acct"]
    assert "reward" in capsys.readouterr().out
    scenario = tmp_path / "one.yaml"
    scenario.write_text("{duration_s: 1, links: [{service: {type: constant, rate_mbps: 6}}], flows: [{scheme: reno}]}")
    assert cli.main(["fidelity", "--live", str(scenario), "--offsets", "1", "--repeats", "1"]) == 0
    assert f"{scenario}" in capsys.readouterr().out
    assert cli.main(["fidelity", "--live", "--filter", "dial-up"]) == ConfigError.exit_code
    assert cli.main(["fidelity", "--live", "--repeats", "0"]) == ConfigError.exit_code
    assert cli.main(["fidelity"]) == ConfigError.exit_code


def test_a_run_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(document: Mapping[str, Any], backend: str) -> dict[str, Any]:
        raise RunnerError("died")

    monkeypatch.setattr(backends, "execute", fails)
    with pytest.raises(RunnerError, match="died"):
        live.live([setup("cubic")], 1, 1)
