"""Page of a search: the verdict, the program, the comparison on unseen links, and the candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ccarena.eval.heldout.summary import gain_table, parts_table
from ccarena.pages import Axis, Block, Callout, Chart, Code, Details, Figure, Items, Page, Section, State, Table
from ccarena.pages import write as write_page
from ccarena.pages.charts import STYLES, line
from ccarena.searches.candidates import Candidate
from ccarena.searches.run import Finished
from ccarena.searches.verdict import Verdict

__all__ = ["table", "write"]

SHOWN = 30
"""Candidates in the table; the file has all."""
STATES: dict[str, State] = {"better": "good", "no better": "neutral", "worse": "bad", "nothing found": "neutral"}
LEAD = (
    "Candidates run over the links of the search, in rungs: each rung costs three times the one before, and a third of "
    "the candidates comes to it. The best one is then compared with the template on links that no candidate saw."
)


def write(path: Path, verdict: Verdict, done: Finished, searches: Sequence[tuple[str, Verdict]], command: str) -> None:
    """Writes the page. Raises ConfigError if it cannot be written.

    `searches` has the program and the verdict of each repeated search; `command` makes the page again.
    """
    plan, best = done.prepared.plan, done.best
    findings: list[Block] = [Callout(STATES[verdict.state], f"{verdict.sentence[:1].upper()}{verdict.sentence[1:]}.")]
    if done.ended:
        findings.append(Callout("partly", f"{done.ended[:1].upper()}{done.ended[1:]}."))
    findings += [Items(list(done.prepared.notes))] if done.prepared.notes else []
    sections = [Section("The program", f"Candidate {best.number}, found with seed {plan.seed}.", _program(done))]
    if verdict.gain is not None:
        gain = verdict.gain
        lead = (
            "The gain is over the same runs of each one; scores are means. Intervals: bootstrap over links and seeds."
        )
        blocks: list[Block] = [Table(*gain_table(gain), words=1)]
        blocks += [Table(*parts_table(gain.parts), words=1)] if gain.parts else []
        sections.append(Section("On links that the search did not see", lead, blocks))
    if searches:
        rows = [[str(number), program, each.sentence] for number, (program, each) in enumerate(searches, start=1)]
        sections.append(Section("Each search", "", [Table(["search", "program", "verdict"], rows, words=3)]))
    sections.append(Section("Progress", "The best mean score on the last rung so far.", [_progress(done)]))
    sections.append(
        Section("Candidates", f"The first {SHOWN}; `candidates.csv` has all.", [Table(*table(done), words=2)])
    )
    if failed := [each for each in done.candidates if each.error]:
        errors = [f"{each.number}: {each.error}" for each in failed[:SHOWN]]
        sections.append(Section("Failed", f"{len(failed)} candidates failed.", [Details("Errors", [Items(errors)])]))
    facts = {
        "Template": plan.template,
        "Candidates": str(len(done.candidates)),
        "Links": str(len({cell.link for cell in done.prepared.rungs[-1]})),
        "Beside": ", ".join(plan.beside) or "nobody",
        "Score": " ".join(f"{weight:+g} {name}" for name, weight in plan.weights.items()) or "ln score",
        "Seed": str(plan.seed),
    }
    write_page(path, Page(plan.template, "search", LEAD, facts, findings, [command], sections))


def table(done: Finished) -> tuple[list[str], list[list[str]]]:
    """Returns (headings, rows) of the best candidates."""
    rows = [
        [str(each.number), each.said, str(each.rung), f"{each.score:.4g}" if math.isfinite(each.score) else "failed"]
        for each in done.candidates[:SHOWN]
    ]
    return ["candidate", "program", "rung", "score"], rows


def _program(done: Finished) -> list[Block]:
    program = done.best.program
    shown = program.text if program.lang == "python" else program.said
    return [Code(shown)]


def _progress(done: Finished) -> Figure:
    last = len(done.prepared.rungs)
    whole = sorted((each for each in done.candidates if each.rung == last), key=lambda each: each.number)
    best: list[Candidate] = []
    for each in whole:
        if not best or each.score > best[-1].score:
            best.append(each)
    x = [float(each.number) for each in best] + [float(len(done.candidates) - 1)]
    y = [each.score for each in best] + [best[-1].score if best else math.nan]
    return Figure("best score so far", [Chart(Axis("candidates"), Axis("mean score"), [line("best", x, y, STYLES[0])])])
