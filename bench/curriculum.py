"""`python -m bench.curriculum`: measures what training against attacks changes on a policy's worst links.

ACCT is trained with and without attacks (`env.link.attack`), once per seed, for as many decisions. Both, the best
constant action and the base alone run over the same links, which no training and no attack has seen:

- **ordinary**: links of the training's distribution, from another seed;
- **hostile**: random links of the space that attacks search.

A score is `known_power`, the power over that of the link's capacity at its base RTT. Finished trainings are kept in
`--out`. The figures go to docs/measurements.json; `make measurements` writes them into the pages.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.attacks.case import scenario
from ccarena.attacks.space import read_space
from ccarena.configs import TrainConfig, load_config
from ccarena.core import measurements
from ccarena.core.files import write_atomically
from ccarena.core.measurements import Entry, Source
from ccarena.envs.trials import Candidate, Trials
from ccarena.errors import CcarenaError
from ccarena.eval.heldout.gain import RESAMPLES
from ccarena.eval.heldout.rules import SEED as TUNED_ON
from ccarena.policies.spec import spec_of
from ccarena.runs.run_folder import POLICY
from ccarena.scenarios.entrants import parse

CONFIG = "acct"
TESTED_ON = 0x4355_5252
"""Seed of the tested links. Training draws from its own seed, tuning from `TUNED_ON`."""
DECISIONS = 500_000
TUNING_LINKS = 100
SPACE: Mapping[str, Any] = {"duration_s": 12, "parameters": {"beside": ["nobody"], "application": ["bulk"]}}
KINDS = {"constant": 8, "random_steps": 8, "cellular": 2, "trace": 0}
ATTACK = {"every_decisions": 100_000, "candidates": 120, "each": 8, "finds": 24, "harms": ["regret"], "space": SPACE}
SHARED = {"env.link.kinds": KINDS, "eval.link_sets": [], "validation.kinds": []}
ARMS: Mapping[str, Mapping[str, Any]] = {
    "without": SHARED,
    "with": {**SHARED, "env.link.kinds": {**KINDS, "adversarial": 4.5}, "env.link.attack": ATTACK},
}
"""Changes to the configuration of each arm; attacks' finds are a fifth of the episodes."""
TABLE = "ACCT trained against attacks: known_power on links that no training has seen"
Scores = NDArray[np.float64]


def train(arm: str, seed: int, decisions: int, threads: int, out: Path) -> Path:
    """Trains one arm with this seed, unless that is done, and returns the policy's file."""
    from ccarena.agents.api import train as learn

    folder = out / f"{arm}-{seed}"
    if not (folder / POLICY).is_file():
        overrides = {**ARMS[arm], "seed": seed, "total_decisions": decisions, "threads": threads}
        learn(CONFIG, overrides, out=folder, resume=folder.is_dir())
    return folder / POLICY


def tested(links: int, out: Path) -> dict[str, TrainConfig]:
    """Returns a configuration for each group of links."""
    space, rng, files = read_space(dict(SPACE)), np.random.default_rng(TESTED_ON), []
    entrant = parse("cubic")
    for number in range(links):
        file = out / "hostile" / f"{number:04}.yaml"
        case = space.case(rng.random(space.size), "alone")
        write_atomically(file, json.dumps(scenario(case, entrant)))
        files.append(str(file))
    scored = {"objective": {"name": "known_power"}, **SHARED}
    none = dict.fromkeys(KINDS, 0)
    hostile = {"env.link.kinds": {**none, "adversarial": 1}, "env.link.adversarial": files}
    return {"ordinary": load_config(CONFIG, scored), "hostile": load_config(CONFIG, {**scored, **hostile})}


