"""Files from strangers: false runs are found, malformed files are refused, and nothing that is stored is replaced."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ccarena import cli
from ccarena.errors import ConfigError
from ccarena.eval.leaderboard import exchange, tables
from ccarena.eval.leaderboard.cells import key_of
from ccarena.eval.leaderboard.exchange import export, take
from ccarena.eval.leaderboard.ranking import OVERALL
from ccarena.eval.leaderboard.run import run
from ccarena.eval.leaderboard.sampling import draw
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.measure.table import POWERS

from boards import SMALL  # isort: skip


Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def exported(small: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, dict[str, Any]]:
    """The rows and the names of a true file."""
    file = tmp_path_factory.mktemp("exported") / "out.csv"
    with Store(str(small), read_only=True) as store:
        export(store, file)
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    return rows, json.loads(file.with_suffix(".json").read_text("utf-8"))


def written(folder: Path, rows: Sequence[dict[str, Any]], named: Any, columns: Sequence[str] | None = None) -> Path:
    file = folder / "theirs.csv"
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    file.with_suffix(".json").write_text(json.dumps(named), "utf-8")
    return file


def boasting(row: dict[str, str]) -> dict[str, str]:
    """A run alone that filled its link without a queue, consistently."""
    full = {"utilisation": "1", "queueing_delay_mean_ms": "0", "throughput_mbps": row["capacity_mbps"]}
    return {**row, **full, **dict.fromkeys(POWERS, "1")}


def alone(rows: Rows, named: dict[str, Any], label: str) -> list[int]:
    (own,) = (entrant["digest"] for entrant in named["entrants"] if entrant["label"] == label)
    return [at for at, row in enumerate(rows) if row["entrant"] == own and not row["opponent"]]


def test_runs_that_would_rank_a_liar_first_are_found(
    exported: tuple[Rows, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs of one entrant but one are false, and only one run is asked to be repeated.

    The draw knows entrants and traces, and no figures: a few of the runs that could be spared stand for all.
    """
    rows, named = exported
    mine = alone(rows, named, "reno")
    assert len(mine) == 24
    caught: list[str] = []
    monkeypatch.setattr(exchange, "again", lambda chosen, file: caught.extend(run["key"] for _, run in chosen))
    for spared in mine[::6]:
        false = {rows[at]["key"] for at in mine if at != spared}
        file = written(tmp_path, [boasting(row) if row["key"] in false else row for row in rows], named)
        caught.clear()
        with Store(str(tmp_path / f"{spared}.db")) as store:
            take(store, file, 1)
        assert false & set(caught), "the draw has a false run"
    monkeypatch.undo()
    with Store(str(tmp_path / "whole.db")) as store:
        with pytest.raises(ConfigError, match=r"reno on .*is said to be .*; run again it is .*Nothing was taken"):
            take(store, file, 1)
        assert list(store.all_runs()) == [] and store.entrants() == [] and store.places() == []


