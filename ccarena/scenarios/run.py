"""Function `ccarena.run`: scenarios over seeds, on a backend, in parallel."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ccarena.core.files import check_writable
from ccarena.core.machine import usable_cores
from ccarena.core.terminal import Progress, progress_bar
from ccarena.errors import CcarenaError, ConfigError, ScenarioError
from ccarena.executors import Executor, Threads
from ccarena.policies.artifact import Artifact
from ccarena.scenarios import backends
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import PolicyLike, find_policy
from ccarena.scenarios.flows import enter
from ccarena.scenarios.one_run import Run, checked, perform
from ccarena.scenarios.results import Results
from ccarena.scenarios.scenario import flows_of, give_policy, read_file, resolve
from ccarena.scenarios.sweep import Sweep, expanded
from ccarena.scenarios.tables import COLUMNS
from ccarena.scenarios.types import Scenario
from ccarena.traces.recorded import started

__all__ = ["ScenarioLike", "of_seed", "run"]

ScenarioLike: TypeAlias = Scenario | Mapping[str, Any] | str | os.PathLike[str]
"""Scenario: a document, typed (`ccarena.Scenario`) or not, or the path of its YAML or JSON file."""

MOST_RUNS = 1_000_000


def run(
    scenario: ScenarioLike | Sequence[ScenarioLike],
    *,
    sweep: Sweep | None = None,
    backend: str = SIM,
    seeds: int | Iterable[int] | None = None,
    policies: PolicyLike | Sequence[PolicyLike] | None = None,
    duration_s: float | None = None,
    packets: bool = True,
    names: Sequence[str] | None = None,
    threads: int | None = None,
    progress: bool | Progress | None = None,
    out: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
) -> Results:
    """Runs one scenario or a list of them, each with every seed, and returns their results.

    Everything is checked before the first run starts. The same scenarios, seeds and version give the same results, on
    any number of threads.

    Arguments:
        scenario: a document (docs/scenario.md) as dictionary, the path of its file, or a list of those.
        sweep: axes with their values, such as `{"rtt_ms": [10, 50], "entrant": ["cubic", "bbr"]}`. Each combination
            runs once per seed: it replaces `${rtt_ms}` in the documents, where arithmetic is allowed, too
            (docs/python.md). Axes are columns of the tables. Values with fields have names:
            `{"queue": {"short": {"type": "droptail", "packets": 9}}}`.
        backend: `sim`, the simulator; over emulated links, in real time and as root, `kernel` (Linux TCP) and `quic`.
        seeds: None runs each scenario with its own seed, 1 unless it says otherwise; a number n with its own seed and
            the n - 1 after it; a list with those.
        policies: entrants that are trained policies (docs/entrants.md). Each decides for the flows of its scheme that
            have no `policy`, in every scenario that has such flows, and there must be one.
        duration_s: of every run, s, in place of the documents' own.
        packets: record every packet, about 30 bytes at every link and, in the simulator, 50 at the ends of its flow.
            Without, the figures that need packets are NaN (docs/figures.md), unless the document asks for its packets
            itself.
        names: what tables call the scenarios; files by their name and documents by their number if None.
        threads: runs at once: as many as there are processor cores, and in real time 1, if None.
        progress: whether to show a progress bar on stderr (None: on a terminal, for more than one run), or a function
            that is called with the number of runs done and their total.
        out: folder to write to, as `Results.write` does. It is tried before the first run starts.
        executor: who runs them, such as `ccarena.executors.ray.OnRay()`; `threads` threads of this process if None.

    Raises ConfigError for arguments; ScenarioError, TraceError or PolicyError for what cannot be run, naming scenario
    and key; in real time MachineError or RunnerError.
    """
    place = backends.find(backend)
    documents = _documents(scenario, names, duration_s, sweep or {})
    if threads is not None and threads < 1:
        raise ConfigError(f"threads = {threads}: expected at least 1")
    with ExitStack() as stack:
        _give_policies({name: each.document for name, each in documents.items()}, _files(policies, stack))
        planned: list[_Planned] = []
        given: dict[str, dict[str, Any]] = {}
        for name, (document, axes) in documents.items():
            before = [dict(flow) for flow in flows_of(document)]
            document = _entered(name, document)
            given[name] = _as_given(document, before)
            entered = _recorded(document, packets, backend == SIM)
            checked = _checked(name, entered)
            _check_axes(name, axes, checked)
            own = _seeds(seeds, int(checked["seed"]))
            for seed in own:
                # Flows that arrive do so by the seed.
                drawn = checked if seed == int(checked["seed"]) else _checked(name, {**entered, "seed": seed})
                flows = {"flows": drawn["flows"]}
                planned.append(_Planned(name, {**of_seed(checked, document, seed), **flows}, axes))
            if len(planned) > MOST_RUNS:
                raise ConfigError(f"more than {MOST_RUNS:,} runs are asked for; run fewer seeds or scenarios at a time")
        if out is not None:
            check_writable(Path(out))
        at_once = threads or place.at_once(usable_cores())
        report = _progress(progress, len(planned), stack)
        runs: dict[int, Run] = {}
        work = functools.partial(_run, backend=backend)
        for done in stack.enter_context(closing((executor or Threads(at_once)).run(work, planned))):
            runs[done.index] = done.result()
            report(len(runs), len(planned))
    results = Results(tuple(runs[index] for index in range(len(planned))), given)
    if out is not None:
        results.write(out)
    return results


class _Named(NamedTuple):
    """Document and the values of the sweep's axes in it."""

    document: dict[str, Any]
    axes: Mapping[str, Any]


