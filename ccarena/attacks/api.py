"""Function `ccarena.attack`: an attack on an entrant, its folder, and the replay of finds."""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ccarena import __version__
from ccarena.attacks import page
from ccarena.attacks.archive import Archive
from ccarena.attacks.case import ITSELF, NOBODY
from ccarena.attacks.finds import Find, read_finds, write_finds
from ccarena.attacks.harms import HARMS, Harm, chosen
from ccarena.attacks.search import Tried, search
from ccarena.attacks.space import Space, changes_of, read_space
from ccarena.attacks.trial import SEED, Outcome, Trials
from ccarena.core.files import check_writable, scratch, write_atomically
from ccarena.core.machine import usable_cores
from ccarena.core.reader import read_data
from ccarena.core.seeds import MOST_SEED
from ccarena.core.terminal import Progress, again, progress_bar
from ccarena.errors import ConfigError
from ccarena.runs.journal import Journal
from ccarena.scenarios.backends import SIM, check_runs
from ccarena.scenarios.entrants import Entrant, EntrantLike, parse, read

__all__ = ["CASES", "PAGE", "PLAN", "Attacked", "Plan", "attack", "carry_out", "read_plan", "replay"]

PLAN, CASES, PAGE = "plan.yaml", "cases.csv", "page.html"
"""Files of an attack: its arguments, every case with its harms, and the page."""


PROGRAM = ("identity", "version")
"""Keys of a plan's file beside its arguments: content of the entrant's files, and the version of ccarena."""


@dataclass(frozen=True)
class Plan:
    """Arguments of an attack: with the same ones it finds the same."""

    entrant: str
    harms: Sequence[str] = ()
    """Names of harms; all if empty."""
    space: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the default space."""
    candidates: int = 2000
    finds: int = 6
    """Most finds of each harm."""
    seeds: int = 5
    """Other seeds of a find's replay."""
    seed: int = 1

    def check(self) -> None:
        """Raises ConfigError for numbers that make no attack."""
        for name, least, most in (
            ("candidates", 1, 10**7),
            ("finds", 1, 100),
            ("seeds", 0, 1000),
            ("seed", 0, MOST_SEED),
        ):
            if type(value := getattr(self, name)) is not int or not least <= value <= most:
                raise ConfigError(f"{name} = {value!r}: expected a whole number, {least} to {most:,}")
        chosen(self.harms)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {**asdict(self), "harms": list(self.harms)}


@dataclass(frozen=True)
class Attacked:
    """Result of an attack or a replay."""

    entrant: str
    finds: Sequence[Find]
    """Counterexamples, by harm, the worst first."""
    tried: int = 0
    """Cases of the search."""

    def __str__(self) -> str:
        if not self.finds:
            return f"{self.entrant}: no counterexample in {self.tried} cases"
        lines = [each.describe() for each in self.finds]
        return "\n".join([f"{self.entrant}: {len(self.finds)} counterexamples in {self.tried} cases", *lines])


def attack(
    entrant: EntrantLike,
    *,
    harms: Sequence[str] = Plan.harms,
    space: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    candidates: int = Plan.candidates,
    finds: int = Plan.finds,
    seeds: int = Plan.seeds,
    seed: int = Plan.seed,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Progress | None = None,
) -> Attacked:
    """Searches the links on which an entrant does worst, simplifies them and replays them with other seeds.

    Arguments:
        entrant: an entrant that the simulator runs (docs/entrants.md), or a class.
        harms: names of harms (docs/attack.md); all if empty.
        space: parameters and shapes with their limits, as a YAML file or its content; keys that it lacks are those of
            the default space.
        candidates: how many cases the search tries.
        finds: most finds of each harm.
        seeds: how many other seeds each find is replayed with.
        seed: seed of the search; the same one gives the same result with any number of workers.
        workers: runs at once: all cores if None.
        out: folder of the attack, which keeps everything; None keeps nothing.
        resume: go on with the attack in `out`, whose arguments must be these.
        progress: whether to show a progress bar on stderr (None: on a terminal), or a function that is called with the
            numbers of cases done and of all.

    Raises ConfigError or PolicyError before anything runs. After Ctrl-C the finds so far are written.
    """
    if isinstance(harms, str):
        raise ConfigError(f'harms = "{harms}": expected a list; write ["{harms}"]')
    with ExitStack() as stack:
        who = read(entrant, stack)
        changes = changes_of(space)
        plan = Plan(who.text or who.label, tuple(harms), changes, candidates, finds, seeds, seed)
        folder = stack.enter_context(scratch()) if out is None else Path(out)
        bar: Progress | None = progress if callable(progress) else None
        if progress is True or (progress is None and sys.stderr.isatty()):
            bar = stack.enter_context(progress_bar(f"attacking {who.label}", "cases"))
        return carry_out(plan, who, folder, workers, bar, resume or out is None)


