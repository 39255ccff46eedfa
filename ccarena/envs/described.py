"""Environments of shipped learned schemes: a class for each, with a docstring made from its spec and configuration.

`AcctEnv`, `AcctVectorEnv` and `AcctKernelEnv` are made when they are first asked for, and so for every folder of
`ccarena.core.learned_schemes`. docs/environment.md shows the same text.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc, getdoc
from typing import Any

from ccarena import _core
from ccarena.configs import load_config
from ccarena.configs.keys import plain
from ccarena.configs.schema import TrainConfig
from ccarena.configs.spec_files import spec_json
from ccarena.core.learned_schemes import LearnedScheme, learned_schemes
from ccarena.envs import rewards
from ccarena.policies.interface import said
from ccarena.policies.spec import Entry, Spec, spec_of

__all__ = ["docstring", "parts", "sections"]

BASES = {
    "VectorEnv": "ccarena.envs.vector:LearnedVectorEnv",
    "KernelEnv": "ccarena.envs.kernel:LearnedKernelEnv",
    "Env": "ccarena.envs.learned:LearnedEnv",
}
"""Ends of the classes' names, the longest first, and the classes that they extend."""
TITLES = (
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Info",
    "Arguments",
    "Version History",
    "References",
)
"""Sections of a docstring in Gymnasium's template, in their order."""
WIDTH = 116


def __getattr__(name: str) -> Any:
    """Makes the class `name`, such as `AcctEnv`."""
    of = {scheme.environment: scheme for scheme in learned_schemes().values()}
    for end, base in BASES.items():
        if name.endswith(end) and (scheme := of.get(name.removesuffix(end))):
            module, _, parent = base.partition(":")
            extended = getattr(import_module(module), parent)
            made = type(name, (extended,), {"__doc__": docstring(scheme, extended), "__module__": __name__})
            return globals().setdefault(name, made)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def docstring(scheme: LearnedScheme, base: type) -> str:
    """Returns the docstring of a scheme's environment that extends `base`, in Gymnasium's template."""
    own = parts(load_config(scheme.name))
    common = sections(base.__doc__ or "")
    first, *more = own["Description"].split("\n\n")
    own["Description"] = "\n\n".join([*more, common.get("Description") or common[""]])
    if "missed_intervals" in common.get("Info", ""):
        own["Info"] = common["Info"]
    found = {**common, **own}
    texts = [f"## {title}\n{_wrapped(found[title])}" for title in TITLES if found.get(title)]
    return "\n\n".join([textwrap.fill(first, WIDTH), *texts]) + "\n"


def sections(doc: str) -> dict[str, str]:
    """Returns the sections of a docstring in Gymnasium's template by title; that before the first by an empty one."""
    before, *rest = re.split(r"^## ", cleandoc(doc), flags=re.M)
    titled = (part.partition("\n") for part in rest)
    return {"": before.strip(), **{title.strip(): text.strip() for title, _, text in titled}}


def parts(config: TrainConfig) -> dict[str, str]:
    """Returns what is particular to the environment of a configuration, by title, as Markdown."""
    spec, about = spec_of(config), _core.learned(spec_json(config))
    pieces = json.loads(spec.canonical)
    clock, base = _doc(_core.clocks(), pieces["clock"]["kind"]), pieces["base"].get("kind")
    between = _doc(_core.bases(), base) if base else " or ".join(spec.bases)
    actuator = "; ".join(_doc(_core.actuators(), name) for name in spec.actuators)
    table = [row("entry", "numbers", "unit", "meaning", "as a network sees it"), "|---" * 5 + "|"]
    table += map(_observed, spec.observation)
    return {
        "Description": f"{about['summary']}.\n\nBetween decisions: {between}.",
        "Action Space": f"{_actions(spec)}: {actuator}.\n\nDecisions: {clock}.",
        "Observation Space": "\n".join([f"`Box` of {spec.size} numbers, float32, with finite bounds:", "", *table]),
        "Rewards": _reward(config),
        "Info": f"Report of the finished interval by name: {', '.join(f'`{name}`' for name in spec.report)}; and "
        "`interval_s`, its length.",
        "References": f"{about['source']}.",
    }


def normalised(offset: float, scale: float, clip: Sequence[float]) -> str:
    """Returns what a network sees of a raw value x."""
    shifted = f"(x − {offset:g})" if offset else "x"
    return f"{shifted if scale == 1 else f'{shifted} × {scale:g}'}, {clip[0]:g} to {clip[1]:g}"


def row(*cells: str) -> str:
    """Returns a row of a Markdown table."""
    # A bar would end the cell.
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _wrapped(text: str) -> str:
    """Returns the text with lines of at most `WIDTH`; tables and lists stay."""
    blocks = text.split("\n\n")
    return "\n\n".join(part if part.startswith(("|", "- ")) else textwrap.fill(part, WIDTH) for part in blocks)


def _observed(entry: Entry) -> str:
    seen = normalised(entry.offset, entry.scale, entry.clip)
    return row(f"`{entry.name}`", str(entry.length), entry.unit, entry.doc, seen)


def _actions(spec: Spec) -> str:
    if spec.bounds is None:
        return f"`Discrete({len(spec.actions)})`, index of {', '.join(f'{action:g}' for action in spec.actions)}"
    if len(spec.bounds) > 1:
        return f"`Box` of {len(spec.bounds)} numbers, {said(spec.bounds)}"
    [(low, high)] = spec.bounds
    return f"`Box({low:g}, {high:g}, (1,))`"


def _doc(entries: Iterable[Mapping[str, Any]], name: str) -> str:
    """Returns the text of a registry about its entry `name`."""
    return next(str(entry["doc"]) for entry in entries if entry["name"] == name)


def _reward(config: TrainConfig) -> str:
    """Returns the built-in reward of a configuration with its coefficients and the first paragraph about it."""
    module, _, function = rewards.built_in()[config.reward.name].partition(":")
    about = (getdoc(getattr(import_module(module), function)) or "").partition("\n\n")[0]
    given = rewards.coefficients(config.reward.name)
    values = {name: config.reward.arguments.get(name, each.default) for name, each in given.items()}
    named = ", ".join(f"`{name}` = {plain(value)}" for name, value in values.items())
    return (
        f"`{config.reward.name}` with {named}: {' '.join(about.split()).removeprefix('Returns ').replace(' - ', ' − ')}"
    )
