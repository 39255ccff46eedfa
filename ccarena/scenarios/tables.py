"""Tables of `Results`, as columns."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ccarena.core.columns import Coded, Columns, join, of_rows
from ccarena.errors import ConfigError
from ccarena.eval.measure import record, table
from ccarena.eval.measure.applications import APPLICATIONS
from ccarena.eval.measure.buffers import buffer_notes
from ccarena.eval.measure.figure_text import bounded, heading
from ccarena.eval.measure.figure_text import with_interval as text_with_interval
from ccarena.eval.measure.outside import OUTSIDE, outside_notes
from ccarena.eval.measure.packet_log import PacketLog
from ccarena.eval.measure.queueing import queueing_delay_ms
from ccarena.eval.measure.sample import confidence_interval
from ccarena.eval.measure.table import FIGURES
from ccarena.scenarios import backends
from ccarena.scenarios.one_run import Run
from ccarena.scenarios.packets import packets

__all__ = [
    "COLUMNS",
    "GIVEN",
    "MOST_SHOWN",
    "REPEATS",
    "TABLES",
    "application_tables",
    "figures_of",
    "flow_rows",
    "flow_series",
    "interval_note",
    "known",
    "link_series",
    "mark_table",
    "notes",
    "repeats",
    "shortened",
    "summary",
    "table_of",
    "with_interval",
]

GIVEN = frozenset(
    {record.PACKETS, record.SERIES, record.RECEIVED, record.COUNTERS, record.TRACE, record.FLOWS, record.REQUIREMENT}
)
"""Needs of figures that scenarios may meet; a figure whose needs its run does not meet is NaN."""
COLUMNS = frozenset(
    {*("scenario", "seed", "backend", "valid", "error", "flow", "scheme", "link", "time_s", "figure", "unit"),
     *("mean", "low", "high", "n", "bytes", "fate", "sequence"), *FIGURES}
)  # fmt: skip
"""Columns of tables, which no axis of a sweep may be called."""
SHOWN = (
    *("throughput_mbps", "goodput_mbps", "utilisation", "queueing_delay_mean_ms", "queueing_delay_p95_ms"),
    *("signal_delay_p95_ms", "loss_share", "queue_drop_share", "satisfaction_goodput"),
)
"""Figures of each flow that readers are shown."""
MANY_SEEDS = 5
"""Least number of seeds whose intervals (Student's t) are not much wider than more seeds would make them."""
MOST_SHOWN = 100
"""Most flows of a scenario that readers are shown; the CSV files have all."""
MARKS = ("marked_ect0_packets", "marked_ect1_packets")
"""Counts of packets that a link marked."""
OF_MARKING_LINKS = (
    *MARKS,
    "dropped_not_ect_packets",
    *(f"{queue}_queue_delay_p{percent}_ms" for queue in ("l4s", "classic") for percent in (50, 99)),
)
"""Figures of each link that marks, for readers; those of two queues where a link's queue has two."""
REPEATS = "Seeds change nothing here: every one gave the same figures, so there are no intervals."


def figures_of(runs: Sequence[Run]) -> list[str]:
    """Returns the names of the figures of these runs' flows: those of the schemes and applications that take part."""
    flows = [pair for run in runs for pair in zip(run.document["flows"], run.result["flows"], strict=True)]
    applications = frozenset[str]().union(*(record.needs_met(entry, of_flow) for entry, of_flow in flows))
    return table.columns(GIVEN | applications, {of_flow["scheme"] for _, of_flow in flows})


def flow_rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Returns a row per run and flow, with the figures of the schemes that take part."""
    runs = list(runs)
    names = figures_of(runs)
    key = ("flows", *names)
    read = {id(run): run.measured().read_packets() for run in runs if not run.has(key)}
    return [row for run in runs for row in run.once(key, lambda run: _flow_rows(run, read.pop(id(run)), names))]


def table_of(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows) for readers: the first `MOST_SHOWN` flows of one scenario.

    Axes in which the runs differ, such as the entrant, come first. Figures are means over the valid runs, ± half of
    the interval.
    """
    heads = (*_differing(runs), "flow", "scheme", "link")
    grouped: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in flow_rows(run for run in runs if run.valid):
        grouped.setdefault(tuple(str(row[head]) for head in heads), []).append(row)
    flows = dict(itertools.islice(grouped.items(), MOST_SHOWN))
    shown = [name for name in SHOWN if any(known(mine, name) for mine in flows.values())]
    cells = [[*key, *(with_interval(name, mine) for name in shown)] for key, mine in flows.items()]
    return [*heads, *(heading(name) for name in shown)], cells


def application_tables(runs: Sequence[Run]) -> list[tuple[list[str], list[list[str]]]]:
    """Returns (headings, rows) of the figures of each kind of application that takes part in one scenario, for readers.

    A row is of all flows of a scheme on a link if the figures are, and of a flow otherwise.
    """
    rows = flow_rows(run for run in runs if run.valid)
    made = []
    for need in record.NEEDS_OF_APPLICATIONS:
        names = [name for name, row in APPLICATIONS.items() if row.need == need and name in (rows[0] if rows else ())]
        heads = ["scheme", "link"] if need == record.TRANSFERS else ["flow", "scheme", "link"]
        grouped: dict[tuple[str, ...], dict[int, dict[str, Any]]] = {}
        for row in rows:
            if any(known([row], name) for name in names):
                grouped.setdefault(tuple(row[head] for head in heads), {}).setdefault(row["seed"], row)
        flows = {key: list(of_seed.values()) for key, of_seed in itertools.islice(grouped.items(), MOST_SHOWN)}
        shown = [name for name in names if any(known(mine, name) for mine in flows.values())]
        cells = [[*key, *(with_interval(name, mine) for name in shown)] for key, mine in flows.items()]
        if cells:
            made.append(([*heads, *(heading(name) for name in shown)], cells))
    return made


def mark_table(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]] | None:
    """Returns (headings, rows) for readers, as `table_of`: the first `MOST_SHOWN` links of one scenario that mark.

    None if no link does.
    """
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in (row for run in runs if run.valid for row in _link_rows(run)):
        grouped.setdefault(row["link"], []).append(row)
    marking = ((link, mine) for link, mine in grouped.items() if any(row.get(name) for row in mine for name in MARKS))
    links = dict(itertools.islice(marking, MOST_SHOWN))
    shown = [name for name in OF_MARKING_LINKS if any(name in mine[0] and known(mine, name) for mine in links.values())]
    cells = [[link, *(with_interval(name, mine) for name in shown)] for link, mine in links.items()]
    return (["link", *(heading(name) for name in shown)], cells) if cells else None


