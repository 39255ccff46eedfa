"""The evaluation, over a stand-in for the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena.core.plain_data import plain
from ccarena.errors import ConfigError
from ccarena.eval.heldout import evaluate, expectations, summary
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.page import write_page
from ccarena.scenarios import backends
from ccarena.scenarios.entrants import of_file

ACCT = "acct"


def test_every_scheme_gets_the_same_link(simulated: list[dict[str, Any]], evaluated: Evaluation) -> None:
    by_link: dict[str, set[str]] = {}
    for document in simulated:
        link = {key: document[key] for key in ("links", "duration_s", "seed")}
        by_link.setdefault(json.dumps(link), set()).add(
            json.dumps(document["flows"][0].get("policy")) + document["flows"][0]["scheme"]
        )
    assert {len(schemes) for schemes in by_link.values()} == {7}
    assert all(document["links"][0]["router"] is True for document in simulated)


def test_without_recorded_traces_the_links_are_synthetic_and_say_so(
    simulated: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path / "nowhere"))
    result = evaluate.evaluate([of_file(tmp_path / "p")], ["cellular"], seeds=1, duration_s=1.0)
    assert {row["synthetic"] for row in result.rows} == {True}
    assert result.warnings[0].startswith("cellular links are generated")
    verdict = expectations.judge(result)
    assert {(e.group, e.state) for e in verdict.expectations if e.group.startswith("cellular")} == {
        ("cellular, 100 packets", "not tested"),
        ("cellular, 1000 packets", "not tested"),
    }
    assert not verdict.learned and verdict.learned.state == "neutral"
    assert verdict.as_dict()["learned"]["answer"] == "not tested"


def test_the_same_on_any_number_of_threads(
    simulated: list[dict[str, Any]], evaluated: Evaluation, tmp_path: Path
) -> None:
    again = evaluate.evaluate([of_file(tmp_path / "policy.safetensors")], seeds=1, duration_s=1.0, threads=5)
    assert plain(vars(again)) == plain(vars(evaluated))


def test_rows_have_every_scheme_and_the_oracle(evaluated: Evaluation) -> None:
    assert evaluated.schemes() == [ACCT, "cubic", "bbr", "reno", "acct α=1", "acct α=100", BEST_WINDOW, ORACLE]
    assert evaluated.groups() == ["constant", "steps", "cellular, 100 packets", "cellular, 1000 packets"]
    of_first_seed = {(row["group"], row["link"]) for row in evaluated.rows if row["seed"] == 0}
    assert {(series["group"], series["link"]) for series in evaluated.series} == of_first_seed
    gains = {row["gain"] for row in evaluated.of("cellular, 100 packets", ORACLE)}
    assert gains == set(evaluate.ORACLE_GAINS)
    counts = np.array(evaluated.actions["constant"][ACCT])
    assert counts.shape == (4, 15)
    decisions = sum(row["decisions"] - 1 for row in evaluated.of("constant", ACCT))
    assert counts.sum() == decisions


def test_late_runs_are_marked_and_in_no_figure(
    simulated: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On the kernel: every second run of CUBIC comes late, and all of them on the cellular links."""
    ran: list[str] = []

    def in_real_time(document: dict[str, Any]) -> dict[str, Any]:
        scheme, service = document["flows"][0]["scheme"], document["links"][0]["service"]["type"]
        ran.append(scheme)
        late = scheme == "cubic" and (service == "trace" or ran.count("cubic") % 2 == 0)
        machine = {"valid": not late, "lateness": {"p99_ms": 9.0 if late else 0.05}}
        return {**backends.simulate(document), "machine": machine}

    monkeypatch.setattr("ccarena.cc_kernel_bridge.run.run_scenario", in_real_time)
    policy = tmp_path / "policy.safetensors"
    result = evaluate.evaluate([of_file(policy)], seeds=1, duration_s=1.0, threads=1, backend="kernel")
    assert result.meta["backend"] == "kernel" and result.meta["kernel"]
    late = [row for row in result.rows if not row.get("valid", True)]
    assert {row["scheme"] for row in late} == {"cubic"} and {row["lateness_p99_ms"] for row in late} == {9.0}
    of_cubic = [row for row in result.rows if row["scheme"] == "cubic"]
    assert len(result.of("constant", "cubic")) == sum(row["valid"] for row in of_cubic if row["group"] == "constant")
    assert not result.of("cellular, 100 packets", "cubic") and len(late) < len(of_cubic)
    assert any(f"{len(late)} of {len(ran)} runs are invalid" in warning for warning in result.warnings)
    assert "cubic" not in result.queue_ns["cellular, 100 packets"] and "cubic" in result.queue_ns["constant"]
    verdict = expectations.judge(result)
    cellular = [e for e in verdict.expectations if e.group.startswith("cellular")]
    assert [e.state for e in cellular] == ["not tested", "not tested"]
    _, table = summary.summary_table(result)
    assert not [row for row in table if row[:2] == ["cellular, 100 packets", "CUBIC"]]
    write_page(tmp_path / "page.html", result, verdict, name="kernel")
    with pytest.raises(ConfigError, match='did you mean "kernel"'):
        evaluate.evaluate(seeds=1, backend="kernle")
