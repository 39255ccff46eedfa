"""Certificate of a policy: the answer for each property in each form, and the guard that goes into its artifact."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ccarena.eval.certify import BOXES
from ccarena.eval.certify.floats import FloatForm
from ccarena.eval.certify.integers import IntegerForm
from ccarena.eval.certify.properties import Property, observed_by
from ccarena.eval.certify.questions import Form, Monotone
from ccarena.eval.certify.search import Found, Question, decide
from ccarena.policies.artifact import Artifact

__all__ = ["FORMS", "PROVED", "REFUTED", "UNDECIDED", "Answer", "certify", "guarded", "summary"]

PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"
FORMS: dict[str, Callable[[Artifact], Form]] = {"float": FloatForm, "integer": IntegerForm}
ENOUGH = 0.01
"""Share of a refuted property's volume that may stay undecided."""


@dataclass(frozen=True)
class Answer:
    """Answer whether a property holds in one form of a policy."""

    name: str
    form: str
    state: str
    """Proved, refuted or undecided."""
    holds: float
    """Share of the volume on which the property is proved."""
    violated: float
    """Share of the volume on which it is proved to be violated."""
    undecided: float
    boxes: int
    seconds: float
    counterexample: dict[str, Any] | None
    """Decisions of a flow that violates the property, computed by the form's own inference; None without one."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the answer as data, without the time that it took."""
        return {key: value for key, value in vars(self).items() if key != "seconds"}


def certify(prop: Property, form: Form, boxes: int = BOXES) -> Answer:
    """Decides a property in one form. Spaces of one property share the boxes and the volume equally."""
    began = time.monotonic()
    questions = list(prop.questions(form))
    found = [decide(question, max(1, boxes // len(questions)), ENOUGH) for question in questions]
    wrong = next((pair for pair in zip(questions, found, strict=True) if pair[1].point is not None), None)
    undecided = _mean(found, "undecided")
    proved = not any(each.left or each.violated for each in found)
    state = REFUTED if wrong else PROVED if proved else UNDECIDED
    return Answer(
        prop.name,
        form.name,
        state,
        1.0 if state == PROVED else _mean(found, "holds"),
        _mean(found, "violated"),
        undecided,
        sum(each.boxes for each in found),
        time.monotonic() - began,
        None if wrong is None or wrong[1].point is None else _counterexample(prop, wrong[0], wrong[1].point),
    )


def _mean(found: Sequence[Found], name: str) -> float:
    return sum(getattr(each, name) for each in found) / len(found)


def _counterexample(prop: Property, question: Question, point: np.ndarray) -> dict[str, Any]:
    """Returns the decisions at a point, and of a monotone property those at its end, too."""
    flows = [point]
    if isinstance(question, Monotone):
        moves = [question.moved(point[None], share)[0] for share in (1.0, 0.25, 0.05)]
        actions = [question.actions(each[None], question.number)[0, -1] for each in moves]
        flows.append(moves[int(np.argmax(question.sign * np.array(actions)))])
    seen = observed_by(prop.policy)
    decisions = []
    for flow in flows:
        rows = question.space.observations(flow[None])[0]
        actions = question.actions(flow[None], prop.claim.get("number", 0))[0]  # type: ignore[attr-defined]
        for row, action in zip(rows, actions, strict=True):
            values = {
                entry.name: _brief(row[entry.first : entry.first + entry.length].tolist()) for entry in seen.entries
            }
            decisions.append({"observation": values, "action": float(action)})
    return {"space": question.space.label, "decisions": decisions}


def _brief(values: list[float]) -> float | list[float]:
    return values[0] if len(set(values)) == 1 else values


def summary(answers: Sequence[Answer]) -> dict[str, Any]:
    """Returns how many properties have each state, and the mean of the decided shares of their volumes."""
    counts = {name: sum(each.state == name for each in answers) for name in (PROVED, REFUTED, UNDECIDED)}
    return {**counts, "decided": 1 - sum(each.undecided for each in answers) / len(answers)}


def guarded(
    policy: Artifact, limits: Mapping[str, tuple[float, float]], bound: Sequence[tuple[float, float]]
) -> Artifact:
    """Returns the artifact with a guard: a box of observations with these limits, and a bound of each number it acts.

    A signal without limits has the range that training saw, unless the network sees it clipped there.
    """
    low, high = _range(policy)
    for entry in observed_by(policy).entries:
        for at in range(entry.length):
            names = (f"{entry.name}[{at - entry.length}]", entry.name)
            ends = next((limits[name] for name in names if name in limits), None)
            if ends is not None:
                low[entry.first + at], high[entry.first + at] = ends
    least, most = (list(ends) for ends in zip(*bound, strict=True))
    box = {"low": [_open(x) for x in low], "high": [_open(x) for x in high]}
    return replace(policy, guard={"observation": box, "action": {"low": least, "high": most}})


def _range(policy: Artifact) -> tuple[list[float], list[float]]:
    """Returns the range of training by entry, infinite where the network sees it clipped or it is not known."""
    length = policy.interface.observation_len
    if not policy.observed:
        return [-np.inf] * length, [np.inf] * length
    seen = observed_by(policy)
    low, high = (np.array(policy.observed[end], np.float64) for end in ("low", "high"))
    return np.where(low <= seen.low, -np.inf, low).tolist(), np.where(high >= seen.high, np.inf, high).tolist()


def _open(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