def interval_note(runs: Sequence[Run]) -> str:
    """Returns a sentence on how many runs the intervals of one scenario's tables are over; empty without intervals."""
    axes = _differing(runs)
    counts = Counter(tuple(run.axes[axis] for axis in axes) for run in runs if run.valid).values()
    least, most = min(counts, default=0), max(counts, default=0)
    if most < 2 or repeats(runs):
        return ""
    few = f", so few that they are wide: `--seeds {MANY_SEEDS}` or more" if least < MANY_SEEDS else ""
    return f"Intervals are over {most if least == most else f'{least} to {most}'} runs{few}."


def shortened(runs: Sequence[Run]) -> str:
    """Returns a sentence on what `table_of` leaves out; empty if it is nothing."""
    count = max(len(run.result["flows"]) for run in runs)
    return f"Shown are the first {MOST_SHOWN} of {count:,} flows; flows.csv has all." if count > MOST_SHOWN else ""


def repeats(runs: Sequence[Run]) -> bool:
    """Returns whether several seeds gave the same figures, which therefore have no intervals."""
    found = {
        tuple((flow["delivered_bytes"], flow["sent_packets"], flow["rtt_mean_ms"]) for flow in run.result["flows"])
        for run in runs
    }
    return len(runs) > 1 and len(found) == 1


