"""Page of an attack: the finds by harm, each over time, and the progress of the search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ccarena import __version__
from ccarena.attacks.case import scenario
from ccarena.attacks.finds import Find
from ccarena.attacks.harms import CRASH, HARMS, Harm
from ccarena.attacks.search import Tried
from ccarena.attacks.trial import SEED
from ccarena.pages import Axis, Block, Callout, Chart, Code, Details, Figure, Items, Page, Section, Table
from ccarena.pages import write as write_page
from ccarena.pages.charts import line, style
from ccarena.scenarios.backends import SIM
from ccarena.scenarios.entrants import Entrant
from ccarena.scenarios.one_run import perform
from ccarena.scenarios.page import figure

__all__ = ["rows_of", "write"]

LEAD = (
    "The links on which this entrant does worst, by harm. Each was found by a search over links, then simplified "
    "as far as the harm stays, and run again with other seeds."
)


def write(
    path: Path,
    entrant: Entrant,
    finds: Sequence[Find],
    tried: Sequence[Tried],
    harms: Mapping[str, Harm],
    repeat: Sequence[str],
) -> None:
    """Writes the page. Raises ConfigError if it cannot be written."""
    clean = [harm.title for name, harm in harms.items() if name not in {find.harm for find in finds}]
    findings: list[Block] = []
    if finds:
        lines = [each.describe() for each in finds]
        findings.append(Callout("bad", f"{len(finds)} counterexamples in {len(tried)} cases.", [Items(lines)]))
    if clean:
        findings.append(Callout("good", f"No counterexample was found of: {', '.join(clean)}."))
    head, rows = rows_of(finds)
    sections = [
        Section(
            "Counterexamples",
            "Median of the other seeds, and on how many of them the harm holds.",
            [],
        )
    ]
    if finds:
        sections[0] = Section(sections[0].title, sections[0].lead, [Table(head, rows, words=3, grouped=True)])
        sections += [_section(entrant, find) for find in finds]
    definitions = [[harm.title, f"{harm.threshold:g}", harm.definition] for harm in harms.values()]
    sections += [
        Section("Progress", "The worst value so far, over its threshold.", [_progress(tried, harms)]),
        Section("Harms", "", [Table(["harm", "threshold", "definition"], definitions, words=3)]),
    ]
    facts = {
        "Written by": f"ccarena {__version__}",
        "Entrant": entrant.label,
        "Cases": str(len(tried)),
        "Harms": str(len(harms)),
    }
    write_page(path, Page(entrant.label, "attack", LEAD, facts, findings, repeat, sections))


def rows_of(finds: Sequence[Find]) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows) of finds."""
    rows = [
        [
            HARMS[each.harm].title,
            each.kind,
            each.case.describe(),
            f"{each.value:.3g}",
            f"{each.threshold:g}",
            f"{round(each.share * each.seeds)}/{each.seeds}",
        ]
        for each in finds
    ]
    return ["harm", "kind of link", "link", "value", "threshold", "seeds"], rows


def _section(entrant: Entrant, find: Find) -> Section:
    document = scenario(find.case, entrant, SEED)
    drawn: Block = Code(find.error) if find.harm == CRASH else figure(perform(document, SIM, find.kind))
    link = Details("The link", [Code(json.dumps(document["links"][0], indent=1))])
    run_it = f"Run it in this folder: `ccarena eval --scenario {find.file}`."
    lead = f"{find.value:.3g}: {HARMS[find.harm].definition}. {run_it}"
    return Section(f"{find.number}. {HARMS[find.harm].title}, {find.kind}", lead, [drawn, link])


def _progress(tried: Sequence[Tried], harms: Mapping[str, Harm]) -> Figure:
    lines = []
    for index, (name, harm) in enumerate(harms.items()):
        x: list[float] = []
        y: list[float] = []
        for each in tried:
            severity = each.outcome.value(name) / harm.threshold
            if not y or severity > y[-1]:
                x.append(float(each.number))
                y.append(severity)
        lines.append(line(harm.title, [*x, float(len(tried))], [*y, y[-1] if y else 0.0], style(index)))
    chart = Chart(Axis("cases"), Axis("worst value over threshold", from_zero=True), lines, levels=[(1.0, "threshold")])
    return Figure("worst case so far", [chart])
