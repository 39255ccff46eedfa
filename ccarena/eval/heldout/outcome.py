"""Function `ccarena.evaluate`: policies and heuristics side by side, judged, as tables, plots and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccarena.core.columns import Columns, as_csv, as_pandas, as_polars, of_rows
from ccarena.core.files import check_writable, write_atomically
from ccarena.core.terminal import Progress, progress_bar
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.heldout.evaluate import evaluate as evaluate_all
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.expectations import Verdict, judge, together
from ccarena.eval.heldout.gain import Trainings, over_trainings
from ccarena.eval.heldout.page import repeat_command
from ccarena.eval.heldout.paper_plots import OVER_TIME, paper_over_time
from ccarena.eval.heldout.plots import throughput_delay
from ccarena.eval.heldout.summary import mean_rows, print_first
from ccarena.eval.heldout.training_run import write_outcome
from ccarena.eval.measure.table import FIGURES
from ccarena.executors import Executor
from ccarena.pages import Page, Section, images, paper_files
from ccarena.policies.artifact import count_test
from ccarena.runs.run_folder import CONFIG, PROGRESS, ROWS, SUMMARY, read_progress
from ccarena.scenarios import row_plots
from ccarena.scenarios.backends import SIM, find
from ccarena.scenarios.entrants import EntrantLike, line_up
from ccarena.traces.given import TraceLinks

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ccarena.pages.paper import PaperFigure
    from ccarena.pages.paper_files import Width
    from ccarena.scenarios.row_plots import Ellipse

__all__ = ["Outcome", "evaluate"]


@dataclass(frozen=True)
class Outcome:
    """Results of an evaluation and the verdict on each policy.

    Tables are pandas data frames; `polars` and `columns` give the same ones for Polars and as NumPy arrays. Rates are
    in Mbit/s, times in the unit that ends a column's name, shares in [0, 1]. Unknown values are NaN.
    """

    evaluation: Evaluation
    """Rows, series and distributions, as plain data."""
    verdicts: dict[str, Verdict]
    """Verdicts by the policy's label: does it meet its configuration's expectations?"""
    _name: str = "heuristics"
    _progress: list[dict[str, Any]] = field(default_factory=list)
    _config: str = ""

    @property
    def verdict(self) -> Verdict:
        """Returns all verdicts as one; without a policy, the verdict that nothing was tested."""
        return together(self.verdicts) if self.verdicts else judge(self.evaluation)

    @property
    def trainings(self) -> list[Trainings]:
        """Returns the common gain over the best rule of several policies of one configuration, trained with other
        seeds.
        """
        return over_trainings(self.evaluation)

    def rows(self) -> pd.DataFrame:
        """Returns a row per link, seed and scheme, with its figures (`ccarena.eval.measure.table.FIGURES`)."""
        return as_pandas(self.columns("rows"))

    def summary(self) -> pd.DataFrame:
        """Returns a row per kind of links, scheme and figure: the mean over links and seeds, `n` runs, and an interval.

        `low` and `high` bound Student's 95 % interval of the mean over seeds, each seed's value being its mean over
        links. The interval describes another draw, not differences between links. It is NaN with one seed.
        """
        return as_pandas(self.columns("summary"))

    def polars(self, table: str) -> pl.DataFrame:
        """Returns one of the tables of `columns` as a Polars data frame."""
        return as_polars(self.columns(table))

    def columns(self, table: str) -> Columns:
        """Returns the table `rows` or `summary` as NumPy arrays by column. Raises ConfigError for another name."""
        if table == "rows":
            alien = FIGURES.keys() - self.evaluation.figures
            rows = self.evaluation.rows
            plain = [{k: v for k, v in row.items() if not isinstance(v, list) and k not in alien} for row in rows]
            return of_rows(plain)
        if table == "summary":
            return of_rows(mean_rows(self.evaluation))
        raise ConfigError(f'no table "{table}"{did_you_mean(table, ("rows", "summary"))}')

    def plot(
        self,
        kind: str = "scatter",
        path: str | os.PathLike[str] | None = None,
        *,
        figure: str | None = None,
        x: str | None = None,
        by: str = "scheme",
        link: str | None = None,
        ellipse: Ellipse | None = "mean",
        width: Width = "column",
    ) -> PaperFigure:
        """Returns a plot for a paper, a matplotlib figure, and writes it to `path` if given.

        Kinds are `scatter`, `cdf`, `bar` and `line` of all runs, and `rate` and `delay` of one link, over time with the
        first seed. `ccarena.Results.plot` describes them and their arguments. Links differ in rate, so the throughput
        of a scatter plot is `utilisation` unless `figure` says otherwise. `by` is a column of `rows`. `link` names the
        link of `rate` and `delay` (the first one).
        """
        target = paper_files.check(path, width)
        if kind in OVER_TIME:
            return paper_over_time(self.evaluation, kind, link, width).write(target)
        row_plots.check_kind(kind, (*row_plots.KINDS, *OVER_TIME))
        rows = [row for row in self.evaluation.valid_rows() if row.get("gain", 1.0) == 1.0]
        known = of_rows([{name: cell for name, cell in row.items() if not isinstance(cell, list)} for row in rows])
        plotted = row_plots.Plotted.by(known, by, throughput="utilisation")
        return row_plots.of_rows(kind, plotted, figure=figure, x=x, ellipse=ellipse, width=width).write(target)

    def page(self, path: str | os.PathLike[str] | None = None) -> Page:
        """Returns utilisation against queueing delay, a mark per run and scheme, as a page, which a notebook shows;
        writes it to `path` if given.

        The path ends in .html, or in .svg, .png or .pdf, which need Chrome or Chromium. Raises ConfigError for another
        suffix, MissingDependencyError without a browser.
        """
        drawn = throughput_delay(self.evaluation)
        page = Page(self._name, "evaluation", "", sections=[Section("Throughput against delay", "", [drawn])])
        if path is not None:
            images.save(Path(path), page, [drawn])
        return page

    def write(self, folder: str | os.PathLike[str]) -> dict[str, Any]:
        """Writes tables, verdicts and page to `folder` (docs/results.md), and returns the verdict and means in
        short.
        """
        path = Path(folder)
        for name, table in ((ROWS, "rows"), (SUMMARY, "summary")):
            write_atomically(path / name, as_csv(self.columns(table)))
        return write_outcome(
            path,
            self.evaluation,
            self.verdict,
            name=self._name,
            progress=self._progress,
            config=self._config,
        )

    def __repr__(self) -> str:
        schemes = ", ".join(self.evaluation.schemes())
        return f"Outcome of {len(self.evaluation.rows)} runs of {schemes}: .rows(), .summary(), .verdict, .plot()"


def evaluate(
    *entries: EntrantLike,
    link_sets: Sequence[str] | None = None,
    traces: TraceLinks | Sequence[str | os.PathLike[str]] | None = None,
    schemes: Sequence[str] | None = None,
    seeds: int = 5,
    duration_s: float | None = None,
    backend: str = SIM,
    threads: int | None = None,
    progress: bool | Progress | None = None,
    out: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    repeat: Sequence[str] | None = None,
) -> Outcome:
    """Runs policies and heuristics side by side on links that training does not draw, and judges the policies.

    Arguments:
        entries: entrants (docs/entrants.md), such as `runs/acct`, `mine=runs/acct`, `cubic` or `cubic@hystart=0`, or
            what `load_policy` returned, in any order. Policies are judged. The others replace the heuristics of the
            policies' configurations. Without any, `schemes` run.
        link_sets: names that `ccarena eval --help` lists; those of the policies' configurations if None.
        traces: links over these traces, beside the `link_sets` that are named, else instead of the configurations':
            files, names, folders, `NAME=TRACE` and `TRACE,BACK`, with buffers of 100 and 1000 packets and 20 ms each
            way; or a `ccarena.traces.given.TraceLinks`, which has other ones.
        schemes: entrants without a policy, which `entries` may name, too; cubic, bbr and reno if nothing says
            otherwise.
        seeds: repetitions of every link.
        duration_s: of every run, s; the link set's own if None: 30, and 60 for `steps`, `cellular` and traces.
        backend: `sim`, the simulator; over emulated links, in real time and as root, `kernel` (Linux TCP) and `quic`.
        threads: links at once: 2, and in real time 1, if None.
        progress: whether to show a progress bar on stderr (None: on a terminal), or a function that is called with the
            number of links done and their total.
        out: folder to write to, as `Outcome.write` does. It is tried before anything runs.
        executor: who runs the links, such as `ccarena.executors.ray.OnRay()`; threads of this process if None.
        repeat: shell lines that do this again, for the page; if None, those that say the same as the arguments.

    Raises ConfigError for arguments, PolicyError or TraceError for files that cannot be used, and in real time
    MachineError or RunnerError.
    """
    if threads is not None and threads < 1:
        raise ConfigError(f"threads = {threads}: expected at least 1")
    over = TraceLinks.of(traces) if traces is not None and not isinstance(traces, TraceLinks) else traces
    with ExitStack() as stack:
        entrants = line_up(entries, stack)
        policies = [entrant for entrant in entrants if entrant.policy_file is not None]
        named = [entrant for entrant in entrants if entrant.policy_file is None]
        if named and schemes:
            both = f"{' '.join(each.text for each in named)} and {' '.join(schemes)}"
            raise ConfigError(f"schemes are named twice, {both}: name them once")
        beside = named or (None if schemes is None else line_up(schemes, stack))
        if trained := [each.text for each in beside or () if each.policy_file is not None]:
            raise ConfigError(f"schemes = {trained[0]}: a policy; name it among the entrants, where it is judged")
        if out is not None:
            check_writable(Path(out))
        bar: Progress | None = progress if callable(progress) else None
        if progress is True or (progress is None and sys.stderr.isatty()):
            bar = stack.enter_context(progress_bar("evaluating"))
        result = evaluate_all(
            policies,
            link_sets,
            seeds,
            duration_s,
            beside,
            over=over,
            # Links that run side by side in real time make each other late.
            threads=threads or find(backend).at_once(2),
            progress=bar,
            backend=backend,
            executor=executor,
            say=(lambda line: print(line, file=sys.stderr)) if bar is not None else None,
            early=print_first if bar is not None else None,
        )
        files = [file for each in policies if (file := each.policy_file) is not None]
        trainings = [read_progress(file.parent / PROGRESS) for file in files]
        labels = result.policies
        for file in files if over is None else ():
            count_test(file)
        verdicts = {
            label: judge(result.of_policy(label), training) for label, training in zip(labels, trainings, strict=True)
        }
        config = files[0].parent / CONFIG if len(files) == 1 else None
        known = config if config is not None and config.is_file() else None
        if repeat is None:
            on_disk = all(isinstance(entry, (str, os.PathLike)) for entry in entries)
            repeat = [repeat_command(entries, result.meta, over)] if on_disk else []
        result.repeat = list(repeat)
        outcome = Outcome(
            result,
            verdicts,
            " and ".join(file.parent.name for file in files) or "heuristics",
            trainings[0] if len(trainings) == 1 else [],
            known.read_text("utf-8") if known else "",
        )
    if out is not None:
        outcome.write(out)
    return outcome
