"""The league: its links are nobody else's, its scores and its headroom are what they are defined to be."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccarena.configs import load_config
from ccarena.configs.load import shipped
from ccarena.errors import ConfigError
from ccarena.eval.heldout import evaluate, league, links
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.expectations import judge
from ccarena.eval.heldout.headroom import CAUSAL, EVERY, SCORE, Headroom, bounds, headroom, league_scores, score_of
from ccarena.eval.heldout.link import LEAGUE, Link, scenario
from ccarena.eval.heldout.oracle import best_score
from ccarena.eval.heldout.page import evaluation_page
from ccarena.eval.heldout.summary import digest, print_first, print_summary
from ccarena.eval.leaderboard.links import places, traces_of
from ccarena.eval.measure.table import LEAST_SCORE
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import of_file, parse
from ccarena.scenarios.one_run import perform
from ccarena.searches.links import unseen
from ccarena.searches.plan import Plan
from ccarena.traces.held_out import HELD_OUT, derives_from, free
from ccarena.traces.recorded import HELD_OUT_SEED
from docs.generate import league as pages

TRACE = "".join(f"{ms}\n" for ms in range(2, 90_000, 3))


def of(path: Path, monkeypatch: pytest.MonkeyPatch, *recordings: str) -> list[Link]:
    """The league with these recordings alone."""
    for name in recordings:
        (path / name).write_text(TRACE)
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(path))
    monkeypatch.setenv("XDG_DATA_HOME", str(path / "none"))
    monkeypatch.chdir(path)
    return links.build([LEAGUE], 1)


def content(link: Link) -> str:
    """All of a link but its seed, its name and its length."""
    document = scenario(link, parse("reno"))
    return json.dumps([document["links"], document["flows"]], sort_keys=True)


def test_it_has_eight_families_and_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = of(tmp_path, monkeypatch, *HELD_OUT)
    count = Counter(league.family_of(link.group) for link in every)
    assert count == {name: links_ for name, (_, links_) in league.FAMILIES.items()}
    assert len(count) == 8 and min(count.values()) >= 36 and not any(link.synthetic for link in every)
    assert len({content(link) for link in every}) == len(every) == len({(link.group, link.name) for link in every})
    assert every == links.build([LEAGUE], 1)
    again = links.build([LEAGUE], 2)[len(every) :]
    assert [link.name for link in again] == [link.name for link in every], "rows of a name are repetitions"
    assert sum(a.service != b.service for a, b in zip(again, every, strict=True)) > 60


def test_nobody_else_has_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = of(tmp_path, monkeypatch, *HELD_OUT)
    mine = {content(link) for link in every}
    others = links.build(list(links.DEFAULT), 2)
    board = [place.link(0) for place in places(traces_of(["presets", "models"]), None, None, 20.0) for seed in (0, 1)]
    assert mine.isdisjoint(content(link) for link in [*others, *board])
    # Seeds of models and presets: other link sets use the first `MOST_SEEDS`, training smaller ones.
    seeds = [link.more["conditions"]["seed"] for link in every if "conditions" in link.more]
    assert min(seeds) >= league.FIRST_SEED > HELD_OUT_SEED + links.MOST_SEEDS
    files = {Path(link.service["file"]).name for link in every if link.service["type"] == "trace"}
    assert files == set(HELD_OUT) and not free(files), "no training draws a held-out recording by itself"
    with pytest.raises(ConfigError, match='"league"'):  # a search would be a training
        unseen(Plan("cubic", links=("league",)))


def test_no_shipped_training_draws_its_links() -> None:
    presets = set(league.SYNTHETIC)
    for name in shipped():
        drawn = load_config(name).env.link
        assert drawn.traces == "auto" or not set(drawn.traces) & set(HELD_OUT), name
        assert drawn.presets == "auto" or not presets & set(drawn.presets), name
    assert not free(presets) and all(derives_from(preset) in HELD_OUT for preset in presets)


def test_generated_links_replace_recordings_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cellular = [link for link in of(tmp_path, monkeypatch) if link.synthetic]
    assert len(cellular) == 42 and {link.service["preset"] for link in cellular} == set(league.SYNTHETIC)
    assert min(link.service["seed"] for link in cellular) >= league.FIRST_SEED
    result = evaluate.run_lineup([short(link) for link in cellular[:2]], [parse("cubic")], {})
    assert [each.synthetic for each in headroom(result)] == [2]
    assert "generated" in result.warnings[0]


def test_page_terminal_and_json_have_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of(tmp_path, monkeypatch)
    every = links.build([LEAGUE], 1, 4.0)
    chosen = [link for link in every if link.group == "league, constant"][:2]
    chosen += [link for link in every if link.shared == "own"][:2]
    result = evaluate.run_lineup(chosen, [parse("cubic"), parse("copa")], {"seeds": 1})
    verdict = judge(result)
    league_ = digest(result, verdict)["league"]
    assert [each["family"] for each in league_["headroom"]] == ["constant", "shared"]
    assert set(league_["scores"]) == {ORACLE, CAUSAL, BEST_WINDOW, "cubic", "copa"}
    constant, shared = league_["headroom"]
    assert constant["score"] < constant["causal"] < constant["oracle"] and math.isnan(shared["causal"])
    assert "league" not in digest(Evaluation(meta={"seeds": 1}), verdict)
    print_summary(result, verdict)
    assert "what is left to learn" in capsys.readouterr().out
    assert "The league" in [section.title for section in evaluation_page(result, verdict, name="x").sections]


def short(link: Link, duration_s: float = 4.0) -> Link:
    return Link(**{**vars(link), "duration_s": duration_s})


def test_scores_of_shared_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [link for link in of(tmp_path, monkeypatch) if link.shared]
    first = {link.shared + str(link.start_s > 0): link for link in shared}
    for link in first.values():
        run = perform(scenario(link, parse("cubic")), SIM)
        flows = run.result["flows"]
        got = score_of(link, run)
        assert 0 < got < 1
        if link.shared == "own":
            assert len(flows) == 1 + len(link.copies) and {flow["scheme"] for flow in flows} == {"cubic"}
            assert [flow["start_s"] for flow in flows] == [2.0 * k for k in range(len(flows))]
        log = run.result["links"][0]["log"]
        seen = log["departure_ns"] > 8e9
        rates = np.bincount(log["flow"][seen], weights=log["bytes"][seen])
        if link.shared == "rival":
            assert got == pytest.approx(2 * min(rates) / sum(rates), rel=1e-6)
            continue
        delay = (log["departure_ns"] - log["arrival_ns"] - log["serialisation_ns"])[seen].mean() / 1e6
        power = sum(rates) * 8e-6 / 12 / link.service["rate_mbps"] * link.base_rtt_ms / (link.base_rtt_ms + delay)
        fair = len(flows) * min(rates) / sum(rates) if link.shared == "own" else 1.0
        assert got == pytest.approx(fair * power, rel=1e-3)


def test_the_oracle_of_a_constant_link_loses_the_first_round_trip_alone() -> None:
    capacity = np.full(10_000, 50.0)
    # 4.17 packets a slot: what a slot leaves over goes with the next one, or 4 % would be lost.
    assert best_score(capacity, 1.0, 100.0, math.inf, by_opportunities=False) == pytest.approx(0.99, abs=0.005)
    slow = best_score(np.full(10_000, 1.2), 1.0, 10.0, math.inf, by_opportunities=False)
    assert slow == pytest.approx(1, abs=0.01), "two packets of 10 ms fill a loop of 10 ms and a packet, without a queue"
    late = best_score(np.repeat([20.0, 5.0] * 20, 250), 1.0, 50.0, math.inf, by_opportunities=False)
    later = best_score(np.repeat([20.0, 5.0] * 20, 250), 1.0, 100.0, math.inf, by_opportunities=False)
    assert later < late < 0.95
    assert best_score(np.zeros(1000), 1.0, 50.0, math.inf, by_opportunities=True) == 0, "a link without capacity"


def test_nobody_tells_the_causal_oracle_the_capacity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for the capacity costs it a few percent where the capacity steps, and less where it is constant."""
    every = of(tmp_path, monkeypatch)
    lost = {}
    for family in ("constant", "steps"):
        link = next(link for link in every if league.family_of(link.group) == family)
        capacity = perform(scenario(link, parse("reno")), SIM).measured().flows[0].capacity_mbps
        scores = bounds(link, capacity)
        lost[family] = 1 - scores[CAUSAL] / scores[SCORE]
    assert 0 < lost["constant"] < lost["steps"] < 0.25


