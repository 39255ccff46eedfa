"""Results of scenarios: tables, a plot, files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ccarena.core.columns import Columns, as_csv, as_pandas, as_polars
from ccarena.core.files import write_atomically
from ccarena.errors import ConfigError, did_you_mean
from ccarena.pages import Page, Section, images, paper_files, write
from ccarena.runs.run_folder import PAGE
from ccarena.scenarios import packets, stored, tables
from ccarena.scenarios.one_run import Run, numbered

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ccarena.pages.paper import PaperFigure
    from ccarena.pages.paper_files import Width
    from ccarena.scenarios.row_plots import Ellipse

__all__ = ["Results"]

FILES = ("flows", "links", "flow_series", "link_series", "summary")
"""Tables that `Results.write` writes; packets are too many."""


@dataclass(frozen=True)
class Results:
    """Results of `ccarena.run`, scenario by scenario and seed by seed, as tables.

    Tables are pandas data frames; `polars` gives the same ones for Polars, and `columns` as NumPy arrays, which need no
    library. Rates are in Mbit/s (10^6 bit/s), times in the unit that ends a column's name, shares in [0, 1].
    `ccarena.eval.measure.table.FIGURES` defines every figure. Unknown values are NaN.

    A run on the kernel whose emulator was late has `valid` False in its rows, and `summary` leaves it out.
    """

    runs: tuple[Run, ...]
    _documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """Scenarios as they were given, with their entrants, by name."""

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __getitem__(self, index: int) -> Run:
        return self.runs[index]

    def flows(self) -> pd.DataFrame:
        """Returns a row per run and flow: its figures on the link of its path with the least capacity, and counters."""
        return as_pandas(self.columns("flows"))

    def links(self) -> pd.DataFrame:
        """Returns a row per run and link: capacity, traffic, drops, and queueing delay."""
        return as_pandas(self.columns("links"))

    def series(self, of: Literal["flows", "links"] = "flows") -> pd.DataFrame:
        """Returns figures over time, a row per run, flow or link, and bin; `time_s` is the start of the bin.

        Flows have the receiver's `received_mbps` of IP bytes and `goodput_mbps` of new payload. Links have
        `capacity_mbps`, `throughput_mbps`, the mean `queueing_delay_ms` of what left, and `dropped_packets`. Bins are
        those of the scenario's `record.bin_ms`.
        """
        if of not in ("flows", "links"):
            raise ConfigError(f'series of "{of}"; expected "flows" or "links"')
        return as_pandas(self.columns("flow_series" if of == "flows" else "link_series"))

    def packets(self) -> pd.DataFrame:
        """Returns a row per data packet that a flow sent, in that order, retransmissions included.

        `sequence` numbers the flow's segments from 0, and `bytes` are IP bytes. `sent_ns` is the time at the sender,
        `one_way_delay_ms` the time to the receiver and `queueing_delay_ms` its part in queues; both are NaN unless it
        arrived. `fate` is "delivered", "marked" (delivered with an ECN mark), "under way", or how it went: "dropped"
        by a queue, "lost" at random or in an outage, "corrupted" on a wire, "policed" by a policer. Text is
        categorical, so that a row takes about 33 bytes.

        Raises ConfigError if no packets were recorded, as in real time.
        """
        return as_pandas(packets.packets(self.runs))

    def write_packets(self, path: str | os.PathLike[str]) -> Path:
        """Writes `packets` as a Parquet file, flow by flow, and returns its path.

        Raises ConfigError if no packets were recorded, MissingDependencyError without PyArrow.
        """
        return packets.write_parquet(self.runs, path)

    def pcap(self, path: str | os.PathLike[str], run: int = 0) -> Path:
        """Writes the packets of run number `run` as a capture at its senders (docs/results.md), for Wireshark and
        tcptrace, and returns its path.

        Raises ConfigError if no packets were recorded, as in real time, where tcpdump captures the real ones.
        """
        from ccarena.scenarios import pcap

        return pcap.write(numbered(self.runs, run), path)

    def link_packets(self) -> pd.DataFrame:
        """Returns a row per packet that left a link, in that order: times in ns, IP bytes, and queueing delay.

        Raises ConfigError if no packets were recorded.
        """
        return as_pandas(self.columns("link_packets"))

    def summary(self) -> pd.DataFrame:
        """Returns means over seeds: a row per scenario, flow and figure, with Student's 95 % interval from `low` to
        `high`.

        `n` counts the runs with a value. With one run, or equal runs, the interval is NaN or empty. Most schemes draw
        no random numbers, so seeds only differ on links that do (loss, jitter, random capacity).
        """
        return as_pandas(tables.summary(self.runs))

    def polars(self, table: str) -> pl.DataFrame:
        """Returns one of the tables of `columns` as a Polars data frame."""
        return as_polars(self.columns(table))

    def columns(self, table: str) -> Columns:
        """Returns a table as NumPy arrays by column: `flows`, `links`, `flow_series`, `link_series`, `packets`,
        `link_packets` or `summary`.

        Raises ConfigError for another name, or for packets that were not recorded.
        """
        if table not in tables.TABLES:
            raise ConfigError(f'no table "{table}"{did_you_mean(table, tables.TABLES)}')
        return tables.TABLES[table](self.runs)

    def plot(
        self,
        kind: str = "rate",
        path: str | os.PathLike[str] | None = None,
        *,
        figure: str | None = None,
        x: str | None = None,
        by: str | Sequence[str] | None = None,
        run: int | None = None,
        ellipse: Ellipse | None = "mean",
        width: Width = "column",
    ) -> PaperFigure:
        """Returns a plot for a paper, a matplotlib figure, and writes it to `path` if given.

        - `rate`: one run, each flow's rate over time in front of the capacity.
        - `delay`: one run, the links' mean queueing delay over time.
        - `scatter`: each entrant's throughput (or another `figure`) against its delay, better up and right.
        - `cdf`: distribution of packets' queueing delays, or of a figure over runs.
        - `bar`: mean of a figure (`throughput_mbps`), with Student's 95 % interval over seeds.
        - `line`: mean of a figure (`throughput_mbps`) over the column `x`, with the same interval.

        Arguments:
            kind: one of these.
            path: ends in .pdf, .svg or .png. The same results give the same bytes.
            figure: a figure (docs/figures.md).
            x: figure on the x axis of a scatter plot (`queueing_delay_p95_ms`), or column of a line plot.
            by: column, or columns, that tell entrants apart; as little of flow, scheme and scenario as does if None.
            run: number of the run of `rate` and `delay` (0).
            ellipse: of a scatter plot. "mean": the 95 % confidence region of the mean (Hotelling's T²) over seeds, of
                which it takes four; "runs": one standard deviation of the runs, as in papers on Remy and Sprout; None.
            width: "column" (3.33 inches) or "page" (7 inches).

        Raises ConfigError for arguments and if nothing is to be drawn, MissingDependencyError without matplotlib.
        """
        from ccarena.scenarios import plots

        target = paper_files.check(path, width)
        drawn = plots.plot(self.runs, kind, figure=figure, x=x, by=by, run=run, ellipse=ellipse, width=width)
        return drawn.write(target)

    def page(self, path: str | os.PathLike[str] | None = None, run: int = 0) -> Page:
        """Returns rates, capacity and queueing delay of run number `run` over time as a page, which a notebook shows;
        writes it to `path` if given.

        The path ends in .html, or in .svg, .png or .pdf, which need Chrome or Chromium. Raises ConfigError for another
        suffix, MissingDependencyError without a browser.
        """
        from ccarena.scenarios.page import figure

        chosen = numbered(self.runs, run)
        drawn = figure(chosen)
        page = Page(chosen.scenario, "scenario", "", sections=[Section("Over time", "", [drawn])])
        if path is not None:
            images.save(Path(path), page, [drawn])
        return page

    def write(self, folder: str | os.PathLike[str], title: str = "Scenarios", repeat: Sequence[str] = ()) -> list[Path]:
        """Writes the tables except packets as CSV files, the scenarios and a page, and returns their paths.

        A copy of the folder repeats the runs (docs/results.md): it has the scenarios with their files, and `run.json`.
        The page shows `title`, and the commands `repeat` that make it again. Raises ConfigError if the folder cannot be
        written.
        """
        from ccarena.scenarios.page import results_page

        written = []
        for table in FILES:
            path = Path(folder, f"{table}.csv")
            write_atomically(path, as_csv(self.columns(table)))
            written.append(path)
        written += stored.store(Path(folder), self.runs, self._documents, repeat)
        page = Path(folder, PAGE)
        write(page, results_page(self.runs, title, [*repeat, *stored.again(self.runs, self._documents)]))
        return [*written, page]

    def __repr__(self) -> str:
        scenarios = len({run.scenario for run in self.runs})
        same = any(tables.repeats([r for r in self.runs if r.scenario == name]) for name in self._names())
        note = f". {tables.REPEATS}" if same else ""
        tables_of = ".flows(), .links(), .series(), .summary()"
        return f"Results of {len(self.runs)} runs of {scenarios} scenarios: {tables_of}{note}"

    def _names(self) -> list[str]:
        return list(dict.fromkeys(run.scenario for run in self.runs))
