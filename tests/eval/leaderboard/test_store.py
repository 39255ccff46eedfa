"""The store: every run once, whoever writes; the same in SQLite and in PostgreSQL."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.errors import ConfigError
from ccarena.eval.leaderboard.cells import Cell, Measured, cells_of
from ccarena.eval.leaderboard.entrants import entrants_of, line_up
from ccarena.eval.leaderboard.links import places, traces_of
from ccarena.eval.leaderboard.ranking import rank
from ccarena.eval.leaderboard.store import Store

WHERE = places(traces_of(["presets"])[:2], [20.0], [100], 2.0)
ENTRANTS = line_up(entrants_of(["cubic", "reno"], []), {}, 1)


def made(seeds: int = 3) -> list[Cell]:
    return cells_of(WHERE, ENTRANTS, seeds, "sim", WHERE[:1], 1)


def measured(cell: Cell, score: float = 0.5, valid: bool = True) -> Measured:
    series = {"bin_s": 0.5, "rate_mbps": [1.0], "capacity_mbps": [2.0], "queueing_delay_ms": [None]}
    return Measured(cell, {"score": score, "power": math.nan}, valid, None if valid else 7.0, series)


def exercise(where: str) -> None:
    """All that a store has to do, on a new one."""
    cells = made()
    keys = [cell.key for cell in cells]
    assert len(set(keys)) == len(cells)
    with Store(where) as store:
        assert store.missing(keys, 3) == set(keys)
        assert store.add([measured(cell) for cell in cells[:5]]) == 5
        assert store.add([measured(cell, 0.9) for cell in cells[:6]]) == 1, "a valid run stays"
        assert store.missing(keys, 3) == set(keys[6:])
        # An invalid run is kept as such, tried again so often, and gives way to a valid one.
        for attempt in range(1, 3):
            assert store.missing([keys[6]], 3) == {keys[6]}
            assert store.add([measured(cells[6], valid=False)]) == 1
            assert store.counts()["invalid"] == 1, attempt
        assert store.missing([keys[6]], 2) == set()
        assert store.missing([keys[6]], 3) == {keys[6]}
        assert store.add([measured(cells[6], 0.7)]) == 1
        assert store.counts() == {
            "runs": 7,
            "invalid": 0,
            "cells": len({(c.place.name, c.entrant.label) for c in cells[:7]}),
        }
        one = store.runs_at(1, "sim")[0]
        assert one["score"] == 0.5 and one["power"] is None and store.courses_of(1, "sim")[1]["capacity_mbps"] == [2.0]
        assert {"scenario", "version", "machine", "backend"} <= {name for name, value in one.items() if value}
        store.keep_rankings({"score": {"groups": {"old": {}}, "runs": 1}})
        other = {"groups": {"all": {"rows": [1]}}}
        store.keep_rankings({"score": {"groups": {"all": {"rows": []}}, "runs": 2}, "score_delay": other})
        assert store.ranking() == {"runs": 2, "names": ["all"]}
        assert store.group("all") == {"rows": []} and store.group("old") is None
        assert store.group("all", "score_delay") == {"rows": [1]} and store.group("all", "score_sharing") is None
        row = {"link": "a", "entrant": "b", "throughput_mbps": 1.0, "delay_ms": 2.0, "seed": None, "source": "c"}
        assert store.add_reported([{"digest": "x", **row}, {"digest": "y", **row}]) == 2
        assert store.add_reported([{"digest": "x", **row}]) == 0 and len(store.reported()) == 2
        assert store.counts()["runs"] == 7, "what is reported is no run"
    with Store(where, read_only=True) as store:
        mean = next(m for m in store.means(alone=True) if m["runs"] > 1)
        assert mean["score"] == pytest.approx(0.5)

    # Several writers of the same runs at once: each is stored once.
    def write(_: int) -> int:
        with Store(where) as own:
            return own.add([measured(cell) for cell in cells])

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(4))) == len(cells) - 7
    with Store(where) as store:
        assert store.missing(keys, 3) == set()
        assert store.counts()["runs"] == len(cells)
    _means_are_those_of_ranks(where)


def _means_are_those_of_ranks(where: str) -> None:
    """A cell's score is the one of its ranks; a run that gets nothing through counts as the least score does there."""
    cells = [cell for cell in cells_of(WHERE[1:], ENTRANTS[:1], 5, "sim") if cell.seed > 2]
    with Store(where) as store:
        assert store.add([measured(cell, score) for cell, score in zip(cells, (0.64, 0.0), strict=True)]) == 2
        (number,) = [place["id"] for place in store.places() if place["name"] == WHERE[1].name]
        rows = [row for row in store.scores("sim") if row[0] == number]
        ranking = rank(rows, store.places(), store.entrants())["groups"][f"trace {WHERE[1].trace.name}"]
        wanted = {row["entrant"]: row["score"] for row in ranking["rows"]}
        assert {row[3] for row in rows} >= {0.64, 0.0} and len(wanted) > 1
        for mean in store.means(place=[number]):
            assert mean["score"] == pytest.approx(wanted[mean["entrant"]], rel=1e-9)


