"""Runs a policy and the heuristics over the held-out links and reduces every run to a row of figures.

The same policy, link sets and seeds give the same `Evaluation` on any number of threads.

With the backend `kernel` every run is real TCP over the emulated link, in real time. Its figures are computed by the
same code. A run whose emulator was late stays in the rows, marked `valid: false`, and no mean, plot or expectation
counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core, backends
from ccarena.backends import SIM
from ccarena.configs.schema import TrainConfig
from ccarena.envs.domain import digest
from ccarena.envs.rewards import BUILT_IN, Reward
from ccarena.envs.spec import Spec
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval import metrics
from ccarena.eval.given_traces import TraceLinks
from ccarena.eval.heldout import links as held_out
from ccarena.eval.heldout.evaluation import ORACLE, Evaluation
from ccarena.eval.heldout.links import Link, Sender
from ccarena.eval.heldout.oracle import one_rtt_late
from ccarena.plain_data import plain
from ccarena.policies import artifact
from ccarena.policies.record import record_of, scheme_of
from ccarena.run_folder import POLICY
from ccarena.schemes import heuristics
from ccarena.terminal import Progress
from ccarena.traces.held_out import HELD_OUT

__all__ = ["evaluate", "run_lineup"]

BASELINES = ("cubic", "bbr", "reno")
"""What runs where no policy's record says otherwise."""
ORACLE_GAINS = (1.0, 1.25, 1.5, 2.0, 3.0)
SERIES_BIN_S = 0.1


def evaluate(
    policies: Sequence[Path] = (),
    link_sets: Sequence[str] | None = None,
    seeds: int = 3,
    duration_s: float | None = None,
    schemes: Sequence[str] | None = None,
    *,
    over: TraceLinks | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
) -> Evaluation:
    """Run `policies`, the heuristics `schemes` and each policy's scheme with one action always over held-out links.

    `link_sets` and `schemes` of None are those of the policies' records; the controls are. Links `over` traces are run
    beside the link sets that are named, and instead of the records' if none is. `seeds` repetitions per link,
    `duration_s` of simulated or, with the backend `kernel`, real time each (None: the link set's own). Without a policy
    only the heuristics run. `progress(done, total)` is called after every link. Raises ConfigError, PolicyError or
    TraceError, and on the kernel what `cc_kernel_bridge.run.run_scenario` raises.
    """
    backends.about(backend)
    judged = _judged(policies)
    records = [each.record for each in judged]
    own = list(dict.fromkeys(name for record in records for name in record.eval.link_sets))
    names = list(link_sets or ([] if over is not None else own or held_out.LINK_SETS))
    baselines = dict.fromkeys(name for record in records for name in record.baselines) if records else BASELINES
    chosen = _heuristics(baselines if schemes is None else schemes)
    compared = [e.relative_to for record in records for e in record.expectations if e.relative_to is not None]
    lineup = [
        *(each.sender for each in judged),
        *(held_out.heuristic(name) for name in dict.fromkeys((*compared, *chosen))),
        *{control.label: control for each in judged for control in each.controls}.values(),
    ]
    if not lineup:
        raise ConfigError("nothing to evaluate: name a policy or a scheme")
    watched = {sender.label: each.watched for each in judged for sender in (each.sender, *each.controls)}
    meta: dict[str, Any] = {"link_sets": names, "seeds": seeds, "duration_s": duration_s, "schemes": chosen}
    if over is not None:
        meta["traces"] = {trace.name: digest(trace.file.read_bytes()) for trace in over.traces}
    if len(judged) == 1:
        meta |= judged[0].about()
    elif judged:
        meta["policies"] = [each.about() for each in judged]
    links = held_out.build(names, seeds, duration_s)
    links += [] if over is None else held_out.over_traces(over, seeds, duration_s)
    result = run_lineup(links, lineup, meta, watched, threads, progress, backend)
    for each in judged:
        result.warnings += each.seen(meta.get("traces", {}))
    return result


@dataclass(frozen=True)
class _Judged:
    """A policy that is evaluated."""

    policy: Path
    trained: artifact.Artifact
    record: TrainConfig
    spec: Spec
    sender: Sender
    controls: tuple[Sender, ...]
    """Its scheme with one action always, as its record asks."""
    watched: _Watched

    def about(self) -> dict[str, Any]:
        """What `Evaluation.meta` says of it."""
        return {
            "scheme": self.sender.label,
            "policy": self.policy.name,
            "policy_seed": self.trained.seed,
            "policy_versions": self.trained.versions,
            "trained_on": self.trained.trained_on,
            "controls": [control.label for control in self.controls],
            "expectations": [expectation.model_dump(mode="json") for expectation in self.record.expectations],
            "categories": self.watched.categories,
            "shares": self.record.progress.shares,
            "action_values": list(self.spec.actions),
        }

    def seen(self, digests: Mapping[str, str]) -> list[str]:
        """A warning if the policy was trained on one of these traces, by name."""
        known = {each.get("digest") for each in self.trained.trained_on if each.get("kind") == "trace"}
        names = sorted(name for name, digest in digests.items() if digest in known)
        return [f"not held out: {self.sender.label} was trained on {', '.join(names)}"] if names else []


