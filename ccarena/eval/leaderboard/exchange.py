"""Results as tables for others, and others' results, of which a sample is run again before they are taken."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena import __version__
from ccarena.backends import SIM
from ccarena.columns import as_csv, of_rows
from ccarena.envs.domain import digest
from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError
from ccarena.eval.leaderboard.cells import Cell, cell_of, scenario_digest
from ccarena.eval.leaderboard.entrants import Entrant, default_schemes, line_up, policy_files
from ccarena.eval.leaderboard.figures import STORED
from ccarena.eval.leaderboard.links import PRESETS, BoardTrace, Place, traces_of
from ccarena.eval.leaderboard.measure import measure, tasks_of
from ccarena.eval.leaderboard.store import JSON, Store
from ccarena.files import write_atomically
from ccarena.traces import find
from ccarena.traces.manifest import sets

__all__ = ["Taken", "again", "export", "export_means", "take"]

DIGITS = 6
TOLERANCE = 1e-4
"""Relative: figures are exported with `DIGITS` digits."""
_PLACE = ("digest", "name", "trace", "moves", "origin", "trace_digest", "delay_ms", "buffer_packets", "duration_s",
          "uplink")  # fmt: skip
_ENTRANT = ("digest", "label", "kind", "track", "policy_digest", "beside", "trained_on", "rules", "card", "cpu_ns")
"""What the .json beside a table says of each; an entrant may have a `curve`, too."""
_OTHER = ("delay_ms", "buffer_packets", "duration_s", "uplink", "trained_on", "rules", "cpu_ns")
"""Of these, what is no text."""
_TEXT = ("key", "scenario", "backend", "version", "machine", "origin", "place", "entrant", "opponent")


@dataclass(frozen=True)
class Taken:
    """What an import did."""

    runs: int
    new: int
    again: int
    """Repeated, and in agreement."""


def export(store: Store, out: Path) -> tuple[int, list[Path]]:
    """Write every run to `out`, .csv or .parquet, and places and entrants to a .json beside it.

    Returns the number of runs and the files. Raises ConfigError for another suffix, MissingDependencyError if Parquet
    needs Polars.
    """
    rows = [{name: _short(value) for name, value in row.items()} for row in store.all_runs()]
    if not rows:
        raise ConfigError(f"{store.where}: no runs are stored; `ccarena leaderboard run` makes some")
    columns = of_rows(rows)
    if out.suffix == ".csv":
        write_atomically(out, as_csv(columns))
    elif out.suffix == ".parquet":
        try:
            import polars as pl
        except ImportError as error:
            raise MissingDependencyError.for_extra("polars", "polars", "a Parquet file") from error
        out.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(columns).write_parquet(out)
    else:
        raise ConfigError(f'{out}: cannot write "{out.suffix}"; expected .csv or .parquet')
    beside = out.with_suffix(".json")
    named = {"version": __version__, "places": store.places(), "entrants": store.entrants()}
    write_atomically(beside, json.dumps(named, indent=1, ensure_ascii=False) + "\n")
    return len(rows), [out, beside]


def export_means(store: Store, out: Path, backend: str = SIM) -> int:
    """Write the means of every cell to the .csv file `out`, by names for people to read, and return how many there are.

    A row is an entrant on a link, alone or beside another; Raises ConfigError.
    """
    if out.suffix != ".csv":
        raise ConfigError(f'{out}: cannot write means as "{out.suffix}"; expected .csv')
    who = {entrant["id"]: entrant["label"] for entrant in store.entrants()}
    where = {place["id"]: place for place in store.places()}
    rows = []
    for alone in (True, False):
        for mean in store.means(alone=alone, backend=backend):
            place = where[mean["place"]]
            about = {name: place[name] for name in ("trace", "delay_ms", "buffer_packets", "uplink")}
            beside = {"beside": who.get(mean["opponent"], ""), "runs": mean["runs"], "invalid": mean["invalid"]}
            figures = {name: mean[name] if mean[name] is None else float(f"{mean[name]:.4g}") for name in STORED}
            rows.append({**about, "entrant": who[mean["entrant"]], **beside, **figures})
    if not rows:
        raise ConfigError(f"{store.where}: no runs are stored; `ccarena leaderboard run` makes some")
    rows.sort(key=lambda row: [str(row[name]) for name in ("trace", "delay_ms", "buffer_packets", "entrant", "beside")])
    write_atomically(out, as_csv(of_rows(rows)))
    return len(rows)


def take(store: Store, file: Path, sample: int, seed: int = 0) -> Taken:
    """Add the runs of a file that `export` wrote, after repeating `sample` of them, drawn at random.

    Raises ConfigError if the file is none, if one of the sample differs, or if fewer can be repeated here than asked:
    simulated runs of this version, of entrants and traces that are here.
    """
    if sample < 0:
        raise ConfigError(f"--sample {sample}: expected 0 or more")
    rows, named = _read(file)
    where = {row["digest"]: row for row in named["places"]}
    who = {row["digest"]: row for row in named["entrants"]}
    repeatable = list(_repeatable(rows, where, who)) if sample else []
    if len(repeatable) < min(sample, len(rows)):
        raise ConfigError(
            f"{file}: {len(repeatable)} of its {len(rows)} runs can be repeated here, expected {sample}: get the "
            "traces and policies that it names, or ask for a smaller --sample"
        )
    chosen = random.Random(seed).sample(repeatable, min(sample, len(repeatable)))
    again(chosen, str(file))
    entrants = [{**row, **{name: json.dumps(row[name]) for name in JSON if name in row}} for row in who.values()]
    origin = file.name
    new = store.add_rows(named["places"], entrants, [{**row, "origin": origin} for row in rows])
    return Taken(len(rows), new, len(chosen))


def again(runs: Sequence[tuple[Cell, Mapping[str, Any]]], said_by: str) -> None:
    """Run cells again and hold them against what is said of them. Raises ConfigError for the first that differs."""
    said = {cell.key: row for cell, row in runs}
    for task in tasks_of([cell for cell, _ in runs]):
        for measured in measure(task):
            for name, value in measured.figures.items():
                claimed = said[measured.cell.key].get(name)
                claimed = math.nan if claimed is None else float(claimed)
                same = math.isclose(value, claimed, rel_tol=TOLERANCE, abs_tol=1e-9)
                if not same and (math.isfinite(value) or math.isfinite(claimed)):
                    cell = measured.cell
                    raise ConfigError(
                        f"{said_by}: {cell.entrant.label} on {cell.place.name}, seed {cell.seed}: {name} is said to be "
                        f"{claimed:g}; run again it is {value:g}. Nothing was taken."
                    )


def _repeatable(
    rows: Iterable[Mapping[str, Any]], where: Mapping[str, Any], who: Mapping[str, Any]
) -> Iterator[tuple[Cell, Mapping[str, Any]]]:
    """Runs whose place and entrants are here; the key shows that they are the same."""
    entrants = {entrant.digest: entrant for entrant in _entrants_here(who.values())}
    known: dict[str, Place | None] = {}
    digests: dict[tuple[str, int], str] = {}
    for row in rows:
        if row["backend"] != SIM or row["version"] != __version__ or not row["valid"]:
            continue
        if row["place"] not in known:
            known[row["place"]] = _place_here(where[row["place"]])
        place, entrant = known[row["place"]], entrants.get(row["entrant"])
        opponent = entrants.get(row["opponent"]) if row["opponent"] else None
        if place is None or entrant is None or (row["opponent"] and opponent is None):
            continue
        at = (row["place"], row["seed"])
        digests[at] = digests.get(at) or scenario_digest(place, row["seed"])
        cell = cell_of(place, entrant, opponent, row["seed"], digests[at], SIM)
        if cell.key == row["key"]:
            yield cell, row


def _entrants_here(named: Iterable[Mapping[str, Any]]) -> list[Entrant]:
    """Those of the named entrants that this installation can run."""
    rows = list(named)
    schemes = [row["label"] for row in rows if row["kind"] == "scheme"]
    known = [label for label in schemes if label in default_schemes()]
    rules = {row["policy_digest"]: row["rules"] for row in rows if row["kind"] == "policy"}
    files = {name: file for name, file in policy_files(None).items() if digest(file.read_bytes()) in rules}
    return line_up(known, files, rules, 1)


def _place_here(row: Mapping[str, Any]) -> Place | None:
    """The place that a row of another store names, if its trace is here."""
    for given in (PRESETS, *sets()):
        try:
            found: list[BoardTrace] = traces_of([given] if given == PRESETS else [str(find(row["trace"]))])
        except CcarenaError:
            continue
        for trace in found:
            if trace.digest == row["trace_digest"]:
                return Place(trace, row["delay_ms"], row["buffer_packets"], row["duration_s"])
    return None


def _read(file: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Runs, and what the .json beside them names. Raises ConfigError."""
    beside = file.with_suffix(".json")
    try:
        named = json.loads(beside.read_text("utf-8"))
        rows = _parquet(file) if file.suffix == ".parquet" else _csv(file)
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: cannot be read: {error.strerror}; expected a table and its .json"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{file}: not a table of `ccarena leaderboard export`: {error}") from error
    columns = (*_TEXT, "seed", "valid", "attempts", "lateness_p99_ms", *STORED)
    lacking = [name for name in columns if not rows or name not in rows[0]]
    if lacking:
        raise ConfigError(
            f"{file}: expected the columns of `ccarena leaderboard export`, found no {', '.join(lacking)}"
        )
    if not isinstance(named, dict):
        raise ConfigError(f"{beside}: expected an object with `places` and `entrants`")
    places = _described(named.get("places"), _PLACE, (), f"{beside}: places")
    entrants = _described(named.get("entrants"), _ENTRANT, ("curve",), f"{beside}: entrants")
    known = {row["digest"] for row in places}, {row["digest"] for row in entrants}
    for number, row in enumerate(rows, start=1):
        who = {row["entrant"], row["opponent"] or row["entrant"]}
        if row["place"] not in known[0] or not who <= known[1]:
            raise ConfigError(f"{file}: run {number} names a place or an entrant that {beside.name} does not describe")
    return [{name: row[name] for name in columns} for row in rows], {"places": places, "entrants": entrants}


