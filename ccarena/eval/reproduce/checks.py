"""Claims of a paper, judged against the rows of a suite.

A claim has `claim` (text), `paper` (number, list of numbers, or text), `measured` (a value, see `values`) and `holds`:

| `holds` | required of every element of `measured` |
|---|---|
| `{within: 10 %}` | differs from the paper's number by at most this share; needs `read`, below |
| `{within_absolute: 0.5}` | differs from the paper's number by at most this much, in its unit; needs `read` |
| `{at_least: V}`, `{at_most: V}`, `{between: [LOW, HIGH]}` | keeps the bound, a value or a number |
| `{order: increasing, by: 5 %}`, `decreasing` | exceeds (or falls below) the previous element by at least this share |
| `{equal: 5 %}` | differs from the mean of all elements by at most this share |
| `{largest: LABEL}`, `{smallest: LABEL}` | the element with this label (of `along`) is the largest or smallest |
| `{same_side_of: V}` | is above V where the paper's number is, and below V where the paper's number is |
| `{all: [...]}`, `{any: [...]}`, `{not: ...}` | combinations |

A claim with `within` or `within_absolute` also says how the paper's number was read. That bounds the tolerance:

| `read` | meaning | tolerance, at most |
|---|---|---|
| `printed` | a number in the text or in a table | 10 % |
| `computed` | a number that follows from the paper's equations | 10 % |
| `figure` | a number read off a plot | 20 % |
| `words` | "similar", "approximately 5 seconds", "shares well" | 25 % |

Statements with one side:

- `better: higher` or `better: lower` is the direction in which the paper claims an advantage. `within` then bounds the
  other side alone, so a claim still holds if it exceeds the paper. If the measured value is farther in that direction
  than the tolerance, the state is *holds* with the mark "and more". "At least 3" is `better: higher`, "at most 5 ms"
  is `better: lower`.
- `up_to: true` beside `better` is for "up to": the best element of `measured` alone is compared.
- `why` is the reason for such a choice, or for a tolerance beyond the table's.

Further keys of a claim:

- `all_of: [{measured, holds, paper}, ...]` has several requirements, instead of `measured` and `holds`.
- `for_each: {AXIS: all}` or `{AXIS: [LABELS]}` gives one claim per combination, with `${AXIS}` in its texts and its
  element of a `paper` list.
- `${CONSTANT}` or an expression of constants in a text is its value, also in a quick run that changes it.
- `direction` is a weaker requirement in the forms of `holds`. A claim that meets only this one differs.
- `under: {AXIS: {LABEL: OTHER}}` is another condition. A claim without the paper's direction is judged again with
  OTHER's cells in place of LABEL's. It differs if it or its direction holds there, and the page names the condition.
- `aside: true` marks what the paper did not measure; it is counted apart.

Each claim is judged over resamples of the seeds (`resamples`). A claim holds if it does in 95 % of them. It does not
hold if it does in at most 5 %, and is undecided otherwise. In the simulator, an undecided claim gets more seeds: their
number doubles, for the cells on which the claim depends, until its state is certain or `seeds: {most: N}` is reached
(default 200). `--seeds N` and `--quick` fix the number. Claims with `aside` get no further seeds.

A claim may have its last seed and still hold in some resamples and differ in the others. Its value is then at the
bound of the tolerance. The claim **differs**, because a claim holds only if that is certain. It is marked "at the
bound", with the 95 % interval of the measured value over the resamples. A claim whose direction is uncertain as well
stays undecided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.reproduce import resamples
from ccarena.eval.reproduce.values import CellKey, Measured, Names, Result, Row, Watched, cell_key, parse_value
from ccarena.scenarios.sweep import label_of

__all__ = [
    "READINGS",
    "STATES",
    "Claim",
    "ClaimModel",
    "Judged",
    "at_the_bound",
    "bounds",
    "cells",
    "held_against",
    "judge",
    "parse_claim",
]

State = Literal["holds", "differs", "does not hold", "undecided", "not tested"]
STATES: dict[str, str] = {
    "holds": "the measured value agrees with the paper within the stated tolerance, whichever seeds are drawn",
    "differs": "the direction agrees with the paper but not the figure, or only under another, named condition; or a "
    "claim that has its last seed may hold or differ",
    "does not hold": "the direction disagrees with the paper",
    "undecided": "the outcome depends on the seeds; more seeds would decide",
    "not tested": "runs are missing or failed",
}


READINGS: dict[str, float] = {"printed": 0.10, "computed": 0.10, "figure": 0.20, "words": 0.25}
"""Ways to read a number of a paper, with the largest tolerance that each allows."""

MORE_DIGITS = 4
"""Digits at most that tell a value from the limit that it misses."""

Reading = Literal["printed", "computed", "figure", "words"]
Better = Literal["higher", "lower"]


class _Stated(BaseModel):
    """Statement of the paper: its number, and on which sides it bounds what is measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    direction: dict[str, Any] | None = None
    read: Reading | None = None
    better: Better | None = None
    up_to: bool = False
    why: str = ""
    """Reason for one side, or for a tolerance beyond that of `read`."""