def scores(config: TrainConfig, policies: Mapping[str, Path], links: int, threads: int) -> dict[str, Scores]:
    """Returns the scores `[links]` of each policy, of the best constant action and of the base alone."""
    spec = spec_of(config)
    trials = Trials(config, spec, threads)
    constants = [Candidate(index) for index in range(0, len(spec.actions), 2)]
    tuned = trials.run(constants, TUNED_ON, TUNING_LINKS)
    best = constants[int(np.argmax([done.score for done in tuned]))]
    deciders = {name: Candidate(file.read_bytes()) for name, file in policies.items()}
    deciders |= {"best constant": best, "base alone": Candidate(None)}
    done = trials.run(list(deciders.values()), TESTED_ON, links)
    return {name: each.by_trial for name, each in zip(deciders, done, strict=True)}


def worst_decile(each: Scores) -> float:
    """Returns the mean of the worst tenth of the links, each link's score being the mean over trainings."""
    by_link = np.sort(each.mean(axis=0))
    return float(by_link[: max(1, len(by_link) // 10)].mean())


def mean(each: Scores) -> float:
    """Returns the mean over trainings and links."""
    return float(each.mean())


FIGURES: Mapping[str, Callable[[Scores], float]] = {"mean": mean, "worst decile": worst_decile}


def interval(of: Callable[[Scores], float], ours: Scores, theirs: Scores | None = None) -> str:
    """Returns a figure of scores `[trainings, links]`, or its gain over other ones, with the interval (95 %) of a
    bootstrap over trainings and links.
    """

    def value(rows: NDArray[np.intp], others: NDArray[np.intp], links: NDArray[np.intp]) -> float:
        own = of(ours[np.ix_(rows, links)])
        return own if theirs is None else own - of(theirs[np.ix_(others, links)])

    rng, (count, links) = np.random.Generator(np.random.PCG64(0)), ours.shape
    other = count if theirs is None else len(theirs)
    drawn = [value(*(rng.integers(0, n, n) for n in (count, other, links))) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    whole = value(np.arange(count), np.arange(other), np.arange(links))
    sign = "" if theirs is None else "+"
    return f"{whole:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]".replace("-", "−")


def entries(group: str, found: Mapping[str, Scores], source: Source) -> list[Entry]:
    """Returns the figures of a group of links for docs/measurements.json."""
    arms = {arm: np.stack([each for name, each in found.items() if name.startswith(f"{arm}-")]) for arm in ARMS}
    cells = {}
    for name, of in FIGURES.items():
        cells[f"{name}: with attacks"] = interval(of, arms["with"])
        cells[f"{name}: without"] = interval(of, arms["without"])
        cells[f"{name}: gain"] = interval(of, arms["with"], arms["without"])
        cells[f"{name}: best constant"] = interval(of, found["best constant"][None])
        cells[f"{name}: base alone"] = interval(of, found["base alone"][None])
    key = "learned/acct/against-attacks"
    return [
        Entry(f"{key}/{group}/{case.replace(': ', '/').replace(' ', '-')}", "learned", case, value, source, "", None,
              None, TABLE, f"{group} links")
        for case, value in cells.items()
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, tests and records. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.curriculum", description="Measure what training against attacks changes."
    )
    parser.add_argument("--links", type=int, default=300, help="tested links of a group (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of an arm (%(default)s)")
    parser.add_argument("--decisions", type=int, default=DECISIONS, help="length of a training (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs", "curriculum"), help="kept parts (%(default)s)")
    parser.add_argument("--record", type=Path, default=measurements.FILE, metavar="FILE", help="(%(default)s)")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="the day that is recorded (today)")
    args = parser.parse_args(arguments)
    source = measurements.source("make curriculum", args.date)
    try:
        policies = {
            f"{arm}-{seed}": train(arm, seed, args.decisions, args.threads, args.out)
            for seed in range(1, args.seeds + 1)
            for arm in ARMS
        }
        for group, config in tested(args.links, args.out).items():
            found = entries(group, scores(config, policies, args.links, args.threads), source)
            measurements.merge(args.record, found)
            print(f"{group}\n" + "\n".join(f"  {entry.what:<32}{entry.value}" for entry in found), flush=True)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
