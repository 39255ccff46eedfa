"""Function `ccarena.search`: a search for a controller, its verdict, and its folder."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccarena.core.files import check_writable, scratch, write_atomically
from ccarena.core.machine import usable_cores
from ccarena.core.plain_data import plain
from ccarena.core.terminal import Progress, progress_bar
from ccarena.errors import ConfigError
from ccarena.eval.heldout.gain import Gain
from ccarena.searches import page
from ccarena.searches.plan import PLAN, Plan, read_plan, read_space
from ccarena.searches.prepared import prepare
from ccarena.searches.programs import LANGUAGES
from ccarena.searches.run import Finished
from ccarena.searches.run import search as run_search
from ccarena.searches.verdict import Verdict, together

__all__ = ["BEST", "PAGE", "SUMMARY", "Found", "carry_out", "search"]

SUMMARY, PAGE, BEST = "summary.json", "page.html", "best"
"""Files of a search: its result as JSON, its page, and the best candidate's file without its suffix."""


@dataclass(frozen=True)
class Found:
    """Result of a search: the best candidate and its verdict on unseen links."""

    entrant: str
    """The best candidate as an entrant (docs/entrants.md); of a file, that in the search's folder."""
    program: str
    """The best candidate in one line."""
    verdict: Verdict
    """Comparison with the template, and with the best constant rule."""
    candidates: list[dict[str, Any]]
    """Candidates, the best first: number, `name`, `rung`, `score`, `error`, `program` and scores by link, `links`."""
    generator: str = ""
    """Sentence on how an outside generator ended; empty if there is nothing to say."""
    searches: Sequence[Found] = ()
    """Results of repeated searches, of which this is the best one's, with the verdict on all."""

    @property
    def better(self) -> bool:
        """Returns whether it is better on unseen links than what it has to beat, by more than the interval."""
        return self.verdict.better

    @property
    def gain(self) -> Gain | None:
        """Returns the gain over each rule, with intervals; None without a comparison."""
        return self.verdict.gain

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        gain = self.verdict.gain
        return {
            "verdict": {"state": self.verdict.state, "sentence": self.verdict.sentence},
            "entrant": self.entrant,
            "program": self.program,
            "gain": None if gain is None else gain.as_dict(),
            "generator": self.generator,
            "tried": len(self.candidates),
            "failed": sum(bool(each["error"]) for each in self.candidates),
            "searches": [
                {"entrant": each.entrant, "program": each.program, "verdict": each.verdict.sentence}
                for each in self.searches
            ],
        }

    def __str__(self) -> str:
        lines = [self.entrant] + ([self.program] if self.program != self.entrant else []) + [self.verdict.sentence]
        return "\n".join(lines + ([self.generator] if self.generator else []))


def search(
    template: str | type,
    *,
    space: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    generator: str | None = None,
    links: Sequence[str] = Plan.links,
    beside: Sequence[str] = Plan.beside,
    weights: Mapping[str, float] | None = None,
    candidates: int = Plan.candidates,
    population: int = Plan.population,
    rungs: int = Plan.rungs,
    seeds: int = Plan.seeds,
    duration_s: float = Plan.duration_s,
    test_links: Sequence[str] = Plan.test_links,
    test_seeds: int = Plan.test_seeds,
    seed: int = Plan.seed,
    repeat: int = Plan.repeat,
    workers: int | None = None,
    silence_s: float = Plan.silence_s,
    limit_s: float = Plan.limit_s,
    memory_mb: float = Plan.memory_mb,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Progress | None = None,
) -> Found:
    """Searches for a better controller than the template, and compares the best with it on links that it never saw.

    Arguments:
        template: an entrant whose parameters have ranges (`copa@delta=0.05:2`), a spec with an action, for which a rule
            is searched (`window.yaml=0`), or a class of a file with marked holes (docs/search.md).
        space: parameters with their values or ranges, as `ccarena tune` takes them: a YAML file, or its content.
        generator: command of a process that prints candidates, in place of evolution.
        links: links of the search: those of `ccarena compete`, scenario files, or link sets of `ccarena eval`.
        beside: competitors. Candidates then run alone and beside them on each link.
        weights: weights of figures (docs/figures.md) in a run's score; None takes the leaderboard's score.
        candidates: how many are tried.
        population: candidates of a generation, or of a batch.
        rungs: stages of successive halving; each one costs three times the one before, and a third comes to it.
        seeds: repetitions of each link on the last rung.
        duration_s: length of a run on the last rung, s.
        test_links: unseen links, of the same kinds as `links`.
        test_seeds: repetitions of each unseen link.
        seed: seed of the search; the same one gives the same result with any number of workers.
        repeat: number of searches, with the seeds `seed`, `seed + 1`, ..., and one verdict on all.
        workers: runs at once: all cores if None.
        silence_s: longest time for which a generator may print nothing.
        limit_s: processor time of one run of a Python class, s.
        memory_mb: memory that a Python class may take, MB.
        out: folder of the search, which keeps everything; None keeps nothing.
        resume: go on with the search in `out`, whose arguments must be these.
        progress: whether to show a progress bar on stderr (None: on a terminal), or a function that is called with the
            numbers of candidates done and of all.

    Raises ConfigError, PolicyError or TraceError before anything runs.
    """
    if not isinstance(template, (str, type)):
        raise ConfigError(f"template: found {type(template).__name__}; expected an entrant's text or a class")
    for name, value in (("links", links), ("beside", beside), ("test_links", test_links)):
        if isinstance(value, str):
            raise ConfigError(f'{name} = "{value}": expected a list; write ["{value}"]')
    plan = Plan(
        template if isinstance(template, str) else template.__name__,
        read_space(space),
        generator or "",
        tuple(links),
        tuple(beside),
        dict(weights or {}),
        candidates,
        population,
        rungs,
        seeds,
        duration_s,
        tuple(test_links),
        test_seeds,
        seed,
        repeat,
        silence_s,
        limit_s,
        memory_mb,
    )
    with ExitStack() as stack:
        folder = stack.enter_context(scratch()) if out is None else Path(out)
        bar: Progress | None = progress if callable(progress) else None
        if progress is True or (progress is None and sys.stderr.isatty()):
            bar = stack.enter_context(progress_bar("searching", "candidates"))
        return carry_out(plan, template, folder, workers, bar, resume or out is None)


