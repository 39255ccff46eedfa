"""Running a board: only what is missing, the same figures from any number of threads, baselines beside learners."""

from __future__ import annotations

import csv
import dataclasses
import json
import pickle
from pathlib import Path

import pytest
from boards import SMALL

from ccarena import __version__, cli
from ccarena.core.files import digest
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import ConfigError
from ccarena.eval.heldout.evaluation import BEST_WINDOW
from ccarena.eval.heldout.rules import Rule
from ccarena.eval.leaderboard import entrants
from ccarena.eval.leaderboard import measure as measuring
from ccarena.eval.leaderboard.costs import cpu_ns
from ccarena.eval.leaderboard.entrants import ASSISTED, END_TO_END, LATE, entrants_of, line_up
from ccarena.eval.leaderboard.exchange import export, take
from ccarena.eval.leaderboard.ranking import OVERALL
from ccarena.eval.leaderboard.run import Board, run
from ccarena.eval.leaderboard.store import Store
from ccarena.policies.artifact import load
from ccarena.scenarios.entrants import Entrant, of_file
from docs.generate.leaderboard import ALONE, GENERATED, PAIRS, ship

CONSTANT = Rule("constant", "2 always", {"constant": 1.0}, score=1.0).as_dict()
NO_LAW = Rule("law", "the tuned law", missing="the record names no parameters of a law").as_dict()
KNOWN = {digest(file.read_bytes()): [CONSTANT, NO_LAW] for file in shipped_policies().values()}


def stored(path: Path) -> list[dict]:
    with Store(str(path), read_only=True) as store:
        return [{k: v for k, v in row.items() if k != "attempts"} for row in store.all_runs()]


def test_only_what_is_missing_runs(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stored(small)
    assert run(SMALL, str(small)).ran == 0
    path = tmp_path / "less.db"
    fewer = dataclasses.replace(SMALL, schemes=("cubic", "reno"), seeds=1)
    assert run(fewer, str(path), threads=1).ran == len(stored(path)) < len(before)
    done = run(SMALL, str(path), threads=3)
    assert done.ran == done.cells - len(stored(path)) + done.ran
    assert stored(path) == before, "in two goes, on other numbers of threads, the same figures"


def test_what_was_finished_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, calls = tmp_path / "cut.db", iter(range(100))
    whole = measuring.measure

    def cut(task: measuring.Task) -> list:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return whole(task)

    monkeypatch.setattr("ccarena.eval.leaderboard.run.measure", cut)
    monkeypatch.setattr("ccarena.commands.leaderboard._board", lambda _: SMALL)
    assert cli.main(["leaderboard", "run", "--store", str(path), "--threads", "1"]) == cli.INTERRUPTED
    goes_on = f"go on with: ccarena leaderboard run --store {path} --threads 1"
    said = f"error: interrupted; finished cells are kept in {path}; {goes_on}\n"
    assert capsys.readouterr().err.endswith(said)
    kept = len(stored(path))
    monkeypatch.undo()
    assert kept > 0
    done = run(SMALL, str(path))
    assert done.ran == done.cells - kept


def test_the_figures_make_sense(small: Path) -> None:
    with Store(str(small), read_only=True) as store:
        label = {entrant["id"]: entrant["label"] for entrant in store.entrants()}
        ranking = store.group(OVERALL)
        assert ranking is not None
        rows = {label[row["entrant"]]: row for row in ranking["rows"]}
        assert rows["copa"]["score"] > rows["cubic"]["score"]
        assert rows[LATE]["rank"] is None and rows[BEST_WINDOW]["rank"] is None
        for mean in store.means(alone=True):
            assert (
                0 <= mean["score"] <= 1
                and mean["runs"] == 2
                and mean["throughput_mbps"] <= mean["capacity_mbps"] * 1.01
            )
        meetings = store.means(alone=False)
        assert {(label[m["entrant"]], label[m["opponent"]]) for m in meetings} == {
            (a, b) for a in ("cubic", "copa", "reno") for b in ("cubic", "copa", "reno")
        }
        for mean in meetings:
            if mean["entrant"] == mean["opponent"]:
                assert mean["share"] == pytest.approx(0.5)
        course = store.courses_of(1, "sim")
        assert all(len(series["rate_mbps"]) == 4 for series in course.values()) and len(course) == 5


def test_tracks_and_controls_of_policies(tmp_path: Path) -> None:
    bare = tmp_path / "hyvar.safetensors"
    dataclasses.replace(load(shipped_policies()["hyvar"]), rules=[]).save(bare)
    # The default, without the shipped control, whose rule stands beside acct.
    default = [each for each in entrants_of(["cubic", "pilot"], None) if each.label != "hyvar"]
    given, known = [*default, of_file(bare)], {digest(bare.read_bytes()): [CONSTANT, NO_LAW]}
    policies = {each.label: each.policy_file for each in given if each.policy_file is not None}
    entrants = {e.label: e for e in line_up(given, known, 1)}
    assert entrants["acct"].track == ASSISTED and entrants["hyvar"].track == END_TO_END
    beside = {label: e.of for label, e in entrants.items() if e.of}
    # Neither those that a policy brings along are searched again nor those that are known of one that brings none.
    brought = {
        f"{name}: {rule.label}": name
        for name, file in policies.items()
        for rule in map(Rule.of, load(file).rules)
        if rule.found
    }
    assert len(brought) > 1 and "acct" in brought.values() and "hyvar" not in brought.values()
    assert beside == brought | {"hyvar: 2 always": "hyvar"}
    assert all(entrants[label].track == entrants[name].track for label, name in brought.items())
    assert entrants["acct"].policy_digest and "# acct" in entrants["acct"].card
    assert entrants["pilot"].trained_on


def test_what_has_no_place_in_real_packets_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "none.db")
    for backend in ("kernel", "quic"):
        words = ["leaderboard", "run", "--backend", backend, "--schemes", "cubic", "abc", "--store", store]
        assert cli.main(words) == 2
        said = capsys.readouterr().err
        assert 'entrant "abc": signals of abc routers have no place in the packets' in said and "--backend sim" in said
        everyone = Board(backend=backend).entries()
        assert "cubic" in everyone and not {"abc", "xcp"} & set(everyone)
    assert not Path(store).exists() and {"abc", "xcp"} <= set(Board().entries())


