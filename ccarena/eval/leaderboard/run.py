"""Command `ccarena leaderboard run`: runs what the store lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ccarena.core.terminal import Progress
from ccarena.errors import ConfigError
from ccarena.eval.leaderboard.cells import Cell, cells_of
from ccarena.eval.leaderboard.costs import cpu_ns
from ccarena.eval.leaderboard.entrants import Ranked, default_schemes, entrants_of, line_up
from ccarena.eval.leaderboard.figures import RIVAL, SCORE, SCORES
from ccarena.eval.leaderboard.links import CLASSES, MODELS, PRESETS, SCENARIO, Place, places, traces_of
from ccarena.eval.leaderboard.measure import Task, measure, tasks_of
from ccarena.eval.leaderboard.ranking import FEW_BLOCKS, MISSING, describe, rank
from ccarena.eval.leaderboard.scenarios import ScenarioPlace, check_entrants, scenario_places
from ccarena.eval.leaderboard.stack_links import STACK_LINKS, stack_places
from ccarena.eval.leaderboard.store import DEFAULT, Store
from ccarena.executors import Executor, Threads
from ccarena.scenarios import backends
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import parse

__all__ = ["RIVAL_PLACES", "Board", "Done", "failures_of", "rankings_of", "run"]

RIVAL_PLACES = 30
"""Places on which each entrant meets CUBIC."""
FEW_SEEDS = 5
"""Default repetitions on few traces, where seeds are units of the tests."""


@dataclass(frozen=True)
class Board:
    """Board that defines what a leaderboard compares."""

    traces: Sequence[str] = (PRESETS, MODELS)
    """Sets, names, files or folders (`links.traces_of`)."""
    schemes: Sequence[str] | None = None
    """Entrants such as `cubic@hystart=0`; None is every scheme that needs no policy."""
    policies: Sequence[str] | None = None
    """Entrants that are policies, or folders of policies; the shipped ones if None."""
    delays_ms: Sequence[float] | None = None
    """One-way base delays; None is each trace's own."""
    buffers_packets: Sequence[int] | None = None
    """Queue limits; None is each trace's own."""
    duration_s: float = 60.0
    seeds: int | None = None
    """Repetitions of each entrant alone. None is 1 on many traces, whose differences are far larger than those of
    seeds, and `FEW_SEEDS` on fewer than `FEW_BLOCKS` traces or scenarios.
    """
    meeting_seeds: int | None = None
    """Repetitions of every pair, on one place of each class, and of each entrant beside CUBIC, on `RIVAL_PLACES`; 0 for
    none. None is 0 in real time, else 1.
    """
    backend: str = SIM
    scenarios: Sequence[str] = ()
    """Files of scenarios, each a place of its own."""

    def places(self) -> list[Place]:
        """Returns the places where every entrant runs alone. Raises ConfigError or TraceError."""
        own = scenario_places(self.scenarios)
        fixed = stack_places(self.duration_s) if STACK_LINKS in self.traces else []
        rest = [text for text in self.traces if text != STACK_LINKS]
        if (own or fixed) and not rest:
            return [*fixed, *own]
        return [*fixed, *places(traces_of(rest), self.delays_ms, self.buffers_packets, self.duration_s), *own]

    def cells(self, where: Sequence[Place], entrants: Sequence[Ranked]) -> list[Cell]:
        """Returns every cell. Pairs meet on the first trace of each class, with the first delay and buffer.

        Each entrant also meets CUBIC on about `RIVAL_PLACES` places, which are spread over all.
        Real-time backends skip router-assisted schemes without a wire format, and oracles. Raises ConfigError for an
        impossible number.
        """
        real_time = backends.find(self.backend).real_time
        meeting_seeds = self.meeting_seeds if self.meeting_seeds is not None else 0 if real_time else 1
        for name, value, least in (("seeds", self.seeds, 1), ("meeting-seeds", meeting_seeds, 0)):
            if value is not None and not least <= value <= 10_000:
                raise ConfigError(f"--{name} {value}: expected {least} to 10000")
        if real_time:
            entrants = [entrant for entrant in entrants if not entrant.computed]
        traces = [place for place in where if place.trace.moves != SCENARIO]
        scenarios = [place for place in where if place.trace.moves == SCENARIO]
        meeting = _first_of_each_class(traces)
        return [
            *cells_of(traces, entrants, self._seeds(traces), self.backend, meeting, meeting_seeds, _spread(traces)),
            *cells_of(scenarios, entrants, self._seeds(scenarios), self.backend),
        ]

    def _seeds(self, where: Sequence[Place]) -> int:
        few = len({place.trace.name for place in where}) < FEW_BLOCKS
        return self.seeds if self.seeds is not None else FEW_SEEDS if few else 1

    def entries(self) -> list[str]:
        """Returns the entrants of the board that are no `policies`. Raises ConfigError for one that the backend cannot
        run.
        """
        if self.schemes is None:
            return [entry for entry in default_schemes() if not backends.refusal(self.backend, {"scheme": entry})]
        backends.check_runs(self.backend, map(parse, self.schemes))
        return list(self.schemes)


