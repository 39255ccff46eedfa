"""Questions of an assessment: suites whose flows of scheme `entrant` an entrant takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.reproduce import suite
from ccarena.eval.reproduce.suite import Loaded
from ccarena.scenarios.entrants import Entrant

__all__ = ["NOT_ASKED", "chosen", "entering", "names", "section"]

PLACE = "entrant"
"""Scheme of the flows that the entrant takes."""
NOT_ASKED: Mapping[str, str] = {
    "5.3.1": "differences from the principles of RFC 2914 and RFC 7141",
    "5.3.2": "incremental deployment",
    "6.2": "tunnels",
    "7.6": "misbehaving nodes",
    "7.10": "multipath transport",
}
"""Sections of RFC 9743 that runs over a link do not answer: an author answers them in words."""


def names() -> list[str]:
    """Returns the questions' names, in the order of the RFC's sections."""
    folder = resources.files(__package__).joinpath("questions")
    found = [file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")]
    return sorted(found, key=lambda name: (_order(_load(name)), name))


def chosen(given: Sequence[str], backend: str) -> list[Loaded]:
    """Returns the questions of these names, or all without a name, to be asked on a backend. Raises ConfigError."""
    known = names()
    for name in given:
        if name not in known:
            raise ConfigError(f"--question {name}: unknown question{did_you_mean(name, known)} (--list shows them)")
    return [replace(_load(name), backend=backend) for name in known if not given or name in given]


def section(loaded: Loaded) -> str:
    """Returns the first section of RFC 9743 that the question is from; empty if it is from elsewhere."""
    found = re.match(r"RFC 9743, sections? ([\d.]+)", loaded.suite.paper)
    return found[1] if found else ""


def entering(entrant: Entrant, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a question's scenario with the entrant in its flows. What the entrant sets goes before the question's.

    Routers signal to every scheme that asks them, as in attacks.
    """
    flows = [{**flow, **entrant.flow} if flow["scheme"] == PLACE else flow for flow in document["flows"]]
    links = [{"router": True, **link} for link in document["links"]]
    return {**document, "links": links, "flows": flows}


def _load(name: str) -> Loaded:
    text = resources.files(__package__).joinpath(f"questions/{name}.yaml").read_bytes()
    return suite.parse(text, f"assess/{name}", f"questions/{name}.yaml")


def _order(loaded: Loaded) -> tuple[int, ...]:
    """Returns the numbers of the question's section; questions from elsewhere come last."""
    found = section(loaded)
    return tuple(map(int, found.split("."))) if found else (99,)
