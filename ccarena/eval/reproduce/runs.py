"""Runs of a suite: one per cell of the sweep and seed, with a key made of all that its row depends on."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ccarena import __version__, traces
from ccarena.configs.load import merge
from ccarena.core.files import write_atomically
from ccarena.errors import CcarenaError, ConfigError, RunnerError, TraceError
from ccarena.eval.reproduce import computed, kernel, measures, policy
from ccarena.eval.reproduce.policy import Policies
from ccarena.eval.reproduce.suite import Loaded, Window
from ccarena.eval.reproduce.values import CellKey, cell_key
from ccarena.runs.journal import Journal
from ccarena.scenarios import backends, template
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.flows import enter_others
from ccarena.scenarios.one_run import checked
from ccarena.scenarios.sweep import label_of
from ccarena.traces import conditions

__all__ = ["Entering", "Run", "expand", "known", "perform", "rows_of", "size", "software", "write_scenarios"]


class Entering(NamedTuple):
    """Others in the flows of a suite's scenarios."""

    enter: Callable[[dict[str, Any]], dict[str, Any]]
    """Function that returns a scenario with them in its flows."""
    identity: str = ""
    """Identity of what they are, where the fields of their flows only name files; other content repeats a run."""


_MEASURED = ("eval/measure/*.py", "eval/reproduce/measures.py")
_COMPUTED = ("eval/theory/*.py", "eval/reproduce/analytic*.py")
"""The code that decides what is in a row, beside the backend's."""


@dataclass(frozen=True)
class Run:
    """Simulation or computation, in plain data that can be sent to another process."""

    key: str
    suite: str
    cell: Mapping[str, str]
    """Axes with their labels."""
    seed: int
    spec: Mapping[str, Any]
    """Specification of the run.

    Keys: `document`, `window`, `windows`, `measures`, `series`, `missing` (traces), and in real time `backend`,
    `kernel`, `bridge`, `others` (digests of congestion controls of others), `entering`; or `compute` and `arguments`.
    """
    work: float
    """Work for the estimate: simulated Mbit, or seconds in real time."""

    @property
    def title(self) -> str:
        """Returns the cell in words."""
        return ", ".join([*(f"{axis} {value}" for axis, value in self.cell.items()), f"seed {self.seed}"])


