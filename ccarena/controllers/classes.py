"""Controllers that are Python classes: `FILE.py:NAME`, or a class that is in memory."""

from __future__ import annotations

import ast
import inspect
import os
import random
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccarena.configs import userfile
from ccarena.controllers.interface import Controller
from ccarena.core.files import digest
from ccarena.core.own_imports import beside
from ccarena.errors import ConfigError, ControllerError, did_you_mean

__all__ = [
    "check",
    "class_of",
    "flow_of",
    "flow_of_file",
    "identity",
    "in_file",
    "is_class",
    "make",
    "new",
    "parameters",
    "with_traceback",
]

_KEY = "controller"
_IN_MEMORY: dict[str, type] = {}
"""Classes that were given as such, by the name that scenarios have for them."""
_MEMORY = "class "


def is_class(who: str) -> bool:
    """Returns whether `who` reads as `FILE.py:NAME`."""
    file, colon, name = who.rpartition(":")
    return bool(colon) and file.endswith(".py") and name.isidentifier()


def flow_of(given: str | type) -> dict[str, Any]:
    """Returns the flow of a scenario for a controller, without its arguments: `FILE.py:NAME`, or a class.

    Raises ConfigError, naming file and line, if there is no such class.
    """
    if isinstance(given, str):
        file, _, name = given.rpartition(":")
        flow = flow_of_file(Path(file), name)
        return {**flow, "scheme": class_of(flow).__name__}
    where = f"{_MEMORY}{given.__module__}.{given.__qualname__} {id(given):x}"
    _IN_MEMORY[where] = given
    return {"scheme": _find(where).__name__, "controller": {"type": "python", "class": where}}


def flow_of_file(file: Path, name: str) -> dict[str, Any]:
    """Returns the flow of a scenario for the class `name` of a file that is not read: a run reads it."""
    return {"scheme": name, "controller": {"type": "python", "class": f"{os.path.abspath(file)}:{name}"}}


def in_file(file: Path) -> list[str]:
    """Returns the classes in a file that may be controllers, as `FILE.py:NAME`, without running it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    named = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [f"{file}:{each.name}" for each in named if "on_ack" in {getattr(part, "name", "") for part in each.body}]


def class_of(flow: Mapping[str, Any]) -> type:
    """Returns the class of the controller of a flow."""
    return _find(flow["controller"]["class"])


def identity(flow: Mapping[str, Any]) -> str:
    """Returns a controller's class and the digest of its file and of what this imports from its folder, whatever the
    place of the file.
    """
    where = flow["controller"]["class"]
    if where.startswith(_MEMORY):
        return str(where)
    file, _, name = where.rpartition(":")
    files = [Path(file), *beside(Path(file)).values()]
    return f"{name} {digest(b''.join(path.read_bytes() for path in files))}"


def parameters(flow: Mapping[str, Any]) -> dict[str, inspect.Parameter]:
    """Returns the arguments that the controller of a flow takes, by name."""
    takes = inspect.signature(class_of(flow)).parameters.values()
    return {each.name: each for each in takes if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}


def check(flow: Mapping[str, Any]) -> None:
    """Raises ConfigError if `params` of a flow are not arguments of its controller."""
    takes, given, name = parameters(flow), flow.get("params") or {}, flow["scheme"]
    for argument in given:
        if argument not in takes:
            known = f"; it takes {', '.join(takes) or 'none'}"
            raise ConfigError(f'{name} has no argument "{argument}"{did_you_mean(argument, takes) or known}')
    missing = [each for each, about in takes.items() if about.default is about.empty and each not in given]
    if missing:
        raise ConfigError(f"{name} needs the argument {missing[0]}; give @{missing[0]}=VALUE")


def make(flow: int, where: str, facts: Mapping[str, Any]) -> Any:
    """Returns a new controller of the class `where` for one flow.

    Raises what its constructor raises, and ConfigError if there is no such class.
    """
    return new(_find(where), facts)


def new(found: Any, facts: Mapping[str, Any]) -> Any:
    """Returns a new controller of a class. Raises what its constructor raises."""
    made = found.__new__(found)
    for name in ("mss_bytes", "initial_window", "weight"):
        setattr(made, name, facts[name])
    made.random = random.Random(facts["seed"])
    made.__init__(**facts["params"])
    return made


def with_traceback(error: ControllerError) -> ControllerError:
    """Returns the error with the lines of the user's file that led to its cause."""
    cause = error.__cause__
    frames = traceback.format_tb(cause.__traceback__) if cause is not None else []
    return ControllerError("\n".join([str(error), "".join(frames).rstrip()]) if frames else str(error))


def _find(where: str) -> type:
    if where.startswith(_MEMORY):
        if where not in _IN_MEMORY:
            raise ConfigError(f"{_KEY}: a class in the memory of another process; put it into a file: FILE.py:NAME")
        return _IN_MEMORY[where]
    found = userfile.find(where, _KEY)
    if not inspect.isclass(found):
        raise ConfigError(f"{_KEY} = {where}: {found!r} is no class; expected one with a method on_ack")
    if not callable(getattr(found, "on_ack", None)):
        raise ConfigError(f"{_KEY} = {where}: the class has no method on_ack(self, ack)")
    if not issubclass(found, Controller):
        raise ConfigError(
            f"{_KEY} = {where}: derive it from ccarena.Controller: class {found.__name__}(ccarena.Controller)"
        )
    return found
