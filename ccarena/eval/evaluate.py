"""Runs a policy and the heuristics over the held-out links and reduces every run to a row of figures.

The rows, a few time series and the pooled distributions are one `Evaluation`, saved as one JSON file, from which the
verdict and the report are made. The same policy, suites and seeds give the same evaluation on any number of threads.

With the backend `kernel` every run is real TCP over the emulated link, in real time. Its figures are computed by the
same code. A run whose emulator was late stays in the rows, marked `valid: false`, and is in no mean, plot or verdict.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ccarena.acct import spec, zones
from ccarena.acct.rewards import rewards
from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError, ScenarioError
from ccarena.eval import backends, fairness, metrics
from ccarena.eval import links as held_out
from ccarena.eval.backends import SIM
from ccarena.eval.links import Link, Scheme
from ccarena.eval.oracle import one_rtt_late
from ccarena.traces.held_out import HELD_OUT

if TYPE_CHECKING:
    from ccarena.configs import TrainConfig
    from ccarena.configs.schema import AnyTrainConfig
    from ccarena.eval.expectations import Verdict

__all__ = [
    "ACCT",
    "ORACLE",
    "Evaluation",
    "evaluate",
    "evaluate_run",
    "plain",
    "report_run",
    "run_scenario",
    "simulate",
    "write_atomically",
]

POLICY, RESULTS, EVALUATION, REPORT = "policy.safetensors", "results.json", "evaluation.json", "report.html"
ACCT = "acct"
ORACLE = "oracle"
ORACLE_GAINS = (1.0, 1.25, 1.5, 2.0, 3.0)
CONSTANT_ALPHAS = (1, 100)
SERIES_BIN_S = 0.1
Progress = Callable[[int, int], None]


@dataclass
class Evaluation:
    """What was measured. Plain data, so that it is its own JSON form (NaN is null there)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """One per run: suite, group, link, seed, scheme and the figures of `metrics.FIGURES`; the oracle's have `gain`."""
    series: list[dict[str, Any]] = field(default_factory=list)
    """One link per group over time: `time_s`, `capacity_mbps`, and rate and largest queueing delay of each scheme."""
    queue_ns: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """By group and scheme: time for which k packets were queued, k = 0, 1, ..."""
    actions: dict[str, dict[str, list[list[int]]]] = field(default_factory=dict)
    """By group and scheme with decisions: how often each action was chosen after an interval in each zone [4][15]."""
    meta: dict[str, Any] = field(default_factory=dict)
    """Policy, suites, seeds, durations, versions."""
    warnings: list[str] = field(default_factory=list)
    """What a reader must know before believing a row."""

    def save(self, path: Path) -> None:
        """Write atomically: readers see the old file or the new one."""
        write_atomically(path, json.dumps(plain(asdict(self)), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Read what `save` wrote. Raises ConfigError if the file is not an evaluation."""
        try:
            data = json.loads(path.read_text("utf-8"))
            return cls(**data)
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the evaluation: {error.strerror}; run `ccarena eval`") from error
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}: not an evaluation saved by `ccarena eval`: {error}") from error

    def of(self, group: str, scheme: str) -> list[dict[str, Any]]:
        """The valid rows of one scheme in one group."""
        return [row for row in self.valid_rows() if row["group"] == group and row["scheme"] == scheme]

    def valid_rows(self) -> list[dict[str, Any]]:
        """All rows but those of runs that the emulator served late."""
        return [row for row in self.rows if row.get("valid", True)]

    def groups(self) -> list[str]:
        """Groups in the order of their first row."""
        return list(dict.fromkeys(row["group"] for row in self.rows))

    def schemes(self) -> list[str]:
        """Schemes in the order of their first row."""
        return list(dict.fromkeys(row["scheme"] for row in self.rows))


def evaluate(
    policy: Path | None,
    suites: Sequence[str] = tuple(held_out.SUITES),
    seeds: int = 3,
    duration_s: float | None = None,
    schemes: Sequence[str] = ("cubic", "bbr", "reno"),
    *,
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
) -> Evaluation:
    """Run `policy`, ACCT with a constant α and the heuristics `schemes` over the held-out links of `suites`.

    `seeds` repetitions per link, `duration_s` of simulated or, with the backend `kernel`, real time each (None: the
    suite's own). Without a policy only the rest runs. `progress(done, total)` is called after every link.
    Raises ConfigError, PolicyError or TraceError, and on the kernel what `cc_kernel_bridge.run.run_scenario` raises.
    """
    chosen = held_out.build(suites, seeds, duration_s)
    lineup = [held_out.heuristic(name) for name in schemes]
    lineup += [held_out.constant_alpha(alpha) for alpha in CONSTANT_ALPHAS]
    meta: dict[str, Any] = {"suites": list(suites), "seeds": seeds, "duration_s": duration_s, "schemes": list(schemes)}
    if policy is not None:
        from ccarena.policies import artifact

        trained = artifact.load(policy)
        env = trained.training.get("env")
        params = env.get("acct", {}) if isinstance(env, dict) else {}
        lineup.insert(0, held_out.learned(policy.resolve(), params))
        meta |= {"policy": policy.name, "policy_seed": trained.seed, "policy_versions": trained.versions}
    return run_lineup(chosen, lineup, meta, threads, progress, backend)


def run_lineup(
    chosen: Sequence[Link],
    lineup: Sequence[Scheme],
    meta: Mapping[str, Any],
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
) -> Evaluation:
    """Run every scheme over every link. `meta` goes into the result as it is, with versions and the backend's."""
    shown = _representatives(chosen)
    result = Evaluation(meta={**meta, "versions": _versions(), **backends.about(backend)}, warnings=_warnings(chosen))
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        # Results are taken in the order of submission: they do not depend on the number of threads.
        futures = [pool.submit(_run_link, link, lineup, link in shown, backend) for link in chosen]
        try:
            for done, (link, future) in enumerate(zip(chosen, futures, strict=True), start=1):
                _collect(result, link, future.result())
                if progress is not None:
                    progress(done, len(chosen))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    ran = [row for row in result.rows if row["scheme"] != ORACLE]
    late = sum(not row.get("valid", True) for row in ran)
    if late:
        result.warnings.append(
            f"{late} of {len(ran)} runs are invalid, because the emulator was late, and left out: run them "
            "again on a quieter machine, or fewer at once (--threads 1)"
        )
    return result


def evaluate_run(run: Path, config: TrainConfig) -> str:
    """Evaluate a training run's policy as `config.eval` says, write its results and report, and print a summary.

    The files are those of `report_run`. Returns the verdict's line.
    """
    from ccarena.eval.expectations import judge

    return report_run(run, config, evaluate, judge)


def report_run(
    run: Path,
    config: AnyTrainConfig,
    evaluate: Callable[..., Evaluation],
    judge: Callable[[Evaluation, list[dict[str, Any]]], Verdict],
) -> str:
    """`evaluate` a training run's policy, `judge` it and the training's progress, write and print what comes of it.

    In the folder `run`: `results.json` (every row and series), `evaluation.json` (verdict and means, for the policy's
    metadata) and `report.html`. Returns the verdict's line. Raises what `evaluate` and `report.write_report` raise.
    """
    from ccarena.configs import dump_config
    from ccarena.eval import report

    settings, policy = config.eval, run / POLICY
    with report.progress_bar("evaluating") as progress:
        result = evaluate(
            policy,
            settings.suites,
            settings.seeds,
            settings.duration_s,
            settings.schemes,
            threads=config.threads,
            progress=progress,
        )
    result.warnings += not_held_out(config)
    training = report.read_progress(run / "progress.jsonl")
    verdict = judge(result, training)
    result.save(run / RESULTS)
    write_atomically(run / EVALUATION, json.dumps(plain(report.digest(result, verdict)), indent=1) + "\n")
    page = run / REPORT
    report.write_report(
        page,
        result,
        verdict,
        name=config.name,
        progress=training,
        config=dump_config(config),
        repeat=report.repeat_commands(
            run / "config.yaml", policy, settings.suites, settings.seeds, settings.duration_s
        ),
    )
    report.print_summary(result, verdict, page)
    return verdict.line


def not_held_out(config: AnyTrainConfig) -> list[str]:
    """A warning if `config` has training draw traces that the evaluation judges by."""
    link = config.env.link
    if link.kinds.trace <= 0:
        return []
    names = [] if link.traces == "auto" else map(_file_name, link.traces)
    seen = sorted(set(HELD_OUT).intersection(names))
    return [f"not held out: training saw the traces {', '.join(seen)}"] if seen else []


def _file_name(trace: str) -> str:
    return Path(trace).name


def simulate(document: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario document in the native simulator. Raises ScenarioError, or MissingDependencyError without it."""
    try:
        core = importlib.import_module("ccarena._core")
    except ImportError as error:
        raise MissingDependencyError(
            "the native extension ccarena._core is not built; run `make setup`, or `pip install .`"
        ) from error
    from ccarena.envs.domain import scenario_json

    try:
        return dict(core.simulate(scenario_json(document)))
    except CcarenaError:
        raise
    except ValueError as error:
        raise ScenarioError(str(error)) from error


def execute(document: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """Run a scenario document on a backend: `simulate`, or `cc_kernel_bridge.run.run_scenario`."""
    if backend == SIM:
        return simulate(document)
    from ccarena.cc_kernel_bridge import run

    return run.run_scenario(document)


def run_scenario(document: Mapping[str, Any], budget_ms: float = 5.0, backend: str = SIM) -> list[dict[str, Any]]:
    """Run one scenario and return a row per flow: its name, scheme, and the figures on the first link of its path."""
    record = document.get("record")
    # A record section of the wrong type is left as it is, for the validation to refuse by its path.
    recorded = (
        {**document, "record": {**(record or {}), "packets": True}} if isinstance(record or {}, dict) else document
    )
    result = execute(recorded, backend)
    names = [link["name"] for link in result["links"]]
    given = list(_flow_documents(document))
    rows = []
    for index, flow in enumerate(result["flows"]):
        path = given[index].get("path") if index < len(given) else None
        link = names.index(path[0]) if path and path[0] in names else 0
        source = document["links"][link]
        figures = metrics.summarise(
            result, flow=index, link=link, delay_ms=float(source.get("delay_ms", 0.0)), budget_ms=budget_ms
        )
        row = {"flow": flow["name"], "scheme": flow["scheme"], "link": names[link], **figures}
        row |= {**backends.about(backend), **backends.validity(result)} if backend != SIM else {}
        requirement = given[index].get("requirement") if index < len(given) else None
        if requirement:
            row["satisfaction"] = metrics.satisfaction(figures["goodput_mbps"], float(requirement["min_mbps"]))
        rows.append(row)
    if len(rows) > 1:
        across = _distances(result, given, [row["throughput_mbps"] for row in rows])
        rows = [{**row, **across} for row in rows]
    return rows


def _distances(
    result: Mapping[str, Any], flows: Sequence[Mapping[str, Any]], rates_mbps: Sequence[float]
) -> dict[str, float]:
    """How far the flows' rates are from the fair ones on the links' mean capacities, applications' rates as demands."""
    capacity = {link["name"]: float(np.mean(link["capacity_mbps"])) for link in result["links"]}
    if not all(mbps > 0 for mbps in capacity.values()):
        return {}
    paths = [flow.get("path") or list(capacity) for flow in flows]
    demands = [(flow.get("app") or {}).get("rate_mbps") for flow in flows]
    distances = {"max_min_distance": fairness.max_min_distance(rates_mbps, capacity, demands, paths)}
    given = [flow.get("requirement") for flow in flows]
    if any(given):
        requirements = [(r["min_mbps"], r["max_mbps"]) if r else None for r in given]
        distances["hrf_distance"] = fairness.hrf_distance(rates_mbps, capacity, requirements, paths, demands=demands)
    return distances


def _flow_documents(document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """A scenario's flow entries, each as often as its `count` says: aligned with the result's flows."""
    for flow in document.get("flows") or []:
        yield from [flow] * int(flow.get("count") or 1)


@dataclass
class _LinkRuns:
    """All schemes over one link."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    queue_ns: dict[str, np.ndarray] = field(default_factory=dict)
    actions: dict[str, np.ndarray] = field(default_factory=dict)
    series: dict[str, Any] | None = None


def _run_link(link: Link, lineup: Sequence[Scheme], with_series: bool, backend: str) -> _LinkRuns:
    runs = _LinkRuns()
    opportunities_ms = held_out.trace_opportunities_ms(link)
    about = {"suite": link.suite, "group": link.group, "link": link.name, "seed": link.seed}
    about |= {"duration_s": link.duration_s, "base_rtt_ms": link.base_rtt_ms, "buffer_packets": link.buffer_packets}
    about |= {"synthetic": link.synthetic}
    lines: dict[str, Any] = {}
    capacity = np.empty(0)
    for scheme in lineup:
        result = execute(held_out.scenario(link, scheme), backend)
        capacity = np.asarray(result["links"][0]["capacity_mbps"], dtype=np.float64)
        validity = backends.validity(result)
        figures = metrics.summarise(result, delay_ms=link.delay_ms, opportunities_ms=opportunities_ms)
        row = {**about, "scheme": scheme.label, "capacity_mbps": float(capacity.mean()), **figures, **validity}
        if not validity.get("valid", True):
            runs.rows.append(row)
            continue
        reports = result["flows"][0].get("reports")
        if scheme.policy is not None and reports is not None:
            row["inferences_per_s"] = len(reports) / link.duration_s
        if scheme.scheme == ACCT and reports is not None and len(reports):
            decided, counts = _decisions(np.asarray(reports, dtype=np.float32))
            row |= decided
            runs.actions[scheme.label] = counts
        runs.rows.append(row)
        log = metrics.PacketLog.from_arrays(result["links"][0]["log"])
        runs.queue_ns[scheme.label] = metrics.time_in_queue_length_ns(log, 0.0, link.duration_s)
        if with_series:
            lines[scheme.label] = {
                "rate_mbps": metrics.bin_throughput_mbps(log, link.duration_s, SERIES_BIN_S),
                "queueing_delay_ms": metrics.bin_queueing_delay_ms(log, link.duration_s, SERIES_BIN_S),
            }
    per_bin = round(SERIES_BIN_S * 1e3)
    for gain in ORACLE_GAINS if link.suite == "cellular" else ORACLE_GAINS[:1]:
        bound = one_rtt_late(
            capacity,
            1.0,
            link.base_rtt_ms,
            link.buffer_packets * held_out.PACKET_BYTES,
            gain=gain,
            average_ms=link.capacity_window_ms,
        )
        row = {**about, "scheme": ORACLE, "gain": gain, "capacity_mbps": float(capacity.mean()), **bound.figures()}
        runs.rows.append(row)
        if with_series and gain == 1.0:
            delay = bound.queueing_delay_ms
            starts = np.arange(0, delay.size, per_bin)
            lines[ORACLE] = {
                "rate_mbps": metrics.bin_capacity_mbps(bound.rate_mbps, per_bin),
                "queueing_delay_ms": np.maximum.reduceat(delay, starts),
            }
    if with_series:
        seen = metrics.bin_capacity_mbps(capacity, per_bin)
        time_s = np.arange(seen.size) * SERIES_BIN_S
        runs.series = {**about, "time_s": time_s, "capacity_mbps": seen, "schemes": lines}
    return runs


def _decisions(reports: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Figures of a learned flow's decisions, and counts [zones, actions] of what it chose after each zone."""
    zone = reports[:, spec.REPORT.zone].astype(np.int64)
    # The action chosen at the end of an interval is the α that is in force during the next one.
    chosen = np.searchsorted(spec.ACTIONS, reports[1:, spec.REPORT.alpha].astype(np.int64))
    counts = np.zeros((len(spec.Zone), len(spec.ACTIONS)), np.int64)
    np.add.at(counts, (zone[:-1], np.minimum(chosen, len(spec.ACTIONS) - 1)), 1)
    figures = {
        "decisions": len(reports),
        "reward_mean": float(rewards(reports).mean()),
        "zone_shares": [float(share) for share in zones.shares(zone)],
    }
    return figures, counts


def _collect(result: Evaluation, link: Link, runs: _LinkRuns) -> None:
    result.rows += [plain(row) for row in runs.rows]
    if runs.series is not None:
        result.series.append(plain(runs.series))
    queues = result.queue_ns.setdefault(link.group, {})
    for label, spent in runs.queue_ns.items():
        known = np.asarray(queues.get(label, []), dtype=np.int64)
        size = max(known.size, spent.size)
        queues[label] = (np.pad(known, (0, size - known.size)) + np.pad(spent, (0, size - spent.size))).tolist()
    actions = result.actions.setdefault(link.group, {})
    for label, counts in runs.actions.items():
        actions[label] = (np.asarray(actions.get(label, 0), dtype=np.int64) + counts).tolist()


def _representatives(chosen: Sequence[Link]) -> list[Link]:
    """The links drawn over time, one per group: the middle one of its first seed; of the recorded traces, the first."""
    first: dict[str, list[Link]] = {}
    for link in chosen:
        if link.seed == 0:
            first.setdefault(link.group, []).append(link)
    return [group[0] if group[0].suite == "cellular" else group[len(group) // 2] for group in first.values()]


def _warnings(chosen: Sequence[Link]) -> list[str]:
    if any(link.synthetic for link in chosen):
        return [
            "NO RECORDED CELLULAR TRACE WAS FOUND: the cellular links are synthetic, and the expectation about real "
            "traces is not tested. Run `ccarena traces fetch mahimahi`, or set CCARENA_TRACE_DIR to its folder."
        ]
    cellular = {link.name.split(",")[0] for link in chosen if link.suite == "cellular"}
    missing = [name for name in HELD_OUT if name not in cellular]
    return (
        [f"recorded traces that were not found and are left out: {', '.join(missing)}"] if cellular and missing else []
    )


def _versions() -> dict[str, str]:
    from ccarena.policies import artifact

    return artifact.versions()


def plain(value: Any) -> Any:
    """Its JSON form: arrays as lists, numbers that are not finite as null, floats to 6 significant digits."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) in one step, making its folder if need be. Raises ConfigError if it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot write: {error.strerror}; give another folder or free space") from error
