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
from ccarena.backends import SIM
from ccarena.errors import MissingDependencyError
from ccarena.eval.leaderboard.figures import STORED
from ccarena.eval.leaderboard.ranking import OVERALL
from ccarena.eval.leaderboard.run import Board, ranking_of, run
from ccarena.eval.leaderboard.site import Site
from ccarena.eval.leaderboard.store import Store
from ccarena.measurements import Target
from ccarena.pages import Page, Section, render
from ccarena.pages.browser import Browser
from ccarena.pages.grid import Grid, Numbers, Rows, Words, data_script
from ccarena.pages.page import assets

ENTRANTS, TRACES, BUFFERS, SEEDS = 40, 125, (100, 1000), 100
"""Together 10^6 runs."""
TABLE_ROWS = 100_000
REPEATS = 5


def measure(sheet: Sheet) -> None:
    """The default leaderboard, a store of 10^6 runs, and a table of 100,000 rows."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        done = run(Board(), str(Path(folder, "default.db")), threads=2)
        minutes = (time.perf_counter() - begun) / 60
        what = f"the default leaderboard: {done.cells:,} cells of 60 s, 2 threads"
        sheet.add("leaderboard/run", what, minutes, "min", Target(at_most=15.0))
        large = str(Path(folder, "large.db"))
        fill(large)
        with Store(large) as store:
            begun = time.perf_counter()
            store.keep_ranking(ranking_of(store))
            sheet.add("leaderboard/rank", "ranking 10^6 runs", time.perf_counter() - begun, "s")
            slowest = max(queries(store).items(), key=lambda each: each[1])
            what = f"slowest query of a page, 10^6 runs: {slowest[0]}"
            sheet.add("leaderboard/query", what, slowest[1] * 1e3, "ms", Target(at_most=100.0))
            pages = ("index.html", "entrant/1.html", "trace/1.html", "data/place-1.js")
            times = {path: _median_s(lambda path=path: Site(store).render(path)) for path in pages}  # type: ignore[misc]
            slow = max(times, key=lambda path: times[path])
            sheet.add("leaderboard/page", f"slowest page, 10^6 runs: {slow}", times[slow] * 1e3, "ms")
    try:
        loaded_ms, sorted_ms = table()
    except MissingDependencyError as error:
        print(f"NOT MEASURED: the table of {TABLE_ROWS:,} rows: {error}")
        return
    rows = f"table of {TABLE_ROWS:,} rows in a browser"
    sheet.add("leaderboard/table-load", f"{rows}: loaded", loaded_ms, "ms", Target(at_most=1000.0))
    sheet.add("leaderboard/table-sort", f"{rows}: sorted", sorted_ms, "ms", Target(at_most=1000.0))


def fill(where: str) -> None:
    """A store of 10^6 made-up runs, each first seed with what happened over time."""
    Store(where).__exit__()  # the schema
    rng = np.random.Generator(np.random.PCG64(1))
    places = [(trace, buffer) for trace in range(TRACES) for buffer in BUFFERS]
    database = sqlite3.connect(where)
    database.executemany(
        "INSERT INTO places VALUES (?, ?, ?, ?, 'driving', ?, ?, 20, ?, 60, 0)",
        [
            (at, f"p{at}", f"trace {t}, 20 ms, {b} packets", f"trace {t}", f"trace {t}", f"d{t}", b)
            for at, (t, b) in enumerate(places, start=1)
        ],
    )
    database.executemany(
        "INSERT INTO entrants VALUES (?, ?, ?, 'scheme', 'end to end', '', '', '[]', '[]', '', NULL)",
        [(at, f"e{at}", f"scheme {at}") for at in range(1, ENTRANTS + 1)],
    )
    columns = ["key", "place", "entrant", "seed", "scenario", "backend", "version", "machine", "origin", "valid"]
    names = ", ".join([*columns, "attempts", *STORED])
    holes = ", ".join("?" * (len(columns) + 1 + len(STORED)))
    for place in range(1, len(places) + 1):
        figures = rng.random((ENTRANTS * SEEDS, len(STORED))).tolist()
        ids = [(entrant, seed) for entrant in range(1, ENTRANTS + 1) for seed in range(SEEDS)]
        database.executemany(
            f"INSERT INTO runs ({names}) VALUES ({holes})",
            [
                (f"{place}-{e}-{s}", place, e, s, "s", SIM, "0", "m", "own", True, 1, *own)
                for (e, s), own in zip(ids, figures, strict=True)
            ],
        )
    series = {"bin_s": 0.5, **{name: [1.5] * 120 for name in ("capacity_mbps", "rate_mbps", "queueing_delay_ms")}}
    database.execute("INSERT INTO courses SELECT id, ? FROM runs WHERE seed = 0", [json.dumps(series)])
    averages = ", ".join(f"avg({name})" for name in STORED)
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
        "an entrant's cells": lambda: store.means(entrant=1, backend=SIM),
        "a trace's cells": lambda: store.means(place=[1, 2], backend=SIM),
        "the best 1,000 cells": lambda: store.means(backend=SIM, most=1000),
        "pairs": lambda: store.means(alone=False, backend=SIM),
        "a place over time": lambda: store.courses_of(1, SIM),
        "a cell's runs": lambda: store.runs_at(1, SIM, entrant=1),
    }
    return {name: _median_s(ask) for name, ask in asked.items()}


def table() -> tuple[float, float]:
    """(ms until a page of `TABLE_ROWS` rows is loaded from its file, ms of the slowest sort by a click)."""
    rng = np.random.Generator(np.random.PCG64(1))
    schemes, traces = rng.integers(0, 40, TABLE_ROWS).tolist(), rng.integers(0, 200, TABLE_ROWS).tolist()
    columns: list[Words | Numbers] = [
        Words("entrant", [f"scheme {k}" for k in schemes], choose=True),
        Words("trace", [f"trace {k}" for k in traces], choose=True),
        *(Numbers(f"figure {k}", (rng.random(TABLE_ROWS) * 100).tolist(), 3) for k in range(10)),
    ]
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for name, text in assets().items():
            Path(folder, name).write_text(text, "utf-8")
        Path(folder, "rows.js").write_text(data_script("g", Rows(columns, "-figure 1")), "utf-8")
        sections = [Section("", "", [Grid("g", "rows")])]
        page = Page("Rows", "bench", "", sections=sections, shared="./", scripts=["rows.js"])
        Path(folder, "p.html").write_text(render(page), "utf-8")
        browser.open(Path(folder, "p.html"))
        loaded = float(browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart"))
        click = (
            "(() => { const t = performance.now(); document.querySelectorAll('[role=columnheader] button')[%d].click();"
            "document.querySelector('.grid-rows').offsetHeight; return performance.now() - t; })()"
        )
        return loaded, max(float(browser.evaluate(click % column)) for column in range(len(columns)))


def _median_s(ask: Callable[[], object]) -> float:
    spent = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)
