"""The page of an evaluation."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ccarena.eval.heldout import expectations, plots
from ccarena.eval.heldout.evaluate import evaluate
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.page import write_page
from ccarena.scenarios.entrants import of_file


def test_the_page_is_one_file_without_network(evaluated: Evaluation, tmp_path: Path) -> None:
    progress = [
        {"decisions": 100 * k, "reward_mean": k, "entropy": 2.0, "zone_green": 0.5, "zone_yellow": 0.5}
        for k in range(20)
    ]
    verdict = expectations.judge(evaluated, progress)
    path = tmp_path / "page.html"
    evaluated = replace(evaluated, repeat=["ccarena eval 'a b'"])
    write_page(path, evaluated, verdict, name="a <b> & c", progress=progress, config="seed: 1")
    page = path.read_text("utf-8")
    assert "<title>a &lt;b&gt; &amp; c · ccarena</title>" in page
    assert page.count("<script") - page.count("</script>") == 0
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["']https?:""", body)
    assert body.count("<figure") == 5 + len(evaluated.series)
    assert all(html.escape(f"{one['group']}: {one['link']}") in body for one in evaluated.series)
    assert all(
        text in body for text in ("Expectations", "ccarena eval &#x27;a b&#x27;", "seed: 1", "one RTT late", "Sprout")
    )


def looks(page: str) -> list[str]:
    """The states of the answers at the top, in their order."""
    return re.findall(r'<div class="callout (\w+)"><h3>', page)


def is_red(page: str) -> bool:
    return re.search(r'class="(?:callout|[^"]*words) bad"', page) is not None


def page_of(result: Evaluation, tmp_path: Path) -> tuple[expectations.Verdict, str]:
    verdict = expectations.judge(result)
    write_page(tmp_path / "page.html", result, verdict, name="a page")
    return verdict, (tmp_path / "page.html").read_text("utf-8")


def meeting(result: Evaluation, *link_sets: str) -> Evaluation:
    """The same with a policy that meets what is expected on these sets of links, and misses it on others."""
    met = {"share_within_budget": 1.0, "share_within_5_packets": 1.0, "utilisation": 1.0}
    missed = dict.fromkeys(met, 0.1)
    for row in result.rows:
        if row["scheme"] == result.policy and row["link_set"] in ("constant", "steps"):
            row |= met if row["link_set"] in link_sets else missed
    return result


def test_the_answers_come_first_then_the_curve_then_what_was_learned(evaluated: Evaluation, tmp_path: Path) -> None:
    counts = [[0, 90, 0], [5, 5, 0], [0, 0, 0]]
    about = {
        "categories": ["low", "high", "never"],
        "shares": {"level": ["low", "high", "never"]},
        "action_values": [1.0, 2.0, 7.0],
        "action": {"name": "beta", "does": "sets the step"},
        "rules": [{"kind": "by category", "policy": {"by": "level", "actions": [2.0, 0.0, 0.0]}, "missing": ""}],
    }
    result = replace(evaluated, meta={**evaluated.meta, **about}, actions={"constant": {evaluated.policy: counts}})
    progress = [{"decisions": 1000 * k, "reward_mean": k, "elapsed_s": 30.0 * k} for k in range(1, 3)]
    write_page(
        tmp_path / "page.html", result, expectations.judge(result, progress), name="acct-minute", progress=progress
    )
    page = (tmp_path / "page.html").read_text("utf-8")
    titles = re.findall(r"<h[23]>(.*?)</h[23]>", page)
    assert titles[:6] == [
        *("Findings", "Did it learn?", "Could a simple rule do it?"),
        *("Learning curve", "What it learned", "Expectations"),
    ]
    assert "2,000 decisions in 60 s" in page, "the length of the training"
    assert (
        "An action of this scheme: sets the step. Mostly, beta is 2 after low, 1 after high, by the level of the"
        in page
    )
    row = re.search(r'<tr><td data-label="after level".*?high.*?</tr>', page)
    assert row is not None
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?</td>", row[0])][-5:]
    assert cells == ["high", "10.0 %", "1 (50 %), 2 (50 %)", "1.5", "1"]


