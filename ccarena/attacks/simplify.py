"""Simplification of a counterexample: fewest steps, the shortest time, parameters at their plain values.

One simpler case after another is tried, and each in which the harm stays is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ccarena.attacks.case import Case, Steps
from ccarena.attacks.harms import Harm
from ccarena.attacks.space import BOUNDS

__all__ = ["simplify"]

KEPT = 0.25
"""Part of the harm beyond its threshold that has to stay: at the threshold itself, other seeds would not show it."""
PASSES = 3
"""Most passes over a case; each one tries everything that is left."""
SHORTER = (0.25, 0.5, 0.75)
"""Parts of the time of a run that are tried."""
SHORTEST_S = 10.0
"""Shortest run: in shorter ones, starting up is all that a controller does."""
EARLIEST_S = 0.5
"""Time before which no step is moved: earlier ones would stand for a steady link."""


def simplify(
    case: Case, value: float, harm: Harm, plain: Mapping[str, Any], run: Callable[[Case], float]
) -> tuple[Case, float]:
    """Returns the simplest case in which the harm stays, with its value; `run` returns the value of a case."""
    least = harm.threshold + KEPT * (value - harm.threshold)
    for _ in range(PASSES):
        before = case
        moves = _moves(case, plain)
        for move in moves:
            simpler = _moved(case, move, plain)
            if simpler is None:
                continue
            found = run(simpler)
            if found >= least:
                case, value = simpler, found
        if case == before:
            break
    return case, value


Move = tuple[str, Any]
"""Kind of simplification and its argument."""


def _moves(case: Case, plain: Mapping[str, Any]) -> Iterator[Move]:
    """Yields what may be tried, the largest simplification first."""
    for name in case.shapes:
        yield "without shape", name
    for name in plain:
        yield "plain", name
    yield from (("steady", name) for name in case.shapes)
    for name, steps in case.shapes.items():
        yield from (("without step", (name, at)) for at, _ in reversed(steps))
    yield from (("shorter", part) for part in SHORTER)
    yield from (("earlier", name) for name in case.shapes)
    for part in (0.5, 0.25):
        yield from (("nearer", (name, part)) for name in plain)
    for digits in (1, 2):
        yield from (("rounded", (name, digits)) for name in plain)
        yield from (("rounded steps", (name, digits)) for name in case.shapes)


def _moved(case: Case, move: Move, plain: Mapping[str, Any]) -> Case | None:
    """Returns the case after a move; None if it changes nothing."""
    kind, about = move
    if kind == "without shape":
        moved = case.with_steps(about, ())
    elif kind == "plain":
        moved = case if about == "beside" else case.with_value(about, plain[about])
    elif kind == "without step":
        name, at = about
        moved = case.with_steps(name, tuple(step for step in case.shapes[name] if step[0] != at))
    elif kind == "steady":
        moved = _steady(case, about)
    elif kind == "shorter":
        moved = _shorter(case, about)
    elif kind == "earlier":
        moved = case.with_steps(about, _steps((_earlier(at), level) for at, level in case.shapes[about]))
    elif kind == "nearer":
        name, part = about
        moved = _nearer(case, name, part, plain)
    elif kind == "rounded":
        name, digits = about
        value = case.values[name]
        moved = case.with_value(name, value if value == plain[name] else _rounded(value, digits))
    else:
        name, digits = about
        steps = ((_rounded(at, digits), _rounded(level, digits)) for at, level in case.shapes[name])
        moved = case.with_steps(name, _steps(steps))
    moved = moved.normal(plain)
    return None if moved == case else moved


def _steps(given: Iterable[tuple[float, float]]) -> Steps:
    """Returns steps in order; of those that rounding has brought to one time the last one holds."""
    return tuple(sorted(dict(given).items()))


def _earlier(at: float) -> float:
    return max(min(at, EARLIEST_S), _rounded(at / 2, 2))


def _steady(case: Case, shape: str) -> Case:
    """Returns the case with the last level of a shape from the start on, as the parameter that it changes."""
    if not case.shapes[shape]:
        return case
    level, of = case.shapes[shape][-1][1], case.values
    name, value = {
        "capacity": ("rate_mbps", of["rate_mbps"] * level),
        "delay_ms": ("rtt_ms", of["rtt_ms"] + level),
        "loss": ("loss", max(of["loss"], level)),
    }[shape]
    least, most = BOUNDS[name]
    value = _rounded(float(value), 3)
    return case.with_steps(shape, ()).with_value(name, value) if least <= value <= most else case


def _shorter(case: Case, part: float) -> Case:
    duration_s = max(SHORTEST_S, _rounded(part * case.duration_s, 2))
    if duration_s >= case.duration_s:
        return case
    share = duration_s / case.duration_s
    shapes = {
        name: _steps((_rounded(at * share, 3), level) for at, level in steps) for name, steps in case.shapes.items()
    }
    return replace(case, duration_s=duration_s, shapes=shapes)


def _nearer(case: Case, name: str, part: float, plain: Mapping[str, Any]) -> Case:
    """Returns the case with a number nearer to its plain value by a part of the way, of logarithms if they exist."""
    value, usual = case.values[name], plain[name]
    if not isinstance(value, float) or value == usual:
        return case
    moved = value * (usual / value) ** part if value > 0 and usual > 0 else value + part * (usual - value)
    return case.with_value(name, _rounded(moved, 2))


def _rounded(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
