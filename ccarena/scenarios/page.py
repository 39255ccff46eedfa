"""Page of `Results.write`: tables with intervals, and every scenario over time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ccarena import __version__
from ccarena.eval.measure.figure_text import UNKNOWN, heading
from ccarena.eval.measure.table import FIGURES
from ccarena.pages import Block, Callout, Choice, Code, Details, Figure, Items, Page, Section, Table, charts
from ccarena.pages.over_time import Course, over_time
from ccarena.pages.runnable import Repeat, Runnable
from ccarena.scenarios.backends import SIM, of_result
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.over_time import MOST_LINES, binned
from ccarena.scenarios.repeat import Unrepeatable, repeat_of
from ccarena.scenarios.tables import (
    MOST_SHOWN,
    REPEATS,
    application_tables,
    figures_of,
    flow_rows,
    interval_note,
    mark_table,
    notes,
    repeats,
    shortened,
    table_of,
)

__all__ = ["figure", "results_page"]

MOST_DRAWN = 12
"""Most scenarios that are drawn over time: each adds to the page's size."""
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
            lead += f" {counted}" if (counted := interval_note(mine)) else ""
        lead += f" {left_out}" if left_out else ""
        blocks: list[Block] = [Table(head, cells, words=head.index("link") + 1)]
        blocks += [Table(*each, words=each[0].index("link") + 1) for each in application_tables(mine)]
        if marks := mark_table(mine):
            blocks.append(Table(*marks, words=1))
        if name in names[:MOST_DRAWN]:
            blocks.append(Choice("Seed", {str(run.seed): [figure(run)] for run in mine[:MOST_DRAWN]}))
        blocks += _again(mine)
        document = {**mine[0].document, "flows": mine[0].document["flows"][:MOST_SHOWN]}
        code = Code(json.dumps(document, indent=1, ensure_ascii=False))
        of_flows = f" (the first {MOST_SHOWN} flows)" if left_out else ""
        blocks.append(Details(f"The scenario, with every default{of_flows}", [code]))
        sections.append(Section(name, lead, blocks))
    if said:
        findings.append(Items(said[:MOST_SAID]))
    figures = figures_of(runs)
    definitions = Table(
        ["figure", "definition"], [[heading(name), FIGURES[name].definition] for name in figures], words=2
    )
    sections.append(Section("What the figures mean", "", [Details("definitions and sources", [definitions])]))
    return Page(
        title=title,
        kind="scenarios",
        lead="What each flow of these scenarios got, and how the links' queues stood meanwhile.",
        facts={
            "Written by": f"ccarena {__version__}",
            "Backend": of_result(runs[0].backend).title,
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
    *axes, name, scheme, link = row[: head.index("link") + 1]
    flow = f"{name} ({scheme})"
    if rate is None:
        said = f"{flow} got {payload} Mbit/s of payload over {link}; its packets were not recorded."
    elif delay is None:
        said = f"No packet of {flow} left {link}; {loss} % were lost."
    else:
        said = f"{flow} got {rate} Mbit/s, with a p95 queueing delay of {delay} ms and {loss} % lost on {link}."
    return ": ".join([*([scenario] if scenario else []), *axes, said])


def _again(runs: Sequence[Run]) -> list[Block]:
    """Returns the simulated runs of one scenario for a browser to repeat."""
    repeats: list[Repeat] = []
    refused: list[str] = []
    for run in runs[:MOST_DRAWN]:
        if run.backend != SIM:
            continue
        rows = {row["flow"]: row for row in flow_rows([run])[:MOST_SHOWN]}
        stored = {name: {figure: row[figure] for figure in figures_of([run])} for name, row in rows.items()}
        try:
            repeats.append(repeat_of(run.document, {"seed": str(run.seed)}, stored, __version__))
        except Unrepeatable as error:
            refused.append(f"Seed {run.seed}: {error}.")
    return [Runnable(repeats, refused)] if repeats or refused else []


def figure(run: Run) -> Figure:
    """Returns every flow's rate, the capacity of the first flow's first link, and the links' mean queueing delay."""
    found = binned(run)
    courses = [
        Course(name, charts.style(index), rates.tolist())
        for index, (name, rates) in enumerate(found.rates_mbps.items())
    ]
    queues = [
        Course(f"queue of {name}", charts.style(len(courses) + index), None, delays.tolist())
        for index, (name, delays) in enumerate(found.delays_ms.items())
    ]
    caption = "" if len(run.result["flows"]) <= MOST_LINES else f"The first {MOST_LINES} flows are drawn. "
    caption += f"Grey is the capacity of {found.capacity_of}; "
    caption += f"the delay is the mean of what left in each bin of {found.bin_s:g} s."
    label = f"{run.scenario}, seed {run.seed}"
    return over_time(label, found.bin_s, found.capacity_mbps, [*courses, *queues], caption=caption)