def test_a_run_that_gets_nothing_through_has_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = next(link for link in of(tmp_path, monkeypatch) if link.shared == "rival")
    document = scenario(link, parse("cubic"))
    document["links"][0]["loss"] = 1.0
    assert score_of(link, perform(document, SIM)) == 0


def rows_of(scores: dict[str, list[float]], **about: Any) -> list[dict[str, Any]]:
    return [
        {"group": "league, constant", "link": f"{at}: x", "seed": 0, "scheme": who, "synthetic": False, "shared": ""}
        | {SCORE: score}
        | about
        for who, each in scores.items()
        for at, score in enumerate(each)
    ]


def test_headroom_is_the_ratio_of_geometric_means() -> None:
    alone = {ORACLE: [0.9, 0.8, 0.9], BEST_WINDOW: [0.7] * 3, "copa": [0.6, 0.6, 0.6], "bbr": [0.9, 0.3, 0.3]}
    policy = {"runs/p": [0.89, 0.79, 0.89]}
    beside = {"copa": [0.5, 0.0], "bbr": [0.4, 0.4], "runs/p": [0.6, 0.6]}
    rows = rows_of(alone | policy) + rows_of(beside, group="league, shared: beside cubic", shared="rival")
    rows += rows_of({"copa": [0.8], "bbr": [0.9], "runs/p": [0.5]}, group="league, shared: own flows", shared="own")
    flows = {"copa": {"scheme": "copa"}, "bbr": {"scheme": "bbr"}, "runs/p": {"scheme": "acct"}}
    result = Evaluation(rows=rows, entrants=flows)
    constant, shared, cubic, own = headroom(result)
    assert (constant.family, constant.best, constant.links) == ("constant", "copa", 3), "a policy is no heuristic"
    assert constant.gain == pytest.approx((0.9 * 0.8 * 0.9) ** (1 / 3) / 0.6 - 1)
    assert constant.gain_of_links == pytest.approx((1 * (0.8 / 0.6) * (0.9 / 0.6)) ** (1 / 3) - 1)
    assert constant.low <= constant.gain <= constant.high and constant.window == pytest.approx(0.7)
    assert constant.answer == "yes" and math.isnan(constant.causal)
    assert constant.reach == pytest.approx(1.5 ** (1 / 3) - 1), (
        "without a causal oracle, the best heuristic of each link"
    )
    assert (shared.family, cubic.family, own.family) == ("shared", "shared: beside cubic", "shared: own flows")
    assert cubic.best == "bbr" and cubic.gain == pytest.approx(1 / 0.4 - 1), "a fair oracle has score 1"
    assert math.isnan(own.low) and own.answer == "undecided" and math.isnan(own.window)
    scores = league_scores(result)
    assert scores["copa"]["shared: beside cubic"] == pytest.approx(math.sqrt(0.5 * LEAST_SCORE))
    mean = math.sqrt(scores["bbr"]["constant"] * scores["bbr"]["shared"])
    assert scores["bbr"][EVERY] == pytest.approx(mean), "families count alike"
    assert [*scores][:2] == [ORACLE, "runs/p"]
    assert headroom(Evaluation(rows=[{"group": "constant", "scheme": "copa", "link": "x", "seed": 0}])) == []


