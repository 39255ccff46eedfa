"""Templates: what a search begins with, and the genes of its candidates.

| template | genes |
|---|---|
| an entrant with ranges, `cubic@beta=0.5:0.9`, or with a space | its parameters |
| a spec with an action, `SPEC.yaml=0` | an expression over the spec's signals, in place of the action |
| a class of a file with marked holes | the expressions of the holes |

A hole is an assignment with the names that its expression may use: `step = 1  # search: queue, self.gain`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.configs.spec_files import as_json
from ccarena.controllers.load import is_python
from ccarena.core.dimensions import Dimension, dimensions_of
from ccarena.core.learned_schemes import specs
from ccarena.core.reader import read_bytes
from ccarena.errors import ConfigError
from ccarena.policies.spec import Spec
from ccarena.scenarios.entrants import Entrant, parse, split_outside_quotes, with_params
from ccarena.searches import expressions
from ccarena.searches.genes import Expression, Gene, Number, gene_of
from ccarena.searches.programs import Program, inputs_of

__all__ = ["Template", "Values", "read_template"]

Values = dict[str, Any]
"""Values of the genes of a candidate, by the names of the genes."""
CONSTANTS = 9
"""Constant rules that are tried first, evenly over the bounds of the action."""
_HOLE = re.compile(r"(?P<head>[^#=\n]*=)[ \t]*(?P<expression>[^#\n]+?)[ \t]*#[ \t]*search:[ \t]*(?P<names>[^\n]*)")
_RANGE = re.compile(r"([^:]+):([^:]+)")


@dataclass(frozen=True)
class Template:
    """Beginning of a search."""

    entrant: Entrant
    """Entrant with which every candidate is compared."""
    program: Program
    """The same as a program."""
    genes: Mapping[str, Gene]
    """Genes by name; empty if candidates come from elsewhere."""
    start: Values
    """Values of the genes in the template."""
    render: Callable[[Values], Program]
    """Returns the program of a candidate."""
    spec: Spec | None = None
    """Spec of rules, if candidates are rules."""

    def first(self) -> list[Program]:
        """Returns the programs that are tried before others: constant rules, if candidates are rules."""
        if self.spec is None or not self.genes:
            return []
        ((low, high),) = self.spec.bounds or ()
        return [self.render({"rule": float(f"{value:.3g}")}) for value in np.linspace(low, high, CONSTANTS)]


def read_template(
    given: str | type, space: Path | Mapping[str, Any] | None = None, generator: bool = False
) -> Template:
    """Reads a template: a text, or a class of a file.

    `space` has values or ranges of parameters, as `ccarena tune` takes them; with a `generator` a template needs no
    genes. Raises ConfigError or PolicyError.
    """
    text = _text_of(given)
    bare, ranges = _ranges_in(text)
    dimensions = {} if space is None else dimensions_of(space)
    if both := ranges.keys() & dimensions.keys():
        raise ConfigError(f"{min(both)} has a range in the template and in the space; give one of them")
    entrant = parse(bare)
    if entrant.theirs is not None:
        raise ConfigError(f'"{bare}" does not run in the simulator, where candidates are judged')
    genes: dict[str, Gene] = {name: Number(*ends) for name, ends in ranges.items()}
    genes |= {name: gene_of(each) for name, each in dimensions.items()}
    spec = _spec_of(entrant)
    if is_python(entrant.flow):
        template = _of_file(bare, entrant, genes)
    elif spec is not None and not genes:
        template = _of_spec(bare, entrant, spec)
    else:
        template = _of_entrant(bare, entrant, genes, spec)
    _check_numbers(template, dimensions, ranges)
    if not template.genes and not generator:
        raise ConfigError(
            f'"{text}" has nothing to search: give ranges ({bare}@KEY=LOW:HIGH) or a space, a spec with an action '
            "(SPEC.yaml=0), a class with marked holes (docs/search.md), or a generator"
        )
    return template


def _text_of(given: str | type) -> str:
    if isinstance(given, str):
        return given
    file = inspect.getsourcefile(given)
    if file is None or not Path(file).is_file() or "." in given.__qualname__:
        raise ConfigError(f"{given.__name__} is in no file, and candidates run in other processes: use FILE.py:NAME")
    return f"{file}:{given.__name__}"


def _ranges_in(text: str) -> tuple[str, dict[str, tuple[float, float]]]:
    """Returns the template without its ranges, and the ranges by parameter. A requirement is none."""
    who, *settings = split_outside_quotes(text, "@")
    kept, ranges = [], dict[str, tuple[float, float]]()
    for part in split_outside_quotes("@".join(settings), ",") if settings else []:
        name, _, value = part.partition("=")
        match = None if name == "requirement" else _RANGE.fullmatch(value)
        if match is None:
            kept.append(part)
            continue
        try:
            low, high = float(match[1]), float(match[2])
        except ValueError:
            low, high = 0.0, 0.0
        if not low < high or not np.isfinite([low, high]).all():
            raise ConfigError(f'template "{text}": {name} = {value}: expected LOW:HIGH with LOW below HIGH')
        ranges[name] = (low, high)
    return "@".join([who, ",".join(kept)]) if kept else who, ranges


def _spec_of(entrant: Entrant) -> Spec | None:
    """Returns the spec of a template that is a spec with a constant action; None for others."""
    if not isinstance(entrant.policy, Mapping) or "constant" not in entrant.policy:
        return None
    scheme = entrant.flow["scheme"]
    found = _core.learned(specs()[scheme] if isinstance(scheme, str) else as_json(scheme, "the template's spec"))
    spec = Spec.of(found)
    if spec.bounds is None or spec.numbers > 1:
        raise ConfigError(f"{spec.name}: its actions are no single number within bounds, which a rule could give")
    return spec


def _of_spec(text: str, entrant: Entrant, spec: Spec) -> Template:
    names, start = list(inputs_of(spec)), float(np.asarray(entrant.policy["constant"]))

    def render(values: Values) -> Program:
        return Program("rule", expressions.text(values["rule"]))

    return Template(entrant, Program("entrant", text), {"rule": Expression(names)}, {"rule": start}, render, spec)


def _of_entrant(text: str, entrant: Entrant, genes: Mapping[str, Gene], spec: Spec | None) -> Template:
    known = (
        {} if {"foreign", "controller"} & set(entrant.flow) else {p["name"]: p["default"] for p in _params_of(entrant)}
    )
    start = {name: float(entrant.flow.get("params", {}).get(name, known.get(name, 0.0))) for name in genes}

    def render(values: Values) -> Program:
        return Program("entrant", text, {name: float(value) for name, value in values.items()})

    return Template(entrant, Program("entrant", text), genes, start, render, spec)


def _params_of(entrant: Entrant) -> Sequence[Mapping[str, Any]]:
    from ccarena.scenarios.entrants import about

    params: Sequence[Mapping[str, Any]] = about(entrant.flow["scheme"])["params"]
    return params


def _of_file(text: str, entrant: Entrant, genes: Mapping[str, Gene]) -> Template:
    from ccarena.controllers.classes import parameters

    file = entrant.flow["controller"]["class"].rpartition(":")[0]
    source = read_bytes(file).decode()
    given = dict(entrant.flow.get("params", {}))
    takes = parameters(entrant.flow)
    start: Values = {name: float(given.get(name, _default(takes[name]) if name in takes else 0.0)) for name in genes}
    holes: list[tuple[str, tuple[int, int]]] = []
    whole = dict(genes)
    for match in _HOLE.finditer(source):
        line = source.count("\n", 0, match.start("expression")) + 1
        where = f"{file}, line {line}"
        names = [name.strip() for name in match["names"].split(",") if name.strip()]
        if not names:
            raise ConfigError(f"{where}: nothing follows `# search:`; name what the expression may use")
        name = match["head"].strip().rstrip("=+-*/ ")
        key = f"{name} (line {line})" if name in whole else name
        start[key] = expressions.parse(match["expression"], names, where)
        whole[key] = Expression(names)
        holes.append((key, match.span("expression")))

    def render(values: Values) -> Program:
        out, end = "", 0
        for key, (first, last) in holes:
            out, end = out + source[end:first] + expressions.text(values[key]), last
        about = [f"{key} = {expressions.text(values[key])}" for key, _ in holes]
        params = {**given, **{name: float(values[name]) for name in genes}}
        about += [f"{name} = {values[name]:g}" for name in genes]
        return Program("python", out + source[end:], params, "; ".join(about))

    template = Template(entrant, Program("entrant", text), whole, start, render)
    return template if holes else _of_class(template, text)


def _of_class(template: Template, text: str) -> Template:
    """Returns the template of a class without holes, whose candidates are arguments of the same file."""
    return dataclasses.replace(
        template, render=lambda values: Program("entrant", text, {name: float(each) for name, each in values.items()})
    )


def _default(about: inspect.Parameter) -> float:
    return float(about.default) if isinstance(about.default, (int, float)) else 0.0


def _check_numbers(
    template: Template, dimensions: Mapping[str, Dimension], ranges: Mapping[str, tuple[float, float]]
) -> None:
    """Raises ConfigError for a parameter that the template does not take, or that may not have such a value."""
    values = {**{name: each.values for name, each in dimensions.items()}, **ranges}
    for name, each in values.items():
        for value in each:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigError(f"space: {name} = {value!r}: expected numbers, as a parameter is one")
            parse(with_params(template.entrant, {name: float(value)}))
