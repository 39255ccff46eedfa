"""Suite: runs, measures, claims and plots for one figure or table of a paper; and the search for suites."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ccarena.core.learned_schemes import learned_schemes
from ccarena.core.reader import parse_yaml, read_bytes
from ccarena.errors import ConfigError, did_you_mean, excerpt, several
from ccarena.eval.reproduce import computed, kernel, measures, own_traces
from ccarena.eval.reproduce.checks import Claim, ClaimModel, parse_claim
from ccarena.eval.reproduce.values import Measured, Names, parse_value
from ccarena.scenarios import template
from ccarena.scenarios.backends import BACKENDS, SIM
from ccarena.scenarios.sweep import axes_of, label_of
from ccarena.traces.given import GivenTrace

__all__ = ["Figure", "Loaded", "Suite", "find", "load", "runs_on", "shipped"]

MOST_CELLS = 100_000
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TEXTS = ("claim", "paper", "note", "differs_in", "why")
"""Fields of a claim in which `${...}` names constants."""
_RESERVED = ("seed", "index", "flow", "uniform", "policies")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Seeds(_Model):
    """Number of repetitions of each cell of the sweep: seeds 1, 2, ..."""

    full: int = Field(1, ge=1, le=10_000)
    quick: int = Field(1, ge=1, le=10_000)
    most: int = Field(200, ge=1, le=10_000)
    """Seeds at most for claims that are undecided; see `adaptive`."""


class Quick(_Model):
    """Reductions of a quick run: axis -> labels that stay; constants with other values, such as a duration."""

    sweep: dict[str, list[Any]] = {}
    constants: dict[str, Any] = {}


class Override(_Model):
    """Parts of the scenario that differ if the cell matches: mappings are merged, everything else replaced."""

    where: dict[str, Any]
    scenario: dict[str, Any]


class Window(_Model):
    """Part of the run, in seconds; numbers or expressions of the cell."""

    from_s: float | str = 0.0
    to_s: float | str | None = None


class Figure(_Model):
    """Plot of a suite; see docs/suites.md."""

    kind: Literal["lines", "bars", "over_time", "curves"]
    title: str = ""
    x: str = ""
    by: str = ""
    panels: str = ""
    y: Any = None
    where: dict[str, Any] = {}
    flow: Any = None
    series: Literal["received_mbps", "queueing_ms", "period_ms"] = "received_mbps"
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    target: float | list[float] | None = None


class Suite(_Model):
    """Fields of a suite's file."""

    title: str = Field(min_length=1)
    paper: str = Field(min_length=1)
    summary: str = Field(min_length=1)
    conditions: list[str] = []
    seeds: Seeds = Seeds()
    constants: dict[str, Any] = {}
    sweep: dict[str, list[Any] | dict[str, Any]] = {}
    skip: list[dict[str, Any]] = []
    quick: Quick = Quick()
    scenario: dict[str, Any] | None = None
    overrides: list[Override] = []
    compute: str | None = None
    window: Window = Window()
    windows: dict[str, Window] = {}
    measures: dict[str, dict[str, Any]] = {}
    claims: list[ClaimModel] = Field(min_length=1, max_length=1000)
    figure: Figure | list[Figure] | None = None
    policies: list[str] = []
    """Learned schemes whose trained policies its scenario needs."""
    aside: bool = False
    """The paper measured nothing of the kind: all of its claims are counted apart."""
    bridge: bool = False
    """Drive the kernel's own schemes too by this package's controllers, from user space, on kernel TCP."""


@dataclass(frozen=True)
class Loaded:
    """Checked suite with its name (`PAPER/NAME`), its file, and its parsed claims and figures."""

    name: str
    source: str
    suite: Suite
    axes: Mapping[str, Mapping[str, Any]]
    """Axis -> label -> value."""
    claims: Sequence[Claim]
    figures: Sequence[tuple[Figure, Measured | None]]
    backend: str = SIM
    """Backend: the simulator, or another one, for which the suite has a section."""
    sections: frozenset[str] = frozenset()
    """Other backends for which it has a section, whose fields replace its own (`kernel.conditions`)."""


def runs_on(loaded: Loaded, backend: str) -> bool:
    """Returns whether the suite has a section for the backend."""
    return backend == SIM or backend in loaded.sections


