"""Runs of a policy and the heuristics over the held-out links, each reduced to a row of figures.

The same policy, link sets and seeds give the same `Evaluation` on any number of threads.

With the backend `kernel` or `quic` every run is real traffic over the emulated link, in real time. Its figures are
computed by the same code. A run whose emulator was late stays in the rows, marked `valid: false`, and no mean, plot or
expectation counts it.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.configs.own_files import without_folder
from ccarena.configs.schema import TrainConfig
from ccarena.core.files import digest
from ccarena.core.plain_data import plain
from ccarena.core.terminal import Progress
from ccarena.envs import objectives
from ccarena.envs.rewards import Reward, built_in
from ccarena.envs.trials import Candidate, Trials
from ccarena.errors import ConfigError
from ccarena.eval.heldout import links as held_out
from ccarena.eval.heldout.evaluation import BEST_WINDOW, ORACLE, Evaluation
from ccarena.eval.heldout.headroom import SCORE, bounds, score_of
from ccarena.eval.heldout.link import PACKET_BYTES, Link
from ccarena.eval.heldout.oracle import one_rtt_late
from ccarena.eval.heldout.rules import Rule
from ccarena.eval.measure import record, table
from ccarena.eval.measure.outside import OUTSIDE, outside_notes
from ccarena.eval.measure.queueing import bin_queueing_delay_ms
from ccarena.eval.measure.signal_delay import power
from ccarena.eval.measure.table import columns
from ccarena.eval.measure.throughput import bin_capacity_mbps, bin_throughput_mbps
from ccarena.executors import Executor, Threads
from ccarena.policies import artifact
from ccarena.policies.answers import FETCH
from ccarena.policies.spec import Spec
from ccarena.policies.trained_by import configuration_of, rule_of
from ccarena.scenarios import backends
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import Entrant, parse
from ccarena.scenarios.one_run import Run, perform
from ccarena.traces.given import TraceLinks
from ccarena.traces.held_out import HELD_OUT
from ccarena.traces.recorded import TRAINED_ON_TESTED, seen_in_training

__all__ = ["best_window", "evaluate", "run_lineup"]

BASELINES = ("cubic", "bbr", "reno")
"""Schemes of an evaluation if no policy's configuration names any."""
WINDOWS_BDP = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Fixed windows that are tried, in bandwidth-delay products of the link's mean capacity."""
ORACLE_GAINS = (1.0, 1.25, 1.5, 2.0, 3.0)
SERIES_BIN_S = 0.1
FIRST_S = 8.0
"""Time after which a part of the links gives a first verdict."""
STEPS = 21
"""Number of values, evenly over the bounds, to the nearest of which a continuous action is counted."""
GIVEN = frozenset({record.PACKETS, record.RECEIVED, record.COUNTERS, record.TRACE, record.SOLE})
"""Needs of figures that an evaluation meets; a figure whose needs its run does not meet is NaN."""


