"""Links, evaluation, verdict, report and command, over a stand-in for the simulator."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import lindley
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena import backends
from ccarena.errors import ConfigError, MissingDependencyError, PolicyError, ScenarioError
from ccarena.eval.heldout import command, evaluate, expectations, links, summary
from ccarena.eval.heldout.evaluation import ACCT, ORACLE, Evaluation
from ccarena.eval.heldout.page import write_page
from ccarena.eval.recorded import trace_start_ms
from ccarena.files import plain
from ccarena.run_folder import read_progress
from ccarena.scenario import read_scenario

LOADS = {"cubic": (0.97, 80), "bbr": (0.9, 20), "reno": (0.95, 40), "acct": (0.5, 0)}


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """No simulator, any file is a policy, there is one recorded trace; gives the documents that were run."""
    documents: list[dict[str, Any]] = []

    def fake(document: dict[str, Any]) -> dict[str, Any]:
        documents.append(document)
        load, standing = LOADS[document["flows"][0]["scheme"]]
        return lindley.simulate(document, load, standing, seed=document["seed"])

    class Trained:
        seed = 7
        versions: dict[str, str] = {}  # noqa: RUF012
        training: dict[str, Any] = {}  # noqa: RUF012

    monkeypatch.setattr(backends, "simulate", fake)
    monkeypatch.setattr("ccarena.policies.artifact.load", lambda path: Trained)
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "Verizon-LTE-short.down").write_text("".join(f"{ms}\n" for ms in range(2, 9000, 2)))
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return documents


@pytest.fixture
def evaluated(simulated: list[dict[str, Any]], tmp_path: Path) -> Evaluation:
    return evaluate.evaluate(tmp_path / "policy.safetensors", seeds=1, duration_s=1.0)


def test_the_links_cover_the_stated_ranges_and_repeat(simulated: list[dict[str, Any]]) -> None:
    constant = links.build(["constant"], seeds=4)
    rates = [link.service["rate_mbps"] for link in constant]
    assert (min(rates), max(rates)) == links.RATE_MBPS
    assert all(links.RTT_MS[0] <= link.base_rtt_ms <= links.RTT_MS[1] for link in constant)
    steps = links.build(["steps"], seeds=2)
    assert [step["at_s"] for step in steps[0].service["steps"]] == [4.0 * k for k in range(15)]
    assert all(5 <= step["rate_mbps"] <= 100 for link in steps for step in link.service["steps"])
    assert len({json.dumps(link.service) for link in steps}) == len(steps)
    cellular = links.build(["cellular"], seeds=2, duration_s=1.0)
    assert [link.buffer_packets for link in cellular] == [100, 1000, 100, 1000]
    assert all(link.base_rtt_ms == 40 and link.service["type"] == "trace" for link in cellular)
    every = links.build(list(links.LINK_SETS), 2)
    assert every == links.build(list(links.LINK_SETS), 2)
    assert every[: len(constant) // 2] == constant[: len(constant) // 2]


def test_every_scheme_gets_the_same_link(simulated: list[dict[str, Any]], evaluated: Evaluation) -> None:
    by_link: dict[str, set[str]] = {}
    for document in simulated:
        link = {key: document[key] for key in ("links", "duration_s", "seed")}
        by_link.setdefault(json.dumps(link), set()).add(
            json.dumps(document["flows"][0].get("policy")) + document["flows"][0]["scheme"]
        )
    assert {len(schemes) for schemes in by_link.values()} == {6}
    assert all(document["links"][0]["agent"] is True for document in simulated)


def test_without_recorded_traces_the_links_are_synthetic_and_say_so(
    simulated: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path / "nowhere"))
    result = evaluate.evaluate(tmp_path / "p", ["cellular"], seeds=1, duration_s=1.0)
    assert {row["synthetic"] for row in result.rows} == {True}
    assert "NO RECORDED CELLULAR TRACE" in result.warnings[0]
    verdict = expectations.judge(result)
    assert any("synthetic" in note for note in verdict.notes)


def test_opportunities_are_those_of_the_run(simulated: list[dict[str, Any]]) -> None:
    link = links.build(["cellular"], 1, duration_s=1.0)[0]
    moved = links.Link(**{**vars(link), "service": {**link.service, "offset_ms": 8500}})
    times = links.trace_opportunities_ms(moved)
    assert times is not None
    # 250 of the first lap, which ends at 8998, and then the next lap's, shifted by that.
    assert times.tolist() == [ms - 8500 for ms in range(8500, 9000, 2)] + [498 + ms for ms in range(2, 503, 2)]
    assert links.trace_opportunities_ms(links.build(["constant"], 1)[0]) is None


@pytest.mark.parametrize(
    ("link_sets", "seeds", "duration_s", "message"),
    [
        (["constnt"], 1, 1.0, 'unknown link set "constnt"; did you mean "constant"'),
        (["constant"], 0, 1.0, "seeds = 0"),
        (["constant"], 1, -1.0, "duration_s = -1.0"),
        (["constant"], 1, math.nan, "duration_s = nan"),
    ],
)
def test_impossible_link_sets_are_refused(link_sets: list[str], seeds: int, duration_s: float, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        links.build(link_sets, seeds, duration_s)


def test_the_same_on_any_number_of_threads(
    simulated: list[dict[str, Any]], evaluated: Evaluation, tmp_path: Path
) -> None:
    again = evaluate.evaluate(tmp_path / "policy.safetensors", seeds=1, duration_s=1.0, threads=5)
    assert plain(vars(again)) == plain(vars(evaluated))


def test_an_evaluation_survives_its_file(evaluated: Evaluation, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    evaluated.save(path)
    assert vars(Evaluation.load(path)) == vars(evaluated)
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]
    path.write_text("[]")
    with pytest.raises(ConfigError, match="not an evaluation"):
        Evaluation.load(path)
    with pytest.raises(ConfigError, match="cannot read"):
        Evaluation.load(tmp_path / "absent.json")


def test_rows_have_every_scheme_and_the_oracle(evaluated: Evaluation) -> None:
    assert evaluated.schemes() == [ACCT, "cubic", "bbr", "reno", "acct α=1", "acct α=100", ORACLE]
    assert evaluated.groups() == ["constant", "steps", "cellular, 100 packets", "cellular, 1000 packets"]
    assert [series["group"] for series in evaluated.series] == evaluated.groups()
    gains = {row["gain"] for row in evaluated.of("cellular, 100 packets", ORACLE)}
    assert gains == set(evaluate.ORACLE_GAINS)
    counts = np.array(evaluated.actions["constant"][ACCT])
    assert counts.shape == (4, 15)
    decisions = sum(row["decisions"] - 1 for row in evaluated.of("constant", ACCT))
    assert counts.sum() == decisions


def row(scheme: str, **figures: Any) -> dict[str, Any]:
    base = {"link_set": "constant", "group": "constant", "link": "a", "seed": 0, "scheme": scheme}
    return {**base, "share_within_budget": 1.0, "utilisation": 1.0, **figures}


def test_the_constant_expectation_needs_both_delay_and_utilisation() -> None:
    def holds(share: float, use: float) -> bool:
        rows = [row(ACCT, share_within_budget=share, utilisation=use), row("cubic"), row(ORACLE, gain=1.0)]
        return expectations.judge(Evaluation(rows=rows)).learned

    assert holds(0.99, 0.95)
    assert not holds(0.989, 0.99)
    assert not holds(1.0, 0.949)
    assert not holds(math.nan, 1.0)


def cellular(scheme: str, link: str, delay: float | None, rate: float, **more: Any) -> dict[str, Any]:
    figures = {"queueing_delay_p95_ms": delay, "throughput_mbps": rate, "utilisation": rate / 10}
    return {"link_set": "cellular", "group": "cellular", "link": link, "seed": 0, "scheme": scheme, **figures, **more}


def test_the_cellular_expectation_is_about_the_median_trace() -> None:
    rows = [cellular("cubic", name, 100.0, 10.0) for name in "abc"]
    rows += [cellular(ORACLE, name, d, r, gain=g) for name in "abc" for g, d, r in ((1.0, 10.0, 8.0), (1.5, 30.0, 9.0))]
    rows += [cellular(ACCT, "a", 40.0, 9.0), cellular(ACCT, "b", 50.0, 8.5), cellular(ACCT, "c", None, 0.0)]
    verdict = expectations.judge(Evaluation(rows=rows))
    assert verdict.learned, verdict.line
    (item,) = verdict.expectations
    assert item.values == {"delay_ratio": 0.5, "throughput_ratio": 0.85}
    # The oracle's first gain is too slow for the target; its second gives what physics leaves.
    assert item.oracle == "p95 delay 0.30 of CUBIC's, throughput 90.0 % of CUBIC's"
    rows[-2] = cellular(ACCT, "b", 51.0, 8.5)
    assert not expectations.judge(Evaluation(rows=rows)).learned


def test_a_trace_on_which_cubic_delivered_nothing_compares_nobody() -> None:
    rows = [cellular("cubic", "a", 100.0, 10.0), cellular("cubic", "dead", None, 0.0)]
    rows += [cellular(ORACLE, name, 10.0, 9.0, gain=1.0) for name in ("a", "dead")]
    rows += [cellular(ACCT, "a", 40.0, 9.0), cellular(ACCT, "dead", None, 0.0)]
    (item,) = expectations.judge(Evaluation(rows=rows)).expectations
    assert item.values == {"delay_ratio": 0.4, "throughput_ratio": 0.9}


def test_runs_do_not_start_in_an_outage(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("".join(f"{ms}\n" for ms in [*range(1, 2000), *range(98_000, 100_001)]))
    offsets = [trace_start_ms(path, 5.0, seed, 0) for seed in range(1, 20)]
    assert all(offset < 2000 or offset > 93_000 for offset in offsets)


def test_faults_of_the_policy() -> None:
    rows = [row(ACCT, utilisation=0.96), row("cubic"), row(ORACLE, gain=1.0), row("acct α=1", utilisation=0.97)]
    counts = np.zeros((4, 15), int)
    counts[1, 3] = 1000
    verdict = expectations.judge(Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}}))
    assert any("constant: α = 4 in 100.0 %" in fault for fault in verdict.faults)
    assert any("learning brought nothing: ACCT with α = 1 always" in fault for fault in verdict.faults)
    assert not verdict.learned and verdict.line.startswith("verdict: not learned: ")


def test_a_certain_policy_that_tells_zones_apart_is_no_constant() -> None:
    rows = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    counts = np.zeros((4, 15), int)
    counts[1, 0], counts[0, 14] = 10_000, 60
    certain = [{"reward_mean": float(k), "entropy": 0.001} for k in range(50)]
    assert expectations.judge(Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}}), certain).learned
    counts[0, 14] = 5  # by chance
    faults = expectations.judge(Evaluation(rows=rows, actions={"constant": {ACCT: counts.tolist()}}), certain).faults
    assert len(faults) == 2 and "is constant" in faults[0] and "collapsed" in faults[1]


def test_a_constant_alpha_that_is_better_somewhere_is_a_note() -> None:
    rows = [row(ACCT, utilisation=0.96), row("cubic"), row(ORACLE, gain=1.0), row("acct α=1", utilisation=0.97)]
    steps = {"link_set": "steps", "group": "steps", "share_within_5_packets": 1.0}
    rows += [{**one, **steps} for one in rows]
    rows[-1]["utilisation"] = 0.9
    verdict = expectations.judge(Evaluation(rows=rows))
    assert verdict.learned and verdict.notes == ["constant: ACCT with α = 1 always does better than the policy"]


def test_faults_of_the_training() -> None:
    rows = [row(ACCT), row("cubic"), row(ORACLE, gain=1.0)]
    healthy = [{"reward_mean": float(k), "entropy": 1.0} for k in range(50)]
    assert expectations.judge(Evaluation(rows=rows), healthy).learned
    falling = [{"reward_mean": -float(k), "entropy": 0.001} for k in range(50)]
    faults = expectations.judge(Evaluation(rows=rows), falling).faults
    assert len(faults) == 2 and "collapsed" in faults[0] and "did not rise" in faults[1]


@given(st.floats(0, 1))
def test_a_share_is_never_rounded_up(share: float) -> None:
    assert float(expectations._percent(share).split()[0]) / 100 <= share + 1e-12


def test_no_expectation_no_verdict() -> None:
    assert expectations.judge(Evaluation()).line == "verdict: none, no expectation was tested"


def test_the_report_is_one_page_without_network(evaluated: Evaluation, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'ccarena[report]'")
    progress = [
        {"decisions": 100 * k, "reward_mean": k, "entropy": 2.0, "zone_green": 0.5, "zone_yellow": 0.5}
        for k in range(20)
    ]
    verdict = expectations.judge(evaluated, progress)
    path = tmp_path / "report.html"
    write_page(
        path, evaluated, verdict, name="a <b> & c", progress=progress, config="seed: 1", repeat=["python train.py"]
    )
    page = path.read_text("utf-8")
    assert "<title>ccarena: a &lt;b&gt; &amp; c</title>" in page
    assert page.count("<script") - page.count("</script>") == 0
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["']https?:""", body)
    assert body.count('class="figure"') == 3 + len(evaluated.series) + 2
    assert all(text in body for text in ("Expectations", "python train.py", "seed: 1", "one RTT late", "Sprout"))


