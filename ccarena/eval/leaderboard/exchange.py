"""Export of results as tables, and import of others' results after repeating a sample of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena import __version__
from ccarena.core.columns import as_csv, of_rows
from ccarena.core.files import write_atomically
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.eval.leaderboard import tables
from ccarena.eval.leaderboard.cells import Cell, Measured, cell_of, scenario_digest
from ccarena.eval.leaderboard.figures import stored
from ccarena.eval.leaderboard.here import entrants_here, place_here
from ccarena.eval.leaderboard.links import Place
from ccarena.eval.leaderboard.measure import measure, tasks_of
from ccarena.eval.leaderboard.sampling import Sample, draw
from ccarena.eval.leaderboard.store import JSON, OWN, Store
from ccarena.scenarios.backends import SIM

__all__ = ["Taken", "again", "export", "export_means", "take"]

DIGITS = 6
TOLERANCE = 1e-5
"""Relative tolerance: figures are exported with `DIGITS` digits, which are exact to 5e-6."""


@dataclass(frozen=True)
class Taken:
    """Outcome of an import."""

    runs: int
    """Number of runs in the file."""
    new: int
    left_out: int = 0
    """Runs that cannot be repeated here."""
    sample: Sample | None = None
    """Runs that were repeated, and agree; None if the file was trusted."""

    @property
    def again(self) -> int:
        """Returns the number of repeated runs."""
        return len(self.sample.chosen) if self.sample else 0


def export(store: Store, out: Path) -> tuple[int, list[Path]]:
    """Writes every run to `out`, .csv or .parquet, with names that nothing reads again, and places and entrants to a
    .json beside it.

    Returns the number of runs and the files. Raises ConfigError for another suffix, MissingDependencyError if Parquet
    needs Polars.
    """
    places, entrants = store.places(), store.entrants()
    where = {place["digest"]: place["name"] for place in places}
    who = {entrant["digest"]: entrant["label"] for entrant in entrants}
    rows = [
        {name: _short(value) for name, value in row.items()}
        | {"place_name": where[row["place"]], "entrant_label": who[row["entrant"]]}
        | {"opponent_label": who.get(row["opponent"], "")}
        for row in store.all_runs()
    ]
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
    named = {"version": __version__, "places": places, "entrants": entrants}
    write_atomically(beside, json.dumps(named, indent=1, ensure_ascii=False) + "\n")
    return len(rows), [out, beside]


def export_means(store: Store, out: Path, backend: str = SIM) -> int:
    """Writes the means of every cell to the .csv file `out`, with readable names, and returns their number.

    A row is an entrant on a link, alone or beside another. Raises ConfigError.
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
            figures = {name: mean[name] if mean[name] is None else float(f"{mean[name]:.4g}") for name in stored()}
            rows.append({**about, "entrant": who[mean["entrant"]], **beside, **figures})
    if not rows:
        raise ConfigError(f"{store.where}: no runs are stored; `ccarena leaderboard run` makes some")
    rows.sort(key=lambda row: [str(row[name]) for name in ("trace", "delay_ms", "buffer_packets", "entrant", "beside")])
    write_atomically(out, as_csv(of_rows(rows)))
    return len(rows)


def take(
    store: Store, file: Path, sample: int, seed: int | None = None, policies: Sequence[str] | None = None
) -> Taken:
    """Adds the runs of a file that `export` wrote, after repeating a sample of them (`sampling.draw`).

    Takes the runs that can be repeated here, and leaves the others out: they must be simulated by this version, and
    their schemes, `policies` (None: the shipped ones) and traces must be here. A `sample` of 0 trusts the file: it
    takes all runs, and repeats none. Stored runs are never replaced, and an error leaves the store as it was.

    Raises ConfigError if the file cannot be used, if a run of the sample differs, or if none can be repeated here.
    """
    if sample < 0:
        raise ConfigError(f"--sample {sample}: expected 0 or more")
    said = tables.read(file)
    if file.name == OWN:
        raise ConfigError(f"{file}: {OWN} is the name of this store's own runs; rename the file")
    if not sample:
        entrants = [{**row, **{name: json.dumps(row[name]) for name in JSON}} for row in said.entrants.values()]
        runs = [{**run, "origin": file.name} for run in said.runs]
        return Taken(len(runs), store.add_rows(list(said.places.values()), entrants, runs))
    found = list(_repeatable(said, store.rules(), policies))
    if not found:
        raise ConfigError(
            f"{file}: 0 of its {len(said.runs):,} runs can be repeated here, expected {sample}: get the traces and "
            "policies that it names (--policies), or trust the file (--sample 0)"
        )
    drawn = draw([(f"{cell.entrant.digest} {cell.kind}", cell.place.trace.moves) for cell, _ in found], sample, seed)
    again([found[index] for index in drawn.chosen], str(file))
    # Places and entrants are those of this installation: what the file says of them is not taken.
    runs_here = [
        Measured(
            cell, {name: math.nan if run[name] is None else run[name] for name in stored()}, machine=run["machine"]
        )
        for cell, run in found
    ]
    return Taken(len(said.runs), store.add(runs_here, file.name), len(said.runs) - len(found), drawn)


def again(runs: Sequence[tuple[Cell, Mapping[str, Any]]], said_by: str) -> None:
    """Runs cells again and compares their figures with the given ones. Raises ConfigError for the first that
    differs.
    """
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
    said: tables.Tables, rules: Mapping[str, Any], policies: Sequence[str] | None
) -> Iterator[tuple[Cell, Mapping[str, Any]]]:
    """Yields runs whose place and entrants are here; equal keys prove that they are the same."""
    entrants = {entrant.digest: entrant for entrant in entrants_here(said.entrants.values(), rules, policies)}
    places: dict[str, Place | None] = {}
    digests: dict[tuple[str, int], str] = {}
    for run in said.runs:
        if run["backend"] != SIM or run["version"] != __version__:
            continue
        if run["place"] not in places:
            places[run["place"]] = place_here(said.places[run["place"]])
        place, entrant = places[run["place"]], entrants.get(run["entrant"])
        opponent = entrants.get(run["opponent"]) if run["opponent"] else None
        if place is None or entrant is None or (run["opponent"] and opponent is None):
            continue
        at = (run["place"], run["seed"])
        if at not in digests:
            digests[at] = scenario_digest(place, run["seed"])
        cell = cell_of(place, entrant, opponent, run["seed"], digests[at], SIM)
        if cell.key == run["key"]:
            yield cell, run


def _short(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