def evaluate(
    policies: Sequence[Entrant] = (),
    link_sets: Sequence[str] | None = None,
    seeds: int = 3,
    duration_s: float | None = None,
    schemes: Sequence[Entrant] | None = None,
    *,
    over: TraceLinks | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    backend: str = SIM,
    config: TrainConfig | None = None,
    executor: Executor | None = None,
    say: Callable[[str], None] | None = None,
    early: Callable[[Evaluation, int], None] | None = None,
) -> Evaluation:
    """Runs `policies`, the entrants `schemes` and constant actions of each policy's scheme over held-out links.

    - `link_sets` and `schemes`: None takes those of the policies' configurations; constant actions are always theirs.
    - `over`: links over traces, run beside the named link sets, or instead of the configurations'.
    - `seeds`: repetitions per link.
    - `duration_s`: simulated time of each run, or real time on another backend (None: the link set's own).
    - `config`: the configuration of the only policy, whose own code may then be run for scores; an artifact's never is.
    - `progress(done, total)`: called after every link.
    - `executor`: what runs the links; None uses `threads` threads.
    - `say`: called, in real time, with a sentence on how long the runs take, before the first one.
    - `early(evaluation, total)`: called once, after `FIRST_S`, with the evaluation of the links that are done, some of
      each group, and the number of all; not at all if everything is done by then.

    Without a policy only the heuristics run. In the simulator, each policy and its artifact's rules without learning
    are also scored by its configuration's objective.

    Raises ConfigError, PolicyError or TraceError, and in real time what `backends.execute` raises.
    """
    backends.about(backend)
    judged = _judged(policies, config)
    configurations = [each.config for each in judged]
    own = list(dict.fromkeys(name for config in configurations for name in config.eval.link_sets))
    names = list(link_sets or ([] if over is not None else own or held_out.DEFAULT))
    baselines = (
        dict.fromkeys(name for config in configurations for name in config.baselines) if configurations else BASELINES
    )
    chosen = [parse(name) for name in baselines] if schemes is None else list(schemes)
    recordings = [name for each in configurations for name in each.eval.recordings]
    links = held_out.build(names, seeds, duration_s, recordings)
    links += [] if over is None else held_out.over_traces(over, seeds, duration_s)
    judged = _with_rules([each.marked(links) for each in judged])
    compared = [e.relative_to for config in configurations for e in config.expectations if e.relative_to is not None]
    lineup = [
        *(each.sender for each in judged),
        *{each.label: each for each in (*map(parse, compared), *chosen)}.values(),
        *{constant.label: constant for each in judged for constant in each.constants}.values(),
    ]
    if not lineup:
        raise ConfigError("nothing to evaluate: name a policy or a scheme")
    backends.check_runs(backend, lineup)
    executor = executor or Threads(threads)
    if say is not None and isinstance(executor, Threads) and backends.find(backend).real_time:
        say(backends.time_needed(backend, [link.duration_s for link in links for _ in lineup], executor.count))
    watched = {sender.label: each.watched for each in judged for sender in (each.sender, *each.constants)}
    meta: dict[str, Any] = {
        "link_sets": names,
        "seeds": seeds,
        "duration_s": duration_s,
        "schemes": [each.text for each in chosen],
    }
    if over is not None:
        meta["traces"] = {trace.name: digest(trace.file.read_bytes()) for trace in over.traces}
    if len(judged) == 1:
        meta |= judged[0].about()
    elif judged:
        meta["policies"] = [each.about() for each in judged]
    scored = [each.scored for each in judged if each.scored is not None] if backend == SIM else []
    return run_lineup(links, lineup, meta, watched, executor, progress, backend, scored, early)


@dataclass(frozen=True)
class _Judged:
    """Policy that is evaluated."""

    policy: Path
    trained: artifact.Artifact
    config: TrainConfig
    spec: Spec
    sender: Entrant
    constants: tuple[Entrant, ...]
    """Constant actions of its scheme, from its configuration."""
    watched: _Watched
    own: bool = False
    """The configuration is the user's own, so that its code may be run."""
    tested: tuple[str, ...] = ()
    """Recordings of the evaluation that it was trained on."""
    found: Sequence[Mapping[str, Any]] = ()
    """Rules found after its training, or after another training of its configuration."""

    def marked(self, links: Sequence[Link]) -> _Judged:
        """Returns the policy with a label that marks it in every table, if it was trained on what is tested."""
        services = [service for link in links for service in link.services]
        seen = tuple(seen_in_training(self.trained.trained_on, services))
        if not seen:
            return self
        return replace(self, tested=seen, sender=replace(self.sender, label=f"{self.sender.label} {TRAINED_ON_TESTED}"))

    @property
    def scored(self) -> _Scored | None:
        """Returns the scorer of the policy and its rules; None without rules, or if it would need an artifact's
        code.
        """
        rules = [rule for rule in self.rules if rule.found]
        known = self.config.reward.name in built_in() and self.config.objective.name in objectives.BUILT_IN
        if not rules or not (self.own or known):
            return None
        config = self.config.model_copy(update={"params": dict(self.sender.flow["params"])})
        candidates = {self.sender.label: Candidate(self.policy.read_bytes())}
        candidates |= {rule.label: rule.candidate for rule in rules}
        return _Scored(config, self.spec, self.sender, candidates)

    @property
    def rules(self) -> list[Rule]:
        """Returns the best rules without learning for its scheme."""
        return [Rule.of(each) for each in self.found]

    def about(self) -> dict[str, Any]:
        """Returns the policy's entry in `Evaluation.meta`."""
        return {
            "scheme": self.sender.label,
            "spec": self.spec.name,
            "record": self.config.name,
            "policy": self.policy.name,
            "rule": rule_of(self.trained),
            "policy_seed": self.trained.seed,
            "policy_versions": self.trained.versions,
            "trained_on": self.trained.trained_on,
            "tested_in_training": list(self.tested),
            "tests": self.trained.tests,
            "rules": [rule.as_dict() for rule in self.rules],
            "objective": without_folder(self.config.objective.name),
            "logarithmic": self.scored is not None and self.scored.logarithmic,
            "constants": [constant.label for constant in self.constants],
            "expectations": [expectation.model_dump(mode="json") for expectation in self.config.expectations],
            "categories": self.watched.categories,
            "shares": self.config.progress.shares,
            "action_values": self.watched.values,
            "continuous": self.spec.bounds is not None,
            "action": {"name": self.config.progress.action, "does": _does(self.spec)},
        }


