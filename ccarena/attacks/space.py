"""Space of an attack: the parameters and shapes of links, each with its limits.

A space is a YAML file (`space.yaml` here is the default). A point of it is a vector of shares between 0 and 1, the
genes of a case. Parameters that disturb a link, and shapes, have their plain value in the first part of their gene, so
that many cases have few disturbances.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.attacks.case import APPLICATIONS, ITSELF, NOBODY, Case, Competition, Steps
from ccarena.core.dimensions import Dimension, dimensions_of
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, did_you_mean, excerpt

__all__ = ["DEFAULT", "Genes", "Parameter", "Shape", "Space", "changes_of", "number_of", "read_case", "read_space"]

DEFAULT = Path(__file__).with_name("space.yaml")
"""Default space of an attack."""
PLAIN_PART = 2 / 3
"""Part of a disturbance's gene that stands for its plain value."""
DIGITS = 3
"""Significant digits of values: a scenario is read by people."""
KEYS = ("duration_s", "parameters", "shapes", "plain")
DURATION_S = (2.0, 600.0)
BOUNDS: Mapping[str, tuple[float, float]] = {
    "rate_mbps": (0.05, 1000.0),
    "rtt_ms": (1.0, 2000.0),
    "buffer_bdp": (0.01, 100.0),
    "loss": (0.0, 0.5),
    "jitter_ms": (0.0, 1000.0),
    "competitors": (1.0, 100.0),
    "late_s": (0.0, 100.0),
}
"""Least and greatest value of each parameter that is a number."""
WHOLE = ("competitors",)
"""Parameters that are whole numbers."""
CHOICES = ("queue", "application", "beside")
"""Parameters that are words."""
SHAPES: Mapping[str, tuple[float, float, float]] = {
    "capacity": (0.001, 1.0, 1.0),
    "delay_ms": (0.0, 2000.0, 0.0),
    "loss": (0.0, 1.0, 0.0),
}
"""Least and greatest level of each shape, and the level before its first step. Levels of the capacity are shares of
`rate_mbps`; those of the delay come on top of half of `rtt_ms`.
"""
MOST_STEPS = 50

Genes = NDArray[np.float64]


@dataclass(frozen=True)
class Parameter:
    """Parameter of a link: a range, or a choice."""

    name: str
    values: Dimension
    plain: Any
    """Value of an ordinary link."""

    @property
    def disturbs(self) -> bool:
        """Returns whether its plain value is the first one or the low end, and any other one a disturbance."""
        return bool(self.plain == self.values.values[0]) and len(self.values.values) > 1 and self.name != "beside"

    def at(self, share: float) -> Any:
        """Returns the value at a share of its gene."""
        if self.disturbs:
            if share < PLAIN_PART:
                return self.plain
            share = (share - PLAIN_PART) / (1 - PLAIN_PART)
            if self.values.kind == "choice":
                return _chosen(self.values.values[1:], share)
        return _at(self.values, share)


@dataclass(frozen=True)
class Shape:
    """Steps of a quantity over time, within limits of power."""

    name: str
    fewest: int
    most: int
    levels: Dimension
    change: float
    """Greatest change from one level to the next: a factor of the capacity, else a difference."""

    @property
    def size(self) -> int:
        """Returns the number of its genes: how many steps, and time and level of each."""
        return 1 + 2 * self.most if self.most else 0

    @property
    def start(self) -> float:
        """Returns the level before the first step."""
        return SHAPES[self.name][2]

    def at(self, shares: Sequence[float], duration_s: float) -> Steps:
        """Returns the steps at shares of its genes."""
        if not self.most:
            return ()
        first = 0.0 if self.fewest else PLAIN_PART
        if shares[0] < first:
            return ()
        least = max(self.fewest, 1)
        count = least + min(int((shares[0] - first) / (1 - first) * (self.most - least + 1)), self.most - least)
        times = sorted(_rounded(share * duration_s) for share in shares[1 : 1 + count])
        level, steps = self.start, {}
        for time, share in zip(times, shares[1 + self.most :], strict=False):
            level = _rounded(self._near(_at(self.levels, share), level))
            steps[max(time, 0.1)] = level
        return tuple(steps.items())

    def _near(self, level: float, before: float) -> float:
        """Returns the level that is nearest to `level` among those that the limit of change allows."""
        if self.name == "capacity":
            return min(max(level, before / self.change), before * self.change)
        return min(max(level, before - self.change), before + self.change)


