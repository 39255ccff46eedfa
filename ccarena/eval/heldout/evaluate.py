"""Runs a policy and the heuristics over the held-out links and reduces every run to a row of figures.

The same policy, link sets and seeds give the same `Evaluation` on any number of threads.

With the backend `kernel` every run is real TCP over the emulated link, in real time. Its figures are computed by the
same code. A run whose emulator was late stays in the rows, marked `valid: false`, and no mean, plot or expectation
counts it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core, backends
from ccarena.backends import SIM
from ccarena.configs.schema import TrainConfig
from ccarena.envs import objectives
from ccarena.envs.domain import digest
from ccarena.envs.rewards import BUILT_IN, Reward
from ccarena.envs.spec import Spec
from ccarena.envs.trials import Candidate, Trials
from ccarena.eval import metrics
from ccarena.eval.heldout import links as held_out
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.links import Link, Sender
from ccarena.eval.heldout.oracle import one_rtt_late
from ccarena.eval.heldout.rules import Rule
from ccarena.plain_data import plain
from ccarena.policies import artifact
from ccarena.policies.record import record_of, scheme_of
from ccarena.terminal import Progress
from ccarena.traces.held_out import HELD_OUT, derives_from

__all__ = ["evaluate", "run_lineup"]

BASELINES = ("cubic", "bbr", "reno")
"""What runs where no policy's record says otherwise."""
WINDOWS_BDP = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Fixed windows that are tried, in bandwidth-delay products of the link's mean capacity."""
ORACLE_GAINS = (1.0, 1.25, 1.5, 2.0, 3.0)
SERIES_BIN_S = 0.1


def evaluate(
    policy: Path | None,
    link_sets: Sequence[str] | None = None,
    seeds: int = 3,
    duration_s: float | None = None,
    schemes: Sequence[str] | None = None,
    *,
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
    record: TrainConfig | None = None,
    rules: Sequence[Rule] | None = None,
) -> Evaluation:
    """Run `policy`, the heuristics `schemes` and its scheme with one action always over the held-out links.

    In the simulator the policy and the `rules` (by default the artifact's) are scored by the record's objective, too.
    `record` is the policy's own configuration, whose code may be run; an artifact's never is.

    `link_sets` and `schemes` of None are those of the policy's record; the controls are. `seeds` repetitions per link,
    `duration_s` of simulated or, with the backend `kernel`, real time each (None: the link set's own). Without a policy
    only the heuristics run. `progress(done, total)` is called after every link. Raises ConfigError, PolicyError or
    TraceError, and on the kernel what `cc_kernel_bridge.run.run_scenario` raises.
    """
    if policy is None:
        names, lineup = (
            list(link_sets or held_out.LINK_SETS),
            [held_out.heuristic(name) for name in schemes or BASELINES],
        )
        meta = _asked(names, seeds, duration_s, schemes or BASELINES)
        return run_lineup(held_out.build(names, seeds, duration_s), lineup, meta, None, threads, progress, backend)
    trained = artifact.load(policy)
    own, record = record is not None, record or record_of(trained)
    record, spec = (
        record.model_copy(update={"params": dict(trained.params)}),
        Spec.of(_core.learned(trained.contract.document)),
    )
    names = list(link_sets or record.eval.link_sets or held_out.LINK_SETS)
    chosen = list(record.baselines if schemes is None else schemes)
    compared = [e.relative_to for e in record.expectations if e.relative_to is not None]
    scheme, fields = scheme_of(trained), {"params": dict(trained.params)}
    recordings = list(record.eval.recordings)
    tested = held_out.build(names, seeds, duration_s, recordings)
    seen = tested_in_training(trained.trained_on, tested)
    # The label of every row, so that no table shows the figures without it.
    name = f"{spec.name} (trained on tested links)" if seen else spec.name
    found = [Rule.of(each) for each in trained.rules] if rules is None else list(rules)
    scored = _Scored.of(record, spec, scheme, name, policy, found, own) if backend == SIM else None
    lineup = [
        Sender(name, scheme, str(policy.resolve()), fields),
        *(held_out.heuristic(name) for name in dict.fromkeys((*compared, *chosen))),
        *(Sender(c.label, scheme, {"constant": spec.constant(c.action)}, fields) for c in record.controls),
    ]
    watched = _Watched(record, spec)
    meta = _asked(names, seeds, duration_s, chosen) | {
        "scheme": name,
        "policy": policy.name,
        "policy_seed": trained.seed,
        "policy_versions": trained.versions,
        "trained_on": trained.trained_on,
        "tested_in_training": seen,
        "tests": trained.tests,
        "rules": [rule.as_dict() for rule in found],
        "objective": record.objective.name,
        "logarithmic": scored is not None and scored.logarithmic,
        "controls": [control.label for control in record.controls],
        "expectations": [expectation.model_dump(mode="json") for expectation in record.expectations],
        "categories": watched.categories,
        "shares": record.progress.shares,
        "action_values": list(spec.actions),
    }
    return run_lineup(tested, lineup, meta, watched, threads, progress, backend, scored)


