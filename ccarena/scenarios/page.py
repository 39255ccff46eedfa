"""Page of `Results.write`: tables with intervals, and every scenario over time."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from ccarena.core.columns import Columns
from ccarena.eval.measure.figure_text import UNKNOWN, heading
from ccarena.eval.measure.table import FIGURES, columns
from ccarena.pages import Block, Callout, Choice, Code, Details, Figure, Items, Page, Section, Table, charts
from ccarena.pages.over_time import Course, over_time
from ccarena.scenarios.backends import BACKENDS
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.tables import (
    GIVEN,
    MOST_SHOWN,
    REPEATS,
    flow_series,
    link_series,
    notes,
    repeats,
    shortened,
    table_of,
)

__all__ = ["figure", "results_page"]

MOST_DRAWN = 12
"""Most scenarios that are drawn over time: each adds to the page's size."""
LEAST_BIN_S = 0.1
"""Shortest bin, s: in shorter ones, single packets make a rate jump."""
MOST_BINS = 400
"""Most bins of one line."""
MOST_LINES = 24
"""Most flows that are drawn over time, and most links."""
MOST_SAID = 12
"""Most flows that the findings name."""


def results_page(runs: Sequence[Run], title: str, repeat: Sequence[str] = ()) -> Page:
    """Returns the page of `runs`; `repeat` are the commands that make it again."""
    seeds = sorted({run.seed for run in runs})
    names = list(dict.fromkeys(run.scenario for run in runs))
    late = [f"{run.scenario}, seed {run.seed}" for run in runs if not run.valid]
    findings: list[Block] = []
    if late:
        findings.append(Callout("partly", f"The emulator was late, and left out is: {'; '.join(late)}"))
    sections, said = [], []
    for name in names:
        mine = [run for run in runs if run.scenario == name]
        findings += [Callout("partly", note) for note in notes(mine)]
        head, cells = table_of(mine)
        said += [_in_words(name if len(names) > 1 else "", head, row) for row in cells]
        left_out = shortened(mine)
        lead = (
            "Figures of each flow on the link of its path with the least capacity; losses are those of the whole path."
        )
        if len(mine) > 1:
            lead += f" {REPEATS}" if repeats(mine) else " Means over seeds, ± half of the 95 % interval (Student's t)."
        lead += f" {left_out}" if left_out else ""
        blocks: list[Block] = [Table(head, cells, words=3)]
        if name in names[:MOST_DRAWN]:
            blocks.append(Choice("Seed", {str(run.seed): [figure(run)] for run in mine[:MOST_DRAWN]}))
        document = {**mine[0].document, "flows": mine[0].document["flows"][:MOST_SHOWN]}
        code = Code(json.dumps(document, indent=1, ensure_ascii=False))
        of_flows = f" (the first {MOST_SHOWN} flows)" if left_out else ""
        blocks.append(Details(f"The scenario, with every default{of_flows}", [code]))
        sections.append(Section(name, lead, blocks))
    if said:
        findings.append(Items(said[:MOST_SAID]))
    figures = columns(GIVEN, {flow["scheme"] for run in runs for flow in run.result["flows"]})
    definitions = Table(
        ["figure", "definition"], [[heading(name), FIGURES[name].definition] for name in figures], words=2
    )
    sections.append(Section("What the figures mean", "", [Details("definitions and sources", [definitions])]))
    return Page(
        title=title,
        kind="scenarios",
        lead="What each flow of these scenarios got, and how the links' queues stood meanwhile.",
        facts={
            "Backend": BACKENDS[runs[0].backend].title,
            "Seeds": ", ".join(map(str, seeds)) if len(seeds) < 6 else f"{len(seeds)}, {seeds[0]} to {seeds[-1]}",
            "Runs": str(len(runs)),
        },
        repeat=repeat,
        findings=findings,
        sections=sections,
    )


def _in_words(scenario: str, head: Sequence[str], row: Sequence[str]) -> str:
    """Returns a row of `table_of` as a sentence."""
    of = {name: text for name, text in zip(head, row, strict=True) if text != UNKNOWN}
    rate, payload, delay, loss = (
        of.get(heading(f)) for f in ("throughput_mbps", "goodput_mbps", "queueing_delay_p95_ms", "loss_share")
    )
    flow = f"{row[0]} ({row[1]})"
    if rate is None:
        said = f"{flow} got {payload} Mbit/s of payload over {row[2]}; its packets were not recorded."
    elif delay is None:
        said = f"No packet of {flow} left {row[2]}; {loss} % were lost."
    else:
        said = f"{flow} got {rate} Mbit/s, with a p95 queueing delay of {delay} ms and {loss} % lost on {row[2]}."
    return f"{scenario}: {said}" if scenario else said


def figure(run: Run) -> Figure:
    """Returns every flow's rate, the capacity of the first flow's first link, and the links' mean queueing delay."""
    flows, links = flow_series(run, MOST_LINES), link_series(run)
    way = run.document["flows"][0]["path"][0]
    of_link = next(link for link in links if len(link["link"]) and link["link"][0] == way)
    step_s = float(run.document["record"]["bin_ms"]) * 1e-3
    every = max(1, round(LEAST_BIN_S / step_s), -(-len(of_link["time_s"]) // MOST_BINS))
    bin_s = every * step_s
    courses = [
        Course(
            f"{flow['flow'][0]} ({flow['scheme'][0]})",
            charts.style(index),
            _means(flow["received_mbps"], every).tolist(),
            None,
        )
        for index, flow in enumerate(flow for flow in flows if len(flow["time_s"]))
    ]
    queues = [
        Course(f"queue of {link['link'][0]}", charts.style(len(courses) + index), None, _delays(link, every))
        for index, link in enumerate(link for link in links[:MOST_LINES] if len(link["time_s"]))
    ]
    caption = "" if len(run.result["flows"]) <= MOST_LINES else f"The first {MOST_LINES} flows are drawn. "
    caption += f"Grey is the capacity of {way}; the delay is the mean of what left in each bin of {bin_s:g} s."
    label = f"{run.scenario}, seed {run.seed}"
    return over_time(label, bin_s, _means(of_link["capacity_mbps"], every), [*courses, *queues], caption=caption)


def _delays(link: Columns, every: int) -> list[float | None]:
    return [None if np.isnan(ms) else float(ms) for ms in _means(link["queueing_delay_ms"], every)]


def _means(values: np.ndarray, every: int) -> np.ndarray:
    """Returns means over `every` consecutive values without the NaNs; NaN if all are."""
    starts = np.arange(0, values.size, every)
    known = np.isfinite(values)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    return np.divide(sums, counts, out=np.full(starts.size, np.nan), where=counts > 0)