def carry_out(
    plan: Plan,
    entrant: Entrant,
    folder: Path,
    workers: int | None = None,
    progress: Progress | None = None,
    resume: bool = False,
    command: str = "",
    show: Callable[[Attacked], None] | None = None,
) -> Attacked:
    """Carries out a plan in `folder`, or goes on with it there. Raises what `attack` does.

    `show`: called with the result before it is written, so that a full disk loses no figures.
    """
    plan.check()
    _check_workers(workers)
    check_runs(SIM, [entrant])
    space, harms = read_space(plan.space), chosen(plan.harms)
    check_competitions(space, harms, bool(plan.harms))
    harms = {name: harm for name, harm in harms.items() if harm.competition in (None, *space.competitions())}
    check_writable(folder)
    if (folder / PLAN).exists():
        if not resume:
            raise ConfigError(f"{folder}: holds an attack already; go on with it (--resume), or name another folder")
        if read_plan(folder) != plan:
            raise ConfigError(f"{folder}: holds an attack with other arguments; give these, or name another folder")
        if any(read_data(folder / PLAN)[name] != value for name, value in _program(entrant).items()):
            raise ConfigError(f"{folder}: the entrant or ccarena has changed since; name another folder")
    kept = {**plan.as_dict(), **_program(entrant)}
    write_atomically(folder / PLAN, yaml.safe_dump(kept, sort_keys=False, width=110))
    with Journal(folder, "ccarena attack") as journal:
        trials = Trials(journal, entrant, workers or usable_cores())
        archive = Archive(space, harms)
        try:
            tried = search(space, harms, trials, archive, plan.candidates, plan.seed, progress)
            found = _simplified(archive, trials, plan)
        except KeyboardInterrupt:
            found = _numbered(_as_found(archive, plan))
            write_finds(folder, entrant, found)
            raise KeyboardInterrupt(
                f"interrupted; {len(found)} counterexamples so far are in {folder}, not simplified; {again()}"
            ) from None
        attacked = Attacked(entrant.label, found, len(tried))
        if show is not None:
            show(attacked)
        write_finds(folder, entrant, found)
        write_atomically(folder / CASES, _table(tried))
        page.write(folder / PAGE, entrant, found, tried, harms, [command] if command else [])
        journal.settle(sorted(journal.rows))
    return attacked


def read_plan(out: Path) -> Plan:
    """Reads the plan of the attack in `out`. Raises ConfigError if there is none."""
    try:
        data = read_data(out / PLAN)
    except OSError as error:
        raise ConfigError(f"{out}: holds no attack ({PLAN}: {error.strerror}); start one without --resume") from error
    names = set(Plan.__dataclass_fields__)
    whole = isinstance(data, Mapping) and set(data) == names | set(PROGRAM)
    if not whole or not isinstance(data["harms"], list) or not isinstance(data["space"], Mapping):
        raise ConfigError(f"{out / PLAN}: is no plan of `ccarena attack`; name another folder")
    if not isinstance(data["entrant"], str) or not all(isinstance(each, str) for each in data["harms"]):
        raise ConfigError(f"{out / PLAN}: entrant and harms: expected texts; name another folder")
    given: dict[str, Any] = {name: data[name] for name in names}
    return Plan(**{**given, "harms": tuple(data["harms"])})


def _program(entrant: Entrant) -> dict[str, str]:
    """Returns what ran, in which results of two attacks that go together agree."""
    return dict(zip(PROGRAM, (entrant.identity, __version__), strict=True))