@functools.cache
def software(computed: bool = False, backend: str = SIM) -> str:
    """Returns version and digest of the code that decides the content of a row; other code repeats its runs."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    files = [] if computed else backends.find(backend).files()
    for pattern in _COMPUTED if computed else _MEASURED:
        files += sorted(package.glob(pattern))
    for path in files:
        digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def expand(
    loaded: Loaded,
    quick: bool = False,
    seeds: int | None = None,
    policies: Policies | None = None,
    entering: Entering | None = None,
    after: int = 0,
    cells: Collection[CellKey] | None = None,
) -> list[Run]:
    """Returns every run of the suite, cell by cell, seeds 1 to N. Raises ConfigError led by the suite's file and path.

    `after` leaves out seeds up to a number, and `cells` all others, to go on where a part of the runs is there.
    Without `policies`, those of its expressions are null: enough to list and to check a suite, not to run it.
    `entering` puts others into the flows of each scenario; a suite that computes then has no runs.
    """
    if entering is not None and loaded.suite.compute is not None:
        return []
    suite = loaded.suite
    count = seeds or (suite.seeds.quick if quick else suite.seeds.full)
    try:
        return [
            _run(loaded, cell, seed, quick, policies or {}, entering)
            for cell in _cells(loaded, quick)
            if cells is None or cell_key(cell) in cells
            for seed in range(after + 1, count + 1)
        ]
    except ConfigError as error:
        raise ConfigError(f"{loaded.source}: {error}") from error


def size(loaded: Loaded, quick: bool = False) -> int:
    """Returns the number of runs of `expand`."""
    return sum(1 for _ in _cells(loaded, quick)) * (loaded.suite.seeds.quick if quick else loaded.suite.seeds.full)


def _cells(loaded: Loaded, quick: bool) -> Iterator[dict[str, str]]:
    axes = {}
    for axis, values in loaded.axes.items():
        kept = loaded.suite.quick.sweep.get(axis) if quick else None
        axes[axis] = list(values) if kept is None else [label_of(value) for value in kept]
    for point in itertools.product(*axes.values()):
        cell = dict(zip(axes, point, strict=True))
        if not any(_matches(cell, where) for where in loaded.suite.skip):
            yield cell


def _matches(cell: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    return all(
        cell[axis] in [label_of(one) for one in (labels if isinstance(labels, list) else [labels])]
        for axis, labels in where.items()
    )


def _run(
    loaded: Loaded,
    cell: Mapping[str, str],
    seed: int,
    quick: bool,
    policies: Policies,
    entering: Entering | None,
) -> Run:
    suite = loaded.suite
    names: dict[str, Any] = {axis: loaded.axes[axis][chosen] for axis, chosen in cell.items()} | template.seeded(seed)
    about = policy.bound(policies, suite.policies)
    names |= about
    for key, value in {**suite.constants, **(suite.quick.constants if quick else {})}.items():
        names[key] = template.expand(value, names, f"constants.{key}")
    if suite.compute is not None:
        arguments = {name: value for name, value in names.items() if name not in ("seed", "uniform", *about)}
        spec: dict[str, Any] = {"compute": suite.compute, "arguments": arguments}
        work = 100.0
    else:
        assert suite.scenario is not None
        scenario = suite.scenario
        for override in suite.overrides:
            if _matches(cell, override.where):
                scenario = merge(scenario, override.scenario)
        document, missing = standing_in(template.expand(scenario, names, "scenario"))
        document = policy.as_trained(document, policies)
        others = enter_others(document, Path(loaded.source).parent, loaded.backend)
        document.setdefault("seed", seed)
        if entering is not None:
            document = entering.enter(document)
        end_s = float(document.get("duration_s", 30.0))
        spec = {
            "document": document,
            "window": _window(suite.window, names, end_s, "window"),
            "windows": {key: _window(part, names, end_s, f"windows.{key}") for key, part in suite.windows.items()},
            "measures": template.expand(dict(suite.measures), names, "measures"),
            "series": seed == 1 and any(figure.kind == "over_time" for figure, _ in loaded.figures),
        }
        work = end_s * max((_rate_mbps(link) for link in document.get("links") or [{}]), default=1.0)
        backend = backends.find(loaded.backend)
        if backend.real_time:
            spec |= {**backends.about(backend.name), **({"bridge": suite.bridge} if backend.takes_over else {})}
            work = end_s
        if missing:
            spec["missing"] = missing
        if others:
            spec["others"] = others
        if entering is not None and entering.identity:
            spec["entering"] = entering.identity
    key = _key(spec)
    if "document" in spec:
        spec["document"] = policy.placed(spec["document"], policies)
    return Run(key, loaded.name, dict(cell), seed, spec, work)


def _key(spec: Mapping[str, Any]) -> str:
    code = software("compute" in spec, spec.get("backend", SIM))
    links = [link for link in (spec.get("document") or {}).get("links") or [] if isinstance(link, Mapping)]
    # A row depends on what is in a trace and not where it lies.
    digests = [_digest(str(part["file"])) for link in links for part in _recorded(link).values()]
    unnamed = {"document": {**spec["document"], "links": [_unnamed(link) for link in links]}} if digests else {}
    text = json.dumps([code, {**spec, **unnamed}, digests], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@functools.cache
def _digest(trace: str) -> str:
    try:
        return hashlib.sha256(traces.find(trace).read_bytes()).hexdigest()
    except (TraceError, OSError):  # the run says so
        return trace


def _recorded(link: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the parts of a link that name a recording."""
    parts = {key: link.get(key) or {} for key in ("service", "conditions")}
    return {key: part for key, part in parts.items() if "file" in part}


def _unnamed(link: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**link, **{key: {**part, "file": ""} for key, part in _recorded(link).items()}}


def _window(window: Window, names: Mapping[str, Any], end_s: float, path: str) -> list[float]:
    edges = [template.expand(edge, names, path) for edge in (window.from_s, window.to_s)]
    from_s, to_s = float(edges[0]), end_s if edges[1] is None else min(float(edges[1]), end_s)
    if not 0 <= from_s < to_s:
        raise ConfigError(f"{path}: from {from_s:g} s to {to_s:g} s: expected a part of the run's {end_s:g} s")
    return [from_s, to_s]


def _rate_mbps(link: Any) -> float:
    """Returns the approximate rate of a link, for the estimate of the remaining time."""
    service = link.get("service") if isinstance(link, Mapping) else None
    if not isinstance(service, Mapping):
        return 1.0
    steps = service.get("steps")
    rates = [service.get("rate_mbps"), service.get("max_mbps")]
    rates += [step.get("rate_mbps") for step in steps if isinstance(step, Mapping)] if isinstance(steps, list) else []
    return max((float(rate) for rate in rates if isinstance(rate, (int, float))), default=20.0)


