"""Runs of scenarios between two machines, in real time: a client of `ccarena-quic run` with a remote server."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ccarena.core.programs import QUIC
from ccarena.errors import CcarenaError, ConfigError, ScenarioError
from ccarena.remote import records
from ccarena.scenarios.backends import REMOTE, check_runs, execute
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.flows import enter
from ccarena.scenarios.one_run import Run, checked
from ccarena.scenarios.real_time import RealTimeRun
from ccarena.scenarios.scenario import flows_of, read_file, resolve
from ccarena.scenarios.sweep import expanded

__all__ = ["AXIS", "DIRECTION", "PATH", "Planned", "finished", "measure", "on_path", "plan", "run_scenario"]

PATH = "path"
"""Name of the link that stands for the path between the machines."""
AXIS = "entrant"
"""Word in a scenario, `${entrant}`, that each entrant replaces."""
DIRECTION = "direction"
"""Column that says who sent: `forward` is this machine, `reverse` the other one."""
MOST_RUNS = 10_000
PAUSE_S = 0.5
"""Time between two runs, in which queues on the path drain."""


class Planned(NamedTuple):
    """Run to be made."""

    name: str
    document: dict[str, Any]
    """Document on the path, as `on_path` returns it."""
    axes: Mapping[str, Any]


def run_scenario(document: Mapping[str, Any], *, address: str, token: str, reverse: bool = False) -> dict[str, Any]:
    """Runs a scenario document from this machine to the one at `address` (`HOST:PORT`), which holds `token`, too.

    With `reverse`, that machine sends and this one receives. The result has the layout of `ccarena._core.simulate`'s,
    with the key `path`. Raises ScenarioError, PolicyError, MachineError or RunnerError.
    """
    with RealTimeRun(QUIC, on_path(document), remote={"address": address, "token": token, "reverse": reverse}) as run:
        return run.to_its_end()


def on_path(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a scenario with the path between two machines in place of its links, which it may lack.

    The path is a link without properties: nothing reads its service, and a result says that its capacity is unknown.
    """
    link = {"name": PATH, "service": {"type": "constant", "rate_mbps": 1000}, "queue": {"type": "infinite"}}
    dropped = ("path", "return_path")
    flows = document.get("flows")
    if isinstance(flows, list):
        flows = [
            {key: value for key, value in flow.items() if key not in dropped} if isinstance(flow, Mapping) else flow
            for flow in flows
        ]
    return {**document, "links": [{**link, "delay_ms": 0}], "flows": flows}


def plan(
    file: Path,
    entrants: Sequence[str],
    repeats: int,
    duration_s: float | None,
    order_seed: int,
    reverse: bool = False,
) -> list[Planned]:
    """Returns the runs of a scenario file in their order: in each repeat every entrant once, in random order.

    `entrants` replace `${entrant}` in the file. Repeat number k has the scenario's seed + k. Raises ConfigError,
    ScenarioError or PolicyError before anything runs.
    """
    if repeats < 1 or repeats * max(len(entrants), 1) > MOST_RUNS:
        raise ConfigError(f"--repeats {repeats}: expected at least 1, and at most {MOST_RUNS:,} runs in all")
    raw = read_file(file)
    if duration_s is not None:
        raw = {**raw, "duration_s": duration_s}
    cells = [_cell(file, cell) for cell in expanded(file.name, raw, {AXIS: entrants} if entrants else {}, MOST_RUNS)]
    order, planned = random.Random(order_seed), []
    for repeat in range(repeats):
        for name, document, axes in order.sample(cells, len(cells)):
            seed = int(checked(document)["seed"]) + repeat
            direction = "reverse" if reverse else "forward"
            planned.append(Planned(name, {**document, "seed": seed}, {**axes, DIRECTION: direction}))
    return planned


def _cell(file: Path, cell: tuple[str, dict[str, Any], dict[str, Any]]) -> Planned:
    name, document, axes = cell
    try:
        document = enter(on_path(resolve({**document, "links": []}, file.parent)))
        check_runs(REMOTE.name, [parse(text) for text in axes.values()])
        record = document.get("record")
        if isinstance(record, Mapping) or record is None:
            kept = {"packets": True, "series": True, "transmissions": True}
            document["record"] = {**(record or {}), **kept}
        checked(document)
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from error
    return Planned(file.name, document, axes)


def finished(folder: Path, planned: Sequence[Planned]) -> dict[int, Run]:
    """Returns the runs in `folder` by their numbers in the plan.

    Raises ConfigError if one is damaged, or is not the run that the plan has in its place.
    """
    found = {}
    for number, (name, document, axes) in enumerate(planned):
        path = _file(folder, number)
        if not path.exists():
            continue
        run, given = records.load(path)
        # As JSON has it, where a tuple is a list.
        if given != json.loads(json.dumps(document)) or (run.scenario, dict(run.axes)) != (name, dict(axes)):
            raise ConfigError(
                f"{path}: not run {number + 1} of this plan; resume with the scenario, entrants and options that the "
                "folder began with, or give another folder with --out"
            )
        found[number] = run
    return found


def _file(folder: Path, number: int) -> Path:
    """Returns the file of a run of a plan."""
    return folder / f"{number:04}.npz"


def measure(
    planned: Sequence[Planned], address: str, token: str, folder: Path | None = None, skip: Container[int] = ()
) -> Iterator[tuple[int, Run]]:
    """Makes the runs one after the other but those in `skip`, writes each to `folder`, and yields it with its number.

    Raises what `run_scenario` does.
    """
    missing = [(number, each) for number, each in enumerate(planned) if number not in skip]
    for number, (name, document, axes) in missing:
        if number != missing[0][0]:
            time.sleep(PAUSE_S)
        try:
            reverse = axes[DIRECTION] == "reverse"
            result = execute(document, REMOTE.name, address=address, token=token, reverse=reverse)
        except CcarenaError as error:
            raise type(error)(f"run {number + 1} of {len(planned)}: {error}") from error
        seed = int(document["seed"])
        run = Run(name, seed, REMOTE.name, _with_delays(checked(document), result), result, axes)
        if folder is not None:
            records.save(_file(folder, number), run, document)
        yield number, run


def _with_delays(document: dict[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document with what was measured: the path's least one-way delay, and the least RTT of each flow as
    its base RTT, unless it says one.
    """
    document["links"][0]["delay_ms"] = max(0.0, result["path"]["one_way_ms"])
    for flow, measured in zip(flows_of(document), result["flows"], strict=True):
        if not flow.get("base_rtt_ms"):
            flow["base_rtt_ms"] = measured["rtt_min_ms"] or 0.0
    return document