class Part(_Stated):
    """Requirement of `all_of`."""

    measured: Any
    holds: dict[str, Any]
    paper: float | list[float] | str | None = None


class ClaimModel(_Stated):
    """Claim as written in the file."""

    claim: str
    paper: float | list[float] | str
    measured: Any = None
    holds: dict[str, Any] | None = None
    all_of: list[Part] | None = None
    for_each: dict[str, Any] = {}
    unit: str = ""
    digits: int = 2
    differs_in: str = ""
    note: str = ""
    headline: bool = False
    """Figure to include in the project's measured figures by `ccarena reproduce --write-docs`."""
    aside: bool = False
    """The paper measured nothing of the kind."""
    under: dict[str, dict[str, Any]] = {}
    """Axes with their labels, and for each label another one whose cells show the reason for a failed claim."""


Test = Callable[[Result, "Result | None", Sequence[Row], Mapping[str, str]], bool]
"""Function of (measured, paper's numbers, rows, chosen) that returns whether the requirement holds."""


class ParsedPart(NamedTuple):
    """Parsed requirement."""

    measured: Measured
    holds: Test
    direction: Test | None
    paper: Result | None
    beyond: Test | None
    """Test that nothing is farther in the paper's direction than the tolerance; only for a statement with one side."""
    required: str
    """Requirement in words."""
    limits: Sequence[tuple[float, float] | None]
    """Least and largest value that the requirement allows, of all values or of each; None if it is no such range."""


@dataclass(frozen=True)
class Claim:
    """Claim of one combination of its `for_each`, parsed."""

    model: ClaimModel
    text: str
    paper: str
    chosen: Mapping[str, str]
    parts: Sequence[ParsedPart]


@dataclass(frozen=True)
class Judged:
    """Claim with its judgement, as in tables and in claims.json."""

    claim: str
    paper: str
    measured: str
    state: State
    values: list[list[float]]
    differs_in: str
    note: str
    headline: bool = False
    aside: bool = False
    discriminates: bool | None = None
    """The claim fails, as it should, with CUBIC instead of the paper's schemes.

    None if that was not tried, or if the measured values do not involve these schemes.
    """
    under: str = ""
    """Other condition under which the claim holds or differs, with the values measured there; else empty."""
    direction: bool = False
    """The claim is undecided between holding and differing, but is one of the two, whichever seeds are drawn."""
    at_bound: str = ""
    """95 % intervals of the measured values over the resamples, if the claim differs because it is at the bound; else
    empty.
    """
    more: bool = False
    """The claim holds, and exceeds the paper in the paper's own direction by more than the tolerance."""
    required: str = ""
    """Requirement in words, with how the paper's number was read."""
    why: str = ""
    """Reason for one side or for a wide tolerance."""
    seeds: int = 0
    """Seeds per cell over which it was judged."""
    labels: Sequence[Sequence[str]] = ()
    intervals: Sequence[Sequence[Sequence[float]]] = ()
    """Names and 95 % intervals of `values`; both are empty if nothing has any."""


