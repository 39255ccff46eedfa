"""Function `ccarena.compete`: schemes against each other on bottlenecks, as tables, heat maps and files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena import __version__
from ccarena.core.columns import Columns, as_csv, as_pandas, as_polars, of_rows
from ccarena.core.files import check_file, check_writable, write_atomically
from ccarena.core.plain_data import plain
from ccarena.core.terminal import Progress, again, progress_bar
from ccarena.errors import CcarenaError, ConfigError, did_you_mean
from ccarena.eval.compete import bottlenecks
from ccarena.eval.compete.lineup import line_up, marked
from ccarena.eval.compete.matches import Plan, effort, lengths_s
from ccarena.eval.compete.matches import compete as run_matches
from ccarena.eval.compete.page import competition_page
from ccarena.eval.compete.paper_plots import HEAT_MAP, heat_map
from ccarena.eval.compete.tables import Matrix, left_out, matrices, summarise
from ccarena.pages import Page, paper_files, write
from ccarena.scenarios import backends, row_plots, stored
from ccarena.scenarios.backends import SIM, counts
from ccarena.scenarios.entrants import Entrant, EntrantLike
from ccarena.traces.given import TraceLinks

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ccarena.pages.paper import PaperFigure
    from ccarena.pages.paper_files import Width
    from ccarena.scenarios.row_plots import Ellipse

__all__ = ["PAGE", "RESULT", "ROWS", "Competition", "compete"]

ROWS, RESULT, PAGE = "rows.csv", "compete.json", "compete.html"


@dataclass(frozen=True)
class Competition:
    """Results of a competition.

    Tables are pandas data frames; `polars` and `columns` give the same ones for Polars and as NumPy arrays. Rates are
    in Mbit/s, times in the unit that ends a column's name, shares and harm in [0, 1]. Unknown values are NaN.
    """

    plan: Plan
    flows: list[dict[str, Any]]
    """Rows per run and flow, as plain data; docs/compete.md lists the columns."""

    def rows(self) -> pd.DataFrame:
        """Returns a row per run and flow (docs/compete.md)."""
        return as_pandas(self.columns("rows"))

    def summary(self) -> pd.DataFrame:
        """Returns a row per link, match, competitor and figure: the mean over seeds and Student's 95 % interval."""
        return as_pandas(self.columns("summary"))

    def polars(self, table: str) -> pl.DataFrame:
        """Returns one of the tables of `columns` as a Polars data frame."""
        return as_polars(self.columns(table))

    def columns(self, table: str) -> Columns:
        """Returns the table `rows` or `summary` as NumPy arrays by column. Raises ConfigError for another name."""
        if table == "rows":
            return of_rows(self.flows)
        if table != "summary":
            raise ConfigError(f'no table "{table}"{did_you_mean(table, ("rows", "summary"))}')
        head = ("link", "match", "match_rtts_ms", "entrant", "base_rtt_ms", "runs")
        return of_rows(
            [
                {**{key: entry[key] for key in head}, "figure": figure, **value}
                for entry in summarise(self.flows)
                for figure, value in entry.items()
                if isinstance(value, dict)
            ]
        )

    def matrices(self) -> list[Matrix]:
        """Returns the figures of each pair of competitors, a matrix per link and pair of base RTTs."""
        return matrices(summarise(self.flows), self.plan.paired)

    def left_out(self) -> list[str]:
        """Returns sentences on the runs that no mean counts, and why; none in the simulator."""
        return left_out(self.flows)

    def page(self, repeat: Sequence[str] = ()) -> Page:
        """Returns everything as a page, which a notebook shows; `repeat` are the commands that make it again."""
        result = self.result()
        return competition_page(result["meta"], summarise(self.flows), self.matrices(), repeat, self.left_out())

    def plot(
        self,
        kind: str = HEAT_MAP,
        path: str | os.PathLike[str] | None = None,
        *,
        figure: str | None = None,
        x: str | None = None,
        by: str = "entrant",
        link: str | None = None,
        ellipse: Ellipse | None = "mean",
        width: Width = "page",
    ) -> PaperFigure:
        """Returns a plot for a paper, a matplotlib figure, and writes it to `path` if given.

        Kinds are `heat-map`, shares and harm of every pair on a link, and `scatter`, `cdf`, `bar` and `line` of all
        flows. `ccarena.Results.plot` describes these and their arguments. `by` is a column of `rows`. `link` names the
        link of the heat map (the first one), or restricts other plots to it.

        Raises ConfigError for arguments and if nothing is to be drawn, MissingDependencyError without matplotlib.
        """
        target = paper_files.check(path, width)
        row_plots.check_kind(
            kind, (HEAT_MAP, *row_plots.KINDS), ": compete keeps no series; ccarena.run draws a match over time"
        )
        if link is not None and link not in (known := [b.name for b in self.plan.bottlenecks]):
            raise ConfigError(f'link = "{link}": no such link{did_you_mean(link, known)}')
        if kind == HEAT_MAP:
            return heat_map(self.matrices(), link, width).write(target)
        rows = of_rows([row for row in self.flows if link in (None, row["link"]) and counts(row)])
        plotted = row_plots.Plotted.by(rows, by)
        return row_plots.of_rows(kind, plotted, figure=figure, x=x, ellipse=ellipse, width=width).write(target)

    def write(self, folder: str | os.PathLike[str], complete: bool = True, repeat: Sequence[str] = ()) -> list[Path]:
        """Writes rows, result and page to `folder`, and returns the paths of the files.

        A result that is not `complete` says so and has no page. `repeat` are the commands that make the page again.
        """
        path = Path(folder)
        write_atomically(path / ROWS, as_csv(self.columns("rows")))
        write_atomically(path / RESULT, json.dumps(self.result(complete, repeat), indent=1) + "\n")
        if not complete:
            return [path / ROWS, path / RESULT]
        write(path / PAGE, self.page(repeat))
        return [path / ROWS, path / RESULT, path / PAGE]

    def result(self, complete: bool = True, repeat: Sequence[str] = ()) -> dict[str, Any]:
        """Returns plan, summary, rows and the commands that make them again, as JSON data."""
        plan = self.plan
        digests: dict[str, str] = {}
        meta = {
            "ccarena": __version__,
            "entrants": [{**_about(entrant), **stored.portable(entrant.flow, digests)} for entrant in plan.entrants],
            "links": [
                {
                    "name": b.name,
                    "base_rtt_ms": b.base_rtt_ms,
                    "links": stored.portable([*b.links, *b.back], digests),
                }
                for b in plan.bottlenecks
            ],
            "digests": digests,
            "groups": [list(group) for group in plan.groups],
            "rtts_ms": [list(rtts) for rtts in plan.rtts_ms],
            "duration_s": plan.duration_s,
            "stagger_s": plan.stagger_s,
            "seeds": plan.seeds,
            **backends.about(plan.backend),
            "complete": complete,
            "repeat": list(repeat),
        }
        whole: dict[str, Any] = plain({"meta": meta, "summary": summarise(self.flows), "rows": self.flows})
        return whole

    def __repr__(self) -> str:
        names = ", ".join(entrant.label for entrant in self.plan.entrants)
        return f"Competition of {names} in {len(self.flows)} flows: .rows(), .summary(), .matrices(), .plot()"