def perform(run: Run) -> dict[str, Any]:
    """Returns the run's row: `key`, `suite`, `cell`, `seed`, `run`, `flows` and, for some, `series`, `curves` or
    `machine`.

    Raises what the backend does, and RunnerError if a program or a module failed; in real time see `kernel.timely`.
    """
    from ccarena.core.plain_data import plain

    spec = run.spec
    backend = spec.get("backend", SIM)
    about = {
        "key": run.key,
        "software": software("compute" in spec, backend),
        "suite": run.suite,
        "cell": dict(run.cell),
        "seed": run.seed,
    }
    if "compute" in spec:
        row = computed.function(spec["compute"])(**spec["arguments"])
        return {**about, "run": {}, "flows": [], **plain(row)}
    document = checked(located(spec["document"]))
    if backends.find(backend).real_time:
        options = {"bridge": spec["bridge"]} if "bridge" in spec else {}
        result, about["machine"] = kernel.timely(document, backend, **options)
    else:
        result = backends.execute(document, backend)
    if failed := next((flow["error"] for flow in result["flows"] if backends.failure(flow)), ""):
        raise RunnerError(failed)
    window = measures.Window(*spec["window"])
    windows = {name: measures.Window(*edges) for name, edges in spec["windows"].items()}
    row = measures.row(document, result, window, windows, spec["measures"], spec["series"])
    return {**about, **plain(row)}


def rows_of(expanded: Sequence[Run], journal: Journal) -> list[dict[str, Any]]:
    """Returns the available rows of the runs, in their order. Cells with one scenario are one run, whose row each of
    them gets.
    """
    return [{**journal.rows[run.key], "cell": dict(run.cell)} for run in expanded if run.key in journal.rows]


def known(loaded: Loaded, journal: Journal, policies: Policies | None = None) -> list[Run]:
    """Returns the runs of the suite, full or quick, that the journal has: whatever number of seeds was asked for."""
    cells: dict[int, set[CellKey]] = {}
    for row in journal.rows.values():
        cells.setdefault(row["seed"], set()).add(cell_key(row["cell"]))
    expanded = (
        run
        for quick in (False, True)
        for seed in sorted(cells)
        for run in expand(loaded, quick, seed, policies, after=seed - 1, cells=cells[seed])
    )
    return [run for run in expanded if run.key in journal.rows]


def write_scenarios(folder: Path, expanded: Sequence[Run]) -> None:
    """Writes each cell's scenario of its first seed, for `ccarena eval --scenario` (scenarios.yaml, one document
    each).
    """
    texts = [
        f"# {run.title}\n" + yaml.safe_dump(run.spec["document"], sort_keys=False)
        for run in expanded
        if run.seed == 1 and "document" in run.spec
    ]
    if texts:
        write_atomically(folder / "scenarios.yaml", "---\n".join(texts))


def standing_in(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the scenario with `otherwise` instead of each missing trace that has one, and those traces."""
    links, missing = [], []
    for link in document.get("links") or []:
        service = link.get("service") if isinstance(link, Mapping) else None
        if isinstance(service, Mapping) and "otherwise" in service:
            service = dict(service)
            otherwise = service.pop("otherwise")
            try:
                traces.find(str(service.get("file")))
            except TraceError:
                missing.append(str(service.get("file")))
                service = otherwise
            link = {**link, "service": service}
        links.append(link)
    return {**document, **({"links": links} if links else {})}, missing


def located(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scenario with named traces replaced by their files. Raises TraceError."""
    links = []
    for link in document.get("links") or []:
        service = link.get("service") if isinstance(link, Mapping) else None
        if isinstance(service, Mapping) and service.get("type") == "trace" and isinstance(service.get("file"), str):
            link = {**link, "service": {**service, "file": str(traces.find(service["file"]))}}
        if isinstance(link, Mapping) and isinstance(link.get("conditions"), Mapping):
            link = {**link, "conditions": dict(link["conditions"])}
            conditions.complete(link)
        links.append(link)
    return {**document, "links": links}


def described(error: BaseException) -> str:
    """Returns an error of a run in one line."""
    return str(error) if isinstance(error, CcarenaError) else f"{type(error).__name__}: {error}"