def parse_claim(model: ClaimModel, names: Names, path: str) -> list[Claim]:
    """Returns the claims that one entry stands for. Raises ConfigError led by `path`."""
    if (model.measured is None) == (model.all_of is None) or (model.holds is None) != (model.measured is None):
        raise ConfigError(f"{path}: expected `measured` and `holds`, or `all_of`")
    axes = []
    for axis, given in model.for_each.items():
        if axis not in names.axes:
            raise ConfigError(f'{path}.for_each: unknown axis "{axis}"{did_you_mean(axis, names.axes)}')
        labels = list(names.axes[axis]) if given == "all" else [label_of(one) for one in given]
        for one in labels:
            if one not in names.axes[axis]:
                hint = did_you_mean(one, names.axes[axis])
                raise ConfigError(f'{path}.for_each.{axis}: unknown value "{one}"{hint}')
        axes.append([(axis, one) for one in labels])
    for axis, others in model.under.items():
        for one in [] if axis in names.axes else [axis]:
            raise ConfigError(f'{path}.under: unknown axis "{one}"{did_you_mean(one, names.axes)}')
        for one in map(label_of, [*others, *others.values()]):
            if one not in names.axes[axis]:
                raise ConfigError(f'{path}.under.{axis}: unknown value "{one}"{did_you_mean(one, names.axes[axis])}')
    points = [dict(point) for point in itertools.product(*axes)]
    split = bool(axes) and isinstance(model.paper, list)
    if split and len(model.paper) != len(points):  # type: ignore[arg-type]
        raise ConfigError(f"{path}.paper: expected {len(points)} numbers, one for each of `for_each`")
    stated = model.model_dump(include=set(_Stated.model_fields))
    given_parts = model.all_of or [Part(measured=model.measured, holds=model.holds or {}, **stated)]
    if model.all_of and (given := [key for key in ("direction", "read", "better", "up_to") if stated[key]]):
        raise ConfigError(f"{path}.{given[0]}: with `all_of` each of its parts has its own; move it there")
    out = []
    for i, point in enumerate(points):
        paper = model.paper[i] if split else model.paper  # type: ignore[index]
        parts = []
        for k, part in enumerate(given_parts):
            at = f"{path}.all_of[{k}]" if model.all_of else path
            parts.append(_parse_part(part, names, at, list(point), paper, part.why or model.why))
        out.append(Claim(model, _fill(model.claim, point), _fill(_paper(paper, model), point), point, parts))
    return out


def _parse_part(
    part: Part, names: Names, path: str, chosen: Sequence[str], paper: float | list[float] | str, why: str
) -> ParsedPart:
    value = parse_value(part.measured, names, f"{path}.measured", chosen)
    numbers = _numbers(part.paper if part.paper is not None else paper)
    holds = _parse_test(part.holds, names, f"{path}.holds", chosen, numbers, part.better)
    _check_reading(part, numbers, path, why)
    if part.up_to:
        value = _best(value, str(part.better))
    weaker = beyond = None
    if part.direction is not None:
        weaker = _parse_test(part.direction, names, f"{path}.direction", chosen, numbers, part.better)
    if part.better is not None:
        beyond = _parse_test(part.holds, names, f"{path}.holds", chosen, numbers)
    return ParsedPart(value, holds, weaker, numbers, beyond, _in_words(part), _limits(part.holds))


