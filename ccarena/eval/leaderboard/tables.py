"""Reader of files from `ccarena leaderboard export`, possibly a stranger's: a table of runs and the .json beside it.

Every field is checked by itself and against the others before anything is run or stored. A file that is too large, is
no table or contradicts itself is refused with the place of the fault.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from ccarena.core.files import digest
from ccarena.core.reader import parse_json, read_bytes
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.eval.leaderboard.cells import key_of
from ccarena.eval.leaderboard.checks import Check, fields, flag, hexadecimal, number, one_of, or_none, text
from ccarena.eval.leaderboard.entrants import ORACLE, TRACKS, Kind
from ccarena.eval.leaderboard.figures import SCORE, meeting, own_scores, ranges, solo, stored
from ccarena.eval.leaderboard.links import CLASSES, SCENARIO, place_name
from ccarena.eval.measure.table import POWERS, normalised_power
from ccarena.policies.curve import read as read_curve
from ccarena.scenarios.backends import BACKENDS, SIM

__all__ = ["Tables", "read"]

LARGEST_BYTES = 200_000_000
"""Largest table, and largest .json beside it, in bytes."""
MOST_RUNS = 500_000
MOST_NAMED = 50_000
"""Most places, and most entrants."""
LONGEST_CARD = 100_000
DIGITS = 1e-4
"""Relative tolerance: figures are exported with six digits, and a score follows from others."""


def _listed(most: int, **known: Check) -> Check:
    """Checks a list of objects, and returns the `known` fields of each."""

    def check(value: Any, at: str) -> list[dict[str, Any]]:
        if not isinstance(value, list) or len(value) > most or not all(isinstance(each, dict) for each in value):
            raise ConfigError(f"{at}: expected a list of at most {most:,} objects")
        return [
            {name: own(each[name], f"{at}[{index}].{name}") for name, own in known.items() if name in each}
            for index, each in enumerate(value)
        ]

    return check


def _short(value: Any, at: str) -> Any:
    """Checks any JSON of a few kilobytes."""
    if len(json.dumps(value)) > 10_000:
        raise ConfigError(f"{at}: expected at most 10,000 characters of JSON")
    return value


_PLACE: Mapping[str, Check] = {
    "digest": hexadecimal(16),
    "name": text(),
    "trace": text(),
    "moves": one_of((*CLASSES, SCENARIO)),
    "origin": text(),
    "trace_digest": hexadecimal(16),
    "delay_ms": number(1e-3, 10_000),
    "buffer_packets": number(0, 10_000_000, whole=True),
    "duration_s": number(1, 100_000),
    "uplink": flag,
}
_ENTRANT: Mapping[str, Check] = {
    "digest": hexadecimal(16),
    "label": text(),
    "kind": one_of(get_args(Kind)),
    "track": one_of(TRACKS),
    "policy_digest": hexadecimal(16, blank=True),
    "beside": text(),
    "trained_on": _listed(10_000, kind=text(), name=text(), digest=text()),
    "rules": _listed(
        100,
        kind=text(),
        label=text(),
        policy=_short,
        params=_short,
        score=or_none(number(-1e12, 1e12)),
        missing=text(2_000),
    ),
    "card": text(LONGEST_CARD),
    "cpu_ns": or_none(number(0, 1e12)),
}
_RUN: Mapping[str, Check] = {
    "key": hexadecimal(32),
    "place": hexadecimal(16),
    "entrant": hexadecimal(16),
    "opponent": or_none(hexadecimal(16)),
    "seed": number(0, 1_000_000, whole=True),
    "scenario": hexadecimal(16),
    "backend": one_of(BACKENDS),
    "version": text(40),
    "machine": text(),
    "valid": flag,
    "attempts": number(1, 1_000, whole=True),
    "lateness_p99_ms": or_none(number(0, 1e9)),
    "error": or_none(text(2_000)),
}
"""The columns of a run before its figures."""
_TEXT = frozenset(("key", "place", "entrant", "opponent", "scenario", "backend", "version", "machine"))


def _columns() -> dict[str, Check]:
    """Returns a table's columns, with figures."""
    return {**_RUN, **{name: or_none(check) for name, check in ranges().items()}}


@dataclass(frozen=True)
class Tables:
    """Checked contents of a file."""

    places: dict[str, dict[str, Any]]
    """Descriptions of places by digest."""
    entrants: dict[str, dict[str, Any]]
    """Descriptions of entrants by digest."""
    runs: list[dict[str, Any]]