def carry_out(
    plan: Plan,
    template: str | type,
    folder: Path,
    workers: int | None = None,
    progress: Progress | None = None,
    resume: bool = False,
) -> Found:
    """Carries out a plan in `folder`, or goes on with it there.

    Raises what `search` does. After Ctrl-C, KeyboardInterrupt says how to go on.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}: expected at least 1")
    with ExitStack() as stack:
        prepared = prepare(plan, template, stack)
        check_writable(folder)
        if (folder / PLAN).exists():
            if not resume:
                raise ConfigError(f"{folder}: holds a search already; go on with it (--resume), or name another folder")
            if read_plan(folder) != plan:
                raise ConfigError(f"{folder}: holds a search with other arguments; give these, or name another folder")
        many = workers or usable_cores()
        if plan.repeat == 1:
            done = run_search(prepared, folder, many, progress)
            return _written(folder, _found(folder, done), done, plan)
        plan.write(folder)
        finished: list[Finished] = []
        for number in range(plan.repeat):
            each = replace(prepared, plan=plan.of_seed(plan.seed + number))
            place = folder / f"seed-{each.plan.seed}"
            finished.append(run_search(each, place, many, _part(progress, number, plan)))
            _written(place, _found(place, finished[-1]), finished[-1], each.plan)
        searches = [_found(folder / f"seed-{each.prepared.plan.seed}", each) for each in finished]
        # The best on the links of the search: unseen links choose nothing.
        chosen = max(range(plan.repeat), key=lambda index: (finished[index].best.rung, finished[index].best.score))
        verdict = together([each.verdict for each in finished], plan)
        found = replace(searches[chosen], verdict=verdict, searches=tuple(searches))
        return _written(folder, found, finished[chosen], plan)


def _part(progress: Progress | None, number: int, plan: Plan) -> Progress | None:
    if progress is None:
        return None
    call: Callable[[int, int], None] = progress
    return lambda done, total: call(number * total + done, plan.repeat * total)


def _found(folder: Path, done: Finished) -> Found:
    program, file = done.best.program, folder / f"{BEST}{LANGUAGES[done.best.program.lang]}"
    if program.lang == "entrant":
        entrant = done.entrant.text
    else:
        entrant = f"{file}:{done.entrant.scheme}" if program.lang == "python" else str(file)
        if program.lang == "python" and program.params:
            entrant += "@" + ",".join(f"{name}={value:.10g}" for name, value in program.params.items())
    rows = [
        {
            "candidate": each.number,
            "name": each.name,
            "rung": each.rung,
            "score": each.score if math.isfinite(each.score) else None,
            "error": each.error,
            "program": each.program.said,
            "links": each.scores,
        }
        for each in done.candidates
    ]
    return Found(entrant, program.said, done.verdict, rows, done.ended)


def _written(folder: Path, found: Found, done: Finished, plan: Plan) -> Found:
    """Writes summary, page and the best candidate's file."""
    lang = done.best.program.lang
    if lang != "entrant":
        source = Path(done.entrant.text.rpartition(":")[0] if lang == "python" else done.entrant.text.strip('"'))
        shutil.copyfile(source, folder / f"{BEST}{LANGUAGES[lang]}")
        found = replace(found, entrant=found.entrant.replace(str(source.parents[1]), str(folder), 1))
    data = {**found.as_dict(), "plan": plan.as_dict(), "notes": list(done.prepared.notes)}
    write_atomically(folder / SUMMARY, json.dumps(plain(data), indent=1) + "\n")
    searches = [(each.program, each.verdict) for each in found.searches]
    page.write(folder / PAGE, found.verdict, done, searches, plan.command())
    return found