def shipped(backend: str = SIM) -> list[str]:
    """Returns `PAPER/NAME` of every suite in the package that runs on the backend."""
    folder = resources.files("ccarena.eval").joinpath("suites")
    if not folder.is_dir():
        return []
    names = sorted(
        f"{paper.name}/{file.name.removesuffix('.yaml')}"
        for paper in folder.iterdir()
        if paper.is_dir()
        for file in paper.iterdir()
        if file.name.endswith(".yaml")
    )
    return names if backend == SIM else [name for name in names if runs_on(load(name), backend)]


def find(words: Sequence[str], backend: str = SIM) -> list[str]:
    """Returns the suites that words mean, each `PAPER/NAME`, `PAPER` or the path of a file. Raises ConfigError.

    `PAPER` means its suites that run on the backend.
    """
    known = shipped()
    papers = sorted({name.partition("/")[0] for name in known})
    found: list[str] = []
    for word in words:
        if word.endswith((".yaml", ".yml")):
            found.append(word)
        elif word in known:
            found.append(word)
        elif word.strip("/") in papers:
            of_paper = [name for name in shipped(backend) if name.startswith(word.strip("/") + "/")]
            if not of_paper:
                there = ", ".join(shipped(backend))
                raise ConfigError(f"{word}: none of its suites has a `{backend}` section; there are {there}")
            found += of_paper
        else:
            by_leaf = {name.partition("/")[2]: name for name in known}
            near = f'; did you mean "{by_leaf[word]}"?' if word in by_leaf else did_you_mean(word, [*known, *papers])
            raise ConfigError(f'unknown suite "{word}"{near} (--list shows all; the path of a YAML file is one, too)')
    return list(dict.fromkeys(found))


