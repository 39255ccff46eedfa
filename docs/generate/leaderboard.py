"""The shipped leaderboard in docs/leaderboard.md: `python -m docs.generate.leaderboard STORE docs/leaderboard.md`.

It rewrites the tables after the mark, and writes the means of every cell beside them, alone and in pairs.
"""

from __future__ import annotations

import csv
import datetime
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ccarena.core.files import scratch, write_atomically
from ccarena.eval.leaderboard.exchange import export_means
from ccarena.eval.leaderboard.figures import SCORES
from ccarena.eval.leaderboard.links import MODELS, PRESETS, traces_of
from ccarena.eval.leaderboard.listing import Line, agreement_of, lines, score_of, tracks_of, visible_of
from ccarena.eval.leaderboard.ranking import first_of
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.measure.table import FIGURES

__all__ = ["GENERATED", "markdown", "ship"]

GENERATED = "<!-- Generated from the store by `make leaderboard`; not to be edited. -->"
ALONE, PAIRS = "leaderboard/alone.csv", "leaderboard/pairs.csv"
"""Means of cells. Each file has the columns that are not empty in it."""
MOST = 6
"""Most entrants of a row of the table of other scores."""
HEAD = "| rank | entrant | score [95 %] | utilisation | mean queueing delay, ms | share beside CUBIC |"


def ship(store: Store, page: Path) -> None:
    """Rewrite the page's tables and the means beside it. Raises ConfigError if a file cannot be written."""
    before = page.read_text("utf-8").partition(GENERATED)[0]
    write_atomically(page, before + markdown(store))
    with scratch() as folder:
        export_means(store, folder / "means.csv")
        write_means((folder / "means.csv").read_text("utf-8"), page.parent)


def write_means(text: str, folder: Path) -> None:
    """Writes the means of all cells to two files. Raises ConfigError if one cannot be written."""
    rows = list(csv.DictReader(io.StringIO(text)))
    for name, of_pairs in ((ALONE, False), (PAIRS, True)):
        own = [row for row in rows if bool(row["beside"]) is of_pairs]
        columns = [column for column in rows[0] if any(row[column] for row in own)]
        out = io.StringIO()
        table = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(own)
        write_atomically(folder / name, out.getvalue())


def markdown(store: Store) -> str:
    """The ranks on the first group of links, by each score, as Markdown: baselines and oracles are left out."""
    who = {entrant["id"]: entrant for entrant in store.entrants()}
    counts = store.counts()
    parts = [
        GENERATED,
        _conditions(store),
        f"{counts['runs']:,} runs in {counts['cells']:,} cells. Means of every cell, [alone]({ALONE}) and [in "
        f"pairs]({PAIRS}), have all figures.",
    ]
    name = first_of((store.ranking() or {"names": []})["names"])
    first = store.group(name) if name else None
    if name is None or first is None:
        return "\n\n".join(parts) + "\n"
    for track in tracks_of(first, who):
        parts += [
            f"### {name[0].upper()}{name[1:]}, {track}",
            "\n".join([HEAD, "|" + "---|" * 6, *(_row(line) for line in lines(first, who, track) if line.row["rank"])]),
            visible_of(first, track),
        ]
    return "\n\n".join([*filter(None, parts), *_other_scores(store, name, first, who)]) + "\n"


def _conditions(store: Store) -> str:
    """Returns what the runs share, and names their links: models and presets by number, recordings by name."""
    runs, places = list(store.all_runs()), store.places()
    of = {name: ", ".join(sorted({str(run[name]) for run in runs})) for name in ("version", "backend", "machine")}
    lengths = ", ".join(f"{length:g}" for length in sorted({place["duration_s"] for place in places}))
    seeds = len({run["seed"] for run in runs})
    traces = {place["trace"] for place in places}
    generated = {trace.name for trace in traces_of([PRESETS, MODELS])} & traces
    others = f" and {', '.join(sorted(traces - generated))}" if traces - generated else ""
    today = datetime.date.today().isoformat()
    return (
        f"Version {of['version']}, backend `{of['backend']}`, {of['machine']}, written {today}. "
        f"A run takes {lengths} s; cells have {seeds} seed{'' if seeds == 1 else 's or fewer'}. "
        f"Links: {len(generated)} generated traces{others}."
    )


def _row(line: Line) -> str:
    figures, share = line.row["figures"], line.row["beside"]["share"]
    shown = [line.rank, line.name, score_of(line.row), f"{figures['utilisation']:.3f}"]
    shown += [f"{figures['queueing_delay_mean_ms']:.1f}", "–" if share is None else f"{share:.2f}"]
    return f"| {' | '.join(shown)} |"


def _other_scores(store: Store, name: str, first: dict[str, Any], who: dict[int, dict[str, Any]]) -> Iterator[str]:
    """Yields a table of the first places of each track by every other score, and what changes."""
    rows, changes = [], []
    for score in SCORES[1:]:
        if (group := store.group(name, score)) is None:
            continue
        for track in tracks_of(group, who):
            ranked = [line for line in lines(group, who, track) if line.row["rank"]]
            leaders = ", ".join(f"{line.name} ({line.rank})" for line in ranked[:MOST])
            leaders += f", and {len(ranked) - MOST} more" if len(ranked) > MOST else ""
            rows.append(f"| {FIGURES[score].title} | {track} | {leaders} |")
            if sentence := agreement_of(group, first, who, track):
                changes.append(f"- {FIGURES[score].title}, {sentence}")
    if rows:
        yield f"### {name[0].upper()}{name[1:]}, by the other scores"
        yield "\n".join(["| score | track | first entrants, with ranks |", "|---|---|---|", *rows])
        yield "\n".join(changes)


if __name__ == "__main__":
    with Store(sys.argv[1], read_only=True) as opened:
        ship(opened, Path(sys.argv[2]))
