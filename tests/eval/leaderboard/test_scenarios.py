"""Scenarios of users on the leaderboard: an entrant takes a flow's place, and its rows are ranked apart."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import ccarena
from ccarena import cli
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.entrants import ASSISTED, entrants_of, line_up
from ccarena.eval.leaderboard.exchange import export, take
from ccarena.eval.leaderboard.links import SCENARIO
from ccarena.eval.leaderboard.ranking import OVERALL
from ccarena.eval.leaderboard.run import Board, run
from ccarena.eval.leaderboard.scenarios import scenario_places
from ccarena.eval.leaderboard.site import write_site
from ccarena.eval.leaderboard.store import Store

SHARED = """\
duration_s: 1
seed: 7
links:
  - {name: l, service: {type: constant, rate_mbps: 12}, delay_ms: 10, loss: 0.01, queue: {type: droptail, packets: 50}}
flows:
  - {scheme: cubic, name: other}
  - {scheme: vegas, name: entrant, start_s: 0.1}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "shared.yaml"
    file.write_text(SHARED)
    return file


def board(*files: Path, traces: tuple[str, ...] = (), schemes: tuple[str, ...] = ("reno", "copa")) -> Board:
    return Board(traces, schemes, (), (20.0,), (100,), 1.0, 2, 0, scenarios=[str(file) for file in files])


def test_an_entrant_takes_the_place_of_a_flow(shared: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "results.db")
    done = run(board(shared), store)
    assert (done.cells, done.ran, done.left_out) == (4, 4, ()), "two entrants, two seeds, and no oracle"
    with Store(store, read_only=True) as opened:
        [place] = opened.places()
        assert place["moves"] == SCENARIO and place["name"].startswith("shared ")
        label = {entrant["id"]: entrant["label"] for entrant in opened.entrants()}
        rows = {(label[row["entrant"]], row["seed"]): row for row in opened.runs_at(place["id"], "sim")}
    document = SHARED.replace("vegas", "reno")
    (tmp_path / "reno.yaml").write_text(document)
    flows = ccarena.run(tmp_path / "reno.yaml", seeds=2).flows()
    mine = flows[flows["flow"] == "entrant"]
    for seed, (_, said) in enumerate(mine.iterrows()):
        row = rows["reno", seed]
        assert row["throughput_mbps"] == pytest.approx(said["throughput_mbps"])
        used = row["throughput_mbps"] / row["capacity_mbps"]
        assert row["score"] == pytest.approx(used * 20 / (20 + row["queueing_delay_mean_ms"]))
        assert 0 < used < row["utilisation"], "another flow has the rest"
    assert rows["reno", 0]["score"] != rows["reno", 1]["score"], "a seed draws other losses"


def test_scenarios_are_ranked_apart(shared: Path, tmp_path: Path) -> None:
    store, both = str(tmp_path / "results.db"), board(shared, traces=("genet-steps",))
    run(dataclasses.replace(both, scenarios=()), store)
    with Store(store, read_only=True) as opened:
        before = {name: opened.group(name) for name in opened.ranking()["names"]}
    assert run(both, store).ran == 4
    assert run(both, store).ran == 0, "what was run is there"
    with Store(store, read_only=True) as opened:
        after = {name: opened.group(name) for name in opened.ranking()["names"]}
        [place] = [place["name"] for place in opened.places() if place["moves"] == SCENARIO]
        assert after.keys() - before.keys() == {SCENARIO, f"{SCENARIO} {place}"}
        assert {name: after[name] for name in before} == before and OVERALL in before
        assert len(after[SCENARIO]["rows"]) == 2
        write_site(opened, tmp_path / "site", "ccarena leaderboard page site")
        count, _ = export(opened, tmp_path / "out.csv")
    with Store(str(tmp_path / "other.db")) as other:
        assert take(other, tmp_path / "out.csv", 0).new == count
    shared_again = tmp_path / "shared.yaml"
    shared_again.write_text(SHARED.replace("rate_mbps: 12", "rate_mbps: 24"))
    assert run(board(shared_again), store).ran == 4, "another content is another scenario"


def test_who_needs_a_router_is_left_out_without_one(shared: Path, tmp_path: Path) -> None:
    done = run(board(shared, schemes=("reno", "xcp")), str(tmp_path / "results.db"))
    assert done.cells == 2 and "so xcp is left out; `router: true` on a link" in done.left_out[0]
    routed = {}
    for router in ("true", "xcp", "abc"):
        file = tmp_path / f"{router}.yaml"
        file.write_text(SHARED.replace("delay_ms", f"router: {router}, delay_ms"))
        [place] = scenario_places([str(file)])
        entrants = line_up(entrants_of(["xcp", "abc"], []), {}, 1)
        routed[router] = [e.label for e in entrants if e.track == ASSISTED and place.takes(e.track, e.sender.scheme)]
    assert routed == {"true": ["xcp", "abc"], "xcp": ["xcp"], "abc": ["abc"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("flows:", "flows: []\nflow:"), r"flows: found none; expected one at least"),
        (("start_s: 0.1", "count: 2"), r"flows\[1\].count: got 2; an entrant is one flow"),
        (("duration_s: 1", "duration_s: 0.5"), "duration_s: got 0.5; a leaderboard expects 1 at least"),
        (("rate_mbps: 12", "rate_mbps: x"), "shared.yaml: .*rate_mbps"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    file = tmp_path / "shared.yaml"
    file.write_text(SHARED.replace(*change))
    with pytest.raises(CcarenaError, match=said):
        run(board(file), str(tmp_path / "results.db"))
    assert not (tmp_path / "results.db").exists()


def test_two_files_of_one_name(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "shared.yaml"
    other.write_text(SHARED)
    with pytest.raises(ConfigError, match='another scenario is called "shared", too; rename one'):
        run(board(shared, other), str(tmp_path / "results.db"))
    words = ["leaderboard", "run", "--traces", "--schemes", "reno", "--policies", "--seeds", "1"]
    store = ["--store", str(tmp_path / "results.db")]
    assert cli.main([*words, *store, "--scenario", str(shared)]) == 0
    assert "scenario, backend sim" in capsys.readouterr().out