def test_sqlite(tmp_path: Path) -> None:
    exercise(str(tmp_path / "new" / "results.db"))


def test_postgresql(postgresql: str) -> None:
    exercise(postgresql)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no store is here; `ccarena leaderboard run` makes one"):
        Store(str(tmp_path / "absent.db"), read_only=True)
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(ConfigError, match="cannot be used: file is not a database"):
        Store(str(tmp_path / "text.db"))
    (tmp_path / "empty.db").write_text("")
    with pytest.raises(ConfigError, match="found no leaderboard, expected version"):
        Store(str(tmp_path / "empty.db"), read_only=True)
    with pytest.raises(ConfigError, match="expected a file, or postgresql://HOST/NAME") as refused:
        Store("nothing://me:secret@host/name")
    assert "secret" not in str(refused.value)


def test_the_schema_is_that_of_the_migrations(tmp_path: Path) -> None:
    import sqlalchemy as sa

    from ccarena.eval.leaderboard.figures import stored
    from ccarena.eval.leaderboard.store import _schema

    path = tmp_path / "results.db"
    Store(str(path)).__exit__()
    inspector = sa.inspect(sa.create_engine(f"sqlite:///{path}"))
    for name, table in _schema(tuple(stored())).tables.items():
        assert {column["name"] for column in inspector.get_columns(name)} == {column.name for column in table.c}


def test_a_store_of_before_the_other_scores_gets_them(small: Path, tmp_path: Path) -> None:
    """Runs alone get what their utilisation and score decide; runs beside others, whose shares are gone, get none."""
    import sqlite3

    with Store(str(small), read_only=True) as store:
        wanted = {row["key"]: row for row in store.all_runs()}
        means = store.means(alone=True)
    path = tmp_path / "old.db"
    with sqlite3.connect(small) as now, sqlite3.connect(path) as old:
        now.backup(old)
        for table in ("runs", "means"):
            for name in ("score_throughput", "score_delay", "score_sharing"):
                old.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        old.execute("DROP TABLE reported")
        old.execute("UPDATE means SET score = 0.5")
        old.execute("UPDATE alembic_version SET version_num = '4'")
    with pytest.raises(
        ConfigError, match=r"found version 4 of the schema, expected version 6; `ccarena leaderboard run`"
    ):
        Store(str(path), read_only=True)
    with Store(str(path), make=False) as store:
        for row in store.all_runs():
            for name in () if row["opponent"] else ("score_throughput", "score_delay"):
                assert row[name] == pytest.approx(wanted[row["key"]][name], rel=1e-9), name
            assert row["score_sharing"] is None
        for mine, theirs in zip(store.means(alone=True), means, strict=True):
            for name in ("score", "score_delay"):
                assert mine[name] == pytest.approx(theirs[name], rel=1e-9), "means are computed anew, too"
        assert store.reported() == [] and store.ranking() is None
    assert cli.main(["leaderboard", "page", str(tmp_path / "site"), "--store", str(path)]) == 2
    assert cli.main(["leaderboard", "rank", "--store", str(path)]) == 0
    assert cli.main(["leaderboard", "page", str(tmp_path / "site"), "--store", str(path)]) == 0
