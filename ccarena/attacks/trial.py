"""Runs of cases: in parallel, each kept in the folder's journal as soon as it is finished.

Native entrants run in threads. Classes of a user's file run in processes of their own, with limits of processor time
and memory, so that one that loops or eats memory costs one case.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ccarena.attacks.case import ATTACKED, BESIDE, Case, Competition, scenario
from ccarena.attacks.harms import CRASH, HARMS, Seen, values_of
from ccarena.attacks.simplify import simplify
from ccarena.controllers.load import is_python
from ccarena.core.terminal import Progress
from ccarena.errors import ControllerError, MachineError, RunnerError, WorkerError
from ccarena.eval.measure.record import Record
from ccarena.eval.measure.table import value
from ccarena.executors import Processes, Threads
from ccarena.executors.limits import LimitError, limited
from ccarena.runs.journal import Journal
from ccarena.scenarios.backends import ATTEMPTS, BACKENDS, SIM, time_needed
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.one_run import Run, perform

__all__ = ["SEED", "Outcome", "Trials", "measure"]

RUNS: Mapping[Competition, int] = {"alone": 1, "itself": 1, "others": 3}
"""Runs of a case by competition: beside others, also one of the entrant alone and one of the others alone."""
SEED = 1
"""Seed of the runs of a search; a find is replayed with others."""
ENDED = "its process ended: it did not stop, or crashed"
MOST_ERROR = 2000
"""Most characters of a failure that are kept."""
LIMIT_S, MEMORY_MB = 60.0, 1000.0
"""Processor time and memory of a Python class for one case."""


class CompetitorError(Exception):
    """Failure of a competitor, which is no harm of the entrant."""


@dataclass(frozen=True)
class Outcome:
    """Result of a case."""

    harms: Mapping[str, float]
    """Values of the harms that are defined for it."""
    error: str = ""
    """Failure of the controller, or of a competitor's."""

    def value(self, harm: str) -> float:
        """Returns the value of a harm; 0 if it is not defined."""
        return self.harms.get(harm, 0.0)


@dataclass(frozen=True)
class Trials:
    """Runs of one entrant; the journal is open."""

    journal: Journal
    entrant: Entrant
    workers: int
    backend: str = SIM

    def run(self, cases: Sequence[tuple[Case, int]], progress: Progress | None = None) -> list[Outcome]:
        """Returns the outcomes of cases with their seeds; what the journal has is not run again."""
        rows = self._known(self._keys(cases), cases, _outcome, lambda _: _row(_failed(ENDED)), progress)
        return [Outcome(row["harms"], row["error"]) for row in rows]

    def has(self, cases: Sequence[tuple[Case, int]]) -> bool:
        """Returns whether the journal has all of these cases with their seeds."""
        return all(key in self.journal.rows for key in self._keys(cases))

    def time_needed(self, cases: Sequence[Case]) -> str:
        """Returns a sentence on how long the cases take in real time; empty for the simulator."""
        runs = [case.duration_s for case in cases for _ in range(RUNS[case.competition])]
        return time_needed(self.backend, runs, BACKENDS[self.backend].at_once(self.workers))

    def _keys(self, cases: Sequence[tuple[Case, int]]) -> list[str]:
        at = "" if self.backend == SIM else f" {self.backend}"
        return [f"{case.id} {seed}{at}" for case, seed in cases]

    def simplified(
        self, found: Sequence[tuple[Case, float, str]], plain: Mapping[str, Any]
    ) -> list[tuple[Case, float]]:
        """Returns each counterexample, a case with the value and the name of its harm, as simple as it gets."""
        keys = [f"simple {case.id} {harm}" for case, _, harm in found]
        work = functools.partial(_simplest, plain=dict(plain))
        rows = self._known(keys, found, work, lambda each: {"case": each[0].as_dict(), "value": each[1]})
        return [(Case.of(row["case"]), row["value"]) for row in rows]

    def _known(
        self,
        keys: Sequence[str],
        pieces: Sequence[Any],
        work: Callable[..., Any],
        lost: Callable[[Any], Any],
        progress: Progress | None = None,
    ) -> list[dict[str, Any]]:
        """Returns the journal's rows of `keys`; `work` makes those that it lacks of their pieces, or `lost` if a piece
        has ended its process.
        """
        todo = {key: each for key, each in zip(keys, pieces, strict=True) if key not in self.journal.rows}
        own = is_python(self.entrant.flow)
        work = functools.partial(work, entrant=self.entrant, backend=self.backend, own=own)
        workers = BACKENDS[self.backend].at_once(self.workers)
        executor = Processes(workers, ("ccarena.attacks.trial",)) if own else Threads(workers)
        names = list(todo)
        with closing(executor.run(work, list(todo.values()))) as running:
            for number, done in enumerate(running, start=1):
                try:
                    row = done.result()
                except WorkerError:
                    row = lost(todo[names[done.index]])
                self.journal.append({"key": names[done.index], **row})
                if progress is not None:
                    progress(number, len(names))
        return [self.journal.rows[key] for key in keys]


