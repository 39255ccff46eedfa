"""Facts of each paper, from suites/papers.yaml, by the name of its folder of suites."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any

from ccarena import _core
from ccarena.core.reader import parse_yaml

__all__ = ["about", "is_own", "schemes", "with_cubic"]


@functools.cache
def about() -> Mapping[str, Mapping[str, Any]]:
    """Returns `title`, `summary`, `schemes`, `own` and `chosen_on` of each."""
    file = resources.files("ccarena.eval").joinpath("suites").joinpath("papers.yaml")
    return dict(parse_yaml(file.read_bytes(), str(file)))


def schemes(suite: str) -> Collection[str]:
    """Returns the schemes of the paper of the suite `PAPER/NAME`; for a user's own suite, all but CUBIC."""
    paper = about().get(suite.partition("/")[0])
    return paper["schemes"] if paper else [entry["name"] for entry in _core.schemes() if entry["name"] != "cubic"]


def is_own(suite: str) -> bool:
    """Returns whether the suite `PAPER/NAME` holds targets of this project instead of a paper's claims."""
    return bool(about().get(suite.partition("/")[0], {}).get("own", False))


def with_cubic(suite: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a scenario of the suite `PAPER/NAME` with CUBIC instead of the paper's schemes, without fields that only
    these understand.
    """
    theirs, own = schemes(suite), ("policy", "environment", "params")
    flows = [
        {key: value for key, value in flow.items() if key not in own} | {"scheme": "cubic"}
        if flow.get("scheme") in theirs
        else flow
        for flow in document.get("flows") or []
    ]
    return {**document, "flows": flows}
