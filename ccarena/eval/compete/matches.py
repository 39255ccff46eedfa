"""Matches of competitors on one bottleneck: every pair and chosen groups, and the harm that each causes.

A *match* seats competitors, each with a base RTT. It is run with every rotation of the order in which they start and
for every seed. The figures of a run are over the time when all are there: `duration_s` from the last start.

Each flow is also run without the others, everything else unchanged. Harm is its relative loss beside them: (solo - x) /
solo where more is better, and (x - solo) / x where less is. 0 is none, 1 is all; below 0 it does better in company.
Source: Ware, Mukerjee, Seshan, Sherry, "Beyond Jain's Fairness Index: Setting the Bar for the Deployment of Congestion
Control Algorithms", HotNets 2019.

Most schemes draw no random numbers. To make seeds differ, every flow but the first starts later by a random time of at
most `stagger_s` / 10 + the largest base RTT. A seed above 1 also starts a recorded trace at another time, and each seed
generates a synthetic link anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.core.terminal import Progress
from ccarena.errors import ConfigError, ControllerError, ScenarioError
from ccarena.eval.compete.bottlenecks import Bottleneck
from ccarena.eval.heldout.links import MOST_SEEDS
from ccarena.eval.measure.record import FLOWS, MATCH, PACKETS, REQUIREMENT, Record
from ccarena.eval.measure.table import FIGURES, columns, row
from ccarena.executors import pool_of
from ccarena.scenarios import backends
from ccarena.scenarios.backends import SIM, failed, validity
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.one_run import perform
from ccarena.scenarios.real_time import check_rates

__all__ = [
    *("GIVEN", "IN_REAL_TIME", "MOST_PACKETS", "SIMULATED"),
    *("Effort", "Match", "Plan", "Seat", "compete", "effort", "lengths_s", "matches_of"),
]

MOST_PACKETS = 2e7
"""Most packets of one run whose record fits into a laptop's memory: each takes about 100 bytes."""

GIVEN = frozenset({PACKETS, FLOWS, REQUIREMENT, MATCH})
"""Needs of figures that a match meets."""


@dataclass(frozen=True)
class Effort:
    """Default numbers of a plan."""

    duration_s: float
    stagger_s: float
    seeds: int


SIMULATED, IN_REAL_TIME = Effort(20.0, 10.0, 3), Effort(10.0, 2.0, 1)
"""Defaults: four entrants in every pair take about two seconds on two cores, and in real time five minutes."""


def effort(backend: str) -> Effort:
    """Returns the defaults for a backend."""
    return IN_REAL_TIME if backends.find(backend).real_time else SIMULATED


BIN_S = 1.0
_CAPACITY_BIN_MS = 10


@dataclass(frozen=True)
class Seat:
    """Seat of a competitor in a match."""

    label: str
    rtt_ms: float


@dataclass(frozen=True)
class Match:
    """Match of competitors, with their base RTTs."""

    seats: tuple[Seat, ...]

    @property
    def name(self) -> str:
        """Returns the competitors' labels, joined."""
        return "+".join(seat.label for seat in self.seats)

    @property
    def rtts(self) -> str:
        """Returns base RTTs of the seats in ms, joined."""
        return "+".join(f"{seat.rtt_ms:g}" for seat in self.seats)

    def orders(self) -> list[tuple[Seat, ...]]:
        """Returns every rotation of the seats in their order of starting, each once."""
        return list(dict.fromkeys(self.seats[k:] + self.seats[:k] for k in range(len(self.seats))))


