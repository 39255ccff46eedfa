"""How long the default leaderboard takes, and how fast its store and pages are when they are large."""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.sheet import Sheet
from ccarena.core.measurements import Target
from ccarena.errors import MissingDependencyError
from ccarena.eval.leaderboard.figures import solo, stored
from ccarena.eval.leaderboard.ranking import OVERALL
from ccarena.eval.leaderboard.run import Board, rankings_of, run
from ccarena.eval.leaderboard.site import CELL, MOST_CELLS, Site
from ccarena.eval.leaderboard.store import Store
from ccarena.pages.browser import Browser
from ccarena.pages.page import assets
from ccarena.scenarios.backends import SIM

ENTRANTS, BUFFERS = 40, (100, 1000)
RUNS = {"traces": 125, "seeds": 100}
"""Together 10^6 runs."""
CELLS = {"traces": 1250, "seeds": 1}
"""Together 100,000 cells."""
REPEATS = 5


def measure(sheet: Sheet) -> None:
    """A store of 10^6 runs, a page with 100,000 cells, and the default leaderboard."""
    _large_store(sheet)
    _large_page(sheet)
    _default(sheet)


def _large_store(sheet: Sheet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        large = str(Path(folder, "large.db"))
        fill(large, **RUNS)
        with Store(large) as store:
            begun = time.perf_counter()
            store.keep_rankings(rankings_of(store))
            sheet.add("leaderboard/rank", "ranking 10^6 runs", time.perf_counter() - begun, "s")
            slowest = max(queries(store).items(), key=lambda each: each[1])
            what = f"slowest query of a page, 10^6 runs: {slowest[0]}"
            sheet.add("leaderboard/query", what, slowest[1] * 1e3, "ms", Target(at_most=100.0))
            pages = ("index.html", "data/cells.js", "entrant/1.html", "trace/1.html", "data/place-1.js")
            times = {path: _median_s(lambda path=path: Site(store).render(path)) for path in pages}  # type: ignore[misc]
            slow = max(times, key=lambda path: times[path])
            sheet.add("leaderboard/page", f"slowest page, 10^6 runs: {slow}", times[slow] * 1e3, "ms")


def _large_page(sheet: Sheet) -> None:
    try:
        shown_ms, drawn_ms, sorted_ms = table()
    except MissingDependencyError as error:
        print(f"NOT MEASURED: the page of 100,000 cells: {error}")
        return
    rows = "the leaderboard's page with 100,000 cells in a browser"
    sheet.add("leaderboard/table-load", f"{rows}: tables shown", shown_ms, "ms", Target(at_most=1000.0))
    sheet.add("leaderboard/table-drawn", f"{rows}: charts drawn", drawn_ms, "ms", Target(at_most=1000.0))
    sheet.add("leaderboard/table-sort", f"{rows}: sorted", sorted_ms, "ms", Target(at_most=1000.0))


def _default(sheet: Sheet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        done = run(Board(), str(Path(folder, "default.db")), threads=2)
        minutes = (time.perf_counter() - begun) / 60
        what = f"the default leaderboard: {done.cells:,} cells of 60 s, 2 threads"
        sheet.add("leaderboard/run", what, minutes, "min", Target(at_most=15.0))


def fill(where: str, traces: int, seeds: int) -> None:
    """A store of made-up runs, each first seed with what happened over time."""
    Store(where).__exit__()  # the schema
    rng = np.random.Generator(np.random.PCG64(1))
    places = [(trace, buffer) for trace in range(traces) for buffer in BUFFERS]
    database = sqlite3.connect(where)
    database.executemany(
        "INSERT INTO places VALUES (?, ?, ?, ?, 'driving', ?, ?, 20, ?, 60, 0)",
        [
            (at, f"p{at}", f"trace {t}, 20 ms, {b} packets", f"trace {t}", f"trace {t}", f"d{t}", b)
            for at, (t, b) in enumerate(places, start=1)
        ],
    )
    database.executemany(
        "INSERT INTO entrants VALUES (?, ?, ?, 'scheme', 'end to end', '', '', '[]', '[]', '', NULL, '{}')",
        [(at, f"e{at}", f"scheme {at}") for at in range(1, ENTRANTS + 1)],
    )
    columns = ["key", "place", "entrant", "seed", "scenario", "backend", "version", "machine", "origin", "valid"]
    names = ", ".join([*columns, "attempts", *stored()])
    holes = ", ".join("?" * (len(columns) + 1 + len(stored())))
    for place in range(1, len(places) + 1):
        figures = rng.random((ENTRANTS * seeds, len(stored()))).tolist()
        ids = [(entrant, seed) for entrant in range(1, ENTRANTS + 1) for seed in range(seeds)]
        database.executemany(
            f"INSERT INTO runs ({names}) VALUES ({holes})",
            [
                (f"{place}-{e}-{s}", place, e, s, "s", SIM, "0", "m", "own", True, 1, *own)
                for (e, s), own in zip(ids, figures, strict=True)
            ],
        )
    series = {"bin_s": 0.5, **{name: [1.5] * 120 for name in ("capacity_mbps", "rate_mbps", "queueing_delay_ms")}}
    database.execute("INSERT INTO courses SELECT id, ? FROM runs WHERE seed = 0", [json.dumps(series)])
    averages = ", ".join(f"avg({name})" for name in stored())
    database.execute(
        "INSERT INTO means SELECT place, entrant, 0, backend, count(*), 0, "
        f"{averages} FROM runs GROUP BY place, entrant"
    )
    database.commit()
    database.close()


def queries(store: Store) -> dict[str, float]:
    """What each query of a page takes, s: the median of some."""
    asked: dict[str, Callable[[], object]] = {
        "places": store.places,
        "entrants": store.entrants,
        "counts": store.counts,
        "a group's ranks": lambda: store.group(OVERALL),
        "all cells": lambda: store.columns_of_means(CELL, backend=SIM, most=MOST_CELLS),
        "an entrant's cells": lambda: store.columns_of_means(CELL, entrant=1, backend=SIM, most=MOST_CELLS),
        "a trace's cells": lambda: store.columns_of_means(CELL, place=[1, 2], backend=SIM, most=MOST_CELLS),
        "pairs": lambda: store.means(alone=False, backend=SIM),
        "a place over time": lambda: store.courses_of(1, SIM),
        "a place's runs": lambda: store.runs_at(1, SIM, names=("entrant", "seed", "valid", *solo())),
    }
    return {name: _median_s(ask) for name, ask in asked.items()}


def table() -> tuple[float, float, float]:
    """Of the index of 100,000 cells, read from files: ms until its tables are shown; until its charts are drawn, too;
    and of the slowest sort by a click.
    """
    with tempfile.TemporaryDirectory() as folder:
        where = str(Path(folder, "cells.db"))
        fill(where, **CELLS)
        with Store(where) as store:
            store.keep_rankings(rankings_of(store))
            site = Site(store)
            for path in ("index.html", "data/ranking.js", "data/cells.js", *(f"assets/{name}" for name in assets())):
                Path(folder, path).parent.mkdir(exist_ok=True)
                Path(folder, path).write_text(str(site.render(path)), "utf-8")
        shown, drawn = [], []
        with Browser() as browser:
            for _ in range(REPEATS):
                browser.open(Path(folder, "index.html"))
                drawn.append(float(browser.evaluate("performance.now()")))
                shown.append(float(browser.evaluate("performance.getEntriesByName('shown')[0].startTime")))
            heads = "document.querySelectorAll('#every-cell [role=columnheader] button')"
            click = (
                f"(() => {{ const t = performance.now(); {heads}[%d].click();"
                "document.querySelector('#every-cell .grid-rows').offsetHeight; return performance.now() - t; })()"
            )
            count = int(browser.evaluate(f"{heads}.length"))
            sorted_ms = max(float(browser.evaluate(click % column)) for column in range(count))
    return statistics.median(shown), statistics.median(drawn), sorted_ms


def _median_s(ask: Callable[[], object]) -> float:
    spent = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)