def notes(runs: Sequence[Run]) -> list[str]:
    """Returns warnings that readers need to judge the figures of one scenario: programs and modules that failed, flows
    that socket buffers bounded, and policies outside of what they saw in training.
    """
    flows = [flow for run in runs if run.valid for flow in run.result["flows"]]
    failed = [
        f"{flow['name']} ({flow['scheme']}), seed {run.seed}: {problem}"
        for run in runs
        for flow in run.result["flows"]
        if (problem := backends.failure(flow))
    ]
    limited = buffer_notes(flows)
    return failed + limited + outside_notes((f"{flow['name']} ({flow['scheme']})", flow.get(OUTSIDE)) for flow in flows)


def known(rows: Sequence[Mapping[str, Any]], figure: str) -> bool:
    """Returns whether any row has the figure."""
    return confidence_interval([row[figure] for row in rows]).n > 0


def with_interval(figure: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the mean of a figure over rows, with ± half of its interval if there are several."""
    return text_with_interval(figure, confidence_interval([row[figure] for row in rows]))


def _flow_rows(run: Run, measured: record.Record, names: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    about = {**_about(run), **backends.validity(run.result)}
    for flow, subject in zip(run.result["flows"], measured.flows, strict=True):
        head = {**about, "flow": flow["name"], "scheme": flow["scheme"], "link": subject.of_link["name"]}
        figures = table.row(subject, names)
        if run.backend == backends.REMOTE.name:
            # A packet that did not come was lost somewhere on the path: no queue there can be looked into.
            figures |= {name: math.nan for name in ("queue_drop_share",) if name in figures}
        done = flow.get("completion_s")
        counted = {"delivered_bytes": flow.get("delivered_bytes"), "decisions": subject.counter("decisions")}
        counted[OUTSIDE] = flow.get(OUTSIDE)
        counted |= {"transfers": len(done or ()), "completion_mean_s": float(np.mean(done)) if done else math.nan}
        rows.append({**head, **figures, **counted, **backends.failed(run.result, flow)})
    return rows


def _link_rows(run: Run) -> Iterator[dict[str, Any]]:
    names = table.columns(GIVEN, (), of="link")
    for link in run.measured().links:
        head = {**_about(run), "link": link.of_link["name"], "lost_packets": link.of_link.get("lost_packets")}
        yield {**head, **table.row(link, names), **backends.validity(run.result)}


def flow_series(run: Run, most: int | None = None) -> list[Columns]:
    """Returns what each flow, or each of the first `most`, got over time."""
    bin_s = _bin_s(run)
    tables = []
    for flow in run.result["flows"][:most]:
        series = flow.get("series")
        if series is not None:
            received, new = (np.asarray(series[name], dtype=np.float64) for name in ("wire_bytes", "payload_bytes"))
            head = _head(run, received.size, flow=flow["name"], scheme=flow["scheme"])
            rates = {"received_mbps": received * 8e-6 / bin_s, "goodput_mbps": new * 8e-6 / bin_s}
            tables.append({**head, "time_s": np.arange(received.size) * bin_s, **rates})
    return tables


def link_series(run: Run) -> list[Columns]:
    """Returns each link's capacity, traffic and queue over time."""
    bin_s = _bin_s(run)
    tables = []
    for link in run.result["links"]:
        series = link.get("series")
        if series is not None:
            delivered = np.asarray(series["delivered_bytes"], dtype=np.float64)
            capacity = np.asarray(link["capacity_mbps"], dtype=np.float64)[: delivered.size]
            tables.append(
                {
                    **_head(run, delivered.size, link=link["name"]),
                    "time_s": np.arange(delivered.size) * bin_s,
                    "capacity_mbps": np.pad(capacity, (0, delivered.size - capacity.size), constant_values=math.nan),
                    "throughput_mbps": delivered * 8e-6 / bin_s,
                    "queueing_delay_ms": np.asarray(series["queueing_ms"], dtype=np.float64),
                    "dropped_packets": np.asarray(series["dropped_packets"]),
                }
            )
    return tables


def _decoded(columns: dict[str, Any]) -> Columns:
    return {name: column.values() if isinstance(column, Coded) else column for name, column in columns.items()}


def _link_packets(runs: Iterable[Run]) -> Columns:
    tables = []
    for run in runs:
        names = np.asarray([flow["name"] for flow in run.result["flows"]])
        for link in run.result["links"]:
            if "log" not in link:
                raise ConfigError(
                    f"{run.scenario}: no packets were recorded; run it with packets=True, or with "
                    "`record: {packets: true}` in the scenario"
                )
            log = PacketLog.from_arrays(link["log"])
            times = {"arrival_ns": log.arrival_ns, "departure_ns": log.departure_ns}
            rest = {name: getattr(log, name).astype(np.int64) for name in ("serialisation_ns", "bytes")}
            head = {**_head(run, len(log), link=link["name"]), "flow": names[log.flow]}
            tables.append({**head, **times, **rest, "queueing_delay_ms": queueing_delay_ms(log)})
    return join(tables)


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Returns the table of means over seeds; text as codes (`Coded`)."""
    known = [row for row in flow_rows(runs) if row.get("valid", True)]
    axes = dict.fromkeys(axis for run in runs for axis in run.axes)
    keys = dict.fromkeys(("scenario", *axes, "backend", "flow", "scheme", "link"))
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(known):
        groups.setdefault(tuple(row[key] for key in keys), []).append(index)
    firsts = [known[mine[0]] for mine in groups.values()]
    figures = [name for name in FIGURES if any(name in row for row in firsts)]
    values = np.array([[row.get(name) for name in figures] for row in known], dtype=np.float64)
    # Mean, low, high and n of each group and figure. Most groups are one run, which is its own mean.
    table = np.full((4, len(groups), len(figures)), math.nan)
    table[0] = values[[mine[0] for mine in groups.values()]]
    table[3] = np.isfinite(table[0])
    for place, mine in enumerate(groups.values()):
        if len(mine) > 1:
            named = zip(figures, values[mine].T, strict=True)
            intervals = [bounded(name, confidence_interval(column)) for name, column in named]
            table[:, place] = np.transpose([(each.mean, each.low, each.high, each.n) for each in intervals])
    of_group, of_figure = np.nonzero(table[3] > 0)
    if not of_group.size:
        return {}
    head = of_rows([dict(zip(keys, group, strict=True)) for group in groups])
    shown = {name: table[at, of_group, of_figure] for at, name in enumerate(("mean", "low", "high", "n"))}
    return {
        **{key: Coded(of_group, c, False) if c.dtype.kind == "U" else c[of_group] for key, c in head.items()},
        "figure": Coded(of_figure, np.asarray(figures), False),
        "unit": Coded(of_figure, np.asarray([FIGURES[name].unit for name in figures]), False),
        **{**shown, "n": shown["n"].astype(np.int64)},
    }


def _differing(runs: Sequence[Run]) -> list[str]:
    """Returns the axes in which runs differ."""
    axes = dict.fromkeys(axis for run in runs for axis in run.axes)
    return [axis for axis in axes if len({str(run.axes[axis]) for run in runs}) > 1]


def _about(run: Run) -> dict[str, Any]:
    return {"scenario": run.scenario, **run.axes, "seed": run.seed, "backend": run.backend}


def _head(run: Run, rows: int, **names: str) -> Columns:
    head = {"scenario": run.scenario, **run.axes, "seed": run.seed, **names}
    return {name: np.full(rows, value) for name, value in head.items()}


def _bin_s(run: Run) -> float:
    return float(run.document["record"]["bin_ms"]) * 1e-3


TABLES: dict[str, Callable[[Sequence[Run]], Columns]] = {
    "flows": lambda runs: of_rows(flow_rows(runs)),
    "links": lambda runs: of_rows([row for run in runs for row in _link_rows(run)]),
    "flow_series": lambda runs: join(each for run in runs for each in flow_series(run)),
    "link_series": lambda runs: join(each for run in runs for each in link_series(run)),
    "packets": lambda runs: _decoded(packets(runs)),
    "link_packets": _link_packets,
    "summary": lambda runs: _decoded(summary(runs)),
}
"""Tables by name, with the function that makes each from runs."""