class _Planned(NamedTuple):
    """Run to be made."""

    name: str
    document: dict[str, Any]
    axes: Mapping[str, Any]


def _run(planned: _Planned, backend: str) -> Run:
    try:
        return perform(planned.document, backend, planned.name, planned.axes)
    except CcarenaError as error:
        raise type(error)(f"{planned.name}, seed {planned.document['seed']}: {error}") from error


def _documents(
    scenario: ScenarioLike | Sequence[ScenarioLike],
    names: Sequence[str] | None,
    duration_s: float | None,
    sweep: Sweep,
) -> dict[str, _Named]:
    """Returns copies of the documents by name, unchecked, one for each cell of the sweep."""
    one = isinstance(scenario, (str, os.PathLike, Mapping)) or not isinstance(scenario, Iterable)
    given: list[Any] = [scenario] if one else list(scenario)  # type: ignore[arg-type]
    if not given:
        raise ConfigError("no scenario was given; expected a document, a file, or a list of those with one at least")
    if names is not None and (len(names) != len(given) or len(set(names)) != len(names)):
        raise ConfigError(f"names = {list(names)}: expected {len(given)} different names, one for each scenario")
    if duration_s is not None and not 0 < duration_s < math.inf:
        raise ConfigError(f"duration_s = {duration_s}: expected a time above 0, in seconds")
    found: dict[str, _Named] = {}
    for index, each in enumerate(given):
        folder = Path()
        if isinstance(each, (str, os.PathLike)):
            own, raw, folder = Path(each).name, read_file(Path(each)), Path(each).parent
            own = own if own not in found else str(each)
        elif isinstance(each, Mapping):
            own, raw = "scenario" if one else f"scenario {index}", _copied(each)
        else:
            expected = "expected a document (a mapping) or the path of its file"
            raise ScenarioError(f"scenario {index}: found {type(each).__name__}; {expected}")
        name = names[index] if names is not None else own
        for label, document, axes in expanded(name, raw, sweep, MOST_RUNS):
            if label in found:
                raise ConfigError(f'"{label}" is given twice; run it once, with more seeds')
            document = resolve(document, folder)
            found[label] = _Named(document if duration_s is None else {**document, "duration_s": duration_s}, axes)
    return found


def _check_axes(name: str, axes: Mapping[str, Any], checked: Mapping[str, Any]) -> None:
    """Raises ConfigError if an axis has the name of another column of the tables.

    "scheme" is allowed if it says the scheme of all flows.
    """
    for axis, value in axes.items():
        same = axis == "scheme" and all(flow["scheme"] == value for flow in checked["flows"])
        if axis in COLUMNS and not same:
            raise ConfigError(f"{name}: sweep.{axis}: tables have a column of this name; call the axis otherwise")


