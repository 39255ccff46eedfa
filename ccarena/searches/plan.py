"""Plan of a search: its arguments, and the rungs that follow from them."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from ccarena.core.dimensions import dimensions_of
from ccarena.core.files import write_atomically
from ccarena.core.reader import read_data
from ccarena.core.seeds import MOST_SEED
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.heldout.links import MOST_SEEDS
from ccarena.eval.measure.table import FIGURES
from ccarena.tune.halving import REDUCTION

__all__ = ["LINKS", "PLAN", "TEST_LINKS", "Plan", "Rung", "read_plan", "read_space"]

PLAN, SPACE = "plan.yaml", "space.yaml"
"""Files of the arguments, and of a space."""
LINKS = (
    "6mbps,80ms,1bdp",
    "lte-walking,40ms,packets=200",
    "48mbps,15ms,1bdp",
    "12mbps,30ms,2bdp",
    "lte-bus,60ms,packets=300",
    "80mbps,40ms,0.5bdp",
    "24mbps,50ms,1bdp",
    "lte-stationary,40ms,packets=100",
)
"""Links of a search by default. No preset among them was fitted to a held-out recording."""
TEST_LINKS = ("constant", "steps", "cellular")
"""Unseen links by default, link sets of `ccarena eval`."""
SHORTEST_S = 2.0
"""Shortest run of a rung."""


@dataclass(frozen=True)
class Rung:
    """Effort for a candidate that has come so far."""

    links: float
    """Share of the links."""
    seeds: int
    duration_s: float


@dataclass(frozen=True)
class Plan:
    """Arguments of a search: with the same ones it tries the same candidates."""

    template: str
    space: Mapping[str, Any] = field(default_factory=dict)
    generator: str = ""
    links: Sequence[str] = LINKS
    beside: Sequence[str] = ()
    """Competitors."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of figures in the score; if empty, the leaderboard's score."""
    candidates: int = 480
    population: int = 24
    rungs: int = 3
    seeds: int = 1
    duration_s: float = 15.0
    test_links: Sequence[str] = TEST_LINKS
    test_seeds: int = 5
    seed: int = 1
    repeat: int = 1
    silence_s: float = 600.0
    limit_s: float = 30.0
    memory_mb: float = 1000.0

    def check(self) -> None:
        """Raises ConfigError for numbers that make no search."""
        for name, least, most in (
            ("candidates", 1, 10**7),
            ("population", 1, 10**5),
            ("rungs", 1, 8),
            ("seeds", 1, MOST_SEEDS),
            ("test_seeds", 1, MOST_SEEDS),
            ("repeat", 1, 1000),
            ("seed", 0, MOST_SEED),
        ):
            if not isinstance(value := getattr(self, name), int) or not least <= value <= most:
                raise ConfigError(f"{name} = {value!r}: expected a whole number, {least} to {most:,}")
        for name in ("duration_s", "silence_s", "limit_s", "memory_mb"):
            if not isinstance(value := getattr(self, name), (int, float)) or not 0 < value < 1e6:
                raise ConfigError(f"{name} = {value!r}: expected a number above 0, below a million")
        if self.duration_s < SHORTEST_S:
            raise ConfigError(f"duration_s = {self.duration_s:g}: expected at least {SHORTEST_S:g} s")
        if not self.links:
            raise ConfigError("links: there are none; name one at least, such as 48mbps,20ms,1bdp")
        if not self.test_links:
            raise ConfigError("test_links: there are none; name links for the comparison, such as constant")
        needed = REDUCTION ** (self.rungs - 1)
        if self.candidates < needed:
            fewer = 1 + int(math.log(self.candidates, REDUCTION))
            raise ConfigError(
                f"candidates = {self.candidates}: {self.rungs} rungs need {needed} at least, of which one comes to the "
                f"last; try more candidates, or rungs = {fewer}"
            )
        for name, weight in self.weights.items():
            if name not in FIGURES or FIGURES[name].function is None:
                raise ConfigError(f'weights: unknown figure "{name}"{did_you_mean(name, FIGURES)}')
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
                raise ConfigError(f"weights: {name} = {weight!r}: expected a number")

    def rungs_of(self) -> list[Rung]:
        """Returns the rungs. Each one before the last costs a third of the next: first of the seeds, then of links and
        time alike.
        """
        out = []
        for rung in range(self.rungs):
            share = float(REDUCTION) ** (rung + 1 - self.rungs)
            seeds = max(1, math.floor(self.seeds * share))
            rest = math.sqrt(share * self.seeds / seeds)
            out.append(Rung(rest, seeds, max(SHORTEST_S, float(f"{self.duration_s * rest:.3g}"))))
        return out

    def of_seed(self, seed: int) -> Plan:
        """Returns the plan of one of repeated searches."""
        return replace(self, seed=seed, repeat=1)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def command(self) -> str:
        """Returns the command of the search, without its folder; a space is the file `SPACE` there."""
        words = ["ccarena", "search", self.template]
        for each in fields(self):
            value, option = getattr(self, each.name), f"--{each.name.replace('_', '-')}"
            if each.name in ("template", "space") or value == getattr(Plan, each.name, None) or value in ({}, ()):
                continue
            if each.name in ("links", "test_links", "beside"):
                words += [word for one in value for word in (option.removesuffix("s"), one)]
            elif isinstance(value, Mapping):
                words += [option, ",".join(f"{name}={number:g}" for name, number in value.items())]
            else:
                words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join([*words, "--space", SPACE] if self.space else words)

    def write(self, folder: Path) -> None:
        """Writes the plan and its space to a search's folder. Raises ConfigError."""
        if self.space:
            space = yaml.safe_dump(dict(self.space), sort_keys=False, default_flow_style=None, width=100)
            write_atomically(folder / SPACE, space)
        write_atomically(folder / PLAN, self.dump())

    def dump(self) -> str:
        """Returns the plan as YAML."""
        return yaml.safe_dump(self.as_dict(), sort_keys=False, default_flow_style=None, width=100)


def read_space(given: str | os.PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the content of a space: of a YAML file, or as it is. Raises ConfigError for something else."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    dimensions_of(Path(given))
    return dict(read_data(given))


def read_plan(out: Path) -> Plan:
    """Reads the plan of the search in `out`. Raises ConfigError if there is none."""
    try:
        data = read_data(out / PLAN)
    except OSError as error:
        raise ConfigError(f"{out}: holds no search ({PLAN}: {error.strerror}); start one without --resume") from error
    if not isinstance(data, Mapping) or set(data) != {each.name for each in fields(Plan)}:
        raise ConfigError(f"{out / PLAN}: is no plan of `ccarena search`; name another folder")
    try:
        given: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in data.items()}
        plan = Plan(**given)
        plan.check()
    except TypeError as error:
        raise ConfigError(f"{out / PLAN}: is damaged: {error}; start anew in another folder") from error
    return plan
