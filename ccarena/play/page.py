"""The page for one scenario: the built page with a scenario in it, and the files that the scenario names."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.core.reader import read_bytes
from ccarena.errors import MissingDependencyError, ScenarioError
from ccarena.scenarios.flows import enter
from ccarena.scenarios.one_run import checked
from ccarena.scenarios.scenario import flows_of, read_file, resolve

__all__ = ["assets", "page_of", "write"]

PAGE = "play.html"
MOST_BYTES = 64_000_000
"""Most bytes of the files in a page."""


def assets() -> Path:
    """Returns the folder of the built page. Raises MissingDependencyError, which says how to build it."""
    folder = Path(str(resources.files("ccarena.play").joinpath("assets")))
    if not (folder / PAGE).is_file():
        raise MissingDependencyError(
            f"the web page is not built: expected {folder / PAGE}; in a checkout run `make web` (it needs Node and "
            "Rust's target wasm32-unknown-unknown), or install a wheel, which has it"
        )
    return folder


def write(path: Path, scenario: Path | None = None) -> None:
    """Writes the page, with the scenario in a file if there is one. Raises ConfigError if it cannot be written,
    and what `page_of` raises.
    """
    write_atomically(path, page_of(scenario))


def page_of(scenario: Path | None = None) -> str:
    """Returns the page as HTML; with a scenario, it begins with this one, and has its traces and policies.

    Raises MissingDependencyError if the page is not built, ScenarioError for the scenario, TraceError or PolicyError
    for its files.
    """
    packed = None if scenario is None else _packed(scenario)
    page = (assets() / PAGE).read_text("utf-8")
    if packed is None:
        return page
    document, files = packed
    given = {"given": document, "given-files": {name: base64.b64encode(data).decode() for name, data in files.items()}}
    for name, value in given.items():
        mark = f'<script type="application/json" id="{name}">'
        # "<" could end the element.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        page = page.replace(mark, mark + text, 1)
    return page


def _packed(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the document of a scenario file with its entrants filled in, and its files by the names in it."""
    own = read_file(path)
    whole = resolve(copy.deepcopy(own), path.parent)
    entered = enter(copy.deepcopy(whole))
    checked(entered)  # raises what is wrong with it, before a browser is opened
    files: dict[str, bytes] = {}
    document = copy.deepcopy(own)
    for index, (flow, before, after) in enumerate(
        zip(flows_of(document), flows_of(own), flows_of(entered), strict=True)
    ):
        for key in ("controller", "foreign"):
            if after.get(key) is not None:
                raise ScenarioError(
                    f'flows[{index}].scheme: "{before.get("scheme")}" does not run in a web page; expected a scheme '
                    f"or a policy, or run it with `ccarena eval --scenario {path}`"
                )
        flow.clear()
        flow.update(after)
        for key in ("policy", "rules"):
            if isinstance(file := after.get(key), str) and file != "none":
                # By the name that the file has in the scenario, so that the page shows what runs here.
                name = before[key] if isinstance(before.get(key), str) else str(before.get("scheme"))
                files[name], flow[key] = read_bytes(Path(file)), name
    for named, found in zip(_traces(document), _traces(whole), strict=True):
        files[named["file"]] = read_bytes(Path(found["file"]))
    if (size := sum(map(len, files.values()))) > MOST_BYTES:
        raise ScenarioError(
            f"{path}: its traces and policies have {size / 1e6:.0f} MB; expected at most {MOST_BYTES / 1e6:.0f} MB"
        )
    return document, files


def _traces(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the parts of a scenario's links that name a trace."""
    for link in document["links"]:
        for key in ("service", "conditions"):
            part = link.get(key)
            if isinstance(part, dict) and isinstance(part.get("file"), str):
                yield part