def _copied(node: Any) -> Any:
    """Returns a copy with mappings and lists of its own; several times as fast as `copy.deepcopy`."""
    if isinstance(node, Mapping):
        return {key: _copied(value) for key, value in node.items()}
    return [_copied(value) for value in node] if isinstance(node, (list, tuple)) else node


def _checked(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document with every default filled in. Raises ScenarioError, led by the scenario's name."""
    try:
        return checked(document)
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from error


def _entered(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document with its entrants. Raises ScenarioError, which begins with the scenario's name, or
    PolicyError.
    """
    try:
        return enter(document)
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from error


def of_seed(checked: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the document for one seed. For seeds other than its own, recorded traces without an offset start
    elsewhere.
    """
    start = 0 if seed == int(checked["seed"]) else seed + 1
    services = [started(link["service"], float(checked["duration_s"]), start) for link in given["links"]]
    links = [
        {**link, "service": {**link["service"], **service}}
        for link, service in zip(checked["links"], services, strict=True)
    ]
    return {**checked, "seed": seed, "links": links}


def _as_given(document: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the scenario with the texts of controllers and programs in place of what they were turned into, which no
    scenario file may have. `before` are its flows as they were read.
    """
    flows = []
    for flow, was in zip(flows_of(document), before, strict=True):
        made = {key for key in ("controller", "foreign") if flow.get(key) is not None and was.get(key) is None}
        kept = {key: value for key, value in flow.items() if key not in made}
        flows.append({**kept, "scheme": was.get("scheme")} if made else kept)
    return {**document, "flows": flows}


def _recorded(document: Mapping[str, Any], packets: bool, simulated: bool) -> dict[str, Any]:
    """Returns the document with recorded series, and recorded packets if `packets` or the document asks for them, in
    the simulator also at the ends of flows.
    """
    record = document.get("record") or {}
    if not isinstance(record, Mapping):  # for the validation to refuse by its path
        return dict(document)
    kept = {key: packets or record.get(key, False) for key in ("packets", "transmissions")}
    if not simulated:
        del kept["transmissions"]
    return {**document, "record": {**record, "series": True, **kept}}


def _seeds(seeds: int | Iterable[int] | None, own: int) -> list[int]:
    if seeds is None:
        return [own]
    if isinstance(seeds, int):
        if not 1 <= seeds <= MOST_RUNS:
            raise ConfigError(f"seeds = {seeds}: expected the number of seeds, 1 to {MOST_RUNS:,}, or a list of seeds")
        return [own + k for k in range(seeds)]
    listed = list(seeds)
    if not listed or len(set(listed)) < len(listed) or not all(isinstance(s, int) and s >= 0 for s in listed):
        raise ConfigError(f"seeds = {listed}: expected different whole numbers from 0, one at least")
    return listed


def _files(policies: PolicyLike | Sequence[PolicyLike] | None, stack: ExitStack) -> list[Path]:
    """Returns the policies' files; artifacts in memory are written for as long as `stack` lasts."""
    if policies is None:
        return []
    given = [policies] if isinstance(policies, (str, os.PathLike, Artifact)) else list(policies)
    return [find_policy(policy, stack) for policy in given]


def _give_policies(documents: dict[str, dict[str, Any]], policies: Sequence[Path]) -> None:
    """Puts each policy into the documents that have flows for it. Raises ScenarioError if none has."""
    for policy in policies:
        reasons = []
        for name, document in documents.items():
            try:
                give_policy(document, policy)
            except ScenarioError as error:
                reasons.append(f"{name}: {error}")
        if len(reasons) == len(documents):
            raise ScenarioError(reasons[0])


def _progress(progress: bool | Progress | None, runs: int, stack: ExitStack) -> Progress:
    if callable(progress):
        return progress
    if progress or (progress is None and runs > 1 and sys.stderr.isatty()):
        return stack.enter_context(progress_bar("running", "runs"))
    return lambda done, total: None
