"""Store of results: SQLite in a file, or PostgreSQL by its URL.

The schema is versioned (`migrations/`) and upgraded whenever a store is opened for writing. A run has a row of its own
by the key of its cell. Any number of processes may write, and no cell is stored twice; only an invalid run is replaced
by a later one. `means` has the mean of the valid repetitions of every cell, so that pages need not read all runs: of
scores the geometric mean, as ranks have it (`ranking`), of other figures the arithmetic one.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena import __version__
from ccarena.core.files import digest
from ccarena.core.machine import processor, usable_cores
from ccarena.core.terminal import visible
from ccarena.errors import ConfigError, MissingDependencyError, cannot_write
from ccarena.eval.leaderboard.cells import Measured
from ccarena.eval.leaderboard.entrants import Ranked
from ccarena.eval.leaderboard.figures import RIVAL, SCORE, SCORES, SHARING, stored
from ccarena.eval.leaderboard.links import Place
from ccarena.eval.measure.table import LEAST_SCORE

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, MetaData

__all__ = ["DEFAULT", "JSON", "OWN", "Store", "machine"]

DEFAULT = "runs/leaderboard/results.db"
EXPECTED = "expected a file, or postgresql://HOST/NAME"
OWN = "own"
"""Origin of runs of this store's machines; imported ones have the name of their source."""
JSON = ("trained_on", "rules", "curve")
"""Columns of an entrant that hold JSON."""
LONGEST_ERROR = 1000
"""Longest stored message of a program that failed."""
_RANKING = "ranking: "
"""Prefix of the notes of rankings, before the score and the group's name."""
_COMMANDS = "commands"
"""Name of the note with the shell lines that filled the store."""
_WRITERS = 0xCCA
"""Lock of a PostgreSQL store."""
_CHUNK = 500
"""Most keys in one query: SQLite takes 999 values by default in older builds."""


@cache
def _schema(figures: tuple[str, ...]) -> MetaData:
    """Returns the newest version with columns for these figures; migrations and `_upgrade` make it."""
    import sqlalchemy as sa

    meta = sa.MetaData()
    text, whole, real = sa.Text, sa.Integer, sa.Float

    def table(name: str, /, **columns: Any) -> None:
        sa.Table(name, meta, *(sa.Column(key, kind, primary_key=key == "id") for key, kind in columns.items()))

    table(
        "places",
        **{"id": whole, "digest": text, "name": text, "trace": text, "moves": text, "origin": text},
        **{"trace_digest": text, "delay_ms": real, "buffer_packets": whole, "duration_s": real, "uplink": sa.Boolean},
    )
    table(
        "entrants",
        **{"id": whole, "digest": text, "label": text, "kind": text, "track": text, "policy_digest": text},
        **{"beside": text, "trained_on": text, "rules": text, "card": text, "cpu_ns": real},
        curve=text,
    )
    table(
        "runs",
        **{"id": whole, "key": text, "place": whole, "entrant": whole, "opponent": whole, "seed": whole},
        **{"scenario": text, "backend": text, "version": text, "machine": text, "origin": text},
        **{"valid": sa.Boolean, "attempts": whole, "lateness_p99_ms": real, "error": text},
        **dict.fromkeys(figures, real),
    )
    table("courses", run=whole, series=text)
    table(
        "means",
        **{"place": whole, "entrant": whole, "opponent": whole, "backend": text, "runs": whole, "invalid": whole},
        **dict.fromkeys(figures, real),
    )
    table("notes", name=text, text=text)
    table(
        "reported",
        **{"id": whole, "digest": text, "link": text, "entrant": text, "throughput_mbps": real, "delay_ms": real},
        **{"seed": whole, "source": text},
    )
    return meta