@dataclass(frozen=True)
class Space:
    """Space of links."""

    duration_s: float
    parameters: Sequence[Parameter]
    shapes: Sequence[Shape]
    document: Mapping[str, Any] = field(compare=False)
    """Content of its file, every default filled in."""

    @property
    def size(self) -> int:
        """Returns the number of genes."""
        return len(self.parameters) + sum(shape.size for shape in self.shapes)

    @property
    def plain(self) -> dict[str, Any]:
        """Returns the plain value of each parameter."""
        return {each.name: each.plain for each in self.parameters}

    def competitions(self) -> dict[Competition, list[str]]:
        """Returns what may stand beside the entrant, by competition."""
        found: dict[Competition, list[str]] = {}
        for each in self._beside.values.values:
            competition: Competition = "alone" if each == NOBODY else "itself" if each == ITSELF else "others"
            found.setdefault(competition, []).append(each)
        return found

    def case(self, genes: Genes, competition: Competition | None = None, beside: str | None = None) -> Case:
        """Returns the case of a vector of genes; in a `competition` or `beside` someone, or in what its genes name."""
        shares = [float(share) for share in genes]
        values = {each.name: each.at(share) for each, share in zip(self.parameters, shares, strict=False)}
        if beside is not None:
            values["beside"] = beside
        elif competition is not None:
            share = shares[self.parameters.index(self._beside)]
            values["beside"] = _chosen(self.competitions()[competition], share)
        rest, shapes = shares[len(self.parameters) :], {}
        for shape in self.shapes:
            shapes[shape.name] = shape.at(rest[: shape.size], self.duration_s)
            rest = rest[shape.size :]
        return Case(self.duration_s, values, shapes).normal(self.plain)

    @property
    def _beside(self) -> Parameter:
        return next(each for each in self.parameters if each.name == "beside")


