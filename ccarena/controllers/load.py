"""Users' controllers by what a flow says of them: a Python class or a WebAssembly module."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ccarena.controllers import classes, modules

__all__ = ["check", "identity", "is_python", "parameters"]

_TYPES: dict[str, ModuleType] = {"python": classes, "wasm": modules}
"""Modules with functions `check`, `identity` and `parameters`, by the type of a flow's `controller`."""


def is_python(flow: Mapping[str, Any]) -> bool:
    """Returns whether a flow's controller is a Python class."""
    return bool(flow.get("controller", {}).get("type") == "python")


def identity(flow: Mapping[str, Any]) -> str:
    """Returns a text that tells a controller from others, whatever the place of its file."""
    return str(_of(flow).identity(flow))


def parameters(flow: Mapping[str, Any]) -> list[str]:
    """Returns the names of the parameters that the controller of a flow takes."""
    return list(_of(flow).parameters(flow))


def check(flow: Mapping[str, Any]) -> None:
    """Raises ConfigError if `params` of a flow are not parameters of its controller."""
    _of(flow).check(flow)


def _of(flow: Mapping[str, Any]) -> ModuleType:
    return _TYPES[flow["controller"]["type"]]
