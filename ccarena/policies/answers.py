"""The two answers of an evaluation: did the policy learn, and could a simple rule do it?

They are computed from plain data (`evaluation.json`, the metadata of an artifact), so that a policy is described in the
same words whichever version evaluated it.

*Did it learn?* is answered by the tested expectations alone. *Could a simple rule do it?* compares the network with the
best rules without learning, and its answer is neither good nor bad. docs/training.md explains both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ccarena.pages.states import State

__all__ = [
    "DRAWS",
    "FETCH",
    "GAINS",
    "NOT_RISEN",
    "RECORDINGS",
    "WHY",
    "Answer",
    "compared",
    "learned",
    "of_evaluation",
    "of_several",
    "said",
    "simple_rule",
]

LEARNED, RULE = "Did it learn?", "Could a simple rule do it?"
RECORDINGS = "recordings"
"""Value of an expectation's `needs` if generated links replace recordings."""
FETCH = "ccarena traces fetch mahimahi"
"""Command that downloads the recordings."""
GAINS = "acct-signals"
"""Configuration whose network beats every rule; docs/acct.md has its gain."""
WHY = "docs/training.md#could-a-simple-rule-do-it"
"""Section that explains why a rule may be enough."""
NOT_RISEN = "the reward did not rise during training"
"""Beginning of the fault of a training that did not earn more at its end than at first."""
DRAWS = 5
"""Least number of seeds per link, or of trainings, for a trustworthy interval."""
LEAST_GAIN = 0.01
"""Mean gain from which a network that surely beats every rule is said to earn its place."""
SURELY_LESS = 0.10
"""End of the interval up to which a rule that is not surely beaten does as well; above it, the answer is undecided."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_RULES = {
    "constant": "one constant action",
    "by category": "one action per category",
    "base": "the scheme's base alone",
    "law": "a constant action with tuned parameters",
}


@dataclass(frozen=True)
class Answer:
    """Answer to one of the two questions."""

    question: str
    answer: str
    """`yes` or `no`; else, for learning, `partly`, `undecided` or `not tested`, for rules `undecided` or `not
    measured`.
    """
    state: State
    headline: str
    details: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Returns whether the answer is yes."""
        return self.answer == "yes"

    @property
    def sentence(self) -> str:
        """Returns headline and details as one sentence."""
        return "; ".join((self.headline, *self.details))

    def as_dict(self) -> dict[str, str]:
        """Returns plain data, for JSON."""
        return {"answer": self.answer, "sentence": self.sentence}


def of_evaluation(evaluation: Mapping[str, Any]) -> list[Answer]:
    """Returns both answers of the content of `evaluation.json`; none if it has no verdict with expectations."""
    verdict = evaluation.get("verdict")
    if not isinstance(verdict, Mapping) or "expectations" not in verdict:
        return []
    is_rule = bool(verdict.get("is_rule"))
    faults = [str(fault) for fault in verdict.get("faults") or ()]
    return [learned(verdict["expectations"], faults, is_rule), simple_rule(verdict.get("gain"), is_rule, faults)]


def learned(expectations: Sequence[Mapping[str, Any]], faults: Sequence[str], is_rule: bool = False) -> Answer:
    """Returns the answer to *Did it learn?*

    `expectations` have `state`, `group`, `measured`, `target` and `needs`. Those that were not tested have no
    influence. A `fault`, such as always the same action, makes a yes partly. If nothing was learned (`is_rule`), the
    words say only whether the rule does as expected.
    """
    held = sum(each.get("state") == "holds" for each in expectations)
    missed = [each for each in expectations if each.get("state") not in ("holds", "not tested")]
    tested = held + len(missed)
    if not tested:
        answer = "undecided" if faults else "not tested"
    else:
        answer = "no" if not held else "partly" if missed or faults else "yes"
    words: dict[str, tuple[State, str, str]] = {
        "yes": ("good", "Learned", "As expected, without learning"),
        "partly": ("partly", "Partly learned", "Partly as expected, without learning"),
        "no": ("bad", "Not learned", "Not as expected"),
        "undecided": ("partly", "Undecided", "Undecided"),
        "not tested": ("neutral", "Not tested", "Not tested"),
    }
    state, ours, of_rule = words[answer]
    off = [f"{each.get('group')}: {each.get('measured')}, expected {each.get('target')}" for each in missed]
    headline = f"{of_rule if is_rule else ours}: {_counts(held, tested, expectations)}"
    return Answer(LEARNED, answer, state, headline, (*off, *faults))