def _check_reading(part: Part, numbers: Result | None, path: str, why: str) -> None:
    """Raises ConfigError unless a tolerance says how the paper's number was read and is no wider than that allows."""
    near = list(_tolerances(part.holds, f"{path}.holds"))
    if part.better is not None and not near:
        raise ConfigError(
            f"{path}.better: only `within` and `within_absolute` have two sides; use `at_least` or `at_most`"
        )
    if part.up_to and part.better is None:
        raise ConfigError(
            f"{path}.up_to: expected `better: higher` or `better: lower` beside it, which says what is best"
        )
    if near and part.read is None:
        raise ConfigError(f"{path}: expected `read`, how the paper's number was read: {', '.join(READINGS)}")
    if part.read is not None and not near:
        raise ConfigError(
            f"{path}.read: without `within` or `within_absolute` there is no tolerance that it would bound"
        )
    if part.read is None or numbers is None or why:
        return
    for form, tolerance, at in near:
        least = min((abs(x) for x in numbers.values if x), default=math.inf)
        share = tolerance if form == "within" else tolerance / least
        if share > READINGS[part.read] * (1 + 1e-9):
            raise ConfigError(
                f"{at}: {100 * share:.3g} % is more than the {100 * READINGS[part.read]:.0f} % of a number that is "
                f"read as `{part.read}`; expected less, or the reason in `why`"
            )


def _tolerances(node: Any, path: str) -> Iterator[tuple[str, float, str]]:
    """Yields form, tolerance and path of every `within` and `within_absolute` of a requirement."""
    for form, given in node.items() if isinstance(node, Mapping) else ():
        if form in ("within", "within_absolute"):
            yield form, _share(given, f"{path}.{form}"), f"{path}.{form}"
        elif form in ("all", "any") and isinstance(given, list):
            for i, each in enumerate(given):
                yield from _tolerances(each, f"{path}.{form}[{i}]")
        elif form == "not":
            yield from _tolerances(given, f"{path}.{form}")


def bounds(holds: Mapping[str, Any], better: Better | None, paper: float | None) -> tuple[float, float] | None:
    """Returns the least and the largest value that a requirement allows; None if it is no range of numbers."""
    form = next(key for key in holds if key != "by")
    given = holds[form]
    if form == "all":
        parts = [bounds(part, better, paper) for part in given]
        ends = [part for part in parts if part is not None]
        return (max(low for low, _ in ends), min(high for _, high in ends)) if len(ends) == len(parts) else None
    if form in ("within", "within_absolute") and paper is not None:
        margin = _share(given, form) * (abs(paper) if form == "within" else 1.0)
        return (
            -math.inf if better == "lower" else paper - margin,
            math.inf if better == "higher" else paper + margin,
        )
    limits = {"at_least": [given, math.inf], "at_most": [-math.inf, given], "between": given}.get(form)
    if limits is None or not all(isinstance(limit, (int, float)) for limit in limits):
        return None
    return float(limits[0]), float(limits[1])


def _limits(holds: Mapping[str, Any]) -> list[tuple[float, float] | None]:
    """Returns `bounds` of a requirement that states them as numbers: one pair, or one for each measured value."""
    form = next(key for key in holds if key != "by")
    if form in ("at_least", "at_most") and isinstance(holds[form], list):
        return [bounds({form: limit}, None, None) for limit in holds[form]]
    return [bounds(holds, None, None)]


def _best(value: Measured, better: str) -> Measured:
    def measure(rows: Sequence[Row], chosen: Mapping[str, str]) -> Result:
        result = value(rows, chosen)
        if not result.values or any(map(math.isnan, result.values)):
            return result
        at = (np.argmax if better == "higher" else np.argmin)(result.values)
        return Result(
            result.values[at : at + 1], result.labels[at : at + 1], result.intervals[at : at + 1], result.scalar
        )

    return measure


_ORDER: Sequence[State] = ("not tested", "does not hold", "undecided", "differs", "holds")
"""States of a claim's parts, from the one that decides the claim first to the one that decides it last."""


