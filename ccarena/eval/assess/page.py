"""Page and Markdown of assessments: a table of criteria with their states per entrant, and plots of each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.core.files import write_atomically
from ccarena.eval.assess import questions
from ccarena.eval.assess.assessment import Assessment, Plan
from ccarena.eval.reproduce.figures import figures
from ccarena.eval.reproduce.tables import cell
from ccarena.pages import Block, Callout, Cell, Details, Items, Page, Section, State, Table, write
from ccarena.scenarios.backends import BACKENDS

__all__ = ["HEAD", "MARKDOWN", "PAGE", "SHOWN", "counted", "markdown", "seeds_of", "write_markdown", "write_page"]

PAGE, MARKDOWN = "page.html", "assessment.md"
HEAD = ("criterion", "required", "measured", "state")
SHOWN: Mapping[str, State] = {"pass": "good", "fail": "bad", "undecided": "partly", "not run": "neutral"}
_LEAD = (
    "RFC 9743 (BCP 133) lists what the IETF asks about a new congestion control. It sets no limits; the required "
    "values are this project's. Values are medians over few seeds, in brackets 95 % intervals by the bootstrap. A "
    "criterion passes or fails if it does so in at least 95 % of the bootstrap's draws, and is undecided otherwise."
)


def counted(counts: Mapping[Any, int]) -> str:
    """Returns the numbers of criteria by state in words, such as `40 pass, 3 fail`."""
    return ", ".join(f"{number} {state}" for state, number in counts.items() if number)


def seeds_of(plan: Plan) -> str:
    """Returns how many seeds a case has in words, such as `1 to 5`."""
    counts = {
        plan.seeds or (each.suite.seeds.quick if plan.quick else each.suite.seeds.full) for each in plan.questions
    }
    return " to ".join(str(each) for each in sorted({min(counts), max(counts)}))


def markdown(assessment: Assessment, plan: Plan) -> str:
    """Returns the assessment as Markdown, for a review or an Internet-Draft."""
    about = f"{counted(assessment.counts())}; {BACKENDS[plan.backend].title}; seeds per case: {seeds_of(plan)}"
    lines = [f"# Assessment of {assessment.entrant.label} by RFC 9743", "", f"{about}. {_LEAD}", ""]
    if plan.quick:
        lines += ["**QUICK: one seed and fewer cases; no basis for a conclusion.**", ""]
    for answer in assessment.answers:
        suite = answer.question.suite
        lines += [f"## {suite.title}", "", f"{suite.paper}. {suite.summary}", ""]
        lines += [f"| {' | '.join(HEAD)} |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(cell(row[name]) for name in HEAD)} |" for row in answer.criteria]
        lines += ["", *(f"- not run: {text}" for text in answer.failures), *([""] if answer.failures else [])]
    lines += ["## Not asked here", "", *(f"- Section {number}: {text}" for number, text in questions.NOT_ASKED.items())]
    return "\n".join(lines) + "\n"


def write_markdown(assessment: Assessment, plan: Plan) -> Path:
    """Writes assessment.md to the assessment's folder, and returns its path."""
    path = assessment.folder / MARKDOWN
    write_atomically(path, markdown(assessment, plan))
    return path


def write_page(folder: Path, assessments: Sequence[Assessment], plan: Plan, repeat: Sequence[str]) -> Path:
    """Writes the page of the assessments to `folder`, and returns its path."""
    labels = ", ".join(each.entrant.label for each in assessments)
    findings: list[Block] = [_finding(each) for each in assessments]
    if plan.quick:
        findings.append(Callout("partly", "QUICK: one seed and fewer cases; no basis for a conclusion"))
    sections = [*([_overview(assessments)] if len(assessments) > 1 else []), *map(_section, assessments)]
    left = [f"Section {number}: {text}" for number, text in questions.NOT_ASKED.items()]
    sections.append(Section("Not asked here", "Runs over a link do not answer these; an author does.", [Items(left)]))
    facts = {
        "Backend": BACKENDS[plan.backend].title,
        "Questions": str(len(plan.questions)),
        "Seeds per case": seeds_of(plan),
    }
    page = Page(f"Assessment of {labels}", "assessment", _LEAD, facts, findings, repeat, sections)
    write(folder / PAGE, page)
    return folder / PAGE


def _finding(assessment: Assessment) -> Callout:
    failed = [
        f"{answer.question.suite.title} {row['criterion']}: {row['measured']}; required: {row['required']}."
        for answer in assessment.answers
        for row in answer.criteria
        if row["state"] == "fail"
    ]
    counts = assessment.counts()
    state: State = "bad" if counts["fail"] else "good" if counts["pass"] and not counts["undecided"] else "partly"
    said = f"{assessment.entrant.label}: {counted(counts) or 'nothing was asked'}"
    return Callout(state, said, [Details("What fails", [Items(failed)])] if failed else [])


def _overview(assessments: Sequence[Assessment]) -> Section:
    rows: list[list[str | Cell]] = []
    for number, answer in enumerate(assessments[0].answers):
        rows.append([answer.question.suite.title, *(_worst(each.answers[number].criteria) for each in assessments)])
    head = ["question", *(each.entrant.label for each in assessments)]
    return Section("Side by side", "The worst state of each question's criteria.", [Table(head, rows, words=len(head))])


def _worst(criteria: Sequence[Mapping[str, Any]]) -> Cell:
    given = {row["state"] for row in criteria}
    worst = next(state for state in ("fail", "undecided", "not run", "pass") if state in given)
    return Cell(worst, SHOWN[worst])


def _section(assessment: Assessment) -> Section:
    rows, drawn = [], []
    for answer in assessment.answers:
        suite = answer.question.suite
        link = f"{assessment.folder.name}/{answer.question.name.partition('/')[2]}/scenarios.yaml"
        for row in answer.criteria:
            state = row["state"]
            asked = Cell(suite.title, note=suite.paper, link=link)
            words = (row["criterion"], row["required"], row["measured"])
            rows.append([asked, *map(Cell, words), Cell(state, SHOWN[state])])
        drawn += figures(answer.question, answer.rows)
    blocks: list[Block] = [Table(("question", *HEAD), rows, words=len(HEAD) + 1, grouped=True), *drawn]
    failures = [text for answer in assessment.answers for text in answer.failures]
    if failures:
        blocks.append(Details(f"{len(failures)} runs failed", [Items(failures)]))
    lead = "Each question leads to the scenarios of its runs, for `ccarena eval --scenario`."
    return Section(f"Criteria of {assessment.entrant.label}", lead, blocks)
