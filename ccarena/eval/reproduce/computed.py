"""Suites without packets: functions that compute one row from a cell of the sweep. Their registry is the allow-list.

A function takes the cell's axes and constants by keyword and returns a row: `run` (measure -> number or list),
optionally `flows` (a list of mappings with `name` and measures) and `curves` (name -> {"x": [...], "y": [...]}).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ccarena.errors import ConfigError, did_you_mean

__all__ = ["FUNCTIONS", "function"]

Function = Callable[..., dict[str, Any]]

FUNCTIONS: dict[str, str] = {
    # name in a suite's `compute`: module:function
    "fluid_model": "ccarena.eval.reproduce.analytic_fluid:fluid_model",
    "fluid_surface": "ccarena.eval.reproduce.analytic_fluid:fluid_surface",
    "objectives": "ccarena.eval.reproduce.analytic:objectives",
    "requirement_penalty": "ccarena.eval.reproduce.analytic_hercules:requirement_penalty",
}


def function(name: str) -> Function:
    """Returns the function behind `compute: NAME`. Raises ConfigError."""
    if name not in FUNCTIONS:
        raise ConfigError(f'compute: unknown "{name}"{did_you_mean(name, FUNCTIONS)}')
    module, _, attribute = FUNCTIONS[name].partition(":")
    found: Function = getattr(importlib.import_module(module), attribute)
    return found