def _about(entrant: Entrant) -> dict[str, str]:
    """Returns label and text of an entrant, and what its files contain, if it has some."""
    about = {"label": entrant.label, "entrant": entrant.text}
    with suppress(OSError):  # of a policy that was only in memory
        about |= {"digest": entrant.identity} if entrant.identity else {}
    return about


def compete(
    *entries: EntrantLike,
    links: Sequence[str] | None = None,
    scenarios: Sequence[str | os.PathLike[str]] = (),
    traces: TraceLinks | Sequence[str | os.PathLike[str]] | None = None,
    groups: Sequence[str] = (),
    rtts_ms: Sequence[Sequence[float]] = (),
    stagger_s: float | None = None,
    duration_s: float | None = None,
    seeds: int | None = None,
    backend: str = SIM,
    threads: int | None = None,
    progress: bool | Progress | None = None,
    out: str | os.PathLike[str] | None = None,
    show: Callable[[Competition], None] | None = None,
) -> Competition:
    """Runs every pair of entries, each against itself and every group, on bottlenecks.

    Arguments:
        entries: entrants (docs/entrants.md), such as `cubic`, `wcc-ai@weight=2`, `pilot`, `runs/acct` or
            `mine=runs/acct`, or what `load_policy` returned.
        links: bottlenecks such as `48mbps,20ms,1bdp` (that one if nothing else is given).
        scenarios: scenario files, whose links are bottlenecks, too.
        traces: bottlenecks over traces: files, names, folders, `NAME=TRACE` and `TRACE,BACK`, or a
            `ccarena.traces.given.TraceLinks`.
        groups: matches of their own, such as `cubic+bbr+bbr`.
        rtts_ms: base RTTs of a match's flows, in every rotation; the link's own for all if empty.
        stagger_s: from one start to the next, s (10; in real time 2).
        duration_s: how long all flows of a match run together, s (20; in real time 10).
        seeds: repetitions (3; in real time 1).
        backend: `sim`, or in real time `kernel` or `quic`, which programs of others need.
        threads: runs at once (2; in real time 1); in the simulator results do not depend on it.
        progress: whether to show a progress bar on stderr (None: on a terminal), or a function that is called with the
            number of runs done and their total.
        out: folder to write to, as `Competition.write` does. It is tried before anything runs, and what was finished
            is kept there whatever ends the rest.
        show: called with the result before it is written, so that a full disk loses no figures.

    Raises ConfigError, naming the part of an entrant or link that is wrong, ScenarioError, PolicyError or TraceError.
    """
    place, usual = backends.find(backend), effort(backend)
    threads = place.at_once(2) if threads is None else threads
    if threads < 1:
        raise ConfigError(f"threads = {threads}: expected at least 1")
    over = TraceLinks.of(traces) if traces is not None and not isinstance(traces, TraceLinks) else traces
    given = list(links or ([] if scenarios or over else [bottlenecks.DEFAULT]))
    where = [bottlenecks.parse_link(text) for text in given]
    where += [bottlenecks.from_scenario(Path(path)) for path in scenarios]
    where += bottlenecks.over_traces(over) if over is not None else []
    names = [each.name for each in where]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f'link "{name}" is given twice; results go by its name')
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        lineup, paired, teams = line_up(entries, groups, stack)
        lineup, paired, teams = marked(lineup, paired, teams, [s for each in where for s in each.services])
        plan = Plan(
            lineup,
            where,
            paired,
            teams,
            [tuple(each) for each in rtts_ms],
            usual.duration_s if duration_s is None else duration_s,
            usual.stagger_s if stagger_s is None else stagger_s,
            usual.seeds if seeds is None else seeds,
            backend=backend,
            attempts=backends.ATTEMPTS,
        )
        plan.check()
        if out is not None:
            check_writable(Path(out))
        bar: Progress | None = progress if callable(progress) else None
        if progress is True or (progress is None and sys.stderr.isatty()):
            if place.real_time:
                print(backends.time_needed(backend, lengths_s(plan), threads), file=sys.stderr)
            bar = stack.enter_context(progress_bar("competing", "matches" if place.real_time else "runs"))
        try:
            run_matches(plan, threads, bar, rows)
        except (KeyboardInterrupt, CcarenaError) as error:
            if not rows or out is None:
                raise
            Competition(plan, rows).write(out, complete=False)
            kept = f"what was finished ({len(rows)} flows) is in {out}"
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(f"interrupted; {kept}; {again('start over')}") from None
            print(kept, file=sys.stderr)
            raise
    result = Competition(plan, rows)
    if show is not None:
        show(result)
    if out is not None:
        result.write(out)
    return result


def check_plot(path: Path, kind: str, plan_entries: Sequence[str]) -> None:
    """Raises ConfigError before anything runs if a plot cannot be written to `path`, or would show nothing."""
    paper_files.check(path)
    check_file(path)
    if kind == HEAT_MAP and not plan_entries:
        raise ConfigError("--plot: no pair is run, and a heat map shows pairs; name two entries or more")
