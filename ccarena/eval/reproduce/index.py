"""Index page of the suites: states of their claims, and policies side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.eval.reproduce import papers
from ccarena.eval.reproduce.checks import STATES
from ccarena.eval.reproduce.page import PAGE
from ccarena.eval.reproduce.tables import folder_of, name_of, read_folder
from ccarena.pages import Block, Callout, Cell, Page, Section, Table, write
from ccarena.pages.states import state_of, worst
from ccarena.runs.run_folder import read_commands

__all__ = ["INDEX", "Result", "known", "side_by_side", "write_index"]

INDEX = "index.html"
Digest = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Result of a suite that was run."""

    digest: Digest
    folder: Path
    """Folder of its results."""
    policies: str = ""
    """Name of the combination of policies, if there are several."""


def known(out: Path, names: Sequence[str], backends: Iterable[str]) -> list[Result]:
    """Returns the results in the folder `out` of the suites `names`. Raises ConfigError if a file is damaged."""
    folders = dict.fromkeys(folder_of(out, name, backend) for name in names for backend in backends)
    return [Result(digest, folder) for folder in folders if (digest := read_folder(folder)) is not None]


def side_by_side(results: Sequence[Result]) -> list[tuple[str, list[str], list[list[tuple[str, str]]]]]:
    """Returns the name, the policies' names and table rows of each suite that was run with several policies.

    A row has a claim and the values measured with each policy, each with its state.
    """
    out = []
    for suite in dict.fromkeys(name_of(result.digest) for result in results):
        of_suite = [result for result in results if name_of(result.digest) == suite]
        if len(of_suite) < 2:
            continue
        rows = [
            [(claims[0]["claim"], ""), *((claim["measured"], claim["state"]) for claim in claims)]
            for claims in zip(*(result.digest["claims"] for result in of_suite), strict=True)
        ]
        out.append((suite, [result.policies for result in of_suite], rows))
    return out


def write_index(out: Path, results: Sequence[Result]) -> Path:
    """Writes the page to the folder `out`, and returns its path."""
    about = papers.about()
    counted = {result.folder: _counts(result.digest) for result in results}
    states = [state for state in STATES if any(counts[state] for counts in counted.values())]
    total = {state: sum(counts[state] for counts in counted.values()) for state in states}
    sections = []
    for paper in dict.fromkeys(_paper(result.digest) for result in results):
        of_paper = [result for result in results if _paper(result.digest) == paper]
        several = any(result.policies for result in of_paper)
        rows = []
        for result in of_paper:
            digest, counts = result.digest, counted[result.folder]
            of_suite = (result.folder / PAGE).relative_to(out).as_posix()
            first = Cell(name_of(digest), link=of_suite, note="quick" if digest["quick"] else "")
            # What the states of zero claims are is no finding.
            cells = [Cell(str(counts[s]), state_of(s) if counts[s] else "plain") for s in states]
            rows.append([first, *([Cell(result.policies)] if several else []), Cell(digest["title"]), *cells])
        head = ["suite", *(["policies"] if several else []), "what", *states]
        table = Table(head, rows, words=len(head))
        sections.append(Section(about.get(paper, {}).get("title", paper), "", [table]))
    for suite, names, compared in side_by_side(results):
        shown = [
            [Cell(row[0][0]), *(Cell(text, state_of(state), note=state) for text, state in row[1:])] for row in compared
        ]
        lead = "What was measured with each policy, in brackets 95 % intervals over seeds."
        sections.append(
            Section(f"Policies side by side: {suite}", lead, [Table(["claim", *names], shown, words=1 + len(names))])
        )
    claims = sum(total.values())
    others = ", ".join(f"{state}: {count}" for state, count in total.items() if state != "holds" and count)
    text = f"{total.get('holds', 0)} of {claims} claims hold" + (f" ({others})" if others else "")
    findings: list[Block] = [Callout(worst(state_of(state) for state, count in total.items() if count), text)]
    if any(result.digest["quick"] for result in results):
        findings.append(Callout("partly", "Some are quick runs, which are no basis for a conclusion"))
    software = ", ".join(sorted({str(result.digest["software"]) for result in results}))
    page = Page(
        title="Suites and their claims",
        kind="reproduction",
        lead="Every suite that was run into this folder, with how many of its claims hold. Its name leads to its page.",
        facts={
            "Suites": str(len({name_of(result.digest) for result in results})),
            "Claims": str(claims),
            "Software": software,
        },
        repeat=list(dict.fromkeys(line for result in results for line in read_commands(result.folder))),
        findings=findings,
        sections=sections,
    )
    write(out / INDEX, page)
    return out / INDEX


def _paper(digest: Digest) -> str:
    return str(digest["suite"]).partition("/")[0]


def _counts(digest: Digest) -> dict[str, int]:
    return {state: sum(claim["state"] == state for claim in digest["claims"]) for state in STATES}