@dataclass(frozen=True)
class _Scored:
    """Scorer of a policy and its rules on a link, by the configuration's objective."""

    config: TrainConfig
    spec: Spec
    sender: Entrant
    candidates: dict[str, Candidate]
    """Candidates by label."""

    @property
    def logarithmic(self) -> bool:
        """Returns whether a difference of scores is a relative change."""
        return objectives.Objective(self.config.objective).logarithmic

    def __call__(self, link: Link) -> list[dict[str, Any]]:
        """Returns `scheme`, `score` and figures of each candidate."""
        if link.copies:  # an objective is of one learner
            return []
        trials = Trials(self.config, self.spec, 1, held_out.scenario(link, self.sender.deciding(None)))
        about = {"policy": self.sender.label, "link_set": link.link_set, "link": link.name, "seed": link.seed}
        about |= {"synthetic": link.synthetic}
        out = []
        for label, done in zip(self.candidates, trials.run(list(self.candidates.values()), link.seed, 1), strict=True):
            figures = {name: float(done.run[name][0]) for name in ("throughput_mbps", "signal_delay_to_end_p95_ms")}
            out.append({**about, "scheme": label, "score": done.score, **figures})
        return out


def _judged(policies: Sequence[Entrant], known: TrainConfig | None = None) -> list[_Judged]:
    """Returns the policies with their labels: unless the user chose another, a single policy has its scheme's name.

    `known` is the configuration of the only policy, if the caller has it. Raises ConfigError for a label that a bound
    has.
    """
    out: list[_Judged] = []
    for entrant in policies:
        policy = entrant.policy_file
        assert policy is not None
        trained = artifact.load(policy)
        config, spec = known or configuration_of(trained), Spec.of(_core.learned(trained.interface.spec))
        label = entrant.label if entrant.labelled or len(policies) > 1 else spec.name
        if label in (ORACLE, BEST_WINDOW):
            raise ConfigError(f'entrant "{entrant.text}": "{label}" is the label of a bound; give another one')
        sender = replace(entrant, label=label)
        constants = []
        for constant in config.constant_actions:
            always = replace(sender.deciding({"constant": spec.constant(constant.action)}), label=constant.label)
            others = [other for each in out for other in each.constants if other.label == constant.label]
            differs = any(other != always for other in others)
            constants.append(replace(always, label=f"{label}, {constant.label}") if differs else always)
        out.append(
            _Judged(
                policy,
                trained,
                config,
                spec,
                sender,
                tuple(constants),
                _Watched(config, spec),
                own=known is not None,
                found=trained.rules,
            )
        )
    return out


