"""`ccarena.evaluate`: policies and heuristics side by side, on link sets and on traces of one's own."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: ccarena.evaluate not tested (run make)")

import ccarena
from ccarena.cli import main
from ccarena.errors import ConfigError, TraceError
from ccarena.eval.heldout import links
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE
from ccarena.eval.heldout.rules import Rule
from ccarena.policies import artifact


@pytest.fixture
def one_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The link set `constant` is one link of 24 Mbit/s and 40 ms, of two seeds with different losses."""

    def made(seed: int, duration_s: float) -> list[links.Link]:
        steps = [{"at_s": 0, "rate_mbps": 24.0 + seed}]
        service = {"type": "steps", "steps": steps}
        return [links.Link("constant", "24 Mbit/s", seed, 2.0, 20.0, 80, service, "constant")]

    monkeypatch.setitem(links.LINK_SETS, "constant", (made, 2.0))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with one pair of traces, 12 Mbit/s down and 6 Mbit/s up, and a file that is none."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "ride.down").write_text("".join(f"{ms}\n" for ms in range(1, 4001)))
    (folder / "ride.up").write_text("".join(f"{ms}\n" for ms in range(2, 4001, 2)))
    (folder / "README").write_text("What these are.\n")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Two runs of ACCT with networks of different seeds."""
    torch = pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: no policy to evaluate (ccarena[train])")
    from tests.policies.acct import RECORD, network, to_artifact

    folders = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        folder = tmp_path / "runs" / f"acct-{seed}"
        folder.mkdir(parents=True)
        to_artifact(network(), RECORD.model_dump(mode="json"), seed).save(folder / "policy.safetensors")
        folders.append(str(folder))
    return folders


def test_heuristics_alone(one_link: None, tmp_path: Path) -> None:
    outcome = ccarena.evaluate("cubic", "copa", link_sets=["constant"], seeds=2, out=tmp_path / "out")
    assert outcome.evaluation.schemes() == ["cubic", "copa", BEST_WINDOW, ORACLE] and outcome.verdicts == {}
    page = (tmp_path / "out" / "page.html").read_text()
    assert f"The {BEST_WINDOW} is the one with the most throughput over p95 signal delay, propagation included" in page
    rows, summary = outcome.columns("rows"), outcome.columns("summary")
    assert len(rows["seed"]) == 2 * 4
    values = rows["throughput_mbps"][rows["scheme"] == "cubic"]
    mine = (summary["scheme"] == "cubic") & (summary["figure"] == "throughput_mbps")
    assert summary["mean"][mine] == pytest.approx([values.mean()])
    half = 12.706 * values.std(ddof=1) / math.sqrt(2)
    assert summary["high"][mine] - summary["mean"][mine] == pytest.approx([half], rel=1e-3)
    assert {"rows.csv", "summary.csv", "results.json", "evaluation.json"} <= {
        p.name for p in (tmp_path / "out").iterdir()
    }
    assert outcome.evaluation.repeat == ["ccarena eval cubic copa --link-sets constant --seeds 2"]


def test_heuristics_with_parameters_stand_beside_those_without(one_link: None) -> None:
    outcome = ccarena.evaluate("vegas", "vegas@alpha=20,beta=40", link_sets=["slides"], seeds=1, duration_s=2.0)
    assert outcome.evaluation.schemes() == ["vegas", "vegas@alpha=20,beta=40", BEST_WINDOW, ORACLE]
    shy, bold = outcome.columns("rows")["queueing_delay_mean_ms"][:2]
    assert bold > shy
    with pytest.raises(ConfigError, match=r'entrant "vegas@alfa=2".*alfa'):
        ccarena.evaluate("vegas@alfa=2")


def test_several_policies_are_judged_side_by_side(
    one_link: None, runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", *runs, "cubic", "copa", "--link-sets", "constant", "--seeds", "1", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "backend sim: mean over links, one seed" in printed
    for name in (
        "acct-1 (policy)",
        "acct-2 (policy)",
        "CUBIC",
        "copa",
        "acct-1: Did it learn? ",
        "acct-2: Could a simple rule do it? ",
    ):
        assert name in printed
    result = json.loads((tmp_path / "out" / "results.json").read_text())
    schemes = list(dict.fromkeys(row["scheme"] for row in result["rows"]))
    # The constants, ACCT with one action always, are the same for both and run once.
    assert schemes == ["acct-1", "acct-2", "cubic", "copa", "acct α=1", "acct α=100", BEST_WINDOW, ORACLE]
    assert [each["policy_seed"] for each in result["meta"]["policies"]] == [1, 2]
    short = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    tested = {each["group"] for each in short["verdict"]["expectations"] if each["state"] != "not tested"}
    assert tested == {"acct-1, constant", "acct-2, constant"}


def test_a_training_that_was_not_evaluated_has_the_rules_of_another(one_link: None, runs: list[str]) -> None:
    first = Path(runs[0], "policy.safetensors")
    always = Rule("constant", "acct 5 always", {"constant": 5.0}, score=1.0)
    replace(artifact.load(first), rules=[always.as_dict()]).save(first)
    outcome = ccarena.evaluate(*runs, link_sets=["constant"], seeds=2, duration_s=2.0)
    (both,) = outcome.trainings
    assert both.best.label == "acct 5 always" and both.seeds == [1, 2]


def test_traces_with_buffers_delays_and_pairs(one_link: None, traces: Path, tmp_path: Path) -> None:
    pairs = ["--pairs", "--buffers", "50", "--delays-ms", "10", "30"]
    words = ["eval", "cubic", "--traces", str(traces), *pairs, "--seeds", "1", "--duration-s", "3", "--out", "out"]
    assert main(words) == 0
    result = json.loads(Path("out", "results.json").read_text())
    rows = [row for row in result["rows"] if row["scheme"] == "cubic"]
    assert {(row["link_set"], row["group"]) for row in rows} == {
        ("traces", "traces, 50 packets, 10 ms"),
        ("traces", "traces, 50 packets, 30 ms"),
    }
    rates = {row["link"].split(",")[0]: row["capacity_mbps"] for row in rows}
    assert rates == {"ride.down": pytest.approx(12, rel=0.01), "ride.up": pytest.approx(6, rel=0.01)}
    assert set(result["meta"]["traces"]) == {"ride.down", "ride.up"} and result["meta"]["link_sets"] == []
    assert "--delays-ms 10 30" in Path("out", "page.html").read_text()


def test_acknowledgements_cross_the_trace_that_is_named(one_link: None, traces: Path) -> None:
    (traces / "slow").write_text("".join(f"{ms}\n" for ms in range(400, 4001, 400)))
    down = traces / "ride.down"
    alone, slow = (
        ccarena.evaluate("cubic", traces=[given], seeds=1, duration_s=4.0).columns("rows")["throughput_mbps"][0]
        for given in (f"way={down}", f"way={down},{traces / 'slow'}")
    )
    assert slow < 0.5 * alone


def test_what_is_expected_of_recorded_links_is_expected_of_them(one_link: None, runs: list[str], traces: Path) -> None:
    given = [str(traces / "ride.down")]
    outcome = ccarena.evaluate(runs[0], "cubic", traces=given, seeds=1, duration_s=3.0)
    assert {each.group for each in outcome.verdict.expectations if each.state != "not tested"} == {
        "traces, 100 packets, 20 ms",
        "traces, 1000 packets, 20 ms",
    }


@pytest.mark.parametrize(
    ("entries", "options", "error", "message"),
    [
        (["cubik"], {}, ConfigError, 'unknown "cubik".*did you mean "cubic"'),
        (["cubic"], {"schemes": ["bbr"]}, ConfigError, "schemes are named twice, cubic and bbr"),
        ([], {"schemes": ["cubik"]}, ConfigError, 'unknown "cubik".*did you mean "cubic"'),
        (["cubic"], {"link_sets": ["constnat"]}, ConfigError, 'did you mean "constant"'),
        (["cubic"], {"seeds": 0}, ConfigError, "seeds = 0"),
        (["cubic"], {"threads": 0}, ConfigError, "threads = 0"),
        (["cubic"], {"traces": ["absent.trace"]}, TraceError, "absent.trace"),
        (["cubic"], {"traces": ["README"]}, TraceError, "README:1"),
        (["cubic"], {"traces": []}, ConfigError, "no trace was given"),
        (["cubic"], {"traces": ["ride.up", "ride.up"]}, ConfigError, '"ride.up" is given twice'),
        (["cubic"], {"out": "README/below"}, ConfigError, "cannot write there.*nothing was run"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    entries: list[str],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
    one_link: None,
    traces: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(traces)
    calls: list[int] = []
    with pytest.raises(error, match=message):
        ccarena.evaluate(*entries, progress=lambda done, total: calls.append(done), **options)
    assert calls == []


@pytest.mark.parametrize("option", [["--buffers", "50"], ["--delays-ms", "5"], ["--pairs"]])
def test_options_of_traces_without_traces_are_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("eval", "compete"):
        assert main([command, "cubic", *option]) == 2
        assert f"{option[0]} has no effect without --traces" in capsys.readouterr().err


def test_a_trace_without_a_partner_is_no_pair(one_link: None, traces: Path) -> None:
    (traces / "ride.up").unlink()
    assert main(["eval", "cubic", "--traces", str(traces), "--pairs"]) == 2


def test_seeds_that_change_nothing_are_named(one_link: None) -> None:
    same = ccarena.evaluate("cubic", link_sets=["slides"], seeds=2, duration_s=1.0)
    assert [w for w in same.evaluation.warnings if "seeds change nothing on" in w and "slides" in w]
    other = ccarena.evaluate("cubic", link_sets=["constant"], seeds=2)
    assert not [w for w in other.evaluation.warnings if "seeds change nothing" in w]


def test_the_page_has_a_panel_per_group_and_a_mark_per_run(one_link: None, tmp_path: Path) -> None:
    outcome = ccarena.evaluate("cubic", "copa", link_sets=["constant"], seeds=2)
    (drawn,) = outcome.page(tmp_path / "plot.html").sections[0].blocks
    runs = [trace for chart in drawn.charts for trace in chart.traces if trace["text"] != ["median"]]
    marks = {"CUBIC": 2, "copa": 2, BEST_WINDOW: 2, "one-RTT-late oracle": 2}
    assert {trace["name"]: len(trace["x"]) for trace in runs} == marks
    assert (tmp_path / "plot.html").is_file()


def test_a_competition_runs_over_traces(one_link: None, traces: Path, tmp_path: Path) -> None:
    given = ccarena.compete(
        "cubic", "reno", traces=[f"ride={traces / 'ride.down'},{traces / 'ride.up'}"],
        stagger_s=0.5, duration_s=2.0, seeds=1, out=tmp_path / "out",
    )  # fmt: skip
    rows, summary = given.columns("rows"), given.columns("summary")
    assert set(rows["link"]) == {"ride, 100 packets, 20 ms", "ride, 1000 packets, 20 ms"}
    total = rows["throughput_mbps"].reshape(-1, 2).sum(axis=1)
    assert np.all((total > 9) & (total < 12.1))
    share = (summary["figure"] == "share") & (summary["match"] == "cubic+cubic")
    assert summary["mean"][share] == pytest.approx([0.5, 0.5])
    assert json.loads((tmp_path / "out" / "compete.json").read_text())["meta"]["links"][0]["links"][1]["name"] == "back"