def _described(given: Any, keys: Sequence[str], more: Sequence[str], at: str) -> list[dict[str, Any]]:
    """What is said of places or entrants, and nothing else. Raises ConfigError."""
    if not isinstance(given, list):
        raise ConfigError(f"{at}: expected a list")
    for number, row in enumerate(given):
        if not isinstance(row, dict) or not set(keys) <= row.keys():
            raise ConfigError(f"{at}[{number}]: expected an object with {', '.join(keys)}")
        wrong = next((key for key in keys if key not in _OTHER and not isinstance(row[key], str)), None)
        if wrong is not None:
            raise ConfigError(f"{at}[{number}].{wrong}: got {str(row[wrong])[:60]!r}; expected a text")
    return [{key: row[key] for key in (*keys, *more) if key in row} for row in given]


def _csv(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return [{name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(opened)]


def _parquet(file: Path) -> list[dict[str, Any]]:
    try:
        import polars as pl
    except ImportError as error:
        raise MissingDependencyError.for_extra("polars", "polars", "a Parquet file") from error
    rows = pl.read_parquet(file).to_dicts()
    return [{name: _known(name, value) for name, value in row.items()} for row in rows]


def _value(name: str, text: str) -> Any:
    if name in _TEXT:
        return _known(name, text)
    if name == "valid":
        return text == "True"
    if name in ("seed", "attempts"):
        return int(text)
    return float(text) if text else None


def _known(name: str, value: Any) -> Any:
    if name == "opponent":
        return value or None
    return None if isinstance(value, float) and math.isnan(value) else value


def _short(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