def measure(case: Case, entrant: Entrant, seed: int, backend: str = SIM) -> tuple[Run, dict[str, float]]:
    """Runs a case and returns the run with the values of its harms. Raises what the backend does, and ControllerError
    if the entrant's controller fails, CompetitorError if another one does.
    """
    run = _performed(case, entrant, seed, backend)
    window = (case.measured_from_s, case.duration_s)
    seen = Seen(case, Record(run.document, run.result, window))
    if case.competition == "others":
        alone = _performed(case, entrant, seed, backend, beside=False)
        others = _performed(case, entrant, seed, backend, attacked=False)
        rates = [_rates(each, window) for each in (alone, others)]
        seen = Seen(case, seen.record, rates[0][0], statistics.fmean(rates[1]))
    return run, values_of(seen)


def _performed(case: Case, entrant: Entrant, seed: int, backend: str, **flows: bool) -> Run:
    for _ in range(ATTEMPTS):
        try:
            run = perform(scenario(case, entrant, seed, **flows), backend)
        except ControllerError as error:
            # Its first line names the flow whose class raised.
            of_other = case.competition == "others" and f" of {BESIDE}" in str(error).partition("\n")[0]
            raise (CompetitorError if of_other else ControllerError)(str(error)) from error
        if run.valid:
            break
    else:
        raise MachineError(f"the emulator was late in {ATTEMPTS} attempts; replay the finds on a quieter machine")
    for flow in run.result["flows"]:
        if flow.get("error"):
            is_own = case.competition != "others" or flow["name"] == ATTACKED
            raise (ControllerError if is_own else CompetitorError)(str(flow["error"]))
    return run


def _rates(run: Run, window: tuple[float, float]) -> list[float]:
    return [float(value(flow, "throughput_mbps")) for flow in Record(run.document, run.result, window).flows]


def _outcome(given: tuple[Case, int], **how: Any) -> dict[str, Any]:
    return _row(_tried(given, **how))


def _row(outcome: Outcome) -> dict[str, Any]:
    return {"harms": dict(outcome.harms), "error": outcome.error}


def _simplest(given: tuple[Case, float, str], plain: Mapping[str, Any], **how: Any) -> dict[str, Any]:
    case, value, harm = given
    simple, least = simplify(case, value, HARMS[harm], plain, lambda each: _tried((each, SEED), **how).value(harm))
    return {"case": simple.as_dict(), "value": least}


def _tried(given: tuple[Case, int], entrant: Entrant, backend: str, own: bool) -> Outcome:
    case, seed = given
    try:
        if own:
            with limited(LIMIT_S, MEMORY_MB):
                return Outcome(measure(case, entrant, seed, backend)[1])
        return Outcome(measure(case, entrant, seed, backend)[1])
    except CompetitorError as error:
        return Outcome({}, f"{case.values['beside']}, a competitor: {error}"[:MOST_ERROR])
    except (ControllerError, LimitError, MemoryError, RunnerError) as error:
        return _failed(str(error) or type(error).__name__)
    except BaseException as error:
        # A panic of the native code arrives as a BaseException of this name.
        if type(error).__name__ != "PanicException":
            raise
        return _failed(str(error))


def _failed(error: str) -> Outcome:
    return Outcome({CRASH: 1.0}, error[:MOST_ERROR])