def load(name: str, backend: str = SIM, traces: Sequence[GivenTrace] = (), quick: bool = False) -> Loaded:
    """Loads the suite `PAPER/NAME`, or that of a file, for a backend, with `traces`, if given, instead of its own.

    Its texts name the constants of a full run, or of a `quick` one.

    Raises ConfigError that starts with `FILE: PATH:`.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        try:
            text = read_bytes(path)
        except OSError as error:
            raise ConfigError(f"{name}: cannot read the suite: {error.strerror}; expected a YAML file") from error
        return parse(text, f"own/{path.stem}", name, backend, traces, quick)
    text = resources.files("ccarena.eval").joinpath(f"suites/{name}.yaml").read_bytes()
    return parse(text, name, f"suites/{name}.yaml", backend, traces, quick)


def parse(
    text: bytes,
    name: str,
    source: str,
    backend: str = SIM,
    traces: Sequence[GivenTrace] = (),
    quick: bool = False,
) -> Loaded:
    """Returns the suite in `text`; `source` leads its errors. See `load` for the other arguments."""
    data = parse_yaml(text, source)
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected a mapping with `title`, `paper`, `sweep`, `scenario` and `claims`")
    sections = {each: given for each in BACKENDS if (given := data.pop(each, None)) is not None}
    if backend != SIM:
        data = kernel.conditions(data, sections.get(backend), source, backend)
    if traces:
        data = own_traces.over(data, traces, source)
    try:
        suite = Suite.model_validate(data)
    except ValidationError as error:
        problems = map(_problem, error.errors(include_url=False))
        raise ConfigError(f"{source}: {several('the suite', problems)}") from None
    try:
        return _checked(suite, name, source, backend, sections, quick)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def _checked(suite: Suite, name: str, source: str, backend: str, sections: Collection[str], quick: bool) -> Loaded:
    if (suite.scenario is None) == (suite.compute is None):
        raise ConfigError("expected one of `scenario` and `compute`")
    if suite.compute is not None:
        computed.function(suite.compute)
        for key in ("overrides", "measures", "windows", *sections):
            if key in sections or getattr(suite, key):
                raise ConfigError(f"{key}: only a suite with a `scenario` has them, this one has `compute`")
    axes = dict(axes_of(suite.sweep))
    cells = math.prod(len(values) for values in axes.values()) * suite.seeds.full
    if cells > MOST_CELLS:
        raise ConfigError(
            f"sweep: {cells:,} runs, all values of all axes with every seed; expected at most {MOST_CELLS:,}"
        )
    reserved = [axis for axis in [*axes, *suite.constants] if axis in _RESERVED]
    if reserved:
        raise ConfigError(f"{reserved[0]}: the name of an axis or constant must not be {reserved[0]}")
    for part in [*(f"skip[{i}]" for i in range(len(suite.skip)))]:
        _match_known(suite.skip[int(part[5:-1])], axes, part)
    for i, override in enumerate(suite.overrides):
        _match_known(override.where, axes, f"overrides[{i}].where")
    known = learned_schemes()
    if unknown := [scheme for scheme in suite.policies if scheme not in known]:
        raise ConfigError(f'policies: unknown learned scheme "{unknown[0]}"{did_you_mean(unknown[0], known)}')
    for axis, labels in suite.quick.sweep.items():
        _match_known({axis: labels}, axes, "quick.sweep")
    _known_names(suite.quick.constants, suite.constants, "quick.constants", "constant")
    suite = _worded(suite, axes, quick)
    for key, spec in suite.measures.items():
        measures.check(spec, f"measures.{key}")
    names = Names(
        axes={axis: list(values) for axis, values in axes.items()},
        measures=None if suite.compute else measures.names(suite.measures, list(suite.windows)),
    )
    claims = []
    for i, claim in enumerate(suite.claims):
        claims += parse_claim(claim.model_copy(update={"aside": suite.aside or claim.aside}), names, f"claims[{i}]")
    return Loaded(name, source, suite, axes, claims, list(_figures(suite, names)), backend, frozenset(sections))


def _worded(suite: Suite, axes: Collection[str], quick: bool) -> Suite:
    """Returns the suite with the values of constants in its texts.

    Names of axes stay, for the claims of each `for_each`.
    """
    names = {**suite.constants, **(suite.quick.constants if quick else {})}

    def worded(text: Any, path: str) -> Any:
        for expression in template.expressions(text) if isinstance(text, str) else ():
            if expression not in axes:
                value = template.expand(f"${{{expression}}}", names, path)
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                text = text.replace(f"${{{expression}}}", shown)
        return text

    claims = [
        claim.model_copy(update={key: worded(getattr(claim, key), f"claims[{i}].{key}") for key in _TEXTS})
        for i, claim in enumerate(suite.claims)
    ]
    conditions = [worded(text, f"conditions[{i}]") for i, text in enumerate(suite.conditions)]
    summary = worded(suite.summary, "summary")
    return suite.model_copy(update={"summary": summary, "conditions": conditions, "claims": claims})


def _figures(suite: Suite, names: Names) -> Iterator[tuple[Figure, Measured | None]]:
    given = suite.figure if isinstance(suite.figure, list) else [suite.figure] if suite.figure else []
    for i, figure in enumerate(given):
        path = f"figure[{i}]" if isinstance(suite.figure, list) else "figure"
        _match_known(figure.where, names.axes, f"{path}.where")
        for part in ("x", "by", "panels"):
            axis = getattr(figure, part)
            if axis and not (axis == "flow" and part in ("x", "by")):
                _known_names([axis], names.axes, f"{path}.{part}", "axis")
        if figure.kind in ("over_time", "curves"):
            yield figure, None
            continue
        if figure.y is None or not figure.x:
            raise ConfigError(f"{path}: kind {figure.kind} needs `x`, an axis of the sweep, and `y`, a value")
        chosen = [axis for axis in (figure.x, figure.by, figure.panels) if axis]
        yield figure, parse_value(figure.y, names, f"{path}.y", chosen=[*chosen, *figure.where])


def _match_known(where: Mapping[str, Any], axes: Mapping[str, Any], path: str) -> None:
    _known_names(where, axes, path, "axis")
    for axis, labels in where.items():
        for one in labels if isinstance(labels, list) else [labels]:
            _known_names([label_of(one)], axes[axis], f"{path}.{axis}", "value")


def _known_names(given: Any, known: Any, path: str, what: str) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), map(str, known))
            raise ConfigError(f'{path}: unknown {what} "{name}"{hint or "; there is none"}')


def _problem(error: Any) -> str:
    """Returns one of pydantic's errors as `PATH: EXPECTATION`."""
    path = ""
    for part in error["loc"]:
        # Branches of unions, such as `list[any]`, are pydantic's names and not the file's.
        if isinstance(part, int):
            path += f"[{part}]"
        elif "[" not in part and part not in ("Figure", "float", "str"):
            path += f".{part}" if path else part
    if error["type"] == "extra_forbidden":
        known = {**BACKENDS, **Suite.model_fields, **ClaimModel.model_fields, **Figure.model_fields}
        return f"{path}: unknown key{did_you_mean(path.rpartition('.')[2], known)}"
    return f"{path}: {error['msg'][:1].lower()}{error['msg'][1:]}, got {_short(error['input'])}"


def _short(value: Any) -> str:
    text = repr(excerpt(value))
    return text if len(text) <= 60 else text[:57] + "..."