def judge(claim: Claim, rows: Sequence[Row], partial: bool = False) -> Judged:
    """Judges the claim against the rows. If these are of a `partial` sweep, only existing cells are compared."""
    judged = _judge(claim, rows, partial)
    undecided = judged.state == "undecided" and not judged.direction
    if not claim.model.under or not (undecided or judged.state == "does not hold"):
        return judged
    other = _judge(claim, _standing_in(rows, claim.model.under), partial)
    found = "holds or differs" if other.direction else other.state
    if found not in ("holds", "differs", "holds or differs") or other.measured == judged.measured:
        return judged
    where = [
        f"{axis} {label_of(others[label])} in the place of {label}"
        for axis, others in claim.model.under.items()
        for label in ([claim.chosen[axis]] if claim.chosen.get(axis) in others else others)
    ]
    under = f"{found} with {' and '.join(where)}: {other.measured}"
    # Whatever more seeds said of a claim that is undecided, it would differ at least.
    return replace(judged, state="undecided" if undecided else "differs", under=under, direction=undecided)


def at_the_bound(claim: Claim, judged: Judged, rows: Sequence[Row]) -> Judged:
    """Returns the judgement of an undecided claim that has its last seed: it differs if its direction is certain."""
    if judged.state != "undecided" or not judged.direction:
        return judged
    ranges = []
    for part in claim.parts:
        drawn = [part.measured(sample, claim.chosen).values for sample in resamples.resamples(rows)]
        ends = zip(*(np.percentile(values, [2.5, 97.5]) for values in zip(*drawn, strict=True)), strict=True)
        low, high = ([_number(float(x), claim.model.digits) for x in end] for end in ends)
        ranges.append(", ".join(f"{a} to {b}" for a, b in zip(low, high, strict=True)))
    unit = f" {claim.model.unit}" if claim.model.unit else ""
    return replace(judged, state="differs", direction=False, at_bound="; ".join(ranges) + unit)


def cells(claim: Claim, rows: Sequence[Row]) -> set[CellKey]:
    """Returns the cells of `rows` on which the claim's judgement depends."""
    found: set[CellKey] = set()
    for part in claim.parts:
        watched = Watched(rows)
        result = part.measured(watched, claim.chosen)
        for test in (part.holds, part.direction):
            if test is not None:
                test(result, part.paper, watched, claim.chosen)
        found |= watched.cells
    for axis, others in claim.model.under.items():
        names = {label_of(label): label_of(to) for label, to in others.items()}
        found |= {cell_key({**dict(key), axis: names[dict(key)[axis]]}) for key in found if dict(key)[axis] in names}
    return found & {cell_key(row["cell"]) for row in rows}


