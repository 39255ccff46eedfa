"""Scenario documents: read from a file, completed with a policy, and written as JSON for the native code.

The native code validates the content of a document (docs/scenario.md); this module reads the file and resolves names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from ccarena import traces
from ccarena.configs.spec_files import digest_of, is_file, read_spec
from ccarena.controllers.classes import is_class
from ccarena.controllers.modules import is_module
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, ScenarioError, did_you_mean
from ccarena.scenarios.entrant_files import is_entrant_file
from ccarena.traces import conditions

__all__ = ["flows_of", "give_policy", "in_folder", "read_file", "read_scenario", "resolve", "scenario_json"]


def read_scenario(path: Path) -> dict[str, Any]:
    """Reads a scenario document from a YAML (or JSON) file. Raises ScenarioError, naming file and line of a syntax
    error.

    Traces and specs may be given as `resolve` says, relative to this file.
    """
    return resolve(read_file(path), path.parent)


def read_file(path: Path) -> dict[str, Any]:
    """Reads a scenario document as it stands in the file. Raises ScenarioError."""
    try:
        document = read_data(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        beside = [file.name for file in path.parent.glob("*.y*ml")] if missing else []
        near = did_you_mean(path.name, beside) or "; expected a scenario in YAML (docs/scenario.md)"
        raise ScenarioError(f"{path}: cannot read the scenario: {error.strerror}{near}") from error
    except ConfigError as error:
        raise ScenarioError(str(error)) from error
    if not isinstance(document, dict):
        found = "nothing" if document is None else type(document).__name__
        raise ScenarioError(f"{path}: a scenario is a mapping with `links` and `flows`, found {found}")
    return document


def resolve(document: dict[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """Replaces names in the scenario by files, in place, and returns it.

    Traces are files relative to `folder`, or looked up as `ccarena.traces.find` does. A conditions trace fills in its
    link's least delay. A flow's scheme may be the file of a spec, relative to `folder`, or of a controller, there or
    else relative to the current folder. Raises TraceError or ConfigError if there is no such file.
    """
    links = document.get("links")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict):
            conditions.complete(link, folder)
        service = link.get("service") if isinstance(link, dict) else None
        if isinstance(service, dict) and service.get("type") == "trace" and isinstance(service.get("file"), str):
            beside = folder / service["file"]
            service["file"] = str(beside if beside.is_file() else traces.find(service["file"]))
    for flow in flows_of(document):
        if isinstance(scheme := flow.get("scheme"), str) and is_file(scheme):
            theirs = is_entrant_file(folder / scheme)
            flow["scheme"] = str(folder / scheme) if theirs else read_spec(folder / scheme)
        elif isinstance(scheme, str) and flow.get("policy") is None:
            flow["scheme"] = in_folder(scheme, folder, if_there=True) or scheme
    return document


def flows_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the flows that are mappings; the native code refuses the others."""
    flows = document.get("flows")
    return [flow for flow in flows if isinstance(flow, dict)] if isinstance(flows, list) else []


def in_folder(text: str, folder: Path, if_there: bool = False) -> str | None:
    """Returns the text of an entrant with its file in `folder`; None for one that is neither a file nor has a kind.

    With `if_there` a text keeps its own path unless the file is in `folder`.
    """
    who, at, settings = text.partition("@")
    file, colon, name = who.rpartition(":") if is_class(who) else (who, "", "")
    if if_there and not (folder / file).is_file():
        return text
    if colon or is_module(file) or is_entrant_file(folder / file):
        path = f"{folder / file}{colon}{name}"
        return (f'"{path}"' if set("=@,") & set(path) else path) + at + settings
    return text if ":" in text else None


def give_policy(document: dict[str, Any], policy: Path | None) -> dict[str, Any]:
    """Lets `policy`, if given, decide for the flows of its scheme that have none, and returns the scenario.

    Raises PolicyError for an unusable policy, ScenarioError if there is no such flow.
    """
    if policy is None:
        return document
    from ccarena.policies import artifact

    interface = artifact.load(policy).interface
    own = [
        flow
        for flow in flows_of(document)
        if flow.get("policy") is None and digest_of(flow.get("scheme")) == interface.digest
    ]
    if not own:
        name = json.loads(interface.spec).get("name")
        raise ScenarioError(
            f"no flow is for the policy {policy}: expected one of scheme {name} ({interface.digest}) without a `policy`"
        )
    for flow in own:
        flow["policy"] = str(policy)
    return document


def scenario_json(document: Mapping[str, Any]) -> str:
    """Returns a scenario document as JSON for `ccarena._core`. Raises ScenarioError for a value that JSON cannot
    express.
    """
    try:
        return json.dumps(document, allow_nan=False)
    except (TypeError, ValueError):
        path, value = next(_unspeakable(document, ""), ("scenario", document))
        raise ScenarioError(f"{path}: got {value!r}; expected a finite number, text, a list or a mapping") from None


def _unspeakable(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _unspeakable(child, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _unspeakable(child, f"{path}[{index}]")
    elif not isinstance(value, (str, int, float, type(None))) or (isinstance(value, float) and not isfinite(value)):
        yield path, value