def test_every_link_inside_the_page_leads_somewhere(evaluated: Evaluation, tmp_path: Path) -> None:
    rule = {"kind": "constant", "label": "always", "policy": {"constant": 1}, "score": 1.0}
    about = {"policy": evaluated.policy, "link_set": "steps", "link": "a", "seed": 0, "throughput_mbps": 1.0}
    scores = [
        {**about, "scheme": scheme, "score": score, "signal_delay_to_end_p95_ms": 1.0}
        for scheme, score in ((evaluated.policy, 1.1), ("always", 1.0))
    ]
    scored = replace(evaluated, meta={**evaluated.meta, "rules": [rule]}, scores=scores)
    for result, linked in ((scored, True), (evaluated, False)):
        _, page = page_of(result, tmp_path)
        targets = set(re.findall(r'href="#([^"]+)"', page))
        assert targets <= set(re.findall(r'id="([^"]+)"', page)), "each has its section"
        assert ("the network&#x27;s gain over each" in page) == linked


def test_a_policy_that_meets_what_was_tested_is_green_without_recordings(
    simulated: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded = judged(tmp_path)
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path / "none"))
    generated = judged(tmp_path)
    verdict, page = page_of(meeting(generated, "constant", "steps"), tmp_path)
    assert looks(page) == ["good", "neutral"] and not is_red(page)
    assert verdict.learned.sentence.startswith("Learned: 2 of 2 tested expectations hold; 2 need recordings: ")
    assert "2 need recordings: <code>ccarena traces fetch mahimahi</code>" in page
    # With a recording more is tested; the stand-in's policy has half of CUBIC's throughput.
    verdict, page = page_of(meeting(recorded, "constant", "steps"), tmp_path)
    assert verdict.learned.headline == "Partly learned: 2 of 4 expectations hold"
    assert looks(page) == ["partly", "neutral"] and is_red(page)


@pytest.mark.parametrize(
    ("met", "link_sets", "states", "red"),
    [
        (["constant"], ["constant", "steps"], ["partly", "neutral"], True),
        ([], ["constant", "steps"], ["bad", "neutral"], True),
        ([], ["silent"], ["neutral", "neutral"], False),
    ],
)
def test_a_page_is_red_only_where_a_tested_expectation_does_not_hold(
    simulated: object, tmp_path: Path, met: list[str], link_sets: list[str], states: list[str], red: bool
) -> None:
    _, page = page_of(meeting(judged(tmp_path, *link_sets), *met), tmp_path)
    assert looks(page) == states and is_red(page) == red


def judged(tmp_path: Path, *link_sets: str) -> Evaluation:
    policy = of_file(tmp_path / "policy.safetensors")
    return evaluate([policy], list(link_sets) or ["constant", "steps", "cellular"], seeds=1, duration_s=1.0)


@pytest.mark.parametrize(("delays_ms", "ends"), [((2.0, 2.4), (2, 5)), ((2.4, 800.0), (1, 1000)), ((0.0,), (0.1, 0.2))])
def test_labels_of_the_delay_follow_the_delays_drawn(delays_ms: tuple[float, ...], ends: tuple[float, float]) -> None:
    about = {"link_set": "steps", "group": "steps", "link": "a", "scheme": "cubic", "utilisation": 0.5}
    rows = [{**about, "seed": seed, "queueing_delay_p95_ms": ms} for seed, ms in enumerate(delays_ms)]
    [chart] = plots.throughput_delay(Evaluation(rows=rows)).charts
    low, high = chart.x.low or 0, chart.x.high or 0
    assert (
        (chart.x.ticks[0], chart.x.ticks[-1]) == ends and ends[0] / 2 < low < ends[0] and ends[1] < high < 2 * ends[1]
    )
    assert 2 <= len(chart.x.ticks) <= 7
