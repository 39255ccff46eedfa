"""Commands `ccarena link|delay|loss|onoff|emulate`, and `cca-link` and so on: the emulator's shells.

The program `ccarena-link` runs them. Arguments are passed on unchanged; of a scenario, the program gets the normalised
JSON (docs/emulator.md).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ccarena.core import programs
from ccarena.errors import CcarenaError, ScenarioError, TraceError, did_you_mean

SHELLS = {
    "link": "run a command behind a link that serves by mahimahi traces (mm-link)",
    "delay": "run a command behind a delay (mm-delay)",
    "loss": "run a command behind random loss (mm-loss)",
    "onoff": "run a command behind a link that is on and off by turns (mm-onoff)",
    "emulate": "run a command behind the links of a scenario, in real time",
}
"""Shells with their line of help."""

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kmg])(?:b|bit|bits|ibit)?(?:ps|/s)?", re.IGNORECASE)
_MBPS = {"k": 1e-3, "m": 1.0, "g": 1e3}
_WITH_VALUE = (
    "--control",
    "--emulator",
    "--far-command",
    "--lateness-bound",
    "--queue-memory-mb",
    "--seed",
    "--summary",
)


def execute(words: Sequence[str]) -> NoReturn:
    """Replaces this process by the shell `words[0]` with the arguments `words[1:]`.

    Raises MachineError if the program is missing, and ScenarioError if a scenario cannot be read or is not valid.
    """
    name, *arguments = words
    program = programs.find(programs.EMULATOR)
    _check_traces(name, arguments)
    if name == "emulate":
        at = _scenario(arguments)
        if at is not None:
            arguments[at] = _handed_over(Path(arguments[at]))
    sys.stdout.flush()
    os.execv(program, [programs.EMULATOR, name, *arguments])


def link() -> None:
    """Runs `cca-link`."""
    _entry("link")


def delay() -> None:
    """Runs `cca-delay`."""
    _entry("delay")


def loss() -> None:
    """Runs `cca-loss`."""
    _entry("loss")


def onoff() -> None:
    """Runs `cca-onoff`."""
    _entry("onoff")


def _entry(shell: str) -> NoReturn:
    """Replaces this process by the shell under its mahimahi-like name, which its log and its errors show."""
    try:
        program = programs.find(programs.EMULATOR)
        _check_traces(shell, sys.argv[1:])
        os.execv(program, [f"cca-{shell}", *sys.argv[1:]])
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _check_traces(shell: str, arguments: Sequence[str]) -> None:
    """Raises TraceError if a trace of `link` is missing and a similar name exists; else the program reports it."""
    for word in arguments[:2] if shell == "link" else ():
        path = Path(word)
        if word.startswith("-") or path.exists():
            continue
        if rate := _RATE.fullmatch(word):
            raise TraceError(
                f"{word}: cannot read the trace: it looks like a rate, and {shell} takes files of delivery times; for "
                f"a constant rate run `ccarena emulate SCENARIO.yaml` with a service {{type: constant, rate_mbps: "
                f"{float(rate[1]) * _MBPS[rate[2].lower()]:g}}} (docs/scenario.md)"
            )
        beside = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
        if "did you mean" in (hint := did_you_mean(path.name, beside)):
            raise TraceError(f"{word}: cannot read the trace: there is no such file{hint}")


def _scenario(arguments: list[str]) -> int | None:
    """Returns the index of the scenario's file: the first word that is neither an option nor an option's value."""
    is_value = False
    for i, word in enumerate(arguments):
        if is_value:
            is_value = False
        elif not word.startswith("-"):
            return i
        else:
            is_value = len(word) > 2 and any(option.startswith(word) for option in _WITH_VALUE)
    return None


def _handed_over(path: Path) -> str:
    """Writes the normalised scenario of `path` to a file in memory, which the program inherits, and returns its
    name.
    """
    from ccarena import _core
    from ccarena.scenarios.flows import enter
    from ccarena.scenarios.scenario import read_scenario

    document = read_scenario(path)
    try:
        document = enter(document)
        normalised = _core.validate_scenario(json.dumps(document))
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    handle = os.memfd_create("scenario", 0)
    with os.fdopen(os.dup(handle), "w", encoding="utf-8") as file:
        file.write(normalised)
    return f"/dev/fd/{handle}"
