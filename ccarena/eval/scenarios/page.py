"""The page of `Results.write`: tables with intervals, and every scenario over time."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from ccarena.columns import Columns
from ccarena.eval.figure_text import heading
from ccarena.eval.metrics import FIGURES
from ccarena.eval.scenarios.one_run import Run
from ccarena.eval.scenarios.tables import TABLES, table_of
from ccarena.pages import Block, Callout, Choice, Code, Details, Page, Section, Table, charts
from ccarena.pages.over_time import Course, over_time

__all__ = ["results_page"]

MOST_DRAWN = 12
"""Scenarios that are drawn over time: each adds to the page's size."""
MOST_BINS = 400
"""Of one line."""


def results_page(runs: Sequence[Run], title: str, repeat: Sequence[str] = ()) -> Page:
    """The page of `runs`; `repeat` are the commands that make it again."""
    seeds = sorted({run.seed for run in runs})
    names = list(dict.fromkeys(run.scenario for run in runs))
    late = [f"{run.scenario}, seed {run.seed}" for run in runs if not run.valid]
    findings: list[Block] = []
    if late:
        findings.append(Callout("bad", f"The emulator was late, and left out is: {'; '.join(late)}"))
    sections = []
    for name in names:
        mine = [run for run in runs if run.scenario == name]
        head, cells = table_of(mine)
        lead = "Figures of each flow on the first link of its path."
        lead += " Means over seeds, ± half of the 95 % interval (Student's t)." if len(mine) > 1 else ""
        blocks: list[Block] = [Table(head, cells, words=3)]
        if name in names[:MOST_DRAWN]:
            blocks.append(Choice("Seed", {str(run.seed): [_drawn(run)] for run in mine[:MOST_DRAWN]}))
        document = json.dumps(mine[0].document, indent=1, ensure_ascii=False)
        blocks.append(Details("The scenario, with every default", [Code(document)]))
        sections.append(Section(name, lead, blocks))
    definitions = Table(
        ["figure", "definition"], [[heading(name), figure.definition] for name, figure in FIGURES.items()], words=2
    )
    sections.append(Section("What the figures mean", "", [Details("definitions and sources", [definitions])]))
    simulated = runs[0].backend == "sim"
    return Page(
        title=title,
        kind="scenarios",
        lead="What each flow of these scenarios got, and how the links' queues stood meanwhile.",
        facts={
            "Backend": "simulator" if simulated else "Linux TCP, emulated link",
            "Seeds": ", ".join(map(str, seeds)) if len(seeds) < 6 else f"{len(seeds)}, {seeds[0]} to {seeds[-1]}",
            "Runs": str(len(runs)),
        },
        repeat=repeat,
        findings=findings,
        sections=sections,
    )


def _drawn(run: Run) -> Block:
    flows, links = TABLES["flow_series"]([run]), TABLES["link_series"]([run])
    way = run.document["flows"][0]["path"][0]
    of_link = _where(links, "link", way)
    every = max(1, -(-len(of_link["time_s"]) // MOST_BINS))
    bin_s = every * float(run.document["record"]["bin_ms"]) * 1e-3
    courses = [
        Course(
            f"{flow} ({mine['scheme'][0]})", charts.style(index), means(mine["throughput_mbps"], every).tolist(), None
        )
        for index, flow in enumerate(dict.fromkeys(flows["flow"].tolist()))
        if len((mine := _where(flows, "flow", flow))["time_s"])
    ]
    queues = [
        Course(f"queue of {link}", charts.style(len(courses) + index), [], _delays(_where(links, "link", link), every))
        for index, link in enumerate(dict.fromkeys(links["link"].tolist()))
    ]
    caption = f"Grey is the capacity of {way}; the delay is the mean of what left in each bin of {bin_s:g} s."
    label = f"{run.scenario}, seed {run.seed}"
    return over_time(label, bin_s, means(of_link["capacity_mbps"], every), [*courses, *queues], caption=caption)


def _delays(link: Columns, every: int) -> list[float | None]:
    return [None if np.isnan(ms) else float(ms) for ms in means(link["queueing_delay_ms"], every)]


def _where(columns: Columns, name: str, value: str) -> Columns:
    chosen = columns[name] == value
    return {key: values[chosen] for key, values in columns.items()}


def means(values: np.ndarray, every: int) -> np.ndarray:
    """Means over `every` consecutive values, of what is known; NaN where nothing is."""
    starts = np.arange(0, values.size, every)
    known = np.isfinite(values)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    return np.divide(sums, counts, out=np.full(starts.size, np.nan), where=counts > 0)