def test_progress_leaves_out_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert read_progress(path) == []
    path.write_text('{"decisions": 1}\n{"decisions": 2}\n{"deci')
    assert [line["decisions"] for line in read_progress(path)] == [1, 2]
    path.write_text('{"decisions": 1}\nnot json\n{"decisions": 2}\n')
    with pytest.raises(ConfigError, match=r"progress\.jsonl:2"):
        read_progress(path)


def run_command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return command.run(parser.parse_args(["eval", *words]))


def test_command_evaluates_a_run(
    simulated: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'ccarena[report]'")
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "policy.safetensors").write_bytes(b"")
    assert run_command("mine", "--link-sets", "constant", "--seeds", "1", "--duration-s", "1") == 0
    assert sorted(file.name for file in (folder / "eval").iterdir()) == [
        "evaluation.json",
        "report.html",
        "results.json",
    ]
    assert capsys.readouterr().out.strip().splitlines()[-1].startswith("verdict: ")
    out = tmp_path / "elsewhere"
    words = ("--link-sets", "constant", "--seeds", "1", "--duration-s", "1", "--out", str(out), "--json")
    assert run_command(str(folder), *words) == 0
    digest = json.loads(capsys.readouterr().out)
    assert digest == json.loads((out / "evaluation.json").read_text())
    assert set(digest["means"]["constant"]) >= {ACCT, "cubic", ORACLE}


