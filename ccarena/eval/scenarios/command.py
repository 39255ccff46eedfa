"""`ccarena eval --scenario`: one scenario file, its tables on the terminal and its files in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.backends import SIM
from ccarena.eval import metrics
from ccarena.eval.figure_text import heading, show
from ccarena.eval.scenarios.page import scenario_page
from ccarena.eval.scenarios.results import Results
from ccarena.eval.scenarios.run import run
from ccarena.eval.scenarios.tables import ACROSS, flow_rows
from ccarena.files import check_writable
from ccarena.pages import write
from ccarena.plain_data import plain
from ccarena.terminal import print_table

__all__ = ["show_scenario"]

PAGE = "scenario.html"
COLUMNS = (
    "throughput_mbps",
    "goodput_mbps",
    "utilisation",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "signal_delay_p95_ms",
    "loss_share",
    "satisfaction",
)


def show_scenario(
    path: Path,
    policies: Sequence[Path],
    *,
    out: Path,
    backend: str = SIM,
    seeds: int | None = None,
    duration_s: float | None = None,
    threads: int | None = None,
    as_json: bool = False,
    repeat: Sequence[str] = (),
) -> None:
    """Run the scenario in the file `path`, write tables and a page to `out`, and print a row of figures per flow.

    The arguments are those of `ccarena.run`, and so is what is raised; `repeat` is the command, for the page.
    """
    check_writable(out)
    results = run(path, policies=policies or None, backend=backend, seeds=seeds, duration_s=duration_s, threads=threads)
    written = results.write(out)
    head, cells, across = _table(results)
    write(out / PAGE, scenario_page(results.runs, head, cells, across, repeat))
    written.append(out / PAGE)
    if as_json:
        print(json.dumps(plain(flow_rows(results)), indent=1))
        return
    _print(results, path)
    print(f"wrote {', '.join(file.name for file in written)} to {out}")


def _print(results: Results, path: Path) -> None:
    for run_ in results:
        if not run_.valid:
            print(f"INVALID RUN, seed {run_.seed}: the emulator was late; run it again on a quieter machine")
    head, cells, across = _table(results)
    if not cells:
        return
    first = results[0]
    seeds = [run_.seed for run_ in results]
    numbers = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}"
    title = f"{path}: backend {first.backend}, {numbers}"
    title += "; mean ± half of the 95 % interval" if len(seeds) > 1 else ""
    print_table(title, head, cells, left=3)
    for sentence in across:
        print(sentence)


def _table(results: Results) -> tuple[list[str], list[list[str]], list[str]]:
    """(head, a row per flow, sentences about all flows), of the valid runs."""
    rows = flow_rows(results)
    flows = _by_flow([row for row in rows if row.get("valid", True)])
    shown = [name for name in COLUMNS if name != "satisfaction" or _known(rows, name)]
    cells = [[*key, *(_with_interval(name, mine) for name in shown)] for key, mine in flows.items()]
    one_flow = next(iter(flows.values()), [])
    across = [
        f"{heading(name)}: {_with_interval(name, one_flow)}" for name in ACROSS if one_flow and _known(rows, name)
    ]
    return ["flow", "scheme", "link", *(heading(name) for name in shown)], cells, across


def _by_flow(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["flow"], row["scheme"], row["link"]), []).append(row)
    return found


def _known(rows: Sequence[Mapping[str, Any]], figure: str) -> bool:
    return metrics.confidence_interval([row[figure] for row in rows]).n > 0


def _with_interval(figure: str, rows: Sequence[Mapping[str, Any]]) -> str:
    interval = metrics.confidence_interval([row[figure] for row in rows])
    shown = show(figure, interval.mean)
    return f"{shown} ± {show(figure, interval.high - interval.mean)}" if interval.n > 1 else shown
