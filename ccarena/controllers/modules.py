"""Controllers that are WebAssembly modules: `FILE.wasm`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccarena.core.files import digest
from ccarena.errors import ConfigError, did_you_mean

__all__ = ["LARGEST_BYTES", "SUFFIX", "about", "card", "check", "flow_of", "identity", "is_module", "parameters"]

SUFFIX = ".wasm"
LARGEST_BYTES = 1 << 20
"""Largest module, which the native code checks."""


def is_module(who: str) -> bool:
    """Returns whether `who` reads as `FILE.wasm`."""
    return who.endswith(SUFFIX)


def flow_of(path: str | Path) -> dict[str, Any]:
    """Returns the flow of a scenario for a module, without its parameters.

    Raises ConfigError, naming the file, if it is no module of a controller.
    """
    about(Path(path))
    return {"scheme": Path(path).stem, "controller": {"type": "wasm", "module": os.path.abspath(path)}}


def about(path: Path) -> dict[str, Any]:
    """Returns the facts of a module, as `_core.module_about` has them. Raises ConfigError, naming the file."""
    from ccarena import _core  # which `ccarena doctor` does without

    return dict(_core.module_about(path))


def card(facts: Mapping[str, Any], name: str) -> str:
    """Returns the card of a module with these facts, called `name`, in Markdown."""
    rows = []
    for each in facts["params"]:
        bounds = f"{each['default']:g} | {each['min']:g} to {each['max']:g}"
        rows.append(f"| {each['name']} | {bounds} | {each['unit']} | {each['doc']} |")
    table = ["| parameter | default | range | unit | meaning |", "|---|---|---|---|---|", *rows]
    size = f"A WebAssembly module of {facts['module_bytes']:,} bytes, which calls itself {facts['name']}"
    said = [f"# {name}", facts["summary"], f"{size}. Digest: {facts['digest']}."]
    return "\n\n".join([*filter(None, said), "\n".join(table) if rows else "No parameters."]) + "\n"


def identity(flow: Mapping[str, Any]) -> str:
    """Returns the digest of a module's bytes."""
    return digest(_file(flow).read_bytes())


def parameters(flow: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the parameters of a module's table, by name."""
    return {each["name"]: each for each in about(_file(flow))["params"]}


def check(flow: Mapping[str, Any]) -> None:
    """Raises ConfigError if `params` of a flow are not in the module's table, or out of their ranges."""
    takes, name = parameters(flow), flow["scheme"]
    for given, value in (flow.get("params") or {}).items():
        if given not in takes:
            raise ConfigError(f'{name} has no parameter "{given}"{did_you_mean(given, takes) or "; it takes none"}')
        least, most = takes[given]["min"], takes[given]["max"]
        if not least <= value <= most:
            raise ConfigError(f"{name}: {given} = {value:g}: expected a number from {least:g} to {most:g}")


def _file(flow: Mapping[str, Any]) -> Path:
    return Path(flow["controller"]["module"])
