"""Ranks: what cannot be told apart shares one, and nobody has one on what it was trained on."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ccarena import _core
from ccarena.eval.leaderboard import links
from ccarena.eval.leaderboard.cells import scenario_digest
from ccarena.eval.leaderboard.figures import meeting, solo
from ccarena.eval.leaderboard.links import Place, own_link, places, traces_of
from ccarena.eval.leaderboard.ranking import OVERALL, UNSEEN, describe, first_of, rank, seen_by
from ccarena.eval.measure.table import normalised_power
from ccarena.scenarios.entrants import parse


def place(number: int, trace: str, moves: str = "driving") -> dict:
    return {"id": number, "trace": trace, "origin": trace, "trace_digest": f"d{number}", "moves": moves}


def entrant(number: int, label: str, kind: str = "scheme", on: tuple[str, ...] = (), track: str = "end to end") -> dict:
    trained = [{"kind": "trace", "name": name} for name in on]
    return {"id": number, "label": label, "kind": kind, "track": track, "trained_on": trained, "beside": ""}


PLACES = [place(k, f"t{k}") for k in range(1, 9)]


def scores(level: dict[int, float], noise: float = 0.05, seeds: int = 5) -> list[tuple[int, int, int, float]]:
    rng = np.random.default_rng(0)
    links = {p["id"]: rng.normal(0, 1) for p in PLACES}
    return [
        (p["id"], who, seed, math.exp(links[p["id"]] + base + noise * rng.normal()))
        for p in PLACES
        for who, base in level.items()
        for seed in range(seeds)
    ]


def rows(result: dict, group: str) -> dict[int, dict]:
    return {row["entrant"]: row for row in result["groups"][group]["rows"]}


def test_what_cannot_be_told_apart_shares_a_rank() -> None:
    who = [entrant(1, "best"), entrant(2, "as good"), entrant(3, "worse"), entrant(4, "baseline", "baseline")]
    result = rank(scores({1: 0.0, 2: 0.001, 3: -0.5, 4: 1.0}), PLACES, who)
    found = rows(result, OVERALL)
    assert [(found[k]["rank"], found[k]["last"]) for k in (1, 2, 3, 4)] == [(1, 2), (1, 2), (3, 3), (None, None)]
    seen = result["groups"][OVERALL]["visible"]["end to end"]
    assert seen["blocks"] == len(PLACES) and 0 < seen["share"][1] <= seen["share"][0] <= seen["share"][2] < 0.5
    assert found[4]["why"] == "a baseline rule"
    # Links differ far more than schemes: the interval of a score is wide, and ranks are sure all the same.
    assert found[3]["high"] > found[1]["low"]
    wins = {(a, b): share for a, b, share in result["groups"][OVERALL]["wins"]}
    assert wins[1, 3] == 1.0 and 0.2 < wins[1, 2] < 0.8
    assert result == rank(scores({1: 0.0, 2: 0.001, 3: -0.5, 4: 1.0}), PLACES, who)


def test_the_score_is_the_geometric_mean() -> None:
    data = [(1, 1, 0, 0.25), (2, 1, 0, 1.0)]
    found = rows(rank(data, PLACES[:2], [entrant(1, "one")]), OVERALL)[1]
    assert (
        found["score"] == pytest.approx(0.5)
        and found["low"] == pytest.approx(0.25)
        and found["high"] == pytest.approx(1.0)
    )
    assert normalised_power(0.5, 40.0, 40.0) == 0.25
    assert normalised_power(0.0, math.nan, 40.0) == 0.0


def test_a_mark_stands_at_the_means_of_the_table() -> None:
    result = rank(scores({1: 0.0}), PLACES, [entrant(1, "one")])
    names = {*solo(), *meeting(), "share"}
    delays = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1900.0]
    means = [
        {**dict.fromkeys(names), "entrant": 1, "place": p["id"], "queueing_delay_mean_ms": ms, "utilisation": 0.5}
        for p, ms in zip(PLACES, delays, strict=True)
    ]
    met = [
        {**dict.fromkeys(names), "entrant": 1, "opponent": 2, "place": p["id"], "score_sharing": score}
        for p, score in zip(PLACES[:2], (0.9, 0.4), strict=True)
    ]
    describe(result, means, met, 2)
    row = rows(result, OVERALL)[1]
    at, used, spread, *_ = row["mark"]
    assert math.exp(at) == pytest.approx(row["figures"]["queueing_delay_mean_ms"], rel=1e-4)
    assert used == row["figures"]["utilisation"] == 0.5
    assert math.sqrt(spread) == pytest.approx(np.std(delays, ddof=1) / math.sqrt(8) / np.mean(delays), rel=1e-3)
    assert row["beside"]["score_sharing"] == pytest.approx(0.6, rel=1e-4), "geometric, as the rank by this score"


def test_a_single_draw_has_no_interval() -> None:
    """Several links of one trace with one seed are one draw; another seed or trace makes two."""
    links = [{**place(k, "t1"), "id": k} for k in (1, 2)]
    one = rank([(k, 1, 0, 0.2 * k) for k in (1, 2)], links, [entrant(1, "one")])["groups"][OVERALL]
    assert one["rows"][0]["low"] is None and one["rows"][0]["high"] is None and one["rows"][0]["rank"] == 1
    two = rank([(k, 1, seed, 0.2 * k + 0.1 * seed) for k in (1, 2) for seed in (0, 1)], links, [entrant(1, "one")])
    assert two["groups"][OVERALL]["rows"][0]["low"] < two["groups"][OVERALL]["rows"][0]["high"]


def test_nobody_is_ranked_on_what_it_was_trained_on() -> None:
    who = [entrant(1, "plain"), entrant(2, "learner", "policy", on=("t1",)), entrant(3, "late")]
    data = [row for row in scores({1: 0.0, 2: 0.9, 3: -0.4}) if row[:2] != (2, 3)]
    result = rank(data, PLACES, who)
    assert rows(result, OVERALL)[2]["rank"] is None and rows(result, OVERALL)[2]["why"] == "trained on t1"
    assert rows(result, "trace t1")[2]["why"] == "trained on this trace"
    assert rows(result, "trace t1")[1]["rank"] == 1
    assert rows(result, "trace t2")[2]["rank"] == 1, "it is ranked on what it never saw"
    fresh = result["groups"][UNSEEN]
    assert 1 not in fresh["places"] and rows(result, UNSEEN)[2]["rank"] == 1
    assert rows(result, UNSEEN)[3]["why"] == "runs are missing"


def test_tracks_are_ranked_apart() -> None:
    who = [entrant(1, "told", track="router-assisted"), entrant(2, "alone")]
    found = rows(rank(scores({1: 1.0, 2: 0.0}), PLACES, who), OVERALL)
    assert found[1]["rank"] == found[2]["rank"] == 1


def test_a_preset_counts_as_its_recording() -> None:
    trained = entrant(1, "p", "policy", on=("lte-bus",))
    assert seen_by(trained, {"origin": "trace-3114405-bus", "trace_digest": ""})
    renamed = {"id": 2, "trained_on": [{"kind": "trace", "name": "mine", "digest": "abc"}]}
    assert seen_by(renamed, {"origin": "other", "trace_digest": "abc"})
    assert not seen_by({"trained_on": [{"kind": "distribution", "name": "t1", "digest": "d1"}]}, PLACES[0])


def test_a_recording_is_known_by_its_own_content(tmp_path: Path) -> None:
    for name, times in (("a.down", "1\n5\n"), ("a.up", "2\n9\n"), ("b.down", "1\n5\n")):
        (tmp_path / name).write_text(times)
    both, alone = (traces_of([str(tmp_path / name)])[0] for name in ("a.down", "b.down"))
    assert both.back is not None and alone.back is None
    assert both.digest == alone.digest, "as artifacts name what they were trained on, whatever acknowledgements cross"
    first = scenario_digest(Place(both, 20.0, 100, 2.0), 0)
    (tmp_path / "a.up").write_text("2\n8\n")
    again = traces_of([str(tmp_path / "a.down")])[0]
    assert scenario_digest(Place(again, 20.0, 100, 2.0), 0) != first


def test_a_class_comes_from_the_manifest_and_from_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "trace-1234567-bus-driving.down"
    mine.write_text("1\n2\n3\n")
    assert traces_of([str(mine)])[0].moves == "unclassified"
    known = replace(links.manifest()[0], sha256=hashlib.sha256(mine.read_bytes()).hexdigest(), moves="walking")
    monkeypatch.setattr(links, "manifest", lambda: (known,))
    assert traces_of([str(mine)])[0].moves == "walking"


def test_a_lower_score_never_has_a_better_rank() -> None:
    """The one in the middle differs from the others on a few links much: its tests find least."""
    rng = np.random.default_rng(3)
    who = [entrant(k, f"e{k}") for k in range(1, 7)]
    for _ in range(20):
        wild = {k: rng.choice([0.05, 1.5]) for k in range(1, 7)}
        data = [
            (p["id"], k, seed, math.exp(-k / 3 + wild[k] * rng.normal()))
            for p in PLACES
            for k in range(1, 7)
            for seed in range(2)
        ]
        listed = rank(data, PLACES, who)["groups"][OVERALL]["rows"]
        assert [row["score"] for row in listed] == sorted((row["score"] for row in listed), reverse=True)
        ranks = [row["rank"] for row in listed]
        assert ranks == sorted(ranks) and listed[-1]["last"] == 6
        assert all(row["rank"] <= at <= row["last"] for at, row in enumerate(listed, start=1))


def test_a_preset_and_its_recording_are_one_block() -> None:
    """Twelve links of six traces are six blocks: links of one trace are no independent finding."""
    same = [{**place(k, f"t{k}"), "origin": f"o{k // 2}"} for k in range(2, 14)]
    data = [(p["id"], who, 0, 0.5 + 0.1 * (who == 1)) for p in same for who in (1, 2)]
    found = rank(data, same, [entrant(1, "a"), entrant(2, "b")])["groups"][OVERALL]
    assert found["visible"]["end to end"]["blocks"] == 6


def test_the_first_group_is_of_traces_that_nobody_was_trained_on() -> None:
    assert first_of(["driving", OVERALL, UNSEEN]) == UNSEEN and first_of(["driving", OVERALL]) == OVERALL
    assert first_of(["scenario"]) == "scenario" and first_of([]) is None


@pytest.mark.parametrize(("name", "count"), [("presets", 12), ("models", 96)])
def test_generated_traces(name: str, count: int) -> None:
    made = traces_of([name])
    assert len(made) == len({trace.digest for trace in made}) == count
    assert {trace.moves for trace in made} == ({"static", "walking", "driving", "model"} if count == 12 else {"model"})
    for trace in made:
        for service in filter(None, (trace.service, trace.back)):
            assert service(5.0, 1) == service(5.0, 1) != service(5.0, 2)
    if name == "models":
        assert sum(trace.back is not None for trace in made) == 48, "every second has an uplink"
        means = [np.mean([step["rate_mbps"] for step in trace.service(60.0, 0)["steps"]]) for trace in made]
        assert min(means) < 2 and max(means) > 10 and all(0.3 < mean < 60 for mean in means)


def test_link_sets_are_sets_of_the_board() -> None:
    for name, count in (("satellite", 4), ("5g", 4), ("wifi", 2), ("lossy", 5)):
        made = traces_of([name])
        assert len(made) == len({trace.digest for trace in made}) == len({trace.name for trace in made}) == count
        for each in places(made, [99.0], None, 5.0):
            document = each.scenario(3, parse("cubic"))
            assert document["links"][0]["delay_ms"] == each.trace.delay_ms == each.delay_ms
            json.loads(_core.validate_scenario(json.dumps(document)))


def test_each_trace_has_a_link_of_its_own() -> None:
    """It follows from the name alone, so that other traces of a board do not change it."""
    made = traces_of(["presets", "models"])
    own = {trace.name: own_link(trace.name) for trace in made}
    assert all(10 <= ms <= 100 and 50 <= packets <= 1000 for ms, packets in own.values())
    assert len({ms for ms, _ in own.values()}) > 40 and own_link("lte-bus") == own["lte-bus"]
    (alone,) = places(traces_of(["lte-bus"]), None, None, 60.0)
    assert (alone.delay_ms, alone.buffer_packets) == own["lte-bus"]
    assert [p.delay_ms for p in places(traces_of(["lte-bus"]), [5.0, 7.0], None, 60.0)] == [5.0, 7.0]
