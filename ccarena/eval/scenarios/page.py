"""The page of scenarios: each run's rates before capacity and its queueing delay over time, and a table of flows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ccarena.backends import SIM
from ccarena.errors import ConfigError
from ccarena.eval.figure_text import heading
from ccarena.eval.scenarios import tables
from ccarena.eval.scenarios.one_run import Run
from ccarena.pages import Axis, Block, Callout, Chart, Choice, Even, Figure, Items, Page, Section, Table, charts

__all__ = ["figure", "scenario_page"]

BIN_S = 0.1
"""Shortest bin that is drawn: below, single packets make a rate jump."""
MOST_NAMED = 12
"""Flows that findings name one by one at most."""


def scenario_page(
    runs: Sequence[Run],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    across: Sequence[str] = (),
    repeat: Sequence[str] = (),
) -> Page:
    """The page of one scenario's runs. `head` and `rows` are the table of flows that the terminal shows: flow, scheme,
    link, figures; `across` are the sentences below it."""
    first = runs[0]
    findings: list[Block] = []
    if late := [str(run.seed) for run in runs if not run.valid]:
        findings.append(Callout("bad", f"Invalid, because the emulator was late: seed {', '.join(late)}"))
    said = []
    for row in rows[:MOST_NAMED]:
        of = dict(zip(head, row, strict=True))
        rate, delay, loss = (of[heading(f)] for f in ("throughput_mbps", "queueing_delay_p95_ms", "loss_share"))
        said.append(
            f"{row[0]} ({row[1]}) got {rate} Mbit/s, with a p95 queueing delay of {delay} ms; {loss} % of its packets "
            f"were lost on {row[2]}."
        )
    findings.append(Items([*said, *across]))
    drawn: dict[str, Sequence[Block]] = {}
    for run in runs:
        if any("series" in flow for flow in run.result["flows"]):
            drawn[f"seed {run.seed}"] = [figure(run)]
    sections = []
    if drawn:
        lead = "What each flow's receiver got, before the capacity of the links (grey), and the links' queueing delay."
        sections.append(Section("Over time", lead, [Choice("Run", drawn)]))
    lead = "Of each flow on the first link of its path; ± is half of the 95 % confidence interval over seeds."
    sections.append(Section("Flows", lead, [Table(head, rows, words=3, grouped=False)]))
    seeds = [run.seed for run in runs]
    return Page(
        title=first.scenario,
        kind="scenario",
        lead=f"{_count(len(first.result['flows']), 'flow')} over {_count(len(first.result['links']), 'link')}.",
        facts={
            "Backend": "simulator" if first.backend == SIM else "Linux TCP, emulated link",
            "Seeds": ", ".join(map(str, seeds)) if len(seeds) <= 5 else f"{len(seeds)}, {seeds[0]} to {seeds[-1]}",
            "Time": f"{float(first.result['duration_s']):g} s",
        },
        repeat=repeat,
        findings=findings,
        sections=sections,
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def figure(run: Run) -> Figure:
    """Every flow's rate before the links' capacity, and the links' mean queueing delay, over time.

    Raises ConfigError if the run has no series.
    """
    flows, links = tables.TABLES["flow_series"]([run]), tables.TABLES["link_series"]([run])
    if not flows or not links:
        raise ConfigError(f"{run.scenario}: the backend {run.backend} recorded no series to plot")
    rates, delays = [], []
    for index, link in enumerate(dict.fromkeys(links["link"].tolist())):
        mine = {name: values[links["link"] == link] for name, values in links.items()}
        bin_s, capacity = _binned(mine["time_s"], mine["capacity_mbps"])
        name, look = f"capacity of {link}", charts.Style(charts.MUTED, "dot")
        if index == 0:
            rates.append(charts.area(name, Even(0.0, bin_s), capacity))
        else:
            rates.append(charts.line(name, Even(0.0, bin_s), capacity, look, steps=True))
        _, delay = _binned(mine["time_s"], mine["queueing_delay_ms"])
        delays.append(charts.line(f"queue of {link}", Even(bin_s / 2, bin_s), delay, charts.style(-1 - index)))
    for index, flow in enumerate(dict.fromkeys(flows["flow"].tolist())):
        chosen = flows["flow"] == flow
        bin_s, rate = _binned(flows["time_s"][chosen], flows["throughput_mbps"][chosen])
        name = f"{flow} ({flows['scheme'][chosen][0]})"
        rates.append(charts.line(name, Even(bin_s / 2, bin_s), rate, charts.style(index)))
    x = Axis("time (s)")
    parts = [
        Chart(x, Axis("rate (Mbit/s)", from_zero=True), rates, height=320, unified=True),
        Chart(x, Axis("queueing delay (ms)", from_zero=True), delays, height=240, unified=True),
    ]
    return Figure(f"{run.scenario}, seed {run.seed}, {run.backend}", parts, same_x=True)


def _binned(time_s: np.ndarray, values: np.ndarray) -> tuple[float, list[float]]:
    """(length of a bin in s, means): over bins of `BIN_S` at least; NaN where all of a bin's are."""
    step_s = float(time_s[1] - time_s[0]) if time_s.size > 1 else BIN_S
    every = max(1, round(BIN_S / step_s))
    starts = np.arange(0, values.size, every)
    known = np.isfinite(values)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    means = np.divide(sums, counts, out=np.full(starts.size, np.nan), where=counts > 0)
    return every * step_s, means.tolist()
