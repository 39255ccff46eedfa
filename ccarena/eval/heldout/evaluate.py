"""Runs a policy and the heuristics over the held-out links and reduces every run to a row of figures.

The same policy, link sets and seeds give the same `Evaluation` on any number of threads.

With the backend `kernel` every run is real TCP over the emulated link, in real time. Its figures are computed by the
same code. A run whose emulator was late stays in the rows, marked `valid: false`, and no mean, plot or expectation
counts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core, backends
from ccarena.backends import SIM
from ccarena.configs.schema import TrainConfig
from ccarena.envs.rewards import BUILT_IN, Reward
from ccarena.envs.spec import Spec
from ccarena.eval import metrics
from ccarena.eval.heldout import links as held_out
from ccarena.eval.heldout.evaluation import ORACLE, Evaluation
from ccarena.eval.heldout.links import Link, Sender
from ccarena.eval.heldout.oracle import one_rtt_late
from ccarena.plain_data import plain
from ccarena.policies import artifact
from ccarena.policies.record import record_of, scheme_of
from ccarena.terminal import Progress
from ccarena.traces.held_out import HELD_OUT

__all__ = ["evaluate", "run_lineup"]

BASELINES = ("cubic", "bbr", "reno")
"""What runs where no policy's record says otherwise."""
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
) -> Evaluation:
    """Run `policy`, the heuristics `schemes` and its scheme with one action always over the held-out links.

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
    record, spec = record_of(trained), Spec.of(_core.learned(trained.contract.document))
    names = list(link_sets or record.eval.link_sets or held_out.LINK_SETS)
    chosen = list(record.baselines if schemes is None else schemes)
    compared = [e.relative_to for e in record.expectations if e.relative_to is not None]
    scheme, fields = scheme_of(trained), {"params": dict(trained.params)}
    lineup = [
        Sender(spec.name, scheme, str(policy.resolve()), fields),
        *(held_out.heuristic(name) for name in dict.fromkeys((*compared, *chosen))),
        *(Sender(c.label, scheme, {"constant": spec.constant(c.action)}, fields) for c in record.controls),
    ]
    watched = _Watched(record, spec)
    meta = _asked(names, seeds, duration_s, chosen) | {
        "scheme": spec.name,
        "policy": policy.name,
        "policy_seed": trained.seed,
        "policy_versions": trained.versions,
        "trained_on": trained.trained_on,
        "controls": [control.label for control in record.controls],
        "expectations": [expectation.model_dump(mode="json") for expectation in record.expectations],
        "categories": watched.categories,
        "shares": record.progress.shares,
        "action_values": list(spec.actions),
    }
    return run_lineup(held_out.build(names, seeds, duration_s), lineup, meta, watched, threads, progress, backend)


def _asked(link_sets: list[str], seeds: int, duration_s: float | None, schemes: Sequence[str]) -> dict[str, Any]:
    return {"link_sets": link_sets, "seeds": seeds, "duration_s": duration_s, "schemes": list(schemes)}


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
) -> Evaluation:
    """Run every scheme over every link. `meta` goes into the result as it is, with versions and the backend's.

    `watched` says what is made of learned flows' reports.
    """
    meta = {**meta, "versions": artifact.versions(), **backends.about(backend)}
    result = Evaluation(meta=meta, warnings=_warnings(chosen))
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        # Results are taken in the order of submission: they do not depend on the number of threads.
        futures = [pool.submit(_run_link, link, lineup, watched, link.seed == 0, backend) for link in chosen]
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
    series: dict[str, Any] | None = None


def _run_link(
    link: Link, lineup: Sequence[Sender], watched: _Watched | None, with_series: bool, backend: str
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
        if watched is not None and sender.policy is not None and reports is not None and len(reports):
            decided, counts = watched(np.asarray(reports, dtype=np.float32))
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
    for gain in ORACLE_GAINS if link.link_set == "cellular" else ORACLE_GAINS[:1]:
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