def read_space(given: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Space:
    """Reads a space: a YAML file or its content, whose keys replace those of the default. Raises ConfigError, which
    names the key, for a space without a limit.
    """
    where, own = "space" if given is None or isinstance(given, Mapping) else str(given), changes_of(given)
    _known(where, "key", own, KEYS)
    whole = dict(read_data(DEFAULT))
    for part in ("parameters", "shapes", "plain"):
        changed = own.get(part, {})
        if not isinstance(changed, Mapping):
            raise ConfigError(f"{where}: {part} = {excerpt(changed)}: expected a mapping")
        names = SHAPES if part == "shapes" else (*BOUNDS, *CHOICES)
        _known(where, f"key of {part}", changed, names)
        whole[part] = {**whole[part], **changed}
    duration_s = own.get("duration_s", whole["duration_s"])
    whole["duration_s"] = number_of(f"{where}: duration_s", duration_s, DURATION_S)
    parameters = [_parameter(where, name, given, whole["plain"]) for name, given in whole["parameters"].items()]
    shapes = [_shape(f"{where}: shapes.{name}", name, given) for name, given in whole["shapes"].items()]
    return Space(whole["duration_s"], parameters, shapes, whole)


def read_case(data: Any) -> Case:
    """Reads a case from plain data (`Case.as_dict`). Raises ConfigError, which names the key, for one that no space
    has.
    """
    if not isinstance(data, Mapping) or set(data) != {"duration_s", "values", "shapes"}:
        raise ConfigError(f"case = {excerpt(data)}: expected duration_s, values and shapes")
    number_of("case.duration_s", data["duration_s"], DURATION_S)
    values, shapes = data["values"], data["shapes"]
    if not isinstance(values, Mapping) or set(values) != {*BOUNDS, *CHOICES}:
        raise ConfigError(f"case.values = {excerpt(values)}: expected a value of {', '.join((*BOUNDS, *CHOICES))}")
    for name, value in values.items():
        if name in BOUNDS:
            number_of(f"case.values.{name}", value, BOUNDS[name])
        else:
            _word(f"case.values.{name}", name, value)
        if name in WHOLE and type(value) is not int:
            raise ConfigError(f"case.values.{name} = {value}: expected a whole number")
    if not isinstance(shapes, Mapping):
        raise ConfigError(f"case.shapes = {excerpt(shapes)}: expected a mapping of {', '.join(SHAPES)}")
    _known("case", "shape", shapes, SHAPES)
    for name, steps in shapes.items():
        _check_steps(f"case.shapes.{name}", name, steps)
    return Case.of(data)


def _check_steps(place: str, name: str, steps: Any) -> None:
    if not isinstance(steps, list) or len(steps) > MOST_STEPS:
        raise ConfigError(f"{place} = {excerpt(steps)}: expected a list of at most {MOST_STEPS} steps [TIME, LEVEL]")
    before = 0.0
    for step in steps:
        if not isinstance(step, list) or len(step) != 2:
            raise ConfigError(f"{place}: {excerpt(step)}: expected [TIME, LEVEL]")
        at = number_of(f"{place}: time", step[0], (0.0, DURATION_S[1]))
        number_of(f"{place}: level", step[1], SHAPES[name][:2])
        if at <= before:
            raise ConfigError(f"{place}: time {at:g} after {before:g}: expected times above 0 that increase")
        before = at


def changes_of(given: str | os.PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the content of a space: of a YAML file, or as it is. Raises ConfigError for something else."""
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    found = read_data(given, f"a space in YAML: a mapping of {', '.join(KEYS)}")
    if not isinstance(found, Mapping):
        raise ConfigError(f"{given}: expected a mapping of {', '.join(KEYS)}")
    return dict(found)


def _parameter(where: str, name: str, given: Any, plain: Mapping[str, Any]) -> Parameter:
    place = f"{where}: parameters.{name}"
    if given is None or given == {}:
        raise ConfigError(
            f"{place}: has no limit; give a value, a list of values, or a range such as {{uniform: [0, 1]}}"
        )
    single = isinstance(given, (str, int, float)) and not isinstance(given, bool)
    values = dimensions_of({f"parameters.{name}": [given] if single else given})[f"parameters.{name}"]
    if name in CHOICES:
        if values.kind != "choice":
            raise ConfigError(f"{place}: {values.kind}: expected a list of words")
        for each in values.values:
            _word(place, name, each)
        usual: Any = values.values[0]
    else:
        for each in values.values:
            number_of(place, each, BOUNDS[name])
        if name in WHOLE and (values.kind.endswith("uniform") or any(type(each) is not int for each in values.values)):
            raise ConfigError(f"{place} = {excerpt(given)}: expected whole numbers, such as {{int: [1, 3]}}")
        usual = values.values[0]
        if name in plain:
            usual = number_of(f"{where}: plain.{name}", plain[name], BOUNDS[name])
            usual = min(max(usual, min(values.values)), max(values.values))
            if values.kind == "choice" and usual not in values.values:
                usual = values.values[0]
    return Parameter(name, values, usual)


def _word(place: str, name: str, given: Any) -> None:
    """Raises ConfigError if `given` is no value of a choice. Entrants of `beside` are read where they run."""
    if not isinstance(given, str):
        raise ConfigError(f"{place} = {excerpt(given)}: expected a list of words")
    if name == "beside":
        return
    known = APPLICATIONS if name == "application" else _queues()
    if given not in known:
        raise ConfigError(f'{place}: unknown {name} "{given}"{did_you_mean(given, known)}')


def _queues() -> list[str]:
    """Returns the queue disciplines whose limit may be packets."""
    return [each["name"] for each in _core.queue_disciplines() if each["name"] not in ("infinite", "red")]


def _shape(place: str, name: str, given: Any) -> Shape:
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{place} = {excerpt(given)}: expected {{steps: [FEWEST, MOST], level: RANGE, change: NUMBER}}"
        )
    _known(place, "key", given, ("steps", "level", "change"))
    for limit in ("steps", "level", "change"):
        if given.get(limit) is None:
            raise ConfigError(
                f'{place}: has no limit "{limit}"; give steps: [FEWEST, MOST], level: RANGE and change: NUMBER'
            )
    steps = given["steps"]
    whole = isinstance(steps, list) and len(steps) == 2 and all(type(each) is int for each in steps)
    if not whole or not 0 <= steps[0] <= steps[1] <= MOST_STEPS:
        raise ConfigError(
            f"{place}.steps = {excerpt(steps)}: expected [FEWEST, MOST], whole numbers up to {MOST_STEPS}"
        )
    least, most, _ = SHAPES[name]
    levels = dimensions_of({"level": given["level"]})["level"]
    for each in levels.values:
        number_of(f"{place}.level", each, (least, most))
    allowed = (1.0, most / least) if name == "capacity" else (0.0, most)
    change = number_of(f"{place}.change", given["change"], allowed)
    return Shape(name, steps[0], steps[1], levels, change)


def number_of(place: str, given: Any, bounds: tuple[float, float]) -> float:
    """Returns a number within bounds. Raises ConfigError, which names the place, for anything else."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or math.isnan(given):
        raise ConfigError(f"{place} = {excerpt(given)}: expected a number")
    if math.isinf(given):
        raise ConfigError(f"{place} = {given}: has no limit; expected {bounds[0]:g} to {bounds[1]:g}")
    if not bounds[0] <= given <= bounds[1]:
        raise ConfigError(f"{place} = {given:g}: expected {bounds[0]:g} to {bounds[1]:g}")
    return float(given)


def _known(where: str, what: str, given: Iterable[Any], known: Iterable[str]) -> None:
    for each in given:
        if each not in known:
            raise ConfigError(f'{where}: unknown {what} "{excerpt(each)}"{did_you_mean(str(each), known)}')


def _chosen(values: Sequence[Any], share: float) -> Any:
    return values[min(int(share * len(values)), len(values) - 1)]


def _at(values: Dimension, share: float) -> Any:
    """Returns the value at a share of a range, or of a list."""
    if values.kind in ("choice", "grid"):
        return _chosen(values.values, share)
    low, high = values.values
    if values.kind.startswith("log"):
        found = low * (high / low) ** share
    else:
        found = low + (high - low) * share
    return round(found) if values.kind.endswith("int") else min(max(_rounded(found), low), high)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
