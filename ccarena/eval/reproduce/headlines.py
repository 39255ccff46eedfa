"""Headline claims of each paper, from suites/headlines.yaml: tables that a reader understands in a minute."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ccarena.core.reader import parse_yaml
from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.reproduce import suite
from ccarena.eval.reproduce.tables import backend_of, cell
from ccarena.scenarios.backends import BACKENDS, SIM

__all__ = ["Headline", "headlines", "table"]

Digest = Mapping[str, Any]
FILE = "headlines.yaml"
SHOWN = 4
"""Numbers of a claim that are all shown."""
_UNIT = re.compile(r"[\d\]] ([^\d;:]+)$")


class Headline(BaseModel):
    """Statement of a paper's abstract or conclusion, and the claims of suites that measure it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    says: str
    paper: str
    claims: dict[str, list[str]]
    """Suite -> beginnings of claims as they stand in its file."""
    here: list[str]
    """Quantity that the values of each of these claims are, in their order."""
    why: str


@functools.cache
def headlines() -> Mapping[str, Sequence[Headline]]:
    """Returns the headlines of each paper. Raises ConfigError for a claim that no suite has."""
    file = resources.files("ccarena.eval").joinpath("suites").joinpath(FILE)
    try:
        found = {
            paper: [Headline.model_validate(entry) for entry in entries]
            for paper, entries in parse_yaml(file.read_bytes(), str(file)).items()
        }
    except ValidationError as error:
        raise ConfigError(f"{file}: {error}") from None
    for paper, entries in found.items():
        for entry in entries:
            if len(entry.here) != sum(map(len, entry.claims.values())):
                raise ConfigError(f"{FILE}: {paper}: {entry.says!r}: expected one entry of `here` for each claim")
            for name, starts in entry.claims.items():
                for start in starts:
                    if not any(_texts(name, backend, start) for backend in BACKENDS):
                        known = [claim.model.claim for claim in suite.load(name).claims]
                        raise ConfigError(f"{FILE}: {paper}: {name} has no claim {start!r}{did_you_mean(start, known)}")
    return found


@functools.cache
def _texts(name: str, backend: str, start: str) -> tuple[str, ...]:
    """Returns the claims of a suite on a backend for which the beginning `start` stands, as their results name them."""
    loaded = suite.load(name)
    if not suite.runs_on(loaded, backend):
        return ()
    claims = (loaded if backend == SIM else suite.load(name, backend)).claims
    # A whole text that is also the beginning of another means itself.
    same = [claim for claim in claims if claim.model.claim == start]
    return tuple(dict.fromkeys(c.text for c in same or claims if c.model.claim.startswith(start)))


def table(paper: str, digests: Sequence[Digest]) -> list[str]:
    """Returns the headlines of a paper as a table: what it says, what was measured, and verdicts by backend."""
    entries = headlines().get(paper, ())
    if not entries:
        return []
    head = ["the paper says", "paper", "here", *(entry.title.partition(",")[0] for entry in BACKENDS.values()), "why"]
    by_place = {(digest["suite"], backend_of(digest)): digest for digest in digests}
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for entry in entries:
        found = {backend: _claims(entry, backend, by_place) for backend in BACKENDS}
        verdicts = [_verdict([claim for claims in groups for claim in claims]) for groups in found.values()]
        # Simulated suites have all claims of a headline but those of real time, which stand last.
        here = "; ".join(f"{what}: {_here(claims)}" for what, claims in zip(entry.here, found[SIM], strict=False))
        cells = [entry.says, entry.paper, here, *verdicts, entry.why]
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    return lines


def _claims(entry: Headline, backend: str, digests: Mapping[tuple[str, str], Digest]) -> list[list[Mapping[str, Any]]]:
    """Returns the results of the headline's claims on a backend: a list for each claim as it stands in a suite."""
    found = []
    for name, starts in entry.claims.items():
        for start in starts if (name, backend) in digests else ():
            texts = _texts(name, backend, start)
            found.append([claim for claim in digests[name, backend]["claims"] if claim["claim"] in texts])
    return [claims for claims in found if claims]


def _here(claims: Sequence[Mapping[str, Any]]) -> str:
    """Returns what was measured for a claim and its variants: few numbers of each, or the least and the largest."""
    parts = [
        [[math.inf if x is None else x for x in numbers] for numbers in of_claims]
        for of_claims in zip(*(claim["values"] for claim in claims), strict=False)
    ]
    unit = _UNIT.search(claims[0]["measured"])
    if all(sum(map(len, part)) <= SHOWN for part in parts):
        shown = "; ".join(" and ".join(map(_listed, of_claim)) for of_claim in zip(*parts, strict=True))
        counted = ""
    else:
        spans = ([x for numbers in part for x in numbers] for part in parts)
        shown = " and ".join(_listed(span) if len(span) <= SHOWN else _span(span) for span in spans)
        counted = f" ({len(claims)} claims)" if len(claims) > 1 else ""
    return shown + (f" {unit[1]}" if unit and not shown.endswith("never") else "") + counted


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(dict.fromkeys(map(_number, numbers)))


def _span(numbers: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(map(_number, (min(numbers), max(numbers)))))


def _number(x: float) -> str:
    return "never" if math.isinf(x) else f"{round(x, 2):g}"


def _verdict(claims: Sequence[Mapping[str, Any]]) -> str:
    if not claims:
        return ""
    states = [claim["state"] for claim in claims]
    holding = [claim for claim in claims if claim["state"] == "holds"]
    text = states[0] if len(set(states)) == 1 else f"{len(holding)} of {len(claims)} hold"
    if holding and all(claim.get("discriminates") is False for claim in holding):
        text += ", with CUBIC too"
    if any(claim.get("more") for claim in holding):
        text += ", and more"
    return f"**{text}**"
