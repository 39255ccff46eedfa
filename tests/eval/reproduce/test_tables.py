"""Figures, tables and the page of all results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.core.measurements import Source
from ccarena.errors import ConfigError
from ccarena.eval.reproduce import checks, figures, page, pages, runs, suite, tables
from ccarena.pages import Figure

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: suites not run (run make)")

Write = Callable[..., Path]

THREE = """figure:
  - {kind: bars, x: rate_mbps, by: scheme, y: {value: total_mbps}, target: 8}
  - {kind: lines, x: flow, panels: scheme, by: rate_mbps, y: {value: received_mbps, flow: all}, log_y: true}
  - {kind: over_time, panels: rate_mbps, where: {scheme: reno}}
"""


def drawn(write: Write) -> list[Figure]:
    old = "figure: {kind: bars, x: rate_mbps, by: scheme, y: {value: total_mbps}}\n"
    loaded = suite.load(str(write({old: THREE, "claims:": "  record: {series: true}\nclaims:"})))
    rows = [runs.perform(run) for run in runs.expand(loaded, quick=True)]
    return figures.figures(loaded, rows)


def test_figures_show_what_was_measured(write: Write) -> None:
    bars, lines, over_time = drawn(write)
    (chart,) = bars.charts
    assert [trace["name"] for trace in chart.traces[:2]] == ["cubic", "reno"] and chart.levels == [(8, "8")]
    assert chart.traces[0]["x"] == ["8", "16"]
    assert chart.traces[0]["y"][1] == pytest.approx(16, rel=0.4)
    assert [len(chart.traces) for chart in lines.charts] == [2, 2] and lines.charts[0].traces[0]["x"] == ["w1", "w2"]
    assert page._of_figures([bars]) == "As the paper draws them. Dotted lines: targets."
    assert page._of_figures([over_time]) == "As the paper draws them.", "no mark is explained that is not there"
    assert [[trace["name"] for trace in chart.traces] for chart in over_time.charts] == [["capacity", "w1", "w2"]] * 2
    assert max(over_time.charts[1].traces[0]["y"]) == 16


def test_the_papers_points_stand_beside_ours() -> None:
    loaded = suite.load("wcc/buffer")
    rows = [runs.perform(run) for run in runs.expand(loaded, quick=True)]
    drawn, _ = figures.figures(loaded, rows)
    assert "Open circles: the paper's points" in page._of_figures([drawn])
    paper = [trace for chart in drawn.charts for trace in chart.traces if trace["name"] == "paper"]
    assert paper and set(paper[0]["y"]) == {1.925, 1.52}  # of the quick sweep
    judged = [checks.judge(claim, rows) for claim in loaded.claims]
    beside = figures.beside_the_paper(loaded, judged)
    assert beside is not None and any(trace["name"] in ("holds", "differs") for trace in beside.charts[0].traces)


def test_the_page_holds_every_claim(write: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = write(
        {"{within: 40 %}": "{within: 0.01 %}\n    direction: {at_least: 0.1}\n    note: Slow start fills it late."}
    )
    assert cli.main(["reproduce", str(one), "--out", str(out), "--jobs", "1"]) == 0
    shown = (out / "own" / "mine" / "page.html").read_text("utf-8")
    assert "No value has an interval: each is computed from several, or the seeds give the same." in shown
    assert "The link is busy at 8 Mbit/s" in shown and "Slow start fills it late." in shown
    names = ["own/mine", "own/other"]
    path = tmp_path / "docs" / "all.md"
    pages.write(path, pages.read(out, names), names)
    assert sorted(file.name for file in path.parent.iterdir()) == ["all.json", "all.md"]
    summary = path.read_text("utf-8")
    assert "| own/mine | Two schemes | none | 0 | 2 | 0 |" in summary
    linked, page = pages.site(path, names).values()
    assert linked == summary.replace("| own/mine |", "| [own/mine](all/own-mine.md) |")
    assert "Not run: own/other." in summary and str(tmp_path) not in summary + page
    assert page.startswith("# own/mine: Two schemes\n") and "[All suites](../all.md)" in page
    assert "| The link is busy at 8 Mbit/s | 1 | cubic: " in page and "**differs** |" in page
    assert "- These 2 claims: Slow start fills it late.\n  - The link is busy at 8 Mbit/s\n" in page
    with pytest.raises(ConfigError, match="holds no results"):
        pages.read(tmp_path / "nothing", ["own/mine"])
    (out / "own" / "mine" / "claims.json").write_text("{")
    with pytest.raises(ConfigError, match=r"claims.json: not the claims of a suite"):
        pages.read(out, ["own/mine"])


def test_what_was_not_run_again_stays(tmp_path: Path) -> None:
    claim = {"claim": "A", "paper": "1", "measured": "2", "state": "holds", "differs_in": "", "note": ""}
    of = {"title": "T", "paper": "P", "summary": "S.", "conditions": [], "runs": 1, "seeds": 1, "failed": []}
    of |= {"quick": False, "software": "1", "claims": [claim]}
    machine = {"kernel": "6", "backend": "quic", "bound_ms": 1, "repeated": 0, "fallback_reports": 0}
    machine |= {"lateness_p99_ms": None, "answer_p99_us": None}
    names, page = ["own/a", "own/b"], tmp_path / "all.md"
    first = [{**of, "suite": "own/b"}, {**of, "suite": "own/b", "machine": machine}]
    pages.write(page, pages.with_kept(page, first, names), names)
    again = {**of, "suite": "own/b", "title": "Again"}
    new = {**of, "suite": "own/a"}
    merged = pages.with_kept(page, [again, new], names)
    assert merged == [new, again, first[1]]
    with pytest.raises(ConfigError, match=r"all\.json: has a full run of own/b over QUIC; a quick one"):
        pages.with_kept(page, [{**first[1], "quick": True}], names)
    assert pages.with_kept(page, [again], ["own/a"]) == [], "a suite that is gone goes"
    for damaged in ("{", "3", "[{}]"):
        page.with_suffix(".json").write_text(damaged)
        with pytest.raises(ConfigError, match=r"all\.json: not the results of suites"):
            pages.with_kept(page, [again], names)


def test_a_note_of_several_claims_stands_once() -> None:
    claim = {"paper": "1", "measured": "2", "state": "differs", "differs_in": "", "note": "The reason."}
    digest = {"suite": "own/mine", "title": "T", "paper": "P", "summary": "S.", "conditions": [], "quick": False}
    digest |= {
        "runs": 1,
        "seeds": 1,
        "failed": [],
        "software": "1",
        "claims": [{**claim, "claim": "A"}, {**claim, "claim": "B"}],
    }
    assert tables.claims_markdown(digest).endswith("\n- These 2 claims: The reason.\n  - A\n  - B\n")


def test_a_note_on_the_requirement_states_it() -> None:
    claim = {
        "claim": "A",
        "differs_in": "",
        "note": "",
        "required": "at most 25 % above, words",
        "why": "less is better",
    }
    assert tables.remarks([claim]) == {'the requirement is "at most 25 % above, words" because less is better': ["A"]}


def test_a_quick_run_says_whether_its_runs_are_shorter() -> None:
    def line(name: str, quick: bool) -> Any:
        digest = tables.digest_of(suite.load(name, quick=quick), [], {"quick": quick})
        return digest.get("shorter"), tables.quick_line(digest)

    assert line("wcc/dynamic", True) == (
        True,
        "QUICK: few seeds and shorter runs, no basis for a conclusion; notes are about full runs",
    )
    assert line("hercules/arrival", True)[1].startswith("QUICK: few seeds, no basis")
    assert line("wcc/dynamic", False)[0] is None


def test_the_summary_counts_what_the_states_do_not_say() -> None:
    claim = {"claim": "A", "paper": "1", "measured": "2", "differs_in": "", "note": ""}
    claims = [
        {**claim, "state": "undecided", "direction": True},
        {**claim, "state": "undecided"},
        {**claim, "state": "differs", "at_bound": "0.9 to 1.1"},
        {**claim, "state": "differs", "under": "holds with x 1 in the place of 2: 3"},
        {**claim, "state": "differs", "under": "holds with x 1 in the place of 2: 3", "aside": True},
    ]
    about = {"title": "T", "paper": "P", "quick": False, "software": "1"}
    text = pages.summary([{"suite": "own/mine", "claims": claims, **about}], [])
    assert "For 1 of the papers' undecided claims" in text and "that differ, 1 do not hold under the" in text
    assert "\n1 of the papers' claims differ because they are at the bound" in text
    assert "0.9 to 1.1 in 95 % of the resamples" in tables.beside_state(claims[2])
    assert "(holds with x 1 in the place of 2: 3)" in tables.beside_state(claims[3])


def test_the_summary_counts_claims_apart_on_which_conditions_were_chosen() -> None:
    about = {"title": "T", "paper": "P", "quick": False, "software": "1"}
    states = {"wcc/ack": ["holds", "differs"], "wcc/delay": ["holds", "holds", "undecided"], "acct/fct": ["holds"]}
    digests = [
        {"suite": suite, "claims": [{"claim": "A", "state": state, "values": []} for state in given], **about}
        for suite, given in states.items()
    ]
    text = pages.summary(digests, [])
    chosen = "1 of the 2 claims there that the paper measured hold"
    assert f"{chosen}, and 2 of the 3 claims of the other suites." in text
    assert text.count("leaves open") == 1, "of WCC alone"
    assert f"{chosen}." in pages.summary(digests[:1], []), "there are no other suites"


def test_rows_of_suites_count_as_the_totals_do() -> None:
    about = {"title": "T", "paper": "P", "quick": False, "software": "1", "discriminate": True}
    claim = {"claim": "A", "state": "holds", "values": []}
    claims = [{**claim, "discriminates": False}, claim, {**claim, "state": "differs"}]
    claims += [{**claim, "aside": True, "discriminates": False}, {**claim, "aside": True, "state": "differs"}]
    text = pages.summary([{"suite": "wcc/ack", "claims": claims, **about}], [])
    assert "2 of the 3 claims there that the paper measured hold." in text and "| holds | 2 | 1 |" in text
    assert "| holds with CUBIC, too | not measured in the paper |" in text
    assert "| wcc/ack | T | P | 2 | 1 | 0 | 0 | 1 | 1 of 2 hold |" in text


def test_the_summary_says_which_suites_took_how_much_time() -> None:
    digest = {"suite": "x/a", "title": "T", "paper": "P", "quick": False, "software": "1", "claims": []}
    for names, of in ((["x/a", "x/b"], "all 2 suites"), (["x/a", "x/b", "x/c"], "2 of the 3 suites")):
        text = pages.summary([digest], names, spent={"x/a": 1000.4, "x/b": 2.0, "gone": 5.0})
        assert f"the runs of {of} took 1,002 s" in text and "are x/a with 1,000 s, x/b with 2 s." in text


def test_counts_and_headlines_become_measurements() -> None:
    source = Source("ccarena reproduce --all", "0.1.0", "2026-01-02")
    claims = [
        {"claim": "A", "paper": "1", "measured": "2", "state": "holds", "headline": True},
        {"claim": "B", "paper": "1", "measured": "2", "state": "differs"},
    ]
    digest = {"suite": "hyvar/mine", "claims": claims, "policies": [{"scheme": "hyvar", "seed": 3}]}
    by_name = {entry.name: entry for entry in pages.entries([digest], [digest], source)}
    assert by_name["papers/all/sim/holds"].value == by_name["papers/hyvar/sim/differs"].value == 1
    assert by_name["papers/sim/all"].value == "1 of 2"
    assert "papers/sim" not in by_name, "nothing says which claims CUBIC meets as well"
    tried = {**digest, "discriminate": True, "claims": [*claims, {**claims[0], "discriminates": False}]}
    with_cubic = {entry.name: entry.value for entry in pages.entries([tried], [], source)}
    assert (with_cubic["papers/sim"], with_cubic["papers/sim/with-cubic"]) == ("1 of 2", 1)
    headline = by_name["learned/hyvar/mine/1/seed 3, in the simulator"]
    assert (headline.value, headline.target, headline.case) == ("2", "1 (paper)", "seed 3, in the simulator")
    assert not [name for name in by_name if name.startswith("learned/hyvar/mine/2")]
    # Targets of this project are no claims of a paper.
    own = {**digest, "suite": "pilot/mine"}
    assert {entry.name: entry for entry in pages.entries([digest, own], [digest], source)} == by_name
    kept = [entry.name for entry in pages.entries([digest], [], source)]
    assert "papers/sim/all" in kept and headline.name not in kept, "what was not run again keeps its version and date"


def test_rows_are_the_same_bytes_however_they_are_run(write: Write, tmp_path: Path) -> None:
    path = write()
    for jobs in ("1", "2"):
        assert cli.main(["reproduce", str(path), "--out", str(tmp_path / jobs), "--jobs", jobs]) == 0
    for name in ("rows.jsonl", "rows.csv", "claims.json", "claims.md", "page.html", "scenarios.yaml"):
        one, two = ((tmp_path / jobs / "own/mine" / name).read_text("utf-8") for jobs in ("1", "2"))
        assert one.replace(f"--out {tmp_path}/1 --jobs 1", f"--out {tmp_path}/2 --jobs 2") == two, name
    row = json.loads((tmp_path / "1/own/mine/rows.jsonl").read_text("utf-8").splitlines()[0])
    assert row["seed"] == 1 and row["cell"] == {"scheme": "cubic", "rate_mbps": "8"}
