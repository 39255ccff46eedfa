"""Command `ccarena eval --scenario`: one scenario file, its tables on the terminal and its files in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ccarena import _core
from ccarena.core.files import check_writable
from ccarena.core.plain_data import plain
from ccarena.core.terminal import print_table
from ccarena.eval.measure.figure_text import heading
from ccarena.eval.measure.table import columns
from ccarena.executors import Executor
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import find_policy
from ccarena.scenarios.flows import enter
from ccarena.scenarios.results import Results
from ccarena.scenarios.run import run
from ccarena.scenarios.scenario import give_policy, read_scenario, scenario_json
from ccarena.scenarios.tables import (
    GIVEN,
    REPEATS,
    application_tables,
    flow_rows,
    interval_note,
    known,
    mark_table,
    notes,
    repeats,
    shortened,
    table_of,
    with_interval,
)

__all__ = ["show_digest", "show_scenario"]


def show_digest(path: Path, policies: Sequence[str], duration_s: float | None = None) -> None:
    """Runs the scenario in the file `path` in the simulator with its own seed, and prints the digest of the result.

    A web page that runs the same scenario shows the same digest. Raises what `ccarena.run` does.
    """
    document = read_scenario(path)
    for policy in policies:
        give_policy(document, find_policy(policy))
    if duration_s is not None:
        document["duration_s"] = duration_s
    print(_core.result_digest(scenario_json(enter(document))))


def show_scenario(
    path: Path,
    policies: Sequence[str],
    *,
    out: Path,
    backend: str = SIM,
    seeds: int | None = None,
    duration_s: float | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    plot: Path | None = None,
    kind: str = "rate",
    pcap: Path | None = None,
    as_json: bool = False,
    repeat: Sequence[str] = (),
) -> None:
    """Runs the scenario in the file `path`, writes tables and a page to `out`, and prints a row of figures per flow.

    A plot of `kind` goes to the file `plot`, and a capture of the first run to `pcap`. Other arguments and errors are
    those of `ccarena.run`; `repeat` are the shell lines that repeat this.
    """
    document = read_scenario(path)
    check_writable(out)
    results = run(
        document,
        names=[str(path)],
        policies=policies or None,
        backend=backend,
        seeds=seeds,
        duration_s=duration_s,
        threads=threads,
        executor=executor,
        progress=True,
    )
    # Before the files, which a full disk may refuse.
    if as_json:
        print(json.dumps(plain(flow_rows(results)), indent=1), flush=True)
    else:
        _print(results, path)
    written = results.write(out, title=path.name, repeat=repeat)
    if plot is not None:
        results.plot(kind, plot)
    if pcap is not None:
        results.pcap(pcap)
    if not as_json:
        print(f"wrote {', '.join(file.name for file in written)} to {out}")
        for file in (plot, pcap):
            if file is not None:
                print(f"wrote {file}")


def _print(results: Results, path: Path) -> None:
    for run_ in results:
        if not run_.valid:
            print(f"INVALID RUN, seed {run_.seed}: the emulator was late; run it again on a quieter machine")
    rows = [row for row in flow_rows(results) if row.get("valid", True)]
    if not rows:
        return
    seeds = [run_.seed for run_ in results]
    numbers = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}"
    title = f"{path}: backend {results[0].backend}, {numbers}"
    same = repeats(results.runs)
    title += "; mean ± half of the 95 % interval" if len(seeds) > 1 and not same else ""
    print_table(title, *table_of(results.runs), left=3)
    for head, cells in application_tables(results.runs):
        print_table("applications", head, cells, left=head.index("link") + 1)
    if marks := mark_table(results.runs):
        print_table("links that mark", *marks, left=1)
    if left_out := shortened(results.runs):
        print(left_out)
    if said := REPEATS if same else interval_note(results.runs):
        print(said)
    for note in notes(results.runs):
        print(f"WARNING: {note}")
    one_flow = [row for row in rows if row["flow"] == rows[0]["flow"]]
    for name in columns(GIVEN, of="run"):
        if name in rows[0] and known(rows, name):
            print(f"{heading(name)}: {with_interval(name, one_flow)}")