def tested_in_training(trained_on: Sequence[Mapping[str, str]], tested: Sequence[Link]) -> list[str]:
    """Recordings among the `tested` links that a policy was trained on, themselves or by what was fitted to them."""
    files = {Path(service["file"]) for link in tested for service in link.services if service["type"] == "trace"}
    digests = {digest(file.read_bytes()): file.name for file in files}
    names = {file.name for file in files}
    seen = {digests[each["digest"]] for each in trained_on if each.get("digest") in digests}
    seen |= {origin for each in trained_on if (origin := derives_from(each.get("name", ""))) in names}
    return sorted(seen)


def _asked(link_sets: list[str], seeds: int, duration_s: float | None, schemes: Sequence[str]) -> dict[str, Any]:
    return {"link_sets": link_sets, "seeds": seeds, "duration_s": duration_s, "schemes": list(schemes)}


@dataclass(frozen=True)
class _Scored:
    """Scores the policy and the rules on a link by the record's objective."""

    record: TrainConfig
    spec: Spec
    scheme: str | dict[str, Any]
    candidates: dict[str, Candidate]
    """By label."""
    logarithmic: bool

    @classmethod
    def of(
        cls,
        record: TrainConfig,
        spec: Spec,
        scheme: str | dict[str, Any],
        label: str,
        policy: Path,
        rules: Sequence[Rule],
        own: bool,
    ) -> _Scored | None:
        """None without rules, or if the objective or the reward is code of the user's (`own`: it may be run)."""
        found = [rule for rule in rules if rule.found]
        if not found or not (own or (record.reward.name in BUILT_IN and record.objective.name in objectives.BUILT_IN)):
            return None
        candidates = {label: Candidate(policy.read_bytes()), **{rule.label: rule.candidate for rule in found}}
        return cls(record, spec, scheme, candidates, objectives.Objective(record.objective).logarithmic)

    def __call__(self, link: Link) -> list[dict[str, Any]]:
        """`scheme`, `score` and figures of each."""
        document = held_out.scenario(link, Sender("", self.scheme, None, {"params": dict(self.record.params)}))
        trials = Trials(self.record, self.spec, 1, document)
        out = []
        for label, done in zip(self.candidates, trials.run(list(self.candidates.values()), link.seed, 1), strict=True):
            figures = ("throughput_mbps", "signal_delay_p95_ms")
            out.append({"scheme": label, "score": done.score, **{name: float(done.run[name][0]) for name in figures}})
        return out