def _judged(policies: Sequence[Path]) -> list[_Judged]:
    """The policies with their labels: a policy alone has its scheme's name, several have their runs'."""
    out: list[_Judged] = []
    taken = {*heuristics(), ORACLE}
    for policy in policies:
        trained = artifact.load(policy)
        record, spec = record_of(trained), Spec.of(_core.learned(trained.contract.document))
        scheme, fields = scheme_of(trained), {"params": dict(trained.params)}
        label = spec.name
        if len(policies) > 1:
            own = policy.parent.name if policy.name == POLICY else policy.stem
            label, number = own, 2
            while label in taken:
                label, number = f"{own} ({number})", number + 1
        taken.add(label)
        sender = Sender(label, scheme, str(policy.resolve()), fields)
        controls = []
        for control in record.controls:
            always = Sender(control.label, scheme, {"constant": spec.constant(control.action)}, fields)
            known = [other for each in out for other in each.controls if other.label == control.label]
            differs = any(other != always for other in known)
            controls.append(replace(always, label=f"{label}, {control.label}") if differs else always)
        out.append(_Judged(policy, trained, record, spec, sender, tuple(controls), _Watched(record, spec)))
    return out


def _heuristics(names: Iterable[str]) -> list[str]:
    """`names`, each once, if they are schemes that need no policy. Raises ConfigError."""
    known = heuristics()
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            raise ConfigError(f'unknown scheme "{name}"{did_you_mean(name, known)}')
    return chosen


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
    watched: Mapping[str, _Watched] | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
) -> Evaluation:
    """Run every scheme over every link. `meta` goes into the result as it is, with versions and the backend's.

    `watched` says, by label, what is made of learned flows' reports.
    """
    meta = {**meta, "versions": artifact.versions(), **backends.about(backend)}
    result = Evaluation(meta=meta, warnings=_warnings(chosen))
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        # Results are taken in the order of submission: they do not depend on the number of threads.
        futures = [pool.submit(_run_link, link, lineup, watched or {}, link.seed == 0, backend) for link in chosen]
        try:
            for done, (link, future) in enumerate(zip(chosen, futures, strict=True), start=1):
                _collect(result, link, future.result())
                if progress is not None:
                    progress(done, len(chosen))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    ran = [row for row in result.rows if row["scheme"] != ORACLE]
    result.warnings += _repeated(ran)
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
    series: dict[str, Any] | None = None


def _run_link(
    link: Link, lineup: Sequence[Sender], watched: Mapping[str, _Watched], with_series: bool, backend: str
) -> _LinkRuns:
    runs = _LinkRuns()
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
        if sender.label in watched and reports is not None and len(reports):
            decided, counts = watched[sender.label](np.asarray(reports, dtype=np.float32))
            row |= decided
            if counts is not None:
                runs.actions[sender.label] = counts
        runs.rows.append(row)
        log = metrics.PacketLog.from_arrays(result["links"][0]["log"])
        runs.queue_ns[sender.label] = metrics.time_in_queue_length_ns(log, 0.0, link.duration_s)
        if with_series:
            lines[sender.label] = {
                "rate_mbps": metrics.bin_throughput_mbps(log, link.duration_s, SERIES_BIN_S),
                "queueing_delay_ms": metrics.bin_queueing_delay_ms(log, link.duration_s, SERIES_BIN_S),
            }
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


def _repeated(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning that names the groups in which seeds only repeat each other: their intervals say nothing."""
    runs: dict[str, dict[tuple[str, str], list[Any]]] = {}
    for row in rows:
        found = (row["throughput_mbps"], row["queueing_delay_mean_ms"], row["goodput_mbps"])
        runs.setdefault(row["group"], {}).setdefault((row["link"], row["scheme"]), []).append(found)
    same = [
        group
        for group, links in runs.items()
        if all(len(found) > 1 and len(set(found)) == 1 for found in links.values())
    ]
    if not same:
        return []
    return [f"every seed gave the same figures, because nothing is random there: {', '.join(same)}; ± says nothing"]


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
