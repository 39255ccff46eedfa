"""The reference of the registered environments in docs/environment.md: observations, actions and rewards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from inspect import getdoc
from typing import Any

import gymnasium

import ccarena  # registers the environments
from ccarena import _core
from ccarena.configs import load_config
from ccarena.configs.keys import plain
from ccarena.configs.schema import TrainConfig
from ccarena.configs.spec_files import spec_json
from ccarena.envs import rewards
from ccarena.policies.spec import Entry, Spec, spec_of
from docs.generate.learned import normalised, row

__all__ = ["GENERATED", "markdown", "shipped"]

GENERATED = "<!-- Generated from the registered environments by `make docs`; edit the specs and rewards. -->"


def shipped() -> dict[str, str]:
    """Returns the simulated environments with a configuration of their own, by id."""
    registry = gymnasium.registry.items()
    ids = [(name, each.kwargs) for name, each in registry if name.startswith(f"{ccarena.__name__}/")]
    return {name: found["spec"] for name, found in ids if "spec" in found and "Kernel" not in name}


def markdown() -> str:
    """Returns a section per environment as Markdown, after the [`GENERATED`] mark."""
    lines = [GENERATED, "", "## What does each environment observe, and what are its actions and rewards?"]
    for name, config in shipped().items():
        lines += ["", *_section(name, load_config(config))]
    return "\n".join(lines) + "\n"


def _section(name: str, config: TrainConfig) -> Iterable[str]:
    spec = spec_of(config)
    parts = json.loads(spec.canonical)
    yield from (f"### `{name}`", "", "| part | value |", "|---|---|")
    yield row("scheme", json.loads(spec_json(config))["summary"])
    yield row("a decision", _doc(_core.clocks(), parts["clock"]))
    yield row("an action", f"{_actions(spec)}: {_doc(_core.actuators(), parts['act'])}")
    yield row("between decisions", _doc(_core.bases(), parts["base"]))
    yield row("reward", _reward(config))
    yield row("report", ", ".join(f"`{column}`" for column in spec.report))
    yield from (
        "",
        f"Observation, {spec.size} numbers:",
        "",
        "| entry | numbers | unit | meaning | as a network sees it |",
    )
    yield "|---|---|---|---|---|"
    yield from map(_observed, spec.observation)


def _observed(entry: Entry) -> str:
    seen = normalised(entry.offset, entry.scale, entry.clip)
    return row(f"`{entry.name}`", str(entry.length), entry.unit, entry.doc, seen)


def _actions(spec: Spec) -> str:
    if spec.bounds is None:
        return f"`Discrete({len(spec.actions)})`, index of {', '.join(f'{action:g}' for action in spec.actions)}"
    low, high = spec.bounds
    return f"`Box({low:g}, {high:g}, (1,))`"


def _doc(entries: Iterable[Mapping[str, Any]], part: Mapping[str, str], key: str = "doc") -> str:
    """Returns the text of a registry about a part of a spec."""
    return next(str(entry[key]) for entry in entries if entry["name"] == part["kind"])


def _reward(config: TrainConfig) -> str:
    """Returns the built-in reward of a configuration with its coefficients and the first paragraph about it."""
    module, _, function = rewards.built_in()[config.reward.name].partition(":")
    about = (getdoc(getattr(import_module(module), function)) or "").partition("\n\n")[0]
    given = rewards.coefficients(config.reward.name)
    values = {name: config.reward.arguments.get(name, each.default) for name, each in given.items()}
    named = ", ".join(f"`{name}` = {plain(value)}" for name, value in values.items())
    return f"`{config.reward.name}` with {named}: {' '.join(about.split()).removeprefix('Returns ')}"