def _with_rules(judged: list[_Judged]) -> list[_Judged]:
    """Returns the policies; one that was not evaluated after its training gets the rules of another training.

    That training has the same configuration. A search would find the same rules: it depends on nothing else of a
    training, nor on its seed (`rules.search`).
    """

    def searched(each: _Judged) -> dict[str, Any]:
        return each.config.model_dump(include={"spec", "params", "reward", "objective", "env", "rules"})

    def shared(one: _Judged) -> Sequence[Mapping[str, Any]]:
        return next((each.found for each in judged if each.found and searched(each) == searched(one)), ())

    return [each if each.found else replace(each, found=shared(each)) for each in judged]


def _does(spec: Spec) -> str:
    """Returns what an action does, in the words of its actuator."""
    docs = {each["name"]: str(each["doc"]) for each in _core.actuators()}
    return "; ".join(docs[name] for name in spec.actuators)


class _Watched:
    """Reduction of a learned flow's reports to figures of its decisions and counts of its actions."""

    def __init__(self, config: TrainConfig, spec: Spec) -> None:
        shares = next(iter(config.progress.shares.items()), None)
        self.categories = [] if shares is None else list(shares[1])
        self._column = None if shares is None else spec.column(shares[0], "progress.shares")
        self._name = "" if shares is None else shares[0]
        self.values = list(spec.actions)
        if spec.bounds is not None:
            self.values = np.linspace(*spec.bounds[0], STEPS).tolist()
        acts = config.progress.action
        # A column has the action of one actuator, and these are the actions of all.
        self._action = spec.report.index(acts) if acts in spec.report and len(spec.actuators) == 1 else None
        # Code comes from the user's configuration alone, never from an artifact, which is what the configuration is
        # read from.
        reward = Reward(config.reward, spec) if config.reward.name in built_in() else None
        self._reward = None if reward is None or reward.needs_privileged else reward

    def __call__(self, reports: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        """Returns (figures, counts [categories, actions] or None) of reports `[N, columns]`."""
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
        chosen = np.abs(reports[1:, self._action, None] - np.asarray(self.values)).argmin(axis=1)
        counts = np.zeros((len(self.categories), len(self.values)), np.int64)
        np.add.at(counts, (category[:-1], chosen), 1)
        return figures, counts


def run_lineup(
    chosen: Sequence[Link],
    lineup: Sequence[Entrant],
    meta: Mapping[str, Any],
    watched: Mapping[str, _Watched] | None = None,
    executor: Executor = Threads(2),  # noqa: B008  (frozen)
    progress: Progress | None = None,
    backend: str = SIM,
    scored: Sequence[_Scored] = (),
    early: Callable[[Evaluation, int], None] | None = None,
) -> Evaluation:
    """Runs every scheme over every link. `meta` is added to the result unchanged, with versions and the backend's.

    `watched` has, by label, the reduction of learned flows' reports. `early` is that of `evaluate`.
    """
    meta = {**meta, "versions": artifact.versions(), **backends.about(backend)}
    work = functools.partial(_run_link, lineup=lineup, watched=watched or {}, backend=backend, scored=scored)
    over: dict[int, _LinkRuns] = {}
    began_s, groups = time.monotonic(), {link.group for link in chosen}
    order = _mixed(chosen)
    with closing(executor.run(work, [chosen[index] for index in order])) as finished:
        for done in finished:
            over[order[done.index]] = done.result()
            if progress is not None:
                progress(len(over), len(chosen))
            late = time.monotonic() - began_s >= FIRST_S and len(over) < len(chosen)
            if early is not None and late and {chosen[index].group for index in over} == groups:
                early(_gathered(chosen, lineup, meta, backend, over), len(chosen))
                early = None
    return _gathered(chosen, lineup, meta, backend, over)


def _mixed(chosen: Sequence[Link]) -> list[int]:
    """Returns the order of the runs: the first link of every group, then the second of every group, and so on."""
    before: Counter[str] = Counter()
    turns = []
    for index, link in enumerate(chosen):
        turns.append((before[link.group], index))
        before[link.group] += 1
    return [index for _, index in sorted(turns)]


def _gathered(
    chosen: Sequence[Link],
    lineup: Sequence[Entrant],
    meta: Mapping[str, Any],
    backend: str,
    over: Mapping[int, _LinkRuns],
) -> Evaluation:
    """Returns the evaluation of the links that were run, in the order of `chosen`: it does not depend on who was
    faster.
    """
    result = Evaluation(meta=dict(meta), warnings=_warnings(chosen))
    for index in sorted(over):
        _collect(result, chosen[index], over[index])
    if backend == SIM:
        result.entrants = {sender.label: plain(dict(sender.flow)) for sender in lineup}
        result.scenarios = [
            {"group": link.group, "link": link.name, "seed": link.seed}
            | {"document": plain(held_out.scenario(link, Entrant("", {})))}
            for link in chosen
            if link.seed == 0 and link.pictured
        ]
    ran = [row for row in result.rows if row["scheme"] != ORACLE]
    result.warnings += _repeated(ran)
    result.warnings += outside_notes((row["scheme"], row.get(OUTSIDE)) for row in ran)
    result.warnings += _failed(ran)
    late = sum(not row.get("valid", True) for row in ran)
    if late:
        result.warnings.append(
            f"{late} of {len(ran)} runs are invalid, because the emulator was late, and left out: run them "
            "again on a quieter machine, or fewer at once (--threads 1)"
        )
    return result


@dataclass
class _LinkRuns:
    """Runs of all schemes over one link."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    queue_ns: dict[str, np.ndarray] = field(default_factory=dict)
    actions: dict[str, np.ndarray] = field(default_factory=dict)
    scores: list[dict[str, Any]] = field(default_factory=list)
    series: dict[str, Any] | None = None


def _run_link(
    link: Link,
    lineup: Sequence[Entrant],
    watched: Mapping[str, _Watched],
    backend: str,
    scored: Sequence[_Scored],
) -> _LinkRuns:
    with_series = link.seed == 0 and link.pictured
    runs = _LinkRuns(scores=[row for each in scored for row in each(link)])
    about = {"link_set": link.link_set, "group": link.group, "link": link.name, "seed": link.seed}
    about |= {"duration_s": link.duration_s, "base_rtt_ms": link.base_rtt_ms, "buffer_packets": link.buffer_packets}
    about |= {"synthetic": link.synthetic, **({"shared": link.shared} if link.league else {})}
    names = columns(GIVEN)
    lines: dict[str, Any] = {}
    capacity = np.empty(0)
    for sender in lineup:
        run = perform(held_out.scenario(link, sender), backend)
        result, flow = run.result, run.measured().flows[0]
        capacity = flow.capacity_mbps
        row = {**about, "scheme": sender.label, **table.row(flow, names), **backends.validity(result)}
        row |= backends.failed(result, result["flows"][0])
        if not backends.counts(row):
            runs.rows.append(row)
            continue
        if link.league:
            row[SCORE] = score_of(link, run)
        reports = result["flows"][0].get("reports")
        if sender.policy is not None:
            row[OUTSIDE] = result["flows"][0].get(OUTSIDE)
        if sender.label in watched and reports is not None and len(reports):
            decided, counts = watched[sender.label](np.asarray(reports, dtype=np.float32))
            row |= decided
            if counts is not None:
                runs.actions[sender.label] = counts
        runs.rows.append(row)
        runs.queue_ns[sender.label] = flow.of_all.queue_ns
        if with_series:
            lines[sender.label] = _over_time(flow)
    if backend == SIM and link.alone:
        window, best = best_window(link, capacity)
        [flow] = best.measured().flows
        row = {**about, "scheme": BEST_WINDOW, **table.row(flow, names), "window": float(window)}
        runs.rows.append(row | ({SCORE: row["score"]} if link.league else {}))
        if with_series:
            lines[BEST_WINDOW] = _over_time(flow)
    per_bin = round(SERIES_BIN_S * 1e3)
    gains = ORACLE_GAINS if link.recorded else ORACLE_GAINS[:1]
    for gain in gains if link.alone else ():
        bound = one_rtt_late(
            capacity,
            1.0,
            link.base_rtt_ms,
            link.buffer_packets * PACKET_BYTES,
            gain=gain,
            average_ms=link.capacity_window_ms,
        )
        row = {**about, "scheme": ORACLE, "gain": gain, "capacity_mbps": float(capacity.mean()), **bound.figures()}
        row |= bounds(link, capacity) if link.league and gain == 1.0 else {}
        runs.rows.append(row)
        if with_series and gain == 1.0:
            delay = bound.queueing_delay_ms
            starts = np.arange(0, delay.size, per_bin)
            lines[ORACLE] = {
                "rate_mbps": bin_capacity_mbps(bound.rate_mbps, per_bin),
                "queueing_delay_ms": np.maximum.reduceat(delay, starts),
            }
    if with_series:
        seen = bin_capacity_mbps(capacity, per_bin)
        time_s = np.arange(seen.size) * SERIES_BIN_S
        runs.series = {**about, "time_s": time_s, "capacity_mbps": seen, "schemes": lines}
    return runs


def _over_time(flow: record.Subject) -> dict[str, np.ndarray]:
    """Returns rate and largest queueing delay of each bin."""
    duration_s = flow.record.duration_s
    return {
        "rate_mbps": bin_throughput_mbps(flow.log, duration_s, SERIES_BIN_S),
        "queueing_delay_ms": bin_queueing_delay_ms(flow.log, duration_s, SERIES_BIN_S),
    }


def best_window(link: Link, capacity_mbps: np.ndarray) -> tuple[int, Run]:
    """Returns the fixed window with the highest power on this link, in packets, and its run; of the league's links the
    one with the highest score.
    """
    bdp = float(capacity_mbps.mean()) * link.base_rtt_ms * 125.0 / PACKET_BYTES
    best: tuple[float, int, Run] | None = None
    for window in sorted({max(2, round(share * bdp)) for share in WINDOWS_BDP}):
        sender = Entrant(BEST_WINDOW, {"scheme": "fixed", "params": {"window": window}})
        run = perform(held_out.scenario(link, sender), SIM)
        [flow] = run.measured().flows
        reached, most = _reach(link, flow, float(capacity_mbps.mean()))
        if best is None or reached > best[0]:
            best = reached, window, run
        # A larger window has no less delay: where all of the capacity would not do at this one, no larger window does.
        elif most < best[0]:
            break
    assert best is not None
    return best[1:]


def _reach(link: Link, flow: record.Subject, capacity_mbps: float) -> tuple[float, float]:
    """Returns what a fixed window reaches, and what all of the capacity would reach with its delay."""
    if link.league:
        delay_ms = table.value(flow, "queueing_delay_mean_ms")
        return table.value(flow, "score"), table.normalised_power(1.0, delay_ms, link.base_rtt_ms)
    # The signal delay is of the queue alone: without any, power has no bound. Propagation gives it one.
    delay_ms = table.value(flow, "signal_delay_p95_ms") + link.delay_ms
    return power(table.value(flow, "throughput_mbps"), delay_ms), power(capacity_mbps, delay_ms)


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


def _repeated(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a warning that names the groups whose seeds give equal results, and which therefore have no interval."""
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
    return [f"seeds change nothing on {', '.join(same)}: every one gave the same figures, so there is no interval"]


def _failed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a warning for each entrant whose program or module failed in some runs."""
    out = []
    for scheme in dict.fromkeys(row["scheme"] for row in rows):
        mine = [row for row in rows if row["scheme"] == scheme]
        failed = [row for row in mine if row.get("error")]
        if failed:
            first = failed[0]
            at = f"on {first['link']}, seed {first['seed']}: {first['error']}"
            out.append(f"{scheme} failed in {len(failed)} of {len(mine)} runs, which no mean counts; {at}")
    return out


def _warnings(chosen: Sequence[Link]) -> list[str]:
    if any(link.synthetic for link in chosen):
        return [
            "cellular links are generated, since no recording was found; expectations about recordings are not tested. "
            f"To test them, too: `{FETCH}`"
        ]
    cellular = {link.name.split(",")[0] for link in chosen if link.link_set == "cellular"}
    missing = [name for name in HELD_OUT if name not in cellular]
    return (
        [f"recorded traces that were not found and are left out: {', '.join(missing)}"] if cellular and missing else []
    )