def read(file: Path) -> Tables:
    """Reads the runs in `file`, .csv or .parquet, and the descriptions of places and entrants in the .json beside it.

    Raises ConfigError for a file that cannot be used, MissingDependencyError if Parquet needs Polars.
    """
    beside = file.with_suffix(".json")
    named = _named(beside)
    places = _described(named.get("places"), _PLACE, f"{beside}: places", _check_place)
    entrants = _described(named.get("entrants"), _ENTRANT, f"{beside}: entrants", _check_entrant)
    for entrant, given in zip(entrants.values(), named["entrants"], strict=True):
        entrant["curve"] = read_curve(given.get("curve"))
    runs: list[dict[str, Any]] = []
    checks = _columns()
    book = _Book(places, entrants, beside.name)
    for number_, row in enumerate(_rows(file), start=1):
        if number_ > MOST_RUNS:
            raise ConfigError(f"{file}: expected at most {MOST_RUNS:,} runs")
        at = f"{file}: run {number_}"
        run = {name: check(row[name], f"{at}: {name}") for name, check in checks.items()}
        book.enter(run, at)
        runs.append(run)
    if not runs:
        raise ConfigError(f"{file}: expected runs, found none")
    return Tables(places, entrants, runs)


def _named(beside: Path) -> dict[str, Any]:
    try:
        _check_size(beside)
        named = parse_json(read_bytes(beside, LARGEST_BYTES), str(beside))
    except OSError as error:
        raise ConfigError(f"{beside}: cannot be read: {error.strerror}; expected a table and its .json") from error
    except ConfigError as error:
        raise ConfigError(f"{error}; expected what `ccarena leaderboard export` writes") from None
    if not isinstance(named, dict):
        raise ConfigError(f"{beside}: expected an object with `places` and `entrants`")
    return named


def _check_size(file: Path) -> None:
    size = file.stat().st_size
    if not file.is_file() or size > LARGEST_BYTES:
        raise ConfigError(f"{file}: {size:,} bytes; expected a file of at most {LARGEST_BYTES:,}")


def _described(
    given: Any, known: Mapping[str, Check], at: str, consistent: Callable[[dict[str, Any], str], None]
) -> dict[str, dict[str, Any]]:
    """Returns places or entrants by digest."""
    if not isinstance(given, list) or len(given) > MOST_NAMED:
        raise ConfigError(f"{at}: expected a list of at most {MOST_NAMED:,} objects")
    found: dict[str, dict[str, Any]] = {}
    for index, each in enumerate(given):
        row = fields(each, f"{at}[{index}]", known)
        consistent(row, f"{at}[{index}]")
        if found.setdefault(row["digest"], row) is not row:
            raise ConfigError(f"{at}[{index}].digest: {row['digest']} is described twice; expected each once")
    return found


def _check_place(row: dict[str, Any], at: str) -> None:
    name = place_name(row["trace"], row["delay_ms"], row["buffer_packets"], row["uplink"])
    name = row["trace"] if row["moves"] == SCENARIO else name
    if row["name"] != name:
        raise ConfigError(f"{at}.name: got {row['name']!r}; its trace, delay and buffer make it {name!r}")
    # The digest of an uplink's trace is in no column.
    own = digest(json.dumps([row["trace_digest"], name, row["duration_s"]]).encode())
    if not row["uplink"] and row["digest"] != own:
        raise ConfigError(f"{at}.digest: got {row['digest']}; its trace, name and duration make it {own}")


def _check_entrant(row: dict[str, Any], at: str) -> None:
    kind = row["kind"]
    if (kind == "policy") != bool(row["policy_digest"]):
        raise ConfigError(f"{at}.policy_digest: got {row['policy_digest']!r}; a policy has one, and nobody else")
    if row["beside"] and kind != "baseline":
        raise ConfigError(f"{at}.beside: got {row['beside']!r}; a {kind} stands beside no policy")
    if (row["track"] == ORACLE) != (kind == "baseline" and not row["beside"]):
        raise ConfigError(f"{at}.track: got {row['track']!r} for a {kind}; a baseline beside no policy is an {ORACLE}")


