"""Assessment of one entrant: the runs of each question, the states of its criteria, and the files that keep them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ccarena.core.files import write_atomically
from ccarena.core.plain_data import plain
from ccarena.errors import ConfigError
from ccarena.eval.assess import questions
from ccarena.eval.reproduce import checks, kernel, runner, runs, tables
from ccarena.eval.reproduce.suite import Loaded
from ccarena.eval.reproduce.values import Row
from ccarena.executors import Executor
from ccarena.runs.journal import Journal
from ccarena.scenarios import backends
from ccarena.scenarios.entrants import Entrant

__all__ = ["ASSESSMENT", "STATES", "Answer", "Assessment", "Plan", "assess", "expanded", "read"]

ASSESSMENT = "assessment.json"
State = Literal["pass", "fail", "undecided", "not run"]
STATES: Mapping[str, State] = {
    "holds": "pass",
    "does not hold": "fail",
    "undecided": "undecided",
    "not tested": "not run",
}
"""State of a criterion by the state of its claim."""


@dataclass(frozen=True)
class Plan:
    """Plan of an assessment."""

    questions: Sequence[Loaded]
    backend: str = backends.SIM
    quick: bool = False
    seeds: int | None = None
    """Repetitions of each run; None: the question's own."""


@dataclass(frozen=True)
class Answer:
    """Answer to one question: a row per criterion, and what plots need."""

    question: Loaded
    criteria: Sequence[Mapping[str, Any]]
    """Rows with `criterion`, `required`, `measured`, `state` and `values`: the measured numbers of each requirement, by
    label (`value`, or their places, without labels).
    """
    rows: Sequence[Row]
    failures: Sequence[str]
    """Runs that failed, each with its reason."""

    def about(self) -> dict[str, Any]:
        """Returns the answer as data."""
        suite = self.question.suite
        return {
            "question": self.question.name.partition("/")[2],
            "title": suite.title,
            "source": suite.paper,
            "criteria": [dict(row) for row in self.criteria],
            "failures": list(self.failures),
        }


@dataclass(frozen=True)
class Assessment:
    """Answers to all questions about an entrant."""

    entrant: Entrant
    answers: Sequence[Answer]
    folder: Path
    failures: Sequence[runner.Failure]

    def counts(self) -> dict[State, int]:
        """Returns how many criteria have each state."""
        given = [row["state"] for answer in self.answers for row in answer.criteria]
        return {state: given.count(state) for state in STATES.values()}


def expanded(entrant: Entrant, plan: Plan) -> list[list[runs.Run]]:
    """Returns the runs of each question. Raises ConfigError for an entrant that the backend cannot carry."""
    backends.check_runs(plan.backend, [entrant])
    entering = runs.Entering(partial(questions.entering, entrant), entrant.identity)
    return [runs.expand(each, plan.quick, plan.seeds, entering=entering) for each in plan.questions]


def assess(
    entrant: Entrant,
    plan: Plan,
    of_questions: Sequence[Sequence[runs.Run]],
    folder: Path,
    executor: Executor,
    progress: runner.Progress,
) -> Assessment:
    """Performs the runs that `folder` lacks, judges each criterion and writes the files.

    `of_questions` is the result of `expanded`. Finished runs are kept if the command ends early.
    """
    answers, failures = [], []
    for question, of_question in zip(plan.questions, of_questions, strict=True):
        place = folder / question.name.partition("/")[2]
        with Journal(place, "ccarena assess") as journal:
            failed = runner.execute(of_question, journal, place, executor, progress)
            rows = runs.rows_of(of_question, journal)
            judged = [checks.judge(claim, rows, partial=plan.quick) for claim in question.claims]
            failures += failed
            said = [f"{failure.run.title}: {failure.reason}" for failure in failed]
            digest = tables.digest_of(question, judged, _about(plan, of_question, rows, said))
            tables.write_suite(place, digest, rows)
            runs.write_scenarios(place, of_question)
            journal.settle([run.key for run in of_question])
        answers.append(Answer(question, [_criterion(each) for each in judged], rows, said))
    assessment = Assessment(entrant, answers, folder, failures)
    write_atomically(folder / ASSESSMENT, json.dumps(about(assessment, plan), indent=1, ensure_ascii=False) + "\n")
    return assessment


def about(assessment: Assessment, plan: Plan) -> dict[str, Any]:
    """Returns the assessment as data, the content of assessment.json."""
    return {
        "entrant": assessment.entrant.label,
        "text": assessment.entrant.text,
        "identity": assessment.entrant.identity,
        "software": runs.software(backend=plan.backend),
        **backends.about(plan.backend),
        "quick": plan.quick,
        "states": assessment.counts(),
        "answers": [answer.about() for answer in assessment.answers],
        "not_asked": dict(questions.NOT_ASKED),
    }


def read(folder: Path) -> dict[str, Any]:
    """Returns the content of an assessment's file. Raises ConfigError if it is missing or damaged."""
    path = folder / ASSESSMENT
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot read the assessment: {error}; run `ccarena assess` again") from error


def _criterion(judged: checks.Judged) -> dict[str, Any]:
    labels = judged.labels or [()] * len(judged.values)
    numbers = plain(judged.values)
    return {
        "criterion": judged.claim,
        "required": judged.paper,
        "measured": judged.measured,
        "state": STATES[judged.state],
        "values": [_labelled(*part) for part in zip(labels, numbers, strict=True)],
    }


def _labelled(labels: Sequence[str], numbers: Sequence[float | None]) -> dict[str, float | None]:
    """Returns the numbers by label; numbers without labels are called `value`, or several by their places from 1."""
    places = [str(place) for place in range(1, len(numbers) + 1)] if len(numbers) > 1 else ["value"]
    names = [name or place for name, place in zip(labels or places, places, strict=True)]
    return dict(zip(names, numbers, strict=True))


def _about(plan: Plan, of_question: Sequence[runs.Run], rows: Sequence[Row], failed: Sequence[str]) -> dict[str, Any]:
    return {
        "quick": plan.quick,
        "seeds": max((run.seed for run in of_question), default=0),
        "runs": len(of_question),
        "failed": failed,
        "software": runs.software(backend=plan.backend),
        "policies": [],
        **({"machine": kernel.about(rows, plan.backend)} if backends.find(plan.backend).real_time else {}),
    }