class Store:
    """Open store. Use it in a `with` block. Methods raise ConfigError for errors of the database."""

    def __init__(self, where: str, read_only: bool = False, make: bool = True) -> None:
        """Opens the file or URL `where`. A missing store is created if `make` is set and `read_only` is not.

        Raises ConfigError if the store is missing or no store, MissingDependencyError without a driver.
        """
        import sqlalchemy as sa
        import sqlalchemy.exc

        self._sa = sa
        self.where = where
        url = where if "://" in where else f"sqlite:///{Path(where).resolve()}"
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        if "://" not in where and (read_only or not make) and not Path(where).is_file():
            raise ConfigError(f"{where}: no store is here; `ccarena leaderboard run` makes one")
        if "://" not in where:
            try:
                Path(where).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(f"--store {where}", error, "name another file") from error
        try:
            self._engine: Engine = sa.create_engine(url)
        except ModuleNotFoundError as error:
            if not url.startswith("postgresql"):
                raise ConfigError(f"--store {_shown(where)}: {EXPECTED}") from error
            raise MissingDependencyError.for_extra(
                str(error.name), "postgresql", f"the store {_shown(where)}"
            ) from error
        except sa.exc.ArgumentError as error:
            raise ConfigError(f"--store {_shown(where)}: no store; {EXPECTED}") from error
        self._sqlite = self._engine.dialect.name == "sqlite"
        if self._sqlite:
            sa.event.listen(self._engine, "connect", _prepare)
        elif self._engine.dialect.name != "postgresql":
            raise ConfigError(f"--store {_shown(where)}: {EXPECTED}")
        self._tables = _schema(tuple(stored())).tables
        with self._refused():
            self._check() if read_only else self._upgrade()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    def missing(self, keys: Iterable[str], attempts: int) -> set[str]:
        """Returns those of `keys` without a valid run that were tried fewer than `attempts` times."""
        sa, runs = self._sa, self._tables["runs"]
        wanted = list(dict.fromkeys(keys))
        there: set[str] = set()
        with self._reading() as connection:
            for start in range(0, len(wanted), _CHUNK):
                some = wanted[start : start + _CHUNK]
                done = sa.or_(runs.c.valid, runs.c.attempts >= attempts)
                there |= set(connection.scalars(sa.select(runs.c.key).where(runs.c.key.in_(some), done)))
        return set(wanted) - there

    def add(self, measured: Sequence[Measured], origin: str = OWN) -> int:
        """Stores runs, in one transaction, and returns how many were new.

        A key with a valid run keeps it. Runs of another `origin` replace nothing, not even an invalid run.
        """
        new = 0
        with self._writing() as connection:
            places = {m.cell.place.name: self._place(connection, m.cell.place) for m in measured}
            who = {e.digest: e for m in measured for e in (m.cell.entrant, m.cell.opponent) if e is not None}
            ids = {name: self._entrant(connection, entrant) for name, entrant in who.items()}
            for each in measured:
                cell = each.cell
                row = {
                    "key": cell.key,
                    "place": places[cell.place.name],
                    "entrant": ids[cell.entrant.digest],
                    "opponent": ids[cell.opponent.digest] if cell.opponent else None,
                    **{"seed": cell.seed, "scenario": cell.scenario, "backend": cell.backend},
                    **{"version": __version__, "machine": each.machine or machine(), "origin": origin},
                    **{"valid": each.valid, "attempts": 1, "lateness_p99_ms": each.lateness_p99_ms},
                    "error": visible(each.error)[:LONGEST_ERROR] or None,
                    **{name: _finite(each.figures.get(name)) for name in stored()},
                }
                run = self._insert_run(connection, row)
                if run is None:
                    continue
                new += 1
                if each.series is not None and each.valid:
                    text = json.dumps(each.series, separators=(",", ":"))
                    self._upsert(connection, "courses", {"run": run, "series": text}, ["run"])
            self._average(connection, {(places[m.cell.place.name], ids[m.cell.entrant.digest]) for m in measured})
        return new

    def keep(self, entrants: Iterable[Ranked], cpu_ns: Mapping[str, float]) -> None:
        """Stores the entrants, with the cost of a decision by digest if it is known."""
        table = self._tables["entrants"]
        with self._writing() as connection:
            for entrant in entrants:
                known = self._entrant(connection, entrant)
                if entrant.digest in cpu_ns:
                    change = table.update().where(table.c.id == known).values(cpu_ns=cpu_ns[entrant.digest])
                    connection.execute(change)

    def rules(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the rules of policies that were found before, by the policies' digests."""
        table = self._tables["entrants"]
        query = self._sa.select(table.c.policy_digest, table.c.rules).where(table.c.kind == "policy")
        with self._reading() as connection:
            return {own: json.loads(text) for own, text in connection.execute(query) if text != "[]"}

    def places(self) -> list[dict[str, Any]]:
        """Returns every place."""
        return self._rows(self._sa.select(self._tables["places"]).order_by(self._tables["places"].c.id))

    def entrants(self) -> list[dict[str, Any]]:
        """Returns every entrant, with JSON columns as data."""
        rows = self._rows(self._sa.select(self._tables["entrants"]).order_by(self._tables["entrants"].c.id))
        with self._refused():
            return [{**row, **{name: json.loads(row[name]) for name in JSON}} for row in rows]

    def counts(self) -> dict[str, int]:
        """Returns numbers of `runs`, of the `invalid` ones among them, and of `cells`."""
        means = self._tables["means"]
        sa = self._sa
        query = sa.select(sa.func.sum(means.c.runs), sa.func.sum(means.c.invalid), sa.func.count()).select_from(means)
        with self._reading() as connection:
            valid, invalid, cells = connection.execute(query).one()
        return {"runs": int(valid or 0) + int(invalid or 0), "invalid": int(invalid or 0), "cells": int(cells)}

    def means(
        self,
        *,
        place: Sequence[int] | None = None,
        entrant: int | None = None,
        alone: bool = True,
        backend: str | None = None,
        most: int | None = None,
    ) -> list[dict[str, Any]]:
        """Returns means over repetitions: of cells alone, best score first, or of meetings.

        `place` and `entrant` select some places and one entrant.
        """
        return self._rows(self._means(None, place, entrant, alone, backend, most))

    def columns_of_means(
        self,
        names: Sequence[str],
        *,
        place: Sequence[int] | None = None,
        entrant: int | None = None,
        backend: str | None = None,
        most: int | None = None,
    ) -> dict[str, Sequence[Any]]:
        """Returns some columns of `means` of cells alone, by name; for many rows several times as fast."""
        with self._reading() as connection:
            rows = connection.execute(self._means(names, place, entrant, True, backend, most)).all()
        return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())

    def _means(
        self,
        names: Sequence[str] | None,
        place: Sequence[int] | None,
        entrant: int | None,
        alone: bool,
        backend: str | None,
        most: int | None,
    ) -> Any:
        table = self._tables["means"]
        query = self._sa.select(*(table.c if names is None else [table.c[name] for name in names]))
        query = query.where(table.c.opponent == 0 if alone else table.c.opponent != 0)
        query = query.where(table.c.place.in_(place)) if place is not None else query
        query = query.where(table.c.entrant == entrant) if entrant is not None else query
        query = query.where(table.c.backend == backend) if backend is not None else query
        return query.order_by(table.c.score.desc()).limit(most) if most is not None else query

    def runs_at(
        self, place: int, backend: str, entrant: int | None = None, names: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Returns the runs alone on a place, of one entrant or of all, by entrant and seed, invalid ones included.

        `names` are the returned columns; all if None.
        """
        runs = self._tables["runs"]
        query = self._sa.select(*(runs.c if names is None else [runs.c[name] for name in names]))
        query = query.where(runs.c.place == place, runs.c.opponent.is_(None), runs.c.backend == backend)
        query = query.where(runs.c.entrant == entrant) if entrant is not None else query
        return self._rows(query.order_by(runs.c.entrant, runs.c.seed))

    def courses_of(self, place: int, backend: str) -> dict[int, dict[str, Any]]:
        """Returns the series on a place, by entrant."""
        runs, courses = self._tables["runs"], self._tables["courses"]
        query = (
            self._sa.select(runs.c.entrant, courses.c.series)
            .join(courses, courses.c.run == runs.c.id)
            .where(runs.c.place == place, runs.c.backend == backend)
        )
        with self._reading() as connection:
            return {entrant: json.loads(series) for entrant, series in connection.execute(query)}

    def scores(self, backend: str, name: str = SCORE) -> list[tuple[int, int, int, float]]:
        """Returns (place, entrant, seed, score) of every valid run alone, or beside CUBIC if the score `name` is of
        meetings.
        """
        runs, entrants = self._tables["runs"], self._tables["entrants"]
        query = self._sa.select(runs.c.place, runs.c.entrant, runs.c.seed, runs.c[name])
        if name == SHARING:
            query = query.join(entrants, entrants.c.id == runs.c.opponent).where(entrants.c.label == RIVAL)
        else:
            query = query.where(runs.c.opponent.is_(None))
        query = query.where(runs.c.valid, runs.c.backend == backend)
        with self._reading() as connection:
            return [(p, e, s, x) for p, e, s, x in connection.execute(query) if x is not None]

    def failures(self, backend: str) -> list[dict[str, Any]]:
        """Returns `entrant`, its `label`, `place`, `seed` and `error` of every run in which a program failed."""
        runs, entrants = self._tables["runs"], self._tables["entrants"]
        columns = (runs.c.entrant, entrants.c.label, runs.c.place, runs.c.seed, runs.c.error)
        query = self._sa.select(*columns).join(entrants, entrants.c.id == runs.c.entrant)
        return self._rows(query.where(runs.c.error.is_not(None), runs.c.backend == backend).order_by(runs.c.id))

    def all_runs(self) -> Iterator[dict[str, Any]]:
        """Yields every run with its place, entrant and opponent by digest, in the order of the keys."""
        sa, tables = self._sa, self._tables
        runs, places, entrants = tables["runs"], tables["places"], tables["entrants"]
        other = entrants.alias("other")
        columns = [column for column in runs.c if column.name not in ("id", "place", "entrant", "opponent")]
        query = (
            sa.select(
                *columns,
                places.c.digest.label("place"),
                entrants.c.digest.label("entrant"),
                other.c.digest.label("opponent"),
            )
            .join(places, places.c.id == runs.c.place)
            .join(entrants, entrants.c.id == runs.c.entrant)
            .outerjoin(other, other.c.id == runs.c.opponent)
            .order_by(runs.c.key)
        )
        with self._reading() as connection:
            for row in connection.execution_options(yield_per=10_000).execute(query):
                yield dict(row._mapping)

    def add_rows(
        self,
        places: Sequence[Mapping[str, Any]],
        entrants: Sequence[Mapping[str, Any]],
        runs: Sequence[Mapping[str, Any]],
    ) -> int:
        """Stores the results of `places`, `entrants` and `all_runs` of another store, in one transaction.

        Replaces nothing that is stored. Returns how many runs were new.
        """
        new = 0
        with self._writing() as connection:
            at = {row["digest"]: self._known(connection, "places", row) for row in places}
            who = {row["digest"]: self._known(connection, "entrants", row) for row in entrants}
            touched = set()
            for run in runs:
                row = {**run, "place": at[run["place"]], "entrant": who[run["entrant"]]}
                row["opponent"] = who[run["opponent"]] if run["opponent"] else None
                new += self._insert_run(connection, row) is not None
                touched.add((row["place"], row["entrant"]))
            self._average(connection, touched)
        return new

    def ranking(self) -> dict[str, Any] | None:
        """Returns the last stored ranking by the first score without its groups; `names` lists them."""
        return self._note(_RANKING)

    def group(self, name: str, score: str = SCORE) -> dict[str, Any] | None:
        """Returns one group of the last ranking by a score."""
        return self._note(f"{_RANKING}{score}: {name}")

    def keep_rankings(self, rankings: Mapping[str, Mapping[str, Any]]) -> None:
        """Stores rankings by score, which replace the last ones."""
        first = rankings[SCORE]
        notes = {_RANKING: {**{k: v for k, v in first.items() if k != "groups"}, "names": list(first["groups"])}}
        for score, ranking in rankings.items():
            notes |= {f"{_RANKING}{score}: {name}": group for name, group in ranking["groups"].items()}
        table = self._tables["notes"]
        with self._writing() as connection:
            connection.execute(table.delete().where(table.c.name.startswith(_RANKING)))
            connection.execute(table.insert(), [{"name": name, "text": json.dumps(n)} for name, n in notes.items()])

    def add_reported(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Stores results that others report, apart from runs, and returns how many were new."""
        table = self._tables["reported"]
        with self._writing() as connection:
            before = connection.scalar(self._sa.select(self._sa.func.count()).select_from(table)) or 0
            if rows:
                statement = self._insert()(table).on_conflict_do_nothing(index_elements=["digest"])
                connection.execute(statement, [dict(row) for row in rows])
            after = connection.scalar(self._sa.select(self._sa.func.count()).select_from(table)) or 0
        return int(after) - int(before)

    def reported(self) -> list[dict[str, Any]]:
        """Returns the results that others report."""
        table = self._tables["reported"]
        return self._rows(self._sa.select(table).order_by(table.c.id))

    def commands(self) -> list[str]:
        """Returns the shell lines that filled the store, oldest first."""
        return list((self._note(_COMMANDS) or {"lines": []})["lines"])

    def keep_command(self, line: str) -> None:
        """Stores a shell line that fills the store, once."""
        table = self._tables["notes"]
        with self._writing() as connection:
            text = json.dumps({"lines": list(dict.fromkeys([*self.commands(), line]))})
            connection.execute(table.delete().where(table.c.name == _COMMANDS))
            connection.execute(table.insert(), [{"name": _COMMANDS, "text": text}])

    def _note(self, name: str) -> dict[str, Any] | None:
        table = self._tables["notes"]
        with self._reading() as connection:
            text = connection.scalar(self._sa.select(table.c.text).where(table.c.name == name))
            return None if text is None else dict(json.loads(text))

    def _rows(self, query: Any) -> list[dict[str, Any]]:
        with self._reading() as connection:
            result = connection.execute(query)
            names = tuple(result.keys())
            return [dict(zip(names, row, strict=True)) for row in result]

    def _check(self) -> None:
        """Raises ConfigError if the schema is not the newest."""
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        newest = ScriptDirectory(str(_MIGRATIONS)).get_current_head()
        with self._reading() as connection:
            version = MigrationContext.configure(connection).get_current_revision()
            lacking = version == newest and any(self._lacking(connection).values())
        if lacking:
            raise ConfigError(
                f"--store {_shown(self.where)}: lacks figures of this version; `ccarena leaderboard run` brings it up "
                "to date"
            )
        if version != newest:
            found = "no leaderboard" if version is None else f"version {version} of the schema"
            raise ConfigError(
                f"--store {_shown(self.where)}: found {found}, expected version {newest}; `ccarena leaderboard run` "
                "brings it up to date"
            )

    def _upgrade(self) -> None:
        """Raises ConfigError for a schema that is newer than this version's, and for another program's file."""
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS))
        with self._writing() as connection:
            tables = self._sa.inspect(connection).get_table_names()
            if self._sqlite and tables and "alembic_version" not in tables:
                raise ConfigError(
                    f"--store {_shown(self.where)}: no leaderboard: it holds the tables {', '.join(tables)[:200]}; "
                    "name another file"
                )
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise ConfigError(
                    f"--store {_shown(self.where)}: its schema is none of this version's: {error}; use the ccarena "
                    "that wrote it, or a newer one"
                ) from error
            for table, names in self._lacking(connection).items():
                for name in names:
                    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} FLOAT")

    def _lacking(self, connection: Connection) -> dict[str, list[str]]:
        """Returns the figures that each table has no columns for yet."""
        inspect = self._sa.inspect(connection)
        there = {table: {column["name"] for column in inspect.get_columns(table)} for table in ("runs", "means")}
        return {table: [name for name in stored() if name not in names] for table, names in there.items()}

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._refused(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turns errors of the database, and damaged JSON in it, into ConfigError."""
        try:
            yield
        except self._sa.exc.SQLAlchemyError as error:
            why = str(getattr(error, "orig", error)).strip().splitlines()[0]
            raise ConfigError(f"--store {_shown(self.where)}: cannot be used: {why}") from error
        except json.JSONDecodeError as error:
            raise ConfigError(f"--store {_shown(self.where)}: is damaged: {error}; restore a copy of it") from error

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Opens a transaction. Writers take turns, so that means are current, and a new store is created once."""
        with self._refused(), self._engine.begin() as connection:
            # Python's sqlite3 would begin after the first reads, and not at all for a change of the schema.
            begin = "BEGIN IMMEDIATE" if self._sqlite else f"SELECT pg_advisory_xact_lock({_WRITERS})"
            connection.exec_driver_sql(begin)
            yield connection

    def _place(self, connection: Connection, place: Place) -> int:
        trace = place.trace
        about = {
            **{"name": place.name, "trace": trace.name, "moves": trace.moves, "origin": trace.origin},
            **{"trace_digest": trace.digest, "delay_ms": place.delay_ms, "buffer_packets": place.buffer_packets},
            **{"duration_s": place.duration_s, "uplink": trace.back is not None},
        }
        ways = [each for each in (trace.digest, trace.back_digest) if each]
        own = digest(json.dumps([*ways, place.name, place.duration_s]).encode())
        return self._known(connection, "places", {"digest": own, **about})

    def _entrant(self, connection: Connection, entrant: Ranked) -> int:
        row = {
            **{"digest": entrant.digest, "label": entrant.label, "kind": entrant.kind, "track": entrant.track},
            **{"policy_digest": entrant.policy_digest, "beside": entrant.of, "card": entrant.card},
            "trained_on": json.dumps([dict(each) for each in entrant.trained_on]),
            "rules": json.dumps([dict(each) for each in entrant.rules]),
            "curve": json.dumps(entrant.curve),
        }
        return self._known(connection, "entrants", row)

    def _known(self, connection: Connection, table: str, row: Mapping[str, Any]) -> int:
        """Returns the id of the row with this digest, which is stored if it is new."""
        at = self._tables[table]
        wanted = self._sa.select(at.c.id).where(at.c.digest == row["digest"])
        found = connection.scalar(wanted)
        if found is None:
            self._upsert(connection, table, {k: v for k, v in row.items() if k != "id"}, ["digest"], change=False)
            found = connection.scalar(wanted)
        assert found is not None, "it was there, or was stored just now"
        return int(found)

    def _insert_run(self, connection: Connection, row: Mapping[str, Any]) -> int | None:
        """Returns the id of the run as stored now; None if an earlier one stays.

        An own run replaces an invalid one.
        """
        runs = self._tables["runs"]
        insert = self._insert()(runs).values(row)
        if row["origin"] == OWN:
            change = {**row, "attempts": runs.c.attempts + 1}
            invalid = runs.c.valid.is_(False)
            statement = insert.on_conflict_do_update(index_elements=["key"], set_=change, where=invalid)
        else:
            statement = insert.on_conflict_do_nothing(index_elements=["key"])
        found = connection.scalar(statement.returning(runs.c.id))
        return None if found is None else int(found)

    def _upsert(
        self, connection: Connection, table: str, row: Mapping[str, Any], key: list[str], change: bool = True
    ) -> None:
        insert = self._insert()(self._tables[table]).values(row)
        if change:
            statement = insert.on_conflict_do_update(index_elements=key, set_=dict(row))
        else:
            statement = insert.on_conflict_do_nothing(index_elements=key)
        connection.execute(statement)

    def _insert(self) -> Any:
        from sqlalchemy.dialects import postgresql, sqlite

        return sqlite.insert if self._sqlite else postgresql.insert

    def _mean_of(self, name: str) -> Any:
        """Returns the mean of a figure over valid runs."""
        sa, runs = self._sa, self._tables["runs"]
        valid = sa.case((runs.c.valid, runs.c[name]), else_=None)
        if name not in SCORES:
            return sa.func.avg(valid)
        return sa.func.exp(sa.func.avg(sa.func.ln(sa.case((valid < LEAST_SCORE, LEAST_SCORE), else_=valid))))

    def _average(self, connection: Connection, touched: Iterable[tuple[int, int]]) -> None:
        """Updates `means` for entrants on places."""
        sa, runs, means = self._sa, self._tables["runs"], self._tables["means"]
        opponent = sa.func.coalesce(runs.c.opponent, 0)
        good = sa.case((runs.c.valid, 1), else_=0)
        figures = [self._mean_of(name) for name in stored()]
        names = ["place", "entrant", "opponent", "backend", "runs", "invalid", *stored()]
        for place, entrant in sorted(set(touched)):
            mine = sa.and_(runs.c.place == place, runs.c.entrant == entrant)
            connection.execute(means.delete().where(means.c.place == place, means.c.entrant == entrant))
            average = (
                sa.select(
                    *(runs.c.place, runs.c.entrant, opponent, runs.c.backend, sa.func.sum(good)),
                    *(sa.func.sum(1 - good), *figures),
                )
                .where(mine)
                .group_by(runs.c.place, runs.c.entrant, opponent, runs.c.backend)
            )
            connection.execute(means.insert().from_select(names, average))


_MIGRATIONS = Path(__file__).with_name("migrations")


@cache
def machine() -> str:
    """Returns a description of this machine: architecture, system, processor and cores; not its name."""
    system = f"{platform.system()} {platform.release()}"
    parts = [platform.machine(), system, processor(), f"{usable_cores()} cores"]
    return ", ".join(part for part in parts if part)


def _prepare(connection: Any, _: Any) -> None:
    """Configures SQLite for several writers: readers do not wait for them, and they wait for each other.

    Adds `ln` and `exp`, which SQLite has only if it was compiled with them.
    """
    for name, function in (("ln", math.log), ("exp", math.exp)):
        connection.create_function(name, 1, partial(_unless_null, function), deterministic=True)
    cursor = connection.cursor()
    for setting in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=60000", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _unless_null(function: Callable[[float], float], value: float | None) -> float | None:
    return None if value is None else function(value)


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _shown(where: str) -> str:
    """Returns the address without a password."""
    head, at, host = where.rpartition("@")
    scheme, _, user = head.partition("://")
    return f"{scheme}://{user.partition(':')[0]}@{host}" if at else where
