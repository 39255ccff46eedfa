"""Specs of learned schemes: found by name, read from a file, identified by their digest.

The native code validates the content of a spec (docs/learned.md); this module reads the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.configs.learning import SPEC_FILES
from ccarena.configs.schema import TrainConfig
from ccarena.core.learned_schemes import specs
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, ScenarioError, did_you_mean

__all__ = [
    "Action",
    "action_of",
    "as_json",
    "digest_of",
    "is_built_in",
    "is_file",
    "read_spec",
    "report_of",
    "spec_json",
]


def is_file(scheme: str) -> bool:
    """Returns whether `scheme` is the name of a spec's file, and no registered name."""
    return Path(scheme).suffix in SPEC_FILES


def read_spec(path: Path) -> dict[str, Any]:
    """Returns the spec in a YAML or JSON file, unchecked. Raises ConfigError, naming file and line of a syntax
    error.
    """
    data = read_data(path, "a spec in YAML or JSON")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping with `learned`, `clock`, `observe` and `act`")
    return data


def as_json(spec: Any, origin: str) -> str:
    """Returns a spec as JSON for `ccarena._core`. Raises ConfigError for a value that JSON cannot express."""
    try:
        return json.dumps(spec, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{origin}: not a spec: {error}; expected text, numbers, lists and mappings") from error


def spec_json(config: TrainConfig) -> str:
    """Returns the spec of `config` as JSON. Raises ConfigError if it names none, ScenarioError for a wrong value."""
    if not isinstance(config.spec, str):
        return as_json(config.spec, "spec")
    known = specs()
    if config.spec in known:
        return str(known[config.spec])
    if not is_file(config.spec):
        raise ConfigError(
            f"spec = {config.spec}: neither a YAML file nor a shipped spec{did_you_mean(config.spec, known)}"
        )
    return as_json(read_spec(Path(config.spec)), config.spec)


def is_built_in(scheme: Any) -> bool:
    """Returns whether the programs know the learned scheme `scheme` by its name; others take its spec."""
    return isinstance(scheme, str) and scheme in _core.shipped_specs()


def digest_of(scheme: Any) -> str | None:
    """Returns the digest of the spec that `scheme`, a name or a spec, means; None if it means none."""
    if isinstance(scheme, str):
        shipped = specs()
        return str(_core.learned(shipped[scheme])["digest"]) if scheme in shipped else None
    if not isinstance(scheme, dict) or "learned" not in scheme:
        return None
    try:
        return str(_core.learned(json.dumps(scheme))["digest"])
    except (ScenarioError, TypeError, ValueError):
        return None


Action = float | Sequence[float]
"""An action: a number, or a number for each actuator of a spec with several continuous ones."""


def action_of(about: Mapping[str, Any], action: Action) -> Action:
    """Returns the constant of a scenario's policy for `action`: its index, or a continuous action itself.

    `about` is the answer of `_core.learned` for the spec. Raises ConfigError if there is no such action.
    """
    name, values, bounds = about["name"], about["actions"], about["bounds"]
    if not values:
        numbers = [action] if isinstance(action, float | int) else list(action)
        if len(numbers) != len(bounds) or not all(
            low <= number <= high for number, (low, high) in zip(numbers, bounds, strict=True)
        ):
            expected = ", ".join(f"{low:g} to {high:g}" for low, high in bounds)
            raise ConfigError(f"{name} has no action {', '.join(f'{each:g}' for each in numbers)}; expected {expected}")
        return action
    if action not in values:
        raise ConfigError(f"{name} has no action {action:g}; it has {', '.join(f'{each:g}' for each in values)}")
    index: int = values.index(action)
    return index


def report_of(scheme: Any) -> tuple[str, ...]:
    """Returns columns of the reports of the learned scheme `scheme`, a name or a spec; empty for others."""
    if isinstance(scheme, str):
        shipped = specs()
        return tuple(_core.learned(shipped[scheme])["report"]) if scheme in shipped else ()
    return tuple(_core.learned(json.dumps(scheme))["report"])
