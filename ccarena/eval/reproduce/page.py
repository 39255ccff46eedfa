"""Page of a suite's results: its claims with the paper's and the measured values, and its plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.eval.reproduce.again import LEAD, again
from ccarena.eval.reproduce.checks import STATES, Judged
from ccarena.eval.reproduce.figures import PAPER, beside_the_paper, figures
from ccarena.eval.reproduce.runs import Run
from ccarena.eval.reproduce.suite import Loaded
from ccarena.eval.reproduce.tables import (
    HEAD,
    backend_of,
    beside_state,
    name_of,
    quick_line,
    remarks,
    seeds_of,
    technical,
)
from ccarena.eval.reproduce.values import Row
from ccarena.pages import Block, Callout, Cell, Figure, Items, Page, Section, Table, write
from ccarena.pages.states import state_of, worst
from ccarena.runs.run_folder import read_commands
from ccarena.scenarios.backends import BACKENDS

__all__ = ["PAGE", "write_page"]

PAGE = "page.html"


def write_page(
    folder: Path,
    loaded: Loaded,
    judged: Sequence[Judged],
    rows: Sequence[Row],
    digest: Mapping[str, Any],
    expanded: Sequence[Run] = (),
) -> Path:
    """Writes the page for the result of `tables.digest_of` (`digest`) to `folder`, and returns its path.

    A reader can repeat the simulated runs among `expanded`.
    """
    claims = digest["claims"]
    table = [
        [
            *(Cell(text) for text in (str(number), c["claim"], c["paper"], c["measured"], c.get("required", ""))),
            Cell(c["state"], state_of(c["state"]), note=beside_state(c).strip(" ()")),
        ]
        for number, c in enumerate(claims, start=1)
    ]
    numbers = {c["claim"]: str(number) for number, c in enumerate(claims, start=1)}
    notes = [
        f"Claim{'s' if len(names) > 1 else ''} {', '.join(numbers[name] for name in names)}: {text}"
        for text, names in remarks(claims).items()
    ]
    lead = "What the paper says, what was measured, and whether they agree. "
    lead += (
        "In brackets 95 % intervals over seeds, of values that have one: ratios of several values have none."
        if any("[" in c["measured"] for c in claims)
        else "No value has an interval: each is computed from several, or the seeds give the same."
    )
    blocks: list[Block] = [Table(("", *HEAD), table, words=len(HEAD) + 1), *([Items(notes)] if notes else [])]
    sections = [Section("Claims", lead, blocks)]
    if (ratios := beside_the_paper(loaded, judged)) is not None:
        lead = "Every number that the paper gives, and what was measured in multiples of it: at 1 they are equal."
        sections.append(Section("Beside the paper", lead, [ratios]))
    if drawn := figures(loaded, rows):
        sections.append(Section("Figures", _of_figures(drawn), drawn))
    if (runs := again(expanded, rows)) is not None:
        sections.append(Section("Run it here", LEAD, [runs]))
    if digest["conditions"]:
        sections.append(Section("Conditions", "And how they differ from the paper's.", [Items(digest["conditions"])]))
    if about := technical(digest):
        sections.append(Section("Policies and machine", "", [Items(about)]))
    page = Page(
        title=f"{name_of(digest)}: {digest['title']}",
        kind="reproduction",
        lead=f"{digest['paper']}. {digest['summary']}",
        facts={
            "Backend": BACKENDS[backend_of(digest)].title,
            "Runs": str(digest["runs"]),
            "Seeds per cell": seeds_of(digest).rpartition(" ")[0],
            "Software": str(digest["software"]),
        },
        repeat=read_commands(folder),
        findings=_findings(digest),
        sections=sections,
    )
    write(folder / PAGE, page)
    return folder / PAGE


def _of_figures(drawn: Sequence[Figure]) -> str:
    """Returns the lead of the figures: what marks mean that are in them."""
    charts = [chart for figure in drawn for chart in figure.charts]
    traces = [trace for chart in charts for trace in chart.traces]
    names = [trace["name"] for trace in traces]
    marks = {
        "open circles: the paper's points": any(n == PAPER or n.endswith(f"({PAPER})") for n in names),
        "thin bars: 95 % intervals": any("error_y" in trace for trace in traces),
        "dotted lines: targets": any(chart.levels for chart in charts),
    }
    shown = [text for text, there in marks.items() if there]
    return "As the paper draws them." + (f" {'; '.join(shown).capitalize()}." if shown else "")


def _findings(digest: Mapping[str, Any]) -> list[Block]:
    claims = digest["claims"]
    counts = {state: sum(c["state"] == state for c in claims) for state in dict.fromkeys(c["state"] for c in claims)}
    others = [f"{state}: {count}" for state, count in counts.items() if state != "holds"]
    headline = f"{counts.get('holds', 0)} of {len(claims)} claims hold" + (f" ({', '.join(others)})" if others else "")
    said = [
        f"{c['claim']}: {c['measured']}, in the paper {c['paper']}; {STATES.get(c['state'], c['state'])}."
        for c in claims
        if c["state"] not in ("holds", "not tested")
    ]
    if untested := counts.get("not tested"):
        said.append(f"{untested} of the claims are not tested: {STATES['not tested']}.")
    out: list[Block] = [Callout(worst(map(state_of, counts)), headline, [Items(said)] if said else [])]
    if digest["quick"]:
        out.append(Callout("partly", quick_line(digest)))
    if missing := digest.get("missing"):
        out.append(Callout("neutral", f"Generated capacity in the place of recorded traces: {', '.join(missing)}"))
    if digest["failed"]:
        out.append(Callout("bad", f"{len(digest['failed'])} runs failed", [Items(digest["failed"])]))
    return out