@dataclass(frozen=True)
class Done:
    """Outcome of a run of the board."""

    cells: int
    """Number of cells of the board."""
    ran: int
    invalid: int
    """Number of new runs whose emulator was late."""
    failed: int = 0
    """Number of new runs in which a program failed."""
    left_out: tuple[str, ...] = ()
    """Sentences on scenarios that do not take all entrants."""


def run(
    board: Board,
    store: str = DEFAULT,
    *,
    threads: int = 2,
    progress: Progress | None = None,
    executor: Executor | None = None,
    say: Callable[[str], None] | None = None,
) -> Done:
    """Runs the cells of `board` that the `store` lacks, and ranks the store's results.

    Results are stored at once, so that an interrupted run continues where it stopped. An invalid run is stored as such
    and tried again by the next call, `backends.ATTEMPTS` times in all.

    - `executor` runs tasks (None: `threads` threads of this process).
    - `progress(done, total)` counts cells.
    - `say` is called, in real time, with a sentence on how long the runs take.

    Raises ConfigError, PolicyError or TraceError before anything runs, and what the backend does.
    """
    if threads < 1:
        raise ConfigError(f"--threads {threads}: expected at least 1")
    where = board.places()
    given = entrants_of(board.entries(), board.policies)
    with Store(store) as open_store:
        entrants = line_up(given, open_store.rules(), threads)
        said = [check_entrants(place, entrants) for place in where if isinstance(place, ScenarioPlace)]
        cells = board.cells(where, entrants)
        lacking = open_store.missing([cell.key for cell in cells], backends.ATTEMPTS)
        known = {row["digest"] for row in open_store.entrants() if row["cpu_ns"] is not None}
        costs = {e.digest: cost for e in entrants if e.digest not in known and (cost := cpu_ns(e)) is not None}
        open_store.keep(entrants, costs)
        tasks = tasks_of([cell for cell in cells if cell.key in lacking])
        if say is not None and (needed := _time_needed(board, tasks, threads)):
            say(needed)
        done = invalid = failed = 0
        # The simulator releases the interpreter's lock, so that threads are enough to use every core.
        with closing((executor or Threads(threads)).run(measure, tasks)) as finished:
            for each in finished:
                measured = each.result()
                open_store.add(measured)
                done += len(measured)
                failed += sum(bool(one.error) for one in measured)
                invalid += sum(not one.valid and not one.error for one in measured)
                if progress is not None:
                    progress(done, len(lacking))
        if done or open_store.ranking() is None:
            open_store.keep_rankings(rankings_of(open_store, board.backend))
    return Done(len(cells), done, invalid, failed, tuple(filter(None, said)))


def rankings_of(store: Store, backend: str = SIM) -> dict[str, Any]:
    """Returns the ranking by each of `SCORES` of everything in a store that was run on a backend.

    Only the first has figures and win probabilities.
    """
    places, entrants = store.places(), store.entrants()
    failed = {(each["entrant"], each["place"]) for each in store.failures(backend)}
    out = {}
    for name in SCORES:
        ranking = rank(store.scores(backend, name), places, entrants, wins=name == SCORE)
        for group in ranking["groups"].values():
            for row in group["rows"]:
                if row["why"] == MISSING and any((row["entrant"], place) in failed for place in group["places"]):
                    row["why"] = "failed in some runs"
        out[name] = {"backend": backend, "score": name, **ranking}
    rival = next((entrant["id"] for entrant in entrants if entrant["label"] == RIVAL), None)
    describe(out[SCORE], store.means(backend=backend), store.means(alone=False, backend=backend), rival)
    return out


def failures_of(store: Store, backend: str) -> list[str]:
    """Returns a sentence on each entrant whose program failed: in how many runs, and how it did first."""
    found: dict[str, list[str]] = {}
    for each in store.failures(backend):
        found.setdefault(each["label"], []).append(each["error"])
    return [
        f"{label} failed in {'1 run' if len(errors) == 1 else f'{len(errors)} runs'}, which no mean counts: {errors[0]}"
        for label, errors in found.items()
    ]


def _time_needed(board: Board, tasks: Sequence[Task], threads: int) -> str:
    # Of a pair, both orders of starting are run, and each flow alone in each of its places.
    lengths = [length for task in tasks for length in [task.place.duration_s] * (len(task.cells) if task.alone else 6)]
    return backends.time_needed(board.backend, lengths, threads)


def _first_of_each_class(where: Sequence[Place]) -> list[Place]:
    first: dict[str, Place] = {}
    for place in where:
        first.setdefault(place.trace.moves, place)
    return [first[moves] for moves in CLASSES if moves in first]


def _spread(where: Sequence[Place]) -> list[Place]:
    """Returns about `RIVAL_PLACES` of the places, at even distances."""
    return list(where[:: max(1, round(len(where) / RIVAL_PLACES))])