@dataclass(frozen=True)
class Plan:
    """Plan of a competition."""

    entrants: Sequence[Entrant]
    bottlenecks: Sequence[Bottleneck]
    paired: Sequence[str]
    """Labels of the competitors that are run in every pair, and each against itself."""
    groups: Sequence[tuple[str, ...]] = ()
    rtts_ms: Sequence[tuple[float, ...]] = ()
    """Base RTTs that the flows of a match get in turn, in every rotation; if empty, all get the link's own."""
    duration_s: float = SIMULATED.duration_s
    """Time for which all flows of a match run together."""
    stagger_s: float = SIMULATED.stagger_s
    """Time from one start to the next."""
    seeds: int = SIMULATED.seeds
    """Number of repetitions."""
    first_seed: int = 1
    backend: str = SIM
    """Backend of all runs. In real time a row says whether its runs were `valid`, and has an `error` if a program
    failed.
    """
    attempts: int = 1
    """Most attempts at a run in real time whose emulator is late."""

    def check(self) -> None:
        """Raises ConfigError for a plan that cannot be run."""
        for name, value, low in (("duration-s", self.duration_s, BIN_S), ("stagger-s", self.stagger_s, 0.0)):
            if not low <= value < 1e6:
                raise ConfigError(f"--{name} {value:g}: expected {low:g} to a million seconds")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise ConfigError(f"--seeds {self.seeds}: expected 1 to {MOST_SEEDS}")
        for rtts in self.rtts_ms:
            if not all(0 < rtt <= 10_000 for rtt in rtts):
                given = ",".join(f"{rtt:g}" for rtt in rtts)
                raise ConfigError(f"--rtt-ms {given}: expected base RTTs above 0 and at most 10000 ms")
        if not any(self.members()):
            raise ConfigError("nobody competes: name two schemes, one to run against itself, or a --group")
        backends.check_runs(self.backend, self.entrants)

    def members(self) -> Iterator[tuple[str, ...]]:
        """Yields the labels of each match: pairs, then groups."""
        yield from combinations_with_replacement(self.paired, 2)
        yield from self.groups


@dataclass(frozen=True)
class _Run:
    """Simulation of a match in one order of starting, and the simulations of its flows alone, for comparison."""

    bottleneck: Bottleneck
    match: Match
    order: tuple[Seat, ...]
    seed: int
    starts_s: tuple[float, ...]
    end_s: float
    together: str
    alone: tuple[str, ...]

    @property
    def window(self) -> tuple[float, float]:
        """The time when all flows are there, s."""
        return self.starts_s[-1], self.end_s


def matches_of(plan: Plan, bottleneck: Bottleneck) -> list[Match]:
    """Returns every match of `plan` on `bottleneck`, in the plan's order, each once."""
    found: dict[tuple[Seat, ...], Match] = {}
    for members in plan.members():
        for rtts in plan.rtts_ms or [(bottleneck.base_rtt_ms,)]:
            for shift in range(len(rtts)):
                turned = rtts[shift:] + rtts[:shift]
                seats = tuple(Seat(label, turned[k % len(turned)]) for k, label in enumerate(members))
                key = tuple(sorted(seats, key=lambda seat: (seat.label, seat.rtt_ms)))
                found.setdefault(key, Match(seats))
    return list(found.values())