def test_what_a_decision_costs(small: Path) -> None:
    with Store(str(small), read_only=True) as store:
        cost = {entrant["label"]: entrant["cpu_ns"] for entrant in store.entrants()}
    assert cost[LATE] is None and cost[BEST_WINDOW] is None
    assert 0 <= cost["reno"] < cost["copa"] < 1e5, "reno takes hardly more than a controller that does nothing"
    own = {entrant.label: entrant for entrant in line_up([of_file(shipped_policies()["acct"])], KNOWN, 1)}
    inference = cpu_ns(own["acct"])
    assert inference is not None and inference > cost["copa"], "a network takes longer than a formula"
    (constant,) = [entrant for label, entrant in own.items() if label.endswith(" always")]
    assert cpu_ns(constant) is not None


def test_results_of_others_are_run_again(small: Path, tmp_path: Path) -> None:
    for name in ("out.csv", "out.parquet"):
        pytest.importorskip("polars")
        with Store(str(small), read_only=True) as store:
            count, files = export(store, tmp_path / name)
        assert count == len(stored(small)) and all(file.is_file() for file in files)
        with Store(str(tmp_path / f"{name}.db")) as other:
            taken = take(other, tmp_path / name, 4)
            assert (taken.runs, taken.new, taken.left_out) == (count, count, 0)
            parts = {(e, opponent is None, moves) for e, opponent, moves in parts_of(small)}
            assert taken.again == len(parts), "one of each entrant, alone and beside others, on each class"
            assert take(other, tmp_path / name, 1).new == 0
            assert {row["origin"] for row in other.all_runs()} == {name}
    with (tmp_path / "out.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    named = {(row["entrant_label"], row["opponent_label"]) for row in rows}
    assert {("copa", ""), ("copa", "cubic")} <= named and all(row["place_name"] for row in rows)
    with (tmp_path / "lie.csv").open("w", newline="") as table:
        writer = csv.DictWriter(table, rows[0])
        writer.writeheader()
        writer.writerows({**row, "throughput_mbps": "99"} for row in rows)
    (tmp_path / "lie.json").write_text((tmp_path / "out.json").read_text())
    with (
        Store(str(tmp_path / "lie.db")) as other,
        pytest.raises(ConfigError, match="is said to be 99; run again it is"),
    ):
        take(other, tmp_path / "lie.csv", 12)
    with Store(str(tmp_path / "lie.db")) as other:
        assert list(other.all_runs()) == []
    named = json.loads((tmp_path / "out.json").read_text())
    for change, said in (
        ({"places": []}, "run 1 names a place or an entrant that lie.json does not describe"),
        ({"entrants": [{"digest": "x"}]}, r"lie.json: entrants\[0\]: expected an object with"),
        ({"entrants": [{**named["entrants"][0], "card": ["x"]}]}, r"entrants\[0\].card: got .* expected a text"),
        ({"places": "x"}, "lie.json: places: expected a list"),
    ):
        (tmp_path / "lie.json").write_text(json.dumps({**named, **change}))
        with Store(str(tmp_path / "lie.db")) as other, pytest.raises(ConfigError, match=said):
            take(other, tmp_path / "lie.csv", 0)


def parts_of(path: Path) -> list[tuple[str, str | None, str]]:
    with Store(str(path), read_only=True) as store:
        moves = {place["digest"]: place["moves"] for place in store.places()}
        return [(run["entrant"], run["opponent"], moves[run["place"]]) for run in store.all_runs()]


def test_tasks_travel_to_other_processes() -> None:
    where = SMALL.places()
    cells = SMALL.cells(where, line_up(entrants_of(["reno"], []), {}, 1))
    task = next(task for task in measuring.tasks_of(cells) if task.cells[0].opponent is not None)
    again = pickle.loads(pickle.dumps(task))
    assert [m.figures for m in measuring.measure(again)] == [m.figures for m in measuring.measure(task)]


def test_what_is_shipped(small: Path, tmp_path: Path) -> None:
    page = tmp_path / "leaderboard.md"
    page.write_text(f"# Words\n\n{GENERATED}\n\nold\n")
    with Store(str(small), read_only=True) as store:
        ship(store, page)
        text = page.read_text()
        assert f"Version {__version__}, backend `sim`, " in text and " s; cells have " in text
        assert text.startswith("# Words") and "old" not in text and "| copa | 0." in text and LATE not in text
        ship(store, page)
        assert page.read_text() == text
        cells = store.counts()["cells"]
    shipped = []
    for name in (ALONE, PAIRS):
        with (tmp_path / name).open(newline="") as table:
            shipped.append(list(csv.DictReader(table)))
    alone, pairs = shipped
    assert len(alone) + len(pairs) == cells and {row["entrant"] for row in alone} >= {"cubic", BEST_WINDOW}
    assert all(row["beside"] for row in pairs) and "beside" not in alone[0] and "share" in pairs[0]


def test_the_command(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["leaderboard", "rank", "--store", str(small)]) == 0
    assert "copa" in capsys.readouterr().out
    assert cli.main(["leaderboard", "rank", "--store", str(small), "--json"]) == 0
    assert OVERALL in json.loads(capsys.readouterr().out)["groups"]
    assert cli.main(["leaderboard", "rank", "--store", str(small), "--group", "drivin"]) == 2
    assert 'did you mean "driving"?' in capsys.readouterr().err


@pytest.mark.parametrize(("written", "kind"), [("wasm", "module"), ("python", "class")])
def test_a_controller_of_a_user_is_no_scheme(written: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrants, "_card", lambda entrant: "")
    monkeypatch.setattr(entrants, "_what", lambda entrant, policy: {})
    mine = Entrant("mine", {"scheme": "controller", "controller": {"type": written}})
    assert entrants._scheme(mine).kind == kind