class _Book:
    """Descriptions of the runs so far, which the next run has to agree with."""

    def __init__(self, places: Mapping[str, Any], entrants: Mapping[str, Any], beside: str) -> None:
        self._places, self._entrants, self._beside = places, entrants, beside
        self._keys: set[str] = set()
        self._alone, self._met, self._stored = solo(), meeting(), stored()
        self._scenarios: dict[tuple[str, int], str] = {}

    def enter(self, run: Mapping[str, Any], at: str) -> None:
        """Raises ConfigError for a run that contradicts the file."""
        who = {run["entrant"], run["opponent"] or run["entrant"]}
        if run["place"] not in self._places or not who <= self._entrants.keys():
            raise ConfigError(f"{at} names a place or an entrant that {self._beside} does not describe")
        own = key_of(run["scenario"], run["entrant"], run["opponent"], run["backend"], run["version"])
        if run["key"] != own:
            raise ConfigError(f"{at}: key: got {run['key']}; its scenario, entrants, backend and version make it {own}")
        if run["key"] in self._keys:
            raise ConfigError(f"{at}: key: {run['key']} is there twice; expected each run once")
        self._keys.add(run["key"])
        link = (run["place"], run["seed"])
        if (known := self._scenarios.setdefault(link, run["scenario"])) != run["scenario"]:
            raise ConfigError(f"{at}: scenario: got {run['scenario']}; another run of its place and seed has {known}")
        if run["backend"] == SIM and not run["valid"]:
            raise ConfigError(f"{at}: valid: got false; a simulated run is valid")
        self._check_figures(run, self._places[run["place"]], at)

    def _check_figures(self, run: Mapping[str, Any], place: Mapping[str, Any], at: str) -> None:
        alone = run["opponent"] is None
        mine = self._alone if alone else self._met
        kind = "alone" if alone else "beside another"
        for name in self._stored:
            if name not in mine and run[name] is not None:
                raise ConfigError(f"{at}: {name}: got {run[name]:g}; a run {kind} has none")
        if not alone or not run["valid"]:
            return
        if run[SCORE] is None or run["utilisation"] is None:
            raise ConfigError(f"{at}: {SCORE}: got {run[SCORE]}, utilisation {run['utilisation']}; expected numbers")
        delay, base_rtt_ms = run["queueing_delay_mean_ms"], 2 * place["delay_ms"]
        if place["moves"] == SCENARIO:
            parts, scores = "throughput, capacity", own_scores(run, base_rtt_ms)
        else:
            delay = math.nan if delay is None else delay
            parts, scores = (
                "utilisation",
                {
                    name: normalised_power(run["utilisation"], delay, base_rtt_ms, powers)
                    for name, powers in POWERS.items()
                },
            )
        for name, score in scores.items():
            # Runs of versions without the other scores have none.
            if run[name] is not None and not math.isclose(run[name], score, rel_tol=DIGITS, abs_tol=1e-9):
                raise ConfigError(f"{at}: {name}: got {run[name]:g}; its {parts} and queueing delay make it {score:g}")


def _rows(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of the table, by column. Raises ConfigError."""
    try:
        _check_size(file)
        yield from _parquet(file) if file.suffix == ".parquet" else _csv(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}; expected a table and its .json") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not a table of `ccarena leaderboard export`: {error}") from error


def _check_columns(file: Path, columns: Iterable[str] | None) -> None:
    lacking = [name for name in _columns() if name not in (columns or ())]
    if lacking:
        raise ConfigError(
            f"{file}: expected the columns of `ccarena leaderboard export`, found no {', '.join(lacking)}"
        )


def _csv(file: Path) -> Iterator[Mapping[str, Any]]:
    with file.open(encoding="utf-8", newline="") as opened:
        table = csv.DictReader(opened, restval="", strict=True)
        _check_columns(file, table.fieldnames)
        columns = tuple(_columns())
        for row in table:
            yield {name: _value(name, row[name]) for name in columns}


def _value(name: str, written: str) -> Any:
    """Parses a field of a .csv; a wrong value stays text, which its check refuses."""
    if name in _TEXT or not written:
        return _known(name, written)
    if name == "valid":
        return {"True": True, "False": False}.get(written, written)
    try:
        return float(written)
    except ValueError:
        return written


def _known(name: str, value: Any) -> Any:
    """Returns None for the opponent of a run alone, and for a missing figure of a run; else the value."""
    blank = value == "" and (name == "opponent" or name not in _TEXT)
    return None if blank or (isinstance(value, float) and math.isnan(value)) else value


def _parquet(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        import polars as pl
    except ImportError as error:
        raise MissingDependencyError.for_extra("polars", "polars", "a Parquet file") from error
    try:
        table = pl.scan_parquet(file)
        types = table.collect_schema()
        _check_columns(file, types)
        count = table.select(pl.len()).collect().item()
        if count > MOST_RUNS:
            raise ConfigError(f"{file}: {count:,} runs; expected at most {MOST_RUNS:,}")
        wrong = next((name for name in _columns() if types[name].is_nested() or types[name] == pl.Binary), None)
        if wrong is not None:
            raise ConfigError(f"{file}: column {wrong}: got {types[wrong]}; expected text or numbers")
        frame = table.select(list(_columns())).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = str(error).strip().splitlines()[0]
        raise ConfigError(f"{file}: not a table of `ccarena leaderboard export`: {why}") from error
    for row in frame.iter_rows(named=True):
        yield {name: _known(name, value) for name, value in row.items()}