def test_what_cannot_be_repeated_here_is_left_out(
    exported: tuple[Rows, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another version, a backend in real time or an unknown policy would be ways around the sample."""
    rows, named = exported

    def elsewhere(row: dict[str, str], **changes: str) -> dict[str, str]:
        row = {**boasting(row), **changes}
        who = (row["scenario"], row["entrant"], row["opponent"] or None, row["backend"], row["version"])
        return {**row, "key": key_of(*who)}

    mine = alone(rows, named, "reno")
    unknown = {**named["entrants"][0], "digest": "0" * 16, "label": "mine", "kind": "policy", "track": "end to end"}
    unknown |= {"policy_digest": "1" * 16, "beside": ""}
    more = [elsewhere(rows[at], version="9.9") for at in mine] + [elsewhere(rows[at], backend="kernel") for at in mine]
    more += [elsewhere(rows[at], entrant="0" * 16) for at in mine]
    file = written(tmp_path, rows + more, {**named, "entrants": [*named["entrants"], unknown]})
    store = tmp_path / "results.db"
    assert cli.main(["leaderboard", "import", str(file), "--store", str(store), "--sample", "1"]) == 0
    said = capsys.readouterr().out
    assert f"{len(rows)} runs are new here, 0 were there" in said and "72 were left out" in said
    assert "a file in which half of an entrant's runs are false passes" in said
    with Store(str(store), read_only=True) as opened:
        assert {row["version"] for row in opened.all_runs()} == {rows[0]["version"]}
        assert "mine" not in {entrant["label"] for entrant in opened.entrants()}
        group, label = opened.group(OVERALL), {each["id"]: each["label"] for each in opened.entrants()}
        assert group is not None and label[next(row["entrant"] for row in group["rows"] if row["rank"])] == "copa"


def test_the_seed_is_secret_and_repeats_a_draw() -> None:
    parts = [(who, moves) for who in "ab" for moves in ("static", "driving") for _ in range(50)]
    drawn = draw(parts, 10)
    assert len({draw(parts, 10).seed for _ in range(20)}) == 20 and drawn.seed > 0
    assert draw(parts, 10, drawn.seed) == drawn and len(drawn.chosen) == 10
    assert {parts[index] for index in draw(parts, 0).chosen} == set(parts), "one of each part at least"
    assert draw(parts, 10**6).missed == 0.0 and len(draw(parts, 10**6).chosen) == len(parts)


@pytest.mark.parametrize("count", [2, 5, 9])
def test_the_probability_that_is_said_is_the_best_a_forger_has(count: int) -> None:
    """Against every way to place the false runs of one entrant, each over many draws."""
    parts = [("a", "static")] * 4 + [("a", "driving")] * 6
    draws = [draw(parts, count, seed) for seed in range(4000)]
    best = 0.0
    for static in range(0, 5):
        false = {*range(static), *range(4, 4 + 5 - static)}
        best = max(best, sum(not false & set(drawn.chosen) for drawn in draws) / len(draws))
    # How many runs of each part are repeated is drawn, too; a forger does not know it, and what is said allows for it.
    assert best <= max(drawn.missed for drawn in draws) + 0.02
    assert max(drawn.missed for drawn in draws) < 1.0


NOT_TABLES: dict[str, tuple[bytes | None, bytes | None, str]] = {
    "SQLite": (b"SQLite format 3\0" + bytes(range(256)) * 8, None, "not a table|found no|holds"),
    "an empty table": (b"", None, "expected the columns"),
    "a header alone": (",".join(tables._columns()).encode() + b"\n", None, "expected runs, found none"),
    "other columns": (b"a,b\n1,2\n", None, "expected the columns of `ccarena leaderboard export`, found no key"),
    "no UTF-8": (b"key,\xff\xfe\n", None, "not a table"),
    "a field without end": (",".join(tables._columns()).encode() + b'\n"' + b"a" * 200_000, None, "not a table"),
    "JSON that is cut": (None, b'{"places": [', "not JSON"),
    "JSON that is deep": (None, b"[" * 200_000, "not JSON"),
    "JSON of another kind": (None, b"[]", "expected an object with `places`"),
    "no entrants": (None, b'{"places": []}', "entrants: expected a list"),
}


@pytest.mark.parametrize("name", NOT_TABLES)
def test_what_is_no_table_is_refused(
    name: str, exported: tuple[Rows, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, beside, said = NOT_TABLES[name]
    file = written(tmp_path, *exported)
    if table is not None:
        file.write_bytes(table)
    if beside is not None:
        file.with_suffix(".json").write_bytes(beside)
    refused(file, said, tmp_path, capsys)


def refused(file: Path, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks that the command refuses a file in one line, trusted or not, and that the store stays empty."""
    store = str(folder / "refusing.db")
    for sample in ("0", "5"):
        capsys.readouterr()
        assert cli.main(["leaderboard", "import", str(file), "--store", store, "--sample", sample]) in (2, 4)
        error = capsys.readouterr().err
        with pytest.raises(ConfigError, match=said):
            raise ConfigError(error)
        assert "internal error" not in error and "SELECT" not in error and error.count("\n") == 1
    with Store(store) as opened:
        assert list(opened.all_runs()) == [] and opened.places() == [] and opened.entrants() == []


@pytest.mark.parametrize("data", [b"PAR1garbagePAR1", b"", b"PAR1" + bytes(2000) + b"PAR1"])
def test_what_is_no_parquet_is_refused(
    data: bytes, exported: tuple[Rows, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("polars")
    file = written(tmp_path, *exported).with_suffix(".parquet")
    file.write_bytes(data)
    refused(file, "not a table", tmp_path, capsys)


def test_files_that_are_too_large_are_refused_unread(
    exported: tuple[Rows, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in (".csv", ".json"):
        file = written(tmp_path, *exported)
        with file.with_suffix(suffix).open("r+b") as opened:
            opened.truncate(tables.LARGEST_BYTES + 1)  # sparse
        refused(file, "bytes; expected a file of at most", tmp_path, capsys)


Change = Callable[[dict[str, Any]], Any]
FALSE: dict[str, tuple[str, dict[str, Any], str]] = {
    # The row that is changed ("run" is one alone), what is written, and what is said.
    "a key of another run": ("run", {"key": "0" * 32}, "key: got 0{32}; its scenario, entrants, backend and version"),
    "no key": ("run", {"key": "'; DROP TABLE runs; --"}, "key: got .*expected 32 hexadecimal digits"),
    "an unknown backend": ("run", {"backend": "moon"}, "backend: got 'moon'; expected one of sim"),
    "an unknown entrant": ("run", {"entrant": "0" * 16}, "names a place or an entrant that"),
    "a score above 1": ("run", {"score": "1.5"}, "score: got 1.5; expected a number from 0 to 1"),
    "a score of nothing": ("run", {"score": ""}, "score: got None, utilisation"),
    "a score that is none": ("run", {"score": "nan"}, "score: got nan; expected a number"),
    "an infinite delay": ("run", {"queueing_delay_p95_ms": "inf"}, "queueing_delay_p95_ms: got inf; expected"),
    "a negative throughput": ("run", {"throughput_mbps": "-3"}, "throughput_mbps: got -3.0; expected"),
    "words as a number": ("run", {"power": "much"}, "power: got 'much'; expected a number"),
    "a score that does not follow": ("run", {"score": "0.999"}, "score: got 0.999; its utilisation and queueing delay"),
    "another score that does not follow": ("run", {"score_delay": "0.999"}, "score_delay: got 0.999; its utilisation"),
    "harm of a run alone": ("run", {"harm_delay": "0.5"}, "harm_delay: got 0.5; a run alone has none"),
    "half a seed": ("run", {"seed": "0.5"}, "seed: got 0.5; expected a whole number"),
    "attempts without end": ("run", {"attempts": "1000000"}, "attempts: got 1000000.0; expected"),
    "an invalid simulation": ("run", {"valid": "False"}, "valid: got false; a simulated run is valid"),
    "another scenario": ("run", {"scenario": "0" * 16}, "key: got"),
    "an escape sequence": ("run", {"machine": "\x1b]0;x\x07"}, "machine: holds"),
    "an unknown kind": ("entrants", {"kind": "god"}, "kind: got 'god'; expected one of scheme, module, class"),
    "an unknown track": ("entrants", {"track": "fast lane"}, "track: got 'fast lane'; expected one of end to end"),
    "a scheme that is an oracle": ("entrants", {"track": "oracle"}, "track: got 'oracle' for a scheme"),
    "a scheme with a policy": ("entrants", {"policy_digest": "0" * 16}, "a policy has one"),
    "a negative cost": ("entrants", {"cpu_ns": -1}, "cpu_ns: got -1; expected"),
    "a trace by another name": ("places", {"trace": "lte-moon"}, "its trace, delay and buffer make it 'lte-moon, "),
    "another trace's digest": ("places", {"trace_digest": "0" * 16}, "its trace, name and duration make it"),
    "no class of traces": ("places", {"moves": "flying"}, "moves: got 'flying'; expected one of"),
    "a delay that is none": ("places", {"delay_ms": "20"}, "delay_ms: got '20'; expected a number"),
    "a run of years": ("places", {"duration_s": 1e9}, "duration_s: got 1000000000.0; expected"),
    "a place without a name": ("places", {"name": None}, "name: got None; expected a text"),
}


@pytest.mark.parametrize("name", FALSE)
def test_fields_out_of_range_or_in_contradiction_are_refused(
    name: str, exported: tuple[Rows, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where, change, said = FALSE[name]
    rows, named = exported
    if where == "run":
        at = alone(rows, named, "reno")[0]
        rows = [{**row, **change} if index == at else row for index, row in enumerate(rows)]
    else:
        at = next(i for i, row in enumerate(named[where]) if row.get("kind", "scheme") == "scheme")
        described = [{**row, **change} if index == at else row for index, row in enumerate(named[where])]
        named = {**named, where: described}
    refused(written(tmp_path, rows, named), said, tmp_path, capsys)


def test_the_same_run_or_entrant_twice_is_refused(
    exported: tuple[Rows, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A false run first and a true one behind it: the sample would repeat one, the store keep the other."""
    rows, named = exported
    at = alone(rows, named, "reno")[0]
    refused(written(tmp_path, [boasting(rows[at]), *rows], named), "is there twice", tmp_path, capsys)
    twice = {**named, "entrants": [*named["entrants"], named["entrants"][0]]}
    refused(written(tmp_path, rows, twice), "is described twice", tmp_path, capsys)


def test_an_import_replaces_nothing_that_is_stored(exported: tuple[Rows, dict[str, Any]], tmp_path: Path) -> None:
    """Neither own runs, nor what is known of an entrant, even if the file is trusted."""
    rows, named = exported
    own = tmp_path / "own.db"
    run(SMALL, str(own))
    with Store(str(own)) as store:
        before, who = list(store.all_runs()), store.entrants()
        false = [boasting(row) if not row["opponent"] else row for row in rows]
        described = [{**each, "label": "x", "card": "the best", "cpu_ns": 0.0} for each in named["entrants"]]
        taken = take(store, written(tmp_path, false, {**named, "entrants": described}), 0)
        assert (taken.new, taken.again) == (0, 0)
        assert list(store.all_runs()) == before and store.entrants() == who


def test_what_a_file_says_of_entrants_is_not_taken(exported: tuple[Rows, dict[str, Any]], tmp_path: Path) -> None:
    rows, named = exported
    described = [{**each, "card": "the best", "trained_on": [], "cpu_ns": 0.0} for each in named["entrants"]]
    with Store(str(tmp_path / "new.db")) as store:
        take(store, written(tmp_path, rows, {**named, "entrants": described}), 1)
        assert all(each["card"] != "the best" and each["cpu_ns"] is None for each in store.entrants())


def test_damage_never_breaks_the_reader(exported: tuple[Rows, dict[str, Any]], tmp_path: Path) -> None:
    """Bytes at random, in either file: refused in words, or taken as they are."""
    file = written(tmp_path, exported[0][:5], exported[1])
    whole = {suffix: file.with_suffix(suffix).read_bytes() for suffix in (".csv", ".json")}
    drawn = random.Random(1)
    for _ in range(300):
        suffix = drawn.choice(list(whole))
        data = bytearray(whole[suffix])
        for _ in range(drawn.randint(1, 4)):
            at = drawn.randrange(len(data))
            data[at : at + drawn.choice((1, 1, 50))] = bytes(drawn.randrange(256) for _ in range(drawn.randint(0, 3)))
        file.with_suffix(suffix).write_bytes(bytes(data))
        try:
            tables.read(file)
        except ConfigError:
            pass
        file.with_suffix(suffix).write_bytes(whole[suffix])