def compete(
    plan: Plan, threads: int = 2, progress: Progress | None = None, rows: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Runs `plan` and returns a row of figures per run and flow; docs/compete.md lists the columns.

    The same plan gives the same rows on any number of threads. `rows`, if given, is filled as runs finish, so that an
    interruption loses no finished run. `progress(done, total)` counts them. Raises ConfigError before anything is run,
    ScenarioError or PolicyError, and after all other runs ControllerError for a user's class that failed.
    """
    plan.check()
    entrants = {entrant.label: entrant for entrant in plan.entrants}
    runs = _all_runs(plan, entrants)
    rows = [] if rows is None else rows
    alone: dict[str, Future[_Flows]] = {}
    together: list[tuple[_Run, Future[_Flows]]] = []
    with pool_of(threads) as pool:
        # The simulator releases the interpreter's lock, so that threads are enough to use every core. Work is taken in
        # the order in which it is given: whoever waits for runs alone waits for what has begun.
        for run in runs:
            for text in run.alone:
                if text not in alone:
                    alone[text] = pool.submit(_measure, text, run.window, plan)
            together.append((run, pool.submit(_together, run, [alone[text] for text in run.alone], plan)))
        failed: list[ControllerError] = []
        for done, (run, measured) in enumerate(together, start=1):
            try:
                rows += _rows(run, entrants, measured.result())
            except ControllerError as error:
                # The other matches have results, with which the caller still can do something.
                failed.append(ControllerError(f"{run.match.name} on {run.bottleneck.name}, seed {run.seed}: {error}"))
                failed[-1].__cause__ = error.__cause__
            if progress is not None:
                progress(done, len(runs))
    if failed:
        more = f"; {len(failed)} of {len(runs)} runs failed like this" if len(failed) > 1 else ""
        raise ControllerError(f"{failed[0]}{more}; find the fault: `ccarena check`") from failed[0].__cause__
    return rows


def lengths_s(plan: Plan) -> list[float]:
    """Returns the length of every run of `plan`: of matches, and of their flows alone. Raises what `compete` raises
    before anything is run.
    """
    plan.check()
    runs = _all_runs(plan, {entrant.label: entrant for entrant in plan.entrants})
    return [*(run.end_s for run in runs), *{text: run.end_s for run in runs for text in run.alone}.values()]


def _all_runs(plan: Plan, entrants: Mapping[str, Entrant]) -> list[_Run]:
    """Returns the runs of the matches, checked."""
    runs = [run for bottleneck in plan.bottlenecks for run in _runs(plan, entrants, bottleneck)]
    for run in runs:
        _check(run, backends.find(plan.backend).real_time)
    return runs


def _runs(plan: Plan, entrants: Mapping[str, Entrant], bottleneck: Bottleneck) -> Iterator[_Run]:
    for match in matches_of(plan, bottleneck):
        for order in match.orders():
            for seed in range(plan.first_seed, plan.first_seed + plan.seeds):
                starts_s = _starts_s(plan.stagger_s, [seat.rtt_ms for seat in order], seed)
                end_s = round(starts_s[-1] + plan.duration_s, 3)
                links = bottleneck.links_for([seat.rtt_ms for seat in order], seed, end_s)
                about = (links, bottleneck.route, seed, starts_s, end_s)
                together = [entrants[seat.label] for seat in order]
                # The other flows start after the end instead of being left out, so that flow numbers, random streams
                # and a buffer in BDP of the largest base RTT stay the same. They are copies of the flow that runs,
                # which makes these runs the same whoever the opponents are.
                alone = [_document([entrant] * len(order), order, *about, only=k) for k, entrant in enumerate(together)]
                yield _Run(
                    bottleneck, match, order, seed, starts_s, end_s, _document(together, order, *about), tuple(alone)
                )


def _check(run: _Run, real_time: bool) -> None:
    """Raises ConfigError or ScenarioError for a run that would be refused or needs too much memory."""
    try:
        filled = json.loads(_core.validate_scenario(run.together))
        if real_time:
            check_rates(filled)
    except ScenarioError as error:
        raise ScenarioError(f"link {run.bottleneck.name}, {run.match.name}, {run.match.rtts} ms: {error}") from error
    rates = [link["service"]["rate_mbps"] for link in run.bottleneck.links if link["service"]["type"] == "constant"]
    packets = min(rates, default=0.0) * 1e6 * run.end_s / 12_000
    if packets > MOST_PACKETS:
        raise ConfigError(
            f"link {run.bottleneck.name}: a run of {run.end_s:g} s would record {packets:.3g} packets; expected at "
            f"most {MOST_PACKETS:.3g}: lower --duration-s, --stagger-s or the rate"
        )


def _starts_s(stagger_s: float, rtts_ms: Sequence[float], seed: int) -> tuple[float, ...]:
    """Returns the start of each flow, in order, s; the module says what a seed moves."""
    rng = np.random.Generator(np.random.PCG64([0xC0, seed]))
    spread_s = 0.1 * stagger_s + max(rtts_ms) / 1e3
    moved = rng.random(len(rtts_ms)) * spread_s
    # In whole ms. Sorted, because without stagger the random moves alone would change the order of starting.
    return (0.0, *(round(k * stagger_s + float(move), 3) for k, move in enumerate(np.sort(moved)[1:], start=1)))


def _document(
    entrants: Sequence[Entrant],
    order: Sequence[Seat],
    links: list[dict[str, Any]],
    route: Mapping[str, Any],
    seed: int,
    starts_s: Sequence[float],
    end_s: float,
    only: int | None = None,
) -> str:
    """Returns the scenario as JSON text, with all flows or with flow `only`."""
    flows = [
        entrant.as_flow(
            **route,
            name=f"flow{k}",
            base_rtt_ms=seat.rtt_ms,
            start_s=start_s if only in (None, k) else end_s + 1.0,
        )
        for k, (entrant, seat, start_s) in enumerate(zip(entrants, order, starts_s, strict=True))
    ]
    record = {"packets": True, "bin_ms": _CAPACITY_BIN_MS}
    document = {"version": 1, "duration_s": end_s, "seed": seed, "links": links, "flows": flows, "record": record}
    return json.dumps(document, sort_keys=True)


_Flows = list[dict[str, Any]]
"""The figures of each flow of a run; in real time also `valid`, `lateness_p99_ms` and `error`."""


def _measure(text: str, window: tuple[float, float], plan: Plan, alone: Sequence[_Flows] | None = None) -> _Flows:
    """Runs a scenario and measures each of its flows over the window; flow k is `alone[k][k]` without the others."""
    for _ in range(plan.attempts):
        run = perform(json.loads(text), plan.backend)
        if run.valid:
            break
    own = None if alone is None else [flows[k] for k, flows in enumerate(alone)]
    record = Record(run.document, run.result, window, alone=own)
    names = columns(GIVEN, {flow["scheme"] for flow in run.result["flows"]})
    known = [[name for name in names if FIGURES[name].needs <= flow.given] for flow in record.flows]
    out: _Flows = [row(flow, mine) for flow, mine in zip(record.flows, known, strict=True)]
    for figures, flow in zip(out, run.result["flows"], strict=True):
        figures |= {**validity(run.result), **failed(run.result, flow)}
    return out


def _together(run: _Run, alone: Sequence[Future[_Flows]], plan: Plan) -> _Flows:
    """Returns the figures of a match's flows, with those of the runs alone.

    They are `valid` if all of these runs were, and have the first `error` of a program or module in any of them.
    """
    solos = [each.result() for each in alone]
    flows = _measure(run.together, run.window, plan, solos)
    # A comparison with a run that cannot be believed cannot be, either.
    said: dict[str, Any] = {}
    if backends.find(plan.backend).real_time:
        found = [flow for measured in (flows, *solos) for flow in measured]
        late_ms = max(each["lateness_p99_ms"] for each in found)
        said = {"valid": all(each["valid"] for each in found), "lateness_p99_ms": late_ms, "error": ""}
    wrong = [f"{seat.label}: {flow['error']}" for seat, flow in zip(run.order, flows, strict=True) if flow.get("error")]
    for k, seat in enumerate(run.order):
        wrong += [f"{seat.label} alone: {solos[k][k]['error']}"] if solos[k][k].get("error") else []
    return [{**flow, **said, **({"error": wrong[0]} if wrong else {})} for flow in flows]


def _rows(run: _Run, entrants: Mapping[str, Entrant], flows: _Flows) -> list[dict[str, Any]]:
    return [
        {
            "link": run.bottleneck.name,
            "match": run.match.name,
            "match_rtts_ms": run.match.rtts,
            "seed": run.seed,
            "place": k + 1,
            "order": "+".join(str(run.match.seats.index(other) + 1) for other in run.order),
            "entrant": seat.label,
            "opponents": "+".join(other.label for j, other in enumerate(run.order) if j != k),
            "scheme": entrants[seat.label].scheme,
            "base_rtt_ms": seat.rtt_ms,
            "start_s": run.starts_s[k],
            **flow,
        }
        for k, (seat, flow) in enumerate(zip(run.order, flows, strict=True))
    ]
