"""Verdict of a search: the best candidate on links that the search did not see, beside what it began with.

The comparison is that of a trained policy with the rules that it has to beat (`ccarena.eval.heldout.gain`): the same
links and seeds for all, and a bootstrap over links and over seeds within each link. The best candidate has to beat the
template and, if candidates are rules, the best constant one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.gain import Beside, Gain, gain_of, over_trainings
from ccarena.eval.heldout.rules import Rule
from ccarena.eval.leaderboard.figures import SCORE
from ccarena.scenarios.entrants import Entrant
from ccarena.searches.candidates import Candidate
from ccarena.searches.judge import SHOWN, Judge
from ccarena.searches.links import Cell
from ccarena.searches.plan import Plan
from ccarena.searches.prepared import Prepared
from ccarena.searches.programs import Program, Programs

__all__ = ["FOUND", "Verdict", "compared", "in_words", "judged", "together"]

FOUND = "found"
"""Label of the best candidate in tables."""


@dataclass(frozen=True)
class Verdict:
    """Answer to the question whether the search has found something better."""

    state: str
    """`better`, `no better`, `worse`, or `nothing found` if the template was the best."""
    sentence: str
    """Sentence with the gain, its interval and the number of links."""
    gain: Gain | None
    rows: Sequence[Mapping[str, Any]] = ()
    """Scores on the unseen links, as `Evaluation.scores`."""
    rules: Sequence[Rule] = ()
    """Rules that the best candidate has to beat."""

    @property
    def better(self) -> bool:
        """Returns whether the best candidate is better than every rule by more than the interval."""
        return self.state == "better"


def compared(
    prepared: Prepared, judge: Judge, programs: Programs, best: Candidate, order: Sequence[Candidate]
) -> Verdict:
    """Runs the best candidate and what it has to beat on the unseen links, and returns the verdict."""
    template = prepared.template
    if best.number == 0:
        line = f"nothing found: no candidate was better than {template.program.said} on the links of the search"
        return Verdict("nothing found", line, None)
    rivals = {
        template.program.id: Rule("base", template.entrant.label, "none", score=_score_of(order, template.program))
    }
    entrants: dict[str, Entrant] = {template.program.id: template.entrant}
    constant = next((each for each in order if _is_constant(each) and each.program.id not in rivals), None)
    if template.spec is not None and constant is not None and constant.number != best.number:
        action = {"constant": float(constant.program.text)}
        label = f"{template.spec.name} {constant.program.text} always"
        rivals[constant.program.id] = Rule("constant", label, action, score=constant.score)
        entrants[constant.program.id] = programs.entrant(constant.program)
    entrants[best.program.id] = programs.entrant(best.program)
    labels = {**{name: rule.label for name, rule in rivals.items()}, best.program.id: FOUND}
    found = judge.run(entrants, prepared.unseen)
    for name, scores in found.items():
        if scores.error:
            line = f"no verdict: {labels[name]} fails on unseen links: {scores.error}"
            return Verdict("worse" if name == best.program.id else "nothing found", line, None)
    rows = [
        _row(cell, labels[name], row)
        for name, scores in found.items()
        for cell, row in zip(prepared.unseen, scores.rows, strict=True)
    ]
    return judged(rows, list(rivals.values()), prepared.plan.test_seeds, objective_of(prepared.plan.weights))


def judged(rows: Sequence[Mapping[str, Any]], rules: Sequence[Rule], seeds: int, objective: str) -> Verdict:
    """Returns the verdict on rows of scores."""
    meta = {
        "scheme": FOUND,
        "rules": [rule.as_dict() for rule in rules],
        "seeds": seeds,
        "objective": objective,
        "logarithmic": objective == f"ln {SCORE}",
    }
    gain = gain_of(Evaluation(scores=[dict(row) for row in rows], meta=meta))
    if gain is None or gain.best is None:
        line = "no verdict: every unseen link replaces a recording that is not here"
        return Verdict("nothing found", line, None, rows)
    state, line = in_words(gain.best, gain.links)
    return Verdict(state, line, gain, rows, rules)


def together(verdicts: Sequence[Verdict], plan: Plan) -> Verdict:
    """Returns the verdict on repeated searches: the bootstrap draws searches, too, as it does trainings."""
    known = [each for each in verdicts if each.gain is not None]
    if len(known) < 2:
        line = f"no common verdict: {len(known)} of {len(verdicts)} searches found something"
        return replace(known[0] if known else verdicts[0], sentence=line, state="nothing found")
    labels = [f"{FOUND} {number}" for number in range(1, len(known) + 1)]
    rows = [
        {**row, "policy": label, "scheme": label if row["scheme"] == FOUND else row["scheme"]}
        for label, each in zip(labels, known, strict=True)
        for row in each.rows
    ]
    shared = [rule for rule in known[0].rules if all(rule.label in {r.label for r in each.rules} for each in known)]
    about = {"record": "search", "rules": [rule.as_dict() for rule in shared]}
    objective = objective_of(plan.weights)
    policies = [
        {**about, "scheme": label, "policy_seed": plan.seed + number, "logarithmic": objective == f"ln {SCORE}"}
        for number, label in enumerate(labels)
    ]
    (common,) = over_trainings(Evaluation(scores=rows, meta={"policies": policies, "seeds": plan.test_seeds}))
    gain = known[0].gain
    assert gain is not None
    best = common.best
    state, line = in_words(best, gain.links)
    line += f"; {len(known)} of {len(verdicts)} searches"
    return Verdict(state, line, replace(gain, rules=common.rules, parts=common.parts, notes=[]), rows, shared)


def in_words(over: Beside, links: int) -> tuple[str, str]:
    """Returns the state and the sentence of a gain over a rule."""
    state = "better" if over.low > 0 else "worse" if over.high < 0 else "no better"
    return state, f"{state} than {over.label}: {over.said} on {links} unseen links"


def objective_of(weights: Mapping[str, float]) -> str:
    """Returns what a score is, in words."""
    return " ".join(f"{weight:+g} {name}" for name, weight in weights.items()) or f"ln {SCORE}"


def _row(cell: Cell, label: str, row: Mapping[str, Any]) -> dict[str, Any]:
    about = {"policy": FOUND, "scheme": label, "link_set": cell.link_set, "synthetic": cell.synthetic}
    beside = " beside others" if cell.beside else ""
    shown = {name: row[name] for name in SHOWN}
    return {**about, "link": f"{cell.link}{beside}", "seed": cell.seed, "score": row["score"], **shown}


def _score_of(order: Sequence[Candidate], program: Program) -> float | None:
    return next((each.score for each in order if each.program.id == program.id), None)


def _is_constant(candidate: Candidate) -> bool:
    if candidate.program.lang != "rule" or candidate.error:
        return False
    try:
        float(candidate.program.text)
    except ValueError:
        return False
    return True
