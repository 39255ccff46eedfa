"""The evaluation over the real simulator: one short link, every scheme."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena.eval.heldout import evaluate as evaluation
from ccarena.eval.heldout import links
from ccarena.eval.heldout.evaluate import evaluate
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.link import PACKET_BYTES, scenario
from ccarena.eval.measure import table
from ccarena.scenarios import one_run
from ccarena.scenarios.entrants import Entrant, of_file, parse
from ccarena.scenarios.one_run import Run

ACCT = "acct"
pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: evaluation on it not tested (run make)")


@pytest.fixture
def one_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """The link set `constant` is one link of 24 Mbit/s and 40 ms."""
    link = links.Link("constant", "24 Mbit/s", 0, 3.0, 20.0, 80, {"type": "constant", "rate_mbps": 24.0}, "constant")
    monkeypatch.setitem(links.LINK_SETS, "constant", (lambda seed, duration_s: [link], 3.0))


def test_every_scheme_on_one_link(one_link: None, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: no policy to evaluate (ccarena[train])")
    from tests.policies.acct import RECORD, network, to_artifact

    policy = tmp_path / "policy.safetensors"
    to_artifact(network(), RECORD.model_dump(mode="json"), 3).save(policy)
    result = evaluate([of_file(policy)], ["constant"], seeds=1, threads=2)
    assert result.schemes() == [ACCT, "cubic", "bbr", "reno", "acct α=1", "acct α=100", BEST_WINDOW, ORACLE]
    for row in result.rows:
        assert row["capacity_mbps"] == pytest.approx(24, rel=1e-6)
        assert 0 < row["utilisation"] <= 1 and row["queueing_delay_p95_ms"] >= 0
    by_scheme = {row["scheme"]: row for row in result.rows}
    # The buffer of 80 packets is 40 ms: CUBIC fills it, and knowing capacity needs none of it.
    assert 20 < by_scheme["cubic"]["queueing_delay_p95_ms"] <= 41
    assert by_scheme[ORACLE]["queueing_delay_p95_ms"] < 1
    # One bandwidth-delay product fills the link without a queue.
    assert by_scheme[BEST_WINDOW]["window"] == 80 and by_scheme[BEST_WINDOW]["queueing_delay_p95_ms"] < 3
    assert by_scheme[ACCT]["decisions"] > 30 and sum(by_scheme[ACCT]["zone_shares"]) == pytest.approx(1, abs=1e-5)
    (series,) = result.series
    assert len(series["time_s"]) == 30 and set(series["schemes"]) == set(result.schemes())

    result.save(tmp_path / "results.json")
    assert json.dumps(Evaluation.load(tmp_path / "results.json").rows) == json.dumps(result.rows)
    assert evaluate([of_file(policy)], ["constant"], seeds=1, threads=1).rows == result.rows


def test_a_continuous_action_is_counted_to_the_nearest_value() -> None:
    result = evaluate([parse("hyvar")], ["slides"], seeds=1, duration_s=3.0)
    counts = np.asarray(result.actions["slides"]["hyvar"])
    assert result.meta["continuous"] and counts.shape == (5, len(result.meta["action_values"]))
    assert (result.meta["action_values"][0], result.meta["action_values"][-1]) == (-2.0, 2.0)
    (row,) = result.of("slides", "hyvar")
    assert counts.sum() == row["decisions"] - 1, "the last one is in force in no interval"


@pytest.mark.parametrize(("rate_mbps", "delay_ms"), [(24.0, 20.0), (5.0, 5.0)])
def test_the_best_window_is_the_best_of_all(rate_mbps: float, delay_ms: float, monkeypatch: pytest.MonkeyPatch) -> None:
    service = {"type": "constant", "rate_mbps": rate_mbps}
    link = links.Link("constant", "one", 0, 3.0, delay_ms, 80, service, "constant")
    reached: dict[int, float] = {}

    def perform(document: dict[str, Any], backend: str) -> Run:
        run = one_run.perform(document, backend)
        figures = table.row(run.measured().flows[0], ["throughput_mbps", "signal_delay_p95_ms"])
        window = document["flows"][0]["params"]["window"]
        reached[window] = figures["throughput_mbps"] / (figures["signal_delay_p95_ms"] + delay_ms)
        return run

    monkeypatch.setattr(evaluation, "perform", perform)
    window, _ = evaluation.best_window(link, np.array([rate_mbps]))
    ran, bdp = set(reached), rate_mbps * 2 * delay_ms * 125 / PACKET_BYTES
    every = sorted({max(2, round(share * bdp)) for share in evaluation.WINDOWS_BDP})
    assert len(ran) < len(every)
    for each in set(every) - ran:
        entrant = Entrant("fixed", {"scheme": "fixed", "params": {"window": each}})
        perform(scenario(link, entrant), "sim")
    assert window == max(every, key=lambda each: reached[each])