def _standing_in(rows: Sequence[Row], under: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Returns the rows with those of other labels instead of the labels that `under` replaces, and in their own
    place.
    """
    out = list(rows)
    for axis, others in under.items():
        names = {label_of(label): label_of(to) for label, to in others.items()}
        kept = [row for row in out if row["cell"][axis] not in names]
        out = kept + [
            {**row, "cell": {**row["cell"], axis: label}}
            for label, to in names.items()
            for row in out
            if row["cell"][axis] == to
        ]
    return out


def _judge(claim: Claim, rows: Sequence[Row], partial: bool) -> Judged:
    """Judges the claim itself, without another condition."""
    samples = resamples.resamples(rows)
    judged = [_judge_part(part, claim.chosen, rows, samples, partial) for part in claim.parts]
    results = [result for result, *_ in judged]
    state = min((state for _, state, _ in judged), key=_ORDER.index)
    model = claim.model
    more = state == "holds" and any(
        part.beyond is not None and not part.beyond(*(_present(result, part.paper)), rows, claim.chosen)
        for part, result in zip(claim.parts, results, strict=True)
    )
    return Judged(
        claim.text,
        claim.paper,
        "; ".join(_shown(result, model, part.limits) for result, part in zip(results, claim.parts, strict=True)),
        state,
        [list(result.values) for result in results],
        _fill(model.differs_in, claim.chosen),
        "" if state == "holds" and not more else _fill(model.note, claim.chosen),
        model.headline,
        model.aside,
        direction=state == "undecided" and all(least for *_, least in judged),
        more=more,
        required="; ".join(part.required for part in claim.parts),
        why=" ".join(filter(None, [model.why, *(part.why for part in model.all_of or [])])),
        labels=_unless_empty(result.labels for result in results),
        intervals=_unless_empty(result.intervals for result in results),
    )


def _unless_empty(of_parts: Iterable[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    parts = tuple(of_parts)
    return parts if any(any(part) for part in parts) else ()


def held_against(claim: Claim, judged: Judged, rows: Sequence[Row], wrong: Sequence[Row], partial: bool) -> Judged:
    """Returns the judgement completed with the outcome of the claim on runs of a `wrong` scheme.

    Runs in which there was nothing to replace are among both `rows` and `wrong`; a claim about these alone does not
    involve the paper's schemes.
    """
    if judged.state != "holds" or not wrong:
        return judged
    known = {row["key"] for row in rows}
    untouched = [row for row in wrong if row["key"] in known]
    with_wrong = judge(claim, wrong, partial)
    if judge(claim, untouched).values == with_wrong.values:
        return judged
    return replace(judged, discriminates=with_wrong.state != "holds")


def _judge_part(
    part: ParsedPart, chosen: Mapping[str, str], rows: Sequence[Row], samples: Sequence[Sequence[Row]], partial: bool
) -> tuple[Result, State, bool]:
    """Returns the measured value, its state in most of the `samples`, and whether most say that it holds or differs."""
    value, test, weaker, paper = part[:4]

    def measured(rows: Sequence[Row]) -> tuple[Result, Result | None]:
        result = value(rows, chosen)
        return _present(result, paper) if partial else (result, paper)

    result, _ = measured(rows)
    if not result.values or any(math.isnan(x) for x in result.values):
        return result, "not tested", False
    drawn = [(*measured(sample), sample) for sample in samples]

    verdicts = [test(*each, chosen) for each in drawn]
    holds = resamples.agreeing(verdicts)
    if holds:
        return result, "holds", True
    weakly = [weaker(*each, chosen) for each in drawn] if weaker else [False] * len(drawn)
    if holds is None:
        least = [good or weak for good, weak in zip(verdicts, weakly, strict=True)]
        return result, "undecided", resamples.agreeing(least) is True
    direction = resamples.agreeing(weakly)
    return result, "undecided" if direction is None else "differs" if direction else "does not hold", bool(direction)


def _present(result: Result, paper: Result | None) -> tuple[Result, Result | None]:
    """Returns both without the elements that are NaN, which a partial sweep has left out."""
    kept = [i for i, value in enumerate(result.values) if not math.isnan(value)]
    if paper is not None and len(paper.values) == len(result.values):
        paper = replace(paper, values=tuple(paper.values[i] for i in kept))
    return Result(
        tuple(result.values[i] for i in kept),
        tuple(result.labels[i] for i in kept) if result.labels else (),
        tuple(result.intervals[i] for i in kept) if result.intervals else (),
        result.scalar,
        tuple(kept) if len(kept) < len(result.values) else None,
    ), paper


def _parse_test(
    node: Any,
    names: Names,
    path: str,
    chosen: Sequence[str],
    paper: Result | None,
    better: Better | None = None,
) -> Test:
    if not isinstance(node, Mapping) or not node:
        raise ConfigError(f"{path}: expected a mapping with one of {', '.join(_TESTS)}")
    by = node.get("by")
    forms = [key for key in node if key != "by"]
    unknown = [key for key in forms if key not in _TESTS]
    if unknown or len(forms) != 1:
        hint = did_you_mean(str(unknown[0]), _TESTS) if unknown else ""
        raise ConfigError(f"{path}: expected one of {', '.join(_TESTS)}{hint}; got {', '.join(map(str, node))}")
    form = forms[0]
    if by is not None and form != "order":
        raise ConfigError(f"{path}.by: only `order` says by how much")
    given, at = node[form], f"{path}.{form}"
    if form in ("all", "any"):
        if not isinstance(given, list) or not given:
            raise ConfigError(f"{at}: expected a list of tests")
        tests = [_parse_test(part, names, f"{at}[{i}]", chosen, paper, better) for i, part in enumerate(given)]
        combine = all if form == "all" else any
        # Each test is asked, so that `cells` sees what each depends on.
        return lambda *args: combine([test(*args) for test in tests])
    if form == "not":
        inner = _parse_test(given, names, at, chosen, paper)
        return lambda *args: not inner(*args)
    if form in ("within", "within_absolute", "same_side_of") and paper is None:
        raise ConfigError(f"{at}: needs a number, or a list of numbers, in `paper`")
    if form in ("at_least", "at_most"):
        return _against(form, parse_value(given, names, at, chosen))
    if form == "same_side_of":
        return _same_side(parse_value(given, names, at, chosen), at)
    if form == "between":
        if not isinstance(given, list) or len(given) != 2:
            raise ConfigError(f"{at}: expected [LOW, HIGH]")
        low, high = (parse_value(part, names, f"{at}[{i}]", chosen) for i, part in enumerate(given))
        least, most = _against("at_least", low), _against("at_most", high)
        return lambda *args: all([least(*args), most(*args)])
    if form in ("largest", "smallest"):
        return _extreme(form, label_of(given), at)
    if form == "order":
        if given not in ("increasing", "decreasing"):
            raise ConfigError(f"{at}: {given!r}: expected increasing or decreasing")
        if by is None:
            raise ConfigError(f"{path}: expected `by`, the least step from one to the next, such as `by: 5 %`")
        return _order(1.0 if given == "increasing" else -1.0, _share(by, f"{path}.by"))
    return _near(form, _share(given, at), at, None if form == "equal" else better)


_TESTS = (
    *("within", "within_absolute", "at_least", "at_most", "between", "order", "equal", "largest", "smallest"),
    *("same_side_of", "all", "any", "not"),
)


def _against(form: str, limit: Measured) -> Test:
    compare: Callable[[Any, Any], Any] = np.greater_equal if form == "at_least" else np.less_equal
    return lambda result, paper, rows, chosen: bool(
        np.all(compare(result.values, _beside(result, limit(rows, chosen))))
    )


def _beside(result: Result, limit: Result) -> np.ndarray[Any, Any]:
    """Returns the limits of the values in `result`: one for all, or those that a partial sweep has kept."""
    values = np.asarray(limit.values)
    return values if result.kept is None or values.size == 1 else values[list(result.kept)]


def _same_side(limit: Measured, path: str) -> Test:
    def test(result: Result, paper: Result | None, rows: Sequence[Row], chosen: Mapping[str, str]) -> bool:
        values, theirs = np.asarray(result.values), _of_paper(paper, len(result.values), path)
        edge = _beside(result, limit(rows, chosen))
        return bool(np.all((values > edge) == (theirs > edge)))

    return test


def _of_paper(paper: Result | None, size: int, path: str) -> np.ndarray[Any, Any]:
    """Returns the paper's number for each of `size` measured values. Raises ConfigError if they do not match."""
    assert paper is not None
    if len(paper.values) not in (1, size):
        raise ConfigError(f"{path}: the paper's {len(paper.values)} numbers against {size} measured")
    return np.broadcast_to(np.asarray(paper.values), (size,))


def _near(form: str, tolerance: float, path: str, better: Better | None) -> Test:
    def test(result: Result, paper: Result | None, rows: Sequence[Row], chosen: Mapping[str, str]) -> bool:
        values = np.asarray(result.values)
        if form == "equal":
            target = np.full(values.shape, values.mean())
        else:
            target = _of_paper(paper, values.size, path)
        margin = tolerance if form == "within_absolute" else tolerance * np.abs(target)
        short = {"higher": target - values, "lower": values - target}.get(better or "", np.abs(values - target))
        return bool(np.all(short <= margin * (1 + 1e-12)))

    return test


def _order(sign: float, by: float) -> Test:
    def test(result: Result, *_: Any) -> bool:
        values = sign * np.asarray(result.values)
        return bool(np.all(np.diff(values) >= by * np.abs(values[:-1])))

    return test


def _extreme(form: str, wanted: str, path: str) -> Test:
    def test(result: Result, *_: Any) -> bool:
        if wanted not in result.labels:
            hint = did_you_mean(wanted, result.labels) or "; `measured` has no labels without `along`"
            raise ConfigError(f'{path}: no element "{wanted}"{hint}')
        value = result.values[result.labels.index(wanted)]
        return value >= max(result.values) if form == "largest" else value <= min(result.values)

    return test


def _share(given: Any, path: str) -> float:
    """Reads `10 %` or 0.1."""
    try:
        if isinstance(given, str) and given.strip().endswith("%"):
            return float(given.strip()[:-1]) / 100
        return float(given)
    except (TypeError, ValueError):
        raise ConfigError(f"{path}: {given!r}: expected a share, such as `10 %` or 0.1") from None


def _in_words(part: Part) -> str:
    """Returns a requirement in words, such as `at most 10 % below, printed`."""
    side = {"higher": " below", "lower": " above", None: ""}[part.better]

    def words(node: Any) -> str:
        form = next((key for key in node if key != "by"), "")
        given = node.get(form)
        value = (
            f"{given:g}"
            if isinstance(given, (int, float))
            else "what is beside it"
            if isinstance(given, Mapping)
            else given
        )
        if form in ("within", "within_absolute"):
            return f"at most {value}{side}" if side else f"within {value}"
        if form in ("all", "any"):
            return (" and " if form == "all" else " or ").join(words(each) for each in given)
        if form == "not":
            return f"not {words(given)}"
        if form == "between":
            low, high = (f"{x:g}" if isinstance(x, (int, float)) else "what is beside it" for x in given)
            return f"{low} to {high}"
        if form in ("at_least", "at_most"):
            value = ", ".join(f"{x:g}" for x in given) if isinstance(given, list) else value
        names = {"order": "", "equal": "equal within ", "same_side_of": "on the paper's side of "}
        text = names.get(form, form.replace("_", " ") + " ") + str(value)
        return f"{text} by {node['by']}" if "by" in node else text

    text = words(part.holds)
    return f"{'the best ' if part.up_to else ''}{text}" + (f", {part.read}" if part.read else "")


def _numbers(paper: Any) -> Result | None:
    if isinstance(paper, (int, float)):
        return Result((float(paper),))
    return Result(tuple(map(float, paper)), scalar=False) if isinstance(paper, list) else None


def _paper(paper: Any, model: ClaimModel) -> str:
    if isinstance(paper, str):
        return paper
    numbers = paper if isinstance(paper, list) else [paper]
    return ", ".join(f"{x:g}" for x in numbers) + (f" {model.unit}" if model.unit else "")


def _shown(result: Result, model: ClaimModel, limits: Sequence[tuple[float, float] | None]) -> str:
    cells = []
    for i, value in enumerate(result.values):
        at = i if result.kept is None else result.kept[i]
        text = _apart(value, model.digits, limits[at if len(limits) > 1 else 0])
        if i < len(result.intervals) and all(map(math.isfinite, result.intervals[i])):
            low, high = (_number(x, model.digits) for x in result.intervals[i])
            text += f" [{low}, {high}]" if low != high else ""
        cells.append(f"{result.labels[i]}: {text}" if result.labels and result.labels[i] else text)
    return ", ".join(cells) + (f" {model.unit}" if model.unit else "") if cells else "–"


def _apart(value: float, digits: int, limits: tuple[float, float] | None) -> str:
    """Returns the number with further digits if it is beyond a limit that it would be rounded to."""
    text = _number(value, digits)
    low, high = limits or (-math.inf, math.inf)
    missed = [limit for limit, beyond in ((low, value < low), (high, value > high)) if beyond and math.isfinite(value)]
    for more in range(digits, digits + MORE_DIGITS + 1):
        text = _number(value, more)
        if text not in [_number(limit, more) for limit in missed]:
            break
    return text


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "–"
    return "never" if math.isinf(value) else f"{value:.{digits}f}"


def _fill(text: str, point: Mapping[str, str]) -> str:
    for axis, value in point.items():
        text = text.replace(f"${{{axis}}}", value)
    return text