def test_command_runs_a_scenario(
    simulated: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(
        "duration_s: 1\nseed: 3\nlinks: [{service: {type: constant, rate_mbps: 24}, delay_ms: 10}]\n"
        "flows: [{scheme: reno, requirement: {min_mbps: 10, max_mbps: 20}}]\n"
    )
    assert run_command("--scenario", str(path)) == 0
    assert "reno" in capsys.readouterr().out
    assert run_command("--scenario", str(path), "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["satisfaction"] == pytest.approx(shown["goodput_mbps"] / 10, rel=1e-4)
    assert simulated[-1]["record"]["packets"] is True


def test_without_the_simulator_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccarena._core", None)
    with pytest.raises(MissingDependencyError, match="native extension"):
        backends.simulate({})


def test_a_missing_policy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError, match="no such policy or run"):
        run_command("absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PolicyError, match="has no policy"):
        run_command("empty")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(PolicyError, match="junk"):
        run_command("junk", "--link-sets", "constant")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"links: [", r"one\.yaml:\d+: not YAML"),
        (b"", r"found nothing"),
        (b"- 1\n", r"found list"),
        (b"\xff\xfe\x00", r"not a text file"),
    ],
)
def test_a_broken_scenario_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "one.yaml"
    path.write_bytes(text)
    with pytest.raises(ScenarioError, match=message):
        read_scenario(path)
    with pytest.raises(ScenarioError, match="cannot read"):
        read_scenario(tmp_path / "absent.yaml")


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
    result = evaluate.evaluate(policy, seeds=1, duration_s=1.0, threads=1, backend="kernel")
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
    assert len(cellular) == 2 and not any(e.holds for e in cellular)
    _, table = summary.summary_table(result)
    assert not [row for row in table if row[:2] == ["cellular, 100 packets", "CUBIC"]]
    write_page(tmp_path / "report.html", result, verdict, name="kernel")
    with pytest.raises(ConfigError, match='did you mean "kernel"'):
        evaluate.evaluate(None, seeds=1, backend="kernle")
