"""Ranks: what cannot be told apart shares one, and nobody has one on what it was trained on."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ccarena.eval.leaderboard import links
from ccarena.eval.leaderboard.cells import scenario_digest
from ccarena.eval.leaderboard.links import Place, traces_of
from ccarena.eval.leaderboard.ranking import OVERALL, UNSEEN, better, rank, seen_by
from ccarena.eval.leaderboard.ranking import _two_sided as two_sided
from ccarena.eval.measure.table import normalised_power


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
    assert [found[k]["rank"] for k in (1, 2, 3, 4)] == [1, 1, 3, None]
    assert found[4]["why"] == "a baseline rule"
    # Links differ far more than schemes: the interval of a score is wide, and ranks are sure all the same.
    assert found[3]["high"] > found[1]["low"]
    wins = {(a, b): share for a, b, share in result["groups"][OVERALL]["wins"]}
    assert wins[1, 3] == 1.0 and 0.2 < wins[1, 2] < 0.8
    assert result == rank(scores({1: 0.0, 2: 0.001, 3: -0.5, 4: 1.0}), PLACES, who)


@pytest.mark.parametrize("units", [10, 40])
def test_ranks_allow_for_many_comparisons(units: int) -> None:
    """Eight that are equal are 28 pairs: each at 5 % by itself would set someone apart in most of these worlds."""
    false, by_itself, found = 0, 0, 0
    for world in range(60):
        rng = np.random.default_rng(world)
        data = rng.normal(size=(units, 8))
        false += bool(better(data).any())
        drawn = rng.multinomial(units, [1 / units] * units, 500) / units @ data
        by_itself += bool((np.quantile(drawn[:, :, None] - drawn[:, None, :], 0.025, axis=0) > 0).any())
        data[:, 0] += 10 / math.sqrt(units)
        apart = better(data)
        found += bool(apart[0, 1:].all())
        assert not (apart & apart.T).any()
    assert false <= 6 and by_itself > 20 and found > 30, (false, by_itself, found)


def test_the_t_test_is_that_of_tables() -> None:
    """Critical values of Student's t at 5 % and 1 %, two-sided, from any table."""
    for freedom, five, one in (
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (11, 2.201, 3.106),
        (30, 2.042, 2.75),
    ):
        assert two_sided(np.array([five, one, 0.0]), freedom) == pytest.approx([0.05, 0.01, 1.0], rel=2e-3)


def test_what_never_differs_cannot_be_told_apart() -> None:
    assert not better(np.zeros((40, 3))).any()
    assert not better(np.array([[1.0, 0.0]])).any(), "seen once"
    assert better(np.array([[1.0, 0.0], [3.0, 2.0], [4.0, 3.0]])).tolist() == [[False, True], [False, False]]


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


def test_twelve_generated_traces_of_every_class() -> None:
    made = traces_of(["presets"])
    assert len(made) == 12 and {trace.moves for trace in made} == {"static", "walking", "driving", "model"}
    for trace in made:
        assert trace.service(5.0, 1) == trace.service(5.0, 1) != trace.service(5.0, 2)