def _counts(held: int, tested: int, expectations: Sequence[Mapping[str, Any]]) -> str:
    """Returns how many of the tested expectations hold, and why others were not tested."""
    untested = [each for each in expectations if each.get("state") == "not tested"]
    recorded = sum(each.get("needs") == RECORDINGS for each in untested)
    others = [str(each.get("group")) for each in untested if each.get("needs") != RECORDINGS]
    counts = [f"{held} of {tested} {'tested ' if untested else ''}expectations hold"] if tested else []
    if recorded:
        counts.append(f"{recorded} need{'s' if recorded == 1 else ''} recordings: `{FETCH}`")
    if others:
        counts.append(f"without a valid run: {', '.join(dict.fromkeys(others))}")
    return "; ".join(counts) or "the configuration expects nothing"


def simple_rule(gain: Mapping[str, Any] | None, is_rule: bool = False, faults: Sequence[str] = ()) -> Answer:
    """Returns the answer to *Could a simple rule do it?*

    `gain` has the deciding rule `best`, all `rules` and the number of `seeds` per link, as `Gain.as_dict` returns them.
    If one of the `faults` is `NOT_RISEN`, the gain over the rules was not learned, so no network is shown to be needed.
    """
    if is_rule:
        return Answer(RULE, "yes", "neutral", "Yes: the policy is itself a rule, without a network")
    if gain is None:
        return Answer(RULE, "not measured", "neutral", "Not measured: no rule without learning was run beside it")
    best, rules = gain.get("best"), gain.get("rules") or []
    if not best:
        missing = "; ".join(f"{rule.get('kind')}: {rule.get('missing')}" for rule in rules)
        return Answer(RULE, "not measured", "neutral", f"Not measured: no rule was found ({missing})")
    answer = compared(best, rules, int(gain.get("seeds", DRAWS)), "seeds")
    not_risen = [fault for fault in faults if fault.startswith(NOT_RISEN)]
    if answer.answer == "no" and not_risen:
        headline = answer.headline.replace("No:", "Undecided:", 1)
        return Answer(RULE, "undecided", "partly", headline, (f"but {not_risen[0]}",))
    return answer


def compared(best: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], draws: int, of: str) -> Answer:
    """Returns the answer for the deciding rule `best` among `rules`; `draws` is the number of seeds or trainings, which
    `of` names.
    """
    gain, low, high = (float(best[name]) for name in ("gain", "low", "high"))
    relative = bool(best.get("relative", True))
    earned = f"the network earns {said(gain, low, high, relative)}"
    is_best = all(best["score"] >= rule["score"] for rule in rules if _finite(rule.get("score")))
    over = "the best rule" if is_best else "a rule that is worse on the mean, but not surely"
    decided = draws >= DRAWS
    least, surely_less = (LEAST_GAIN, SURELY_LESS) if relative else (0.0, 0.0)
    if decided and low > 0 and gain >= least:
        return Answer(RULE, "no", "neutral", f"No: {earned} over {over} ({best['label']})")
    if decided and (low > 0 or high <= surely_less):
        well = "better" if high < 0 else "nearly as well" if low > 0 else "as well"
        return Answer(RULE, "yes", "neutral", f"Yes: {named(best)} does {well} ({best['label']}); {earned}")
    few = "" if decided else f"; {draws} {of if draws > 1 else of.removesuffix('s')}, {DRAWS} decide"
    return Answer(RULE, "undecided", "partly", f"Undecided: {earned} over {over} ({best['label']}){few}")


def of_several(answers: Mapping[str, Answer]) -> Answer:
    """Returns the answers of several policies, by label, as one: theirs if they agree, else `undecided`."""
    first, *others = answers.values()
    details = tuple(f"{label}: {each.sentence}" for label, each in answers.items())
    if all(each.answer == first.answer for each in others):
        headline = f"{first.answer.capitalize()}, for each of {len(answers)} policies"
        return Answer(RULE, first.answer, first.state, headline, details)
    return Answer(RULE, "undecided", "partly", "The policies differ", details)


def named(rule: Mapping[str, Any]) -> str:
    """Returns a rule in words: "a rule of four numbers"."""
    numbers = int(rule.get("numbers") or 0)
    if numbers > 0:
        count = _NUMBERS[numbers] if numbers < len(_NUMBERS) else str(numbers)
        return f"a rule of {count} number{'s' if numbers > 1 else ''}"
    return _RULES.get(str(rule.get("kind")), "a rule")


def said(gain: float, low: float, high: float, relative: bool = True) -> str:
    """Returns a gain and its interval in words, such as "+7 % [5, 9]"; "+2.7 [2, 3] in score" if it is not relative."""
    differs = not math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12)
    if not relative:
        between = f" [{low:.3g}, {high:.3g}]" if differs else ""
        return f"{gain:+.3g}{between} in score".replace("-", "−")
    digits = 1 if max(abs(gain), abs(low), abs(high)) < 0.1 else 0
    gain, low, high = (round(100.0 * value, digits) + 0.0 for value in (gain, low, high))
    # Links and seeds of which each gives the same gain have no interval.
    interval = f" [{low:.{digits}f}, {high:.{digits}f}]" if differs else ""
    return f"{gain:+.{digits}f} %{interval}".replace("-", "−")


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
