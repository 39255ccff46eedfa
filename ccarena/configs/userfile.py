"""User's own Python file, `FILE.py:NAME`: the only place where ccarena executes foreign code.

Only a configuration (or an argument that the user writes) leads here. Policies, checkpoints, scenarios and traces are
data, and are never executed.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ccarena.configs import own_files
from ccarena.configs.learning import OWN_FILE
from ccarena.core.own_imports import beside, importing
from ccarena.errors import ConfigError, did_you_mean

__all__ = ["arguments_of", "bind", "find", "is_own"]


def is_own(name: str) -> bool:
    """Returns whether `name` is in the user's own file."""
    return OWN_FILE in name


def find(name: str, key: str) -> Any:
    """Returns the object `FILE.py:NAME`; `key` is the configuration's key with this name.

    Raises ConfigError, naming file and line, if the file cannot be read or run or has nothing of that name.
    """
    file, _, wanted = name.rpartition(":")
    module = _load(Path(file), f"{key} = {name}")
    if wanted.startswith("_") or not hasattr(module, wanted):
        public = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise ConfigError(f'{key} = {name}: {file} has no "{wanted}"{did_you_mean(wanted, public)}')
    return getattr(module, wanted)


def _load(file: Path, where: str) -> ModuleType:
    try:
        source = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {file}: {error.strerror}; expected a Python file") from error
    contents = {file.name: source} | {name: path.read_bytes() for name, path in beside(file).items()}
    for name, content in contents.items():
        own_files.check(file.parent, name, content)
    # By content, so that a file that was changed is run again, and one that was not keeps its classes.
    about = b"".join([*(contents[name] for name in sorted(contents)), str(file.resolve()).encode()])
    name = f"ccarena_own_{file.stem}_{hashlib.sha256(about).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{where}: {file} is no Python file; expected FILE.py:NAME")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look the module up by its name
    try:
        with importing(file):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = _line_in(file, error)
        raise ConfigError(f"{where}: {file}{line}: {type(error).__name__}: {error}") from error
    return module


def _line_in(file: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def arguments_of(taker: Callable[..., Any], ours: Collection[str]) -> dict[str, inspect.Parameter] | None:
    """Returns the parameters of `taker` that a configuration may give, without `ours`; None if it takes anything."""
    parameters = inspect.signature(taker).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return None
    return {n: p for n, p in parameters.items() if n not in ours and p.kind is not inspect.Parameter.VAR_POSITIONAL}


def bind(
    taker: Callable[..., Any],
    given: Mapping[str, Any],
    key: str,
    name: str,
    ours: Collection[str],
    also: Collection[str] = (),
) -> dict[str, Any]:
    """Returns `given`, checked to be arguments of `taker`; parameters in `ours` cannot be given.

    `also` are further keys, for hints.

    Raises ConfigError, naming the key, for an unknown argument, a missing one and a number of another type.
    """
    takes = arguments_of(taker, ours)
    if takes is None:
        return dict(given)
    for argument, value in given.items():
        if argument not in takes:
            near = difflib.get_close_matches(argument, [*takes, *also], n=1)
            hint = f'; did you mean "{near[0]}"?' if near else f"; it takes {', '.join(takes) or 'none'}"
            raise ConfigError(f"{key}.{argument} = {value!r}: {name} takes no such argument{hint}")
        default = takes[argument].default
        number = isinstance(default, (int, float)) and not isinstance(default, bool)
        if number and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ConfigError(f"{key}.{argument} = {value!r}: expected a number, such as {default!r}")
    missing = [n for n, p in takes.items() if p.default is inspect.Parameter.empty and n not in given]
    if missing:
        raise ConfigError(f"{key}: {name} needs {', '.join(missing)}; give {key}.{missing[0]}")
    return dict(given)