def replay(
    where: str | os.PathLike[str],
    entrant: EntrantLike | None = None,
    *,
    backend: str = SIM,
    seeds: int = 0,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> Attacked:
    """Runs the finds of an attack again: the folder or the list `where`, on a backend, with `seeds` other seeds than
    the search's; with that one if 0.

    `entrant`: who is tried; None tries the one that was attacked. Each find of the result has the value and share of
    seeds of now; it holds if its value reaches the threshold. `say` is told how long runs in real time take, and
    `progress` the numbers of cases done and of all. Raises ConfigError before anything runs. After Ctrl-C the error
    has the finds that are judged.
    """
    Plan("", seeds=seeds).check()
    _check_workers(workers)
    text, finds = read_finds(where)
    with ExitStack() as stack:
        who = parse(text) if entrant is None else read(entrant, stack)
        check_runs(
            backend, [who, *(parse(each.case.values["beside"]) for each in finds if each.case.competition == "others")]
        )
        folder = stack.enter_context(scratch())
        with Journal(folder, "ccarena attack") as journal:
            trials = Trials(journal, who, workers or usable_cores(), backend)
            cases = [[(find.case, seed) for seed in _seeds(seeds)] for find in finds]
            if say is not None and (needed := trials.time_needed([case for each in cases for case, _ in each])):
                say(needed)
            try:
                trials.run([each for seeded in cases for each in seeded], progress)
            except KeyboardInterrupt:
                done = [
                    _judged(find, trials.run(each)) for find, each in zip(finds, cases, strict=True) if trials.has(each)
                ]
                lines = [f"{find.describe()}: {'holds' if find.holds else 'gone'}" for find in done]
                raise KeyboardInterrupt(
                    "\n".join([f"interrupted; {len(done)} of {len(finds)} finds are judged", *lines])
                ) from None
            done = [_judged(find, trials.run(each)) for find, each in zip(finds, cases, strict=True)]
    return Attacked(who.label, done, len(finds))


def _check_workers(workers: int | None) -> None:
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}: expected at least 1")


def check_competitions(space: Space, harms: Mapping[str, Harm], named: bool) -> None:
    """Raises ConfigError for a competitor that is no entrant, or a named harm that no case of the space can have."""
    found = space.competitions()
    for text in found.get("others", ()):
        try:
            check_runs(SIM, [parse(text)])
        except ConfigError as error:
            raise ConfigError(f"parameters.beside: {error}") from error
    words = {"alone": NOBODY, "itself": ITSELF, "others": "an entrant, such as cubic"}
    for name, harm in harms.items():
        if named and harm.competition is not None and harm.competition not in found:
            raise ConfigError(
                f"harm {name}: the space has no case of it; add {words[harm.competition]} to parameters.beside"
            )


def _seeds(others: int) -> range:
    """Returns the seeds of a replay. The search chose a case by its own seed, which therefore proves little."""
    return range(SEED + 1, SEED + 1 + others) if others else range(SEED, SEED + 1)


def _judged(find: Find, outcomes: Sequence[Outcome]) -> Find:
    values = [each.value(find.harm) for each in outcomes]
    share = sum(value >= find.threshold for value in values) / len(values)
    error = next((each.error for each in outcomes if each.error), "")
    return replace(find, value=statistics.median(values), share=share, seeds=len(values), error=error)


def _as_found(archive: Archive, plan: Plan) -> list[Find]:
    """Returns the counterexamples of an archive as they were found."""
    finds = []
    for elite in archive.counterexamples(plan.finds):
        threshold = archive.harms[elite.harm].threshold
        value = elite.severity * threshold
        finds.append(Find(0, elite.harm, value, threshold, elite.kind, 1.0, 1, elite.case, simplified=False))
    return finds


def _simplified(archive: Archive, trials: Trials, plan: Plan) -> list[Find]:
    """Returns the counterexamples, simplified and replayed with other seeds; one of each harm and kind of link."""
    plain = archive.space.plain
    found = _as_found(archive, plan)
    done = trials.simplified([(each.case, each.value, each.harm) for each in found], plain)
    simple = [
        replace(find, case=case, value=value, kind=case.mechanism(plain), simplified=True)
        for find, (case, value) in zip(found, done, strict=True)
    ]
    outcomes = iter(trials.run([(each.case, seed) for each in simple for seed in _seeds(plan.seeds)]))
    judged = [_judged(each, [next(outcomes) for _ in _seeds(plan.seeds)]) for each in simple]
    best: dict[tuple[str, str], Find] = {}
    for find in judged:
        before = best.get((find.harm, find.kind))
        if find.holds and (before is None or find.value * find.share > before.value * before.share):
            best[find.harm, find.kind] = find
    return _numbered(list(best.values()))


def _numbered(finds: Sequence[Find]) -> list[Find]:
    """Returns finds by harm, the worst first, with their numbers."""
    names = list(HARMS)
    ordered = sorted(finds, key=lambda each: (names.index(each.harm), -each.share * each.value, each.kind))
    return [replace(find, number=number) for number, find in enumerate(ordered, start=1)]


def _table(tried: Sequence[Tried]) -> str:
    """Returns a row per case as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", "source", *HARMS, "error", "link"])
    for each in tried:
        values = [f"{each.outcome.harms[name]:.6g}" if name in each.outcome.harms else "" for name in HARMS]
        writer.writerow([each.number, each.source, *values, each.outcome.error, json.dumps(each.case.as_dict())])
    return text.getvalue()