class _Watched:
    """What is made of a learned flow's reports: figures of its decisions, and how often it chose what."""

    def __init__(self, record: TrainConfig, spec: Spec) -> None:
        shares = next(iter(record.progress.shares.items()), None)
        self.categories = [] if shares is None else list(shares[1])
        self._column = None if shares is None else spec.column(shares[0], "progress.shares")
        self._name = "" if shares is None else shares[0]
        self._values = np.asarray(spec.actions)
        acts = record.progress.action
        self._action = spec.report.index(acts) if spec.actions and acts in spec.report else None
        # Code comes from the user's configuration alone, never from an artifact, which is what the record is read from.
        reward = Reward(record.reward, spec) if record.reward.name in BUILT_IN else None
        self._reward = None if reward is None or reward.needs_truth else reward

    def __call__(self, reports: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        """(figures, counts [categories, actions] or None) of reports `[N, columns]`."""
        figures: dict[str, Any] = {"decisions": len(reports)}
        if self._reward is not None:
            figures["reward_mean"] = float(self._reward(reports).mean())
        if self._column is None:
            return figures, None
        category = np.minimum(reports[:, self._column].astype(np.int64), len(self.categories) - 1)
        shares = np.bincount(category, minlength=len(self.categories)) / len(category)
        figures[f"{self._name}_shares"] = [float(share) for share in shares]
        if self._action is None:
            return figures, None
        # The action chosen at the end of an interval is the one in force during the next.
        chosen = np.abs(reports[1:, self._action, None] - self._values).argmin(axis=1)
        counts = np.zeros((len(self.categories), len(self._values)), np.int64)
        np.add.at(counts, (category[:-1], chosen), 1)
        return figures, counts


def run_lineup(
    chosen: Sequence[Link],
    lineup: Sequence[Sender],
    meta: Mapping[str, Any],
    watched: _Watched | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
    scored: _Scored | None = None,
) -> Evaluation:
    """Run every scheme over every link. `meta` goes into the result as it is, with versions and the backend's.

    `watched` says what is made of learned flows' reports.
    """
    shown = _representatives(chosen)
    meta = {**meta, "versions": artifact.versions(), **backends.about(backend)}
    result = Evaluation(meta=meta, warnings=_warnings(chosen))
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        # Results are taken in the order of submission: they do not depend on the number of threads.
        futures = [pool.submit(_run_link, link, lineup, watched, link in shown, backend, scored) for link in chosen]
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


@dataclass
class _LinkRuns:
    """All schemes over one link."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    queue_ns: dict[str, np.ndarray] = field(default_factory=dict)
    actions: dict[str, np.ndarray] = field(default_factory=dict)
    scores: list[dict[str, Any]] = field(default_factory=list)
    series: dict[str, Any] | None = None


def _run_link(
    link: Link,
    lineup: Sequence[Sender],
    watched: _Watched | None,
    with_series: bool,
    backend: str,
    scored: _Scored | None = None,
) -> _LinkRuns:
    runs = _LinkRuns()
    if scored is not None:
        about = {"link_set": link.link_set, "link": link.name, "seed": link.seed}
        runs.scores = [{**about, **row} for row in scored(link)]
    opportunities_ms = held_out.trace_opportunities_ms(link)
    about = {"link_set": link.link_set, "group": link.group, "link": link.name, "seed": link.seed}
    about |= {"duration_s": link.duration_s, "base_rtt_ms": link.base_rtt_ms, "buffer_packets": link.buffer_packets}
    about |= {"synthetic": link.synthetic}
    lines: dict[str, Any] = {}
    capacity = np.empty(0)
    for sender in lineup:
        result = backends.execute(held_out.scenario(link, sender), backend)
        capacity = np.asarray(result["links"][0]["capacity_mbps"], dtype=np.float64)
        validity = backends.validity(result)
        figures = metrics.summarise(result, delay_ms=link.delay_ms, opportunities_ms=opportunities_ms)
        row = {**about, "scheme": sender.label, "capacity_mbps": float(capacity.mean()), **figures, **validity}
        if not validity.get("valid", True):
            runs.rows.append(row)
            continue
        reports = result["flows"][0].get("reports")
        if sender.policy is not None and reports is not None:
            row["inferences_per_s"] = len(reports) / link.duration_s
        if watched is not None and sender.policy is not None and reports is not None and len(reports):
            decided, counts = watched(np.asarray(reports, dtype=np.float32))
            row |= decided
            if counts is not None:
                runs.actions[sender.label] = counts
        runs.rows.append(row)
        log = metrics.PacketLog.from_arrays(result["links"][0]["log"])
        runs.queue_ns[sender.label] = metrics.time_in_queue_length_ns(log, 0.0, link.duration_s)
        if with_series:
            lines[sender.label] = _over_time(result, link)
    if backend == SIM:
        figures, result = _best_window(link, capacity)
        runs.rows.append({**about, "scheme": BEST_WINDOW, "capacity_mbps": float(capacity.mean()), **figures})
        if with_series:
            lines[BEST_WINDOW] = _over_time(result, link)
    per_bin = round(SERIES_BIN_S * 1e3)
    for gain in ORACLE_GAINS if link.recorded else ORACLE_GAINS[:1]:
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


def _over_time(result: Mapping[str, Any], link: Link) -> dict[str, np.ndarray]:
    """Rate and largest queueing delay of each bin."""
    log = metrics.PacketLog.from_arrays(result["links"][0]["log"])
    return {
        "rate_mbps": metrics.bin_throughput_mbps(log, link.duration_s, SERIES_BIN_S),
        "queueing_delay_ms": metrics.bin_queueing_delay_ms(log, link.duration_s, SERIES_BIN_S),
    }


def _best_window(link: Link, capacity_mbps: np.ndarray) -> tuple[dict[str, float], dict[str, Any]]:
    """The figures and the run of the fixed window that has most power on this very link; with `window` in packets."""
    bdp = float(capacity_mbps.mean()) * link.base_rtt_ms * 125.0 / held_out.PACKET_BYTES
    best: tuple[float, int, dict[str, Any]] = (-math.inf, 0, {})
    for window in sorted({max(2, round(share * bdp)) for share in WINDOWS_BDP}):
        sender = Sender(BEST_WINDOW, "fixed", None, {"params": {"window": window}})
        result = backends.execute(held_out.scenario(link, sender), SIM)
        log = metrics.PacketLog.from_arrays(result["links"][0]["log"])
        # The signal delay is of the queue alone: without any, power has no bound.
        delay_ms = metrics.percentile(metrics.signal_delay_ms(log), 0.95) + link.delay_ms
        power = metrics.power(metrics.throughput_mbps(log, 0.0, link.duration_s), delay_ms)
        if power > best[0] or not best[1]:
            best = power, window, result
    _, window, result = best
    opportunities_ms = held_out.trace_opportunities_ms(link)
    figures = metrics.summarise(result, delay_ms=link.delay_ms, opportunities_ms=opportunities_ms)
    return {**figures, "window": float(window)}, result


def _collect(result: Evaluation, link: Link, runs: _LinkRuns) -> None:
    result.rows += [plain(row) for row in runs.rows]
    result.scores += [plain(row) for row in runs.scores]
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
    return [group[0] if group[0].recorded else group[len(group) // 2] for group in first.values()]


def _warnings(chosen: Sequence[Link]) -> list[str]:
    if any(link.synthetic for link in chosen):
        return [
            "NO RECORDED CELLULAR TRACE WAS FOUND: the cellular links are synthetic, and the expectation about real "
            "traces is not tested. Run `ccarena traces fetch mahimahi`, or set CCARENA_TRACE_DIR to its folder."
        ]
    cellular = {link.name.split(",")[0] for link in chosen if link.link_set == "cellular"}
    missing = [name for name in HELD_OUT if name not in cellular]
    return (
        [f"recorded traces that were not found and are left out: {', '.join(missing)}"] if cellular and missing else []
    )
