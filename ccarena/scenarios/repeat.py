"""Simulated runs as a page's reader repeats them in the browser: the exact scenario with its files, or the reason why
not.

A page carries the policy of its run. It carries a recorded trace only if the trace's licence allows passing it on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ccarena.errors import ConfigError
from ccarena.pages.runnable import Repeat
from ccarena.scenarios.scenario import flows_of, scenario_json
from ccarena.traces.manifest import manifest

__all__ = ["Unrepeatable", "repeat_of"]

PASSED_ON = ("GPL-3.0-or-later",)
"""Licences of the manifest that allow passing a trace on, as long as the licence is named."""
MOST_BYTES = 4_000_000
"""Largest file that a page carries for a run."""
FIGURE_DIGITS = 9


class Unrepeatable(ConfigError):
    """Reason why a browser cannot repeat a run."""


def repeat_of(
    document: Mapping[str, Any],
    axes: Mapping[str, str],
    stored: Mapping[str, Mapping[str, float | None]] | None = None,
    version: str = "",
) -> Repeat:
    """Returns the run of `document`, a scenario whose files are on this machine, with its figures by flow.

    Raises Unrepeatable with the reason, by name.
    """
    files: dict[str, bytes] = {}
    licences: dict[str, None] = {}

    def carried(file: Any, recorded: bool) -> str:
        path = Path(file)
        try:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise Unrepeatable(f"{path.name} has {size:,} bytes; a page carries files of at most {MOST_BYTES:,}")
            data = path.read_bytes()
        except OSError as error:
            raise Unrepeatable(f"{path.name} cannot be read: {error.strerror}") from error
        if recorded:
            licences[_licence(data, path.name)] = None
        name = f"{hashlib.sha256(data).hexdigest()[:8]}-{path.name}"
        files[name] = data
        return name

    links = []
    for link in document.get("links") or []:
        parts = {key: link[key] for key in ("service", "conditions") if "file" in (link.get(key) or {})}
        links.append({**link, **{key: {**part, "file": carried(part["file"], True)} for key, part in parts.items()}})
    flows = []
    for flow in flows_of(document):
        _check(flow)
        own = dict(flow)
        for key in ("policy", "rules"):
            if isinstance(own.get(key), str) and own[key] != "none":
                own[key] = carried(own[key], False)
        if isinstance(own.get("policy"), Mapping) and isinstance(own["policy"].get("integer"), str):
            own["policy"] = {**own["policy"], "integer": carried(own["policy"]["integer"], False)}
        flows.append(own)
    whole = json.loads(scenario_json({**document, "links": links, "flows": flows}))
    figures = {
        name: {figure: float(f"{value:.{FIGURE_DIGITS}g}") for figure, value in row.items() if _known(value)}
        for name, row in (stored or {}).items()
    }
    return Repeat(axes, whole, figures, version, files, list(licences))


def _check(flow: Mapping[str, Any]) -> None:
    """Raises Unrepeatable for a flow that only another program can run."""
    name = flow.get("name") or flow.get("scheme")
    if flow.get("foreign") is not None:
        raise Unrepeatable(f"{name} is a program of others, which a browser does not have")
    controller = flow.get("controller")
    if isinstance(flow.get("scheme"), type) or (isinstance(controller, Mapping) and controller.get("type") != "wasm"):
        raise Unrepeatable(f"{name} is a Python class, which a browser does not run")
    if controller is not None:
        raise Unrepeatable(f"{name} is a module of a user's, which the simulator in a page does not run")


@cache
def _licences() -> dict[str, tuple[str, str, str]]:
    return {entry.sha256: (entry.name, entry.licence, entry.url) for entry in manifest()}


def _licence(data: bytes, name: str) -> str:
    """Returns a sentence on a trace's licence. Raises Unrepeatable if it does not let a page carry the trace."""
    known = _licences().get(hashlib.sha256(data).hexdigest())
    if known is None:
        raise Unrepeatable(f"{name} is a recording whose licence ccarena does not know, so no page carries it")
    called, licence, url = known
    if licence not in PASSED_ON:
        raise Unrepeatable(f"a page may not pass on the trace {called} (licence: {licence}; `ccarena traces fetch`)")
    return f"Trace {called}: {licence}, from {url}."


def _known(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