def test_what_bounds_the_best_heuristic() -> None:
    def one(oracle: tuple[float, float], causal: tuple[float, float], known: float = 0.9) -> Headroom:
        gain, reach = (sum(ends) / 2 for ends in (oracle, causal))
        return Headroom("constant", 9, 0, 0.9, "copa", 0.8, gain, *oracle, gain, 0.7, known, reach, *causal)

    assert one((0.01, 0.04), (0.0, 0.03)).bound == "link"
    assert one((0.06, 0.2), (-0.02, 0.04)).bound == "knowledge"
    assert one((0.06, 0.2), (0.06, 0.1)).bound == "controller"
    assert one((0.01, 0.2), (-0.02, 0.04)).bound == one((0.06, 0.2), (0.04, 0.06)).bound == "undecided"
    assert one((0.06, 0.2), (-0.02, 0.04), math.nan).bound == "undecided", "what nobody reaches here may be reached"
    rows = rows_of({ORACLE: [0.9, 0.8], CAUSAL: [0.6, 0.6], "copa": [0.5, 0.5]})
    [found] = headroom(Evaluation(rows=rows, entrants={"copa": {"scheme": "copa"}}))
    assert found.causal == pytest.approx(0.6) and found.reach == pytest.approx(0.2)
    assert found.bound == "controller" and found.as_dict()["bound"] == "controller"


def test_the_kept_scores_are_of_this_league() -> None:
    kept = json.loads(pages.KEPT.read_text("utf-8"))
    assert [[link.group, link.name] for link in links.build([LEAGUE], 1) if link.group != "league, cellular"] == [
        [group, name] for group, name, *_ in kept["links"] if group != "league, cellular"
    ], "the league has changed: run `make league` without runs/league-docs"
    assert set(kept["entrants"]) <= {sender.label for sender in pages.entrants()}


def test_a_first_verdict_has_some_of_every_group(
    simulated: list[dict[str, Any]], monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(evaluate, "FIRST_S", 0.0)
    seen: list[tuple[Evaluation, int]] = []

    def early(result: Evaluation, total: int) -> None:
        seen.append((result, total))
        print_first(result, total)

    policy = [of_file(Path("policy.safetensors"))]
    sets = ["steps", "slides"]
    whole = evaluate.evaluate(policy, sets, seeds=2, duration_s=1.0, threads=1, early=early)
    [(part, total)] = seen
    runs = {(row["group"], row["link"], row["seed"]) for row in part.rows}
    assert part.groups() and set(part.groups()) == set(whole.groups())
    assert len(runs) < total == len({(row["group"], row["link"], row["seed"]) for row in whole.rows})
    assert all(row in whole.rows for row in part.rows)
    said = capsys.readouterr().err
    assert said.startswith(f"first verdict, after {len(runs)} of {total} links: Did it learn?")
    assert evaluate.evaluate(policy, sets, seeds=2, duration_s=1.0, threads=1) == whole
