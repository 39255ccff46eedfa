"""Properties of a policy as data: a strict reader, and the questions that they ask."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, did_you_mean
from ccarena.eval.certify.questions import Bounded, Change, Form, Monotone
from ccarena.eval.certify.spaces import Space
from ccarena.policies.artifact import Artifact

__all__ = ["Document", "Property", "action_range", "observed_by", "read"]

Array = NDArray[Any]
Limits = dict[str, tuple[float, float]]
_KEYS = ("name", "if", "then", "steady", "steps")
_CLAIMS = {
    "action": ("least", "most", "number"),
    "monotone": ("signal", "action", "number", "within"),
    "change": ("most", "number"),
}
MOST_STEPS = 16
MOST_PARAMETERS = 512


@dataclass(frozen=True)
class _Entry:
    """Signal of an observation, or one channel of it."""

    name: str
    group: str
    first: int
    length: int
    low: float
    high: float


@dataclass(frozen=True)
class Observed:
    """Entries of a policy's observation, and the limits beyond which its network sees no difference."""

    entries: tuple[_Entry, ...]
    low: Array
    high: Array

    @property
    def length(self) -> int:
        """Returns the number of values of an observation."""
        return len(self.low)

    def channels(self) -> dict[str, list[str]]:
        """Returns the channels of each signal that has one-hot channels."""
        found: dict[str, list[str]] = {}
        for entry in self.entries:
            if entry.name != entry.group:
                found.setdefault(entry.group, []).append(entry.name.removeprefix(f"{entry.group}_"))
        return found


def observed_by(policy: Artifact) -> Observed:
    """Returns what a policy observes. Limits are where the normalisation clips, or the signal's own."""
    from ccarena import _core

    entries, start = [], 0
    listed = _core.learned(json.dumps(policy.spec))["observation"]
    one_hot = {entry["signal"] for entry in listed if entry["unit"] == "one-hot"}
    for entry in listed:
        group = entry["signal"] if entry["signal"] in one_hot else entry["name"]
        entries.append(_Entry(entry["name"], group, start, entry["length"], entry["low"], entry["high"]))
        start += entry["length"]
    normalisation = policy.interface.normalisation
    offset, scale, least, greatest = (np.asarray(part, np.float64) for part in vars(normalisation).values())
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([offset + least / scale, offset + greatest / scale])
    low, high = np.where(scale == 0, 0.0, ends.min(axis=0)), np.where(scale == 0, 0.0, ends.max(axis=0))
    for each in entries:
        part = slice(each.first, each.first + each.length)
        low[part], high[part] = np.maximum(low[part], each.low), np.minimum(high[part], each.high)
    return Observed(tuple(entries), low, high)


@dataclass(frozen=True)
class Property:
    """Property of a policy's actions over a box of observations."""

    name: str
    policy: Artifact = field(repr=False)
    where: str
    """File and path, for errors."""
    limits: Limits
    """Raw bounds by signal, or by a signal's value as `rtt_ratio[-1]`."""
    fixed: dict[str, str]
    """Channel of a signal with one-hot channels."""
    kind: str
    claim: dict[str, Any]
    steady: bool
    steps: int
    source: dict[str, Any]
    """Entry of the file."""

    def questions(self, form: Form) -> Iterator[Bounded | Change | Monotone]:
        """Yields a question for each space: one, or one for each channel that the property leaves open."""
        for space in self.spaces():
            number = self.claim.get("number", 0)
            if self.kind == "action":
                least, most = self.claim.get("least", -math.inf), self.claim.get("most", math.inf)
                yield Bounded(form, space, number=number, least=least, most=most)
            elif self.kind == "change":
                yield Change(form, space, number=number, most=self.claim["most"])
            else:
                yield Monotone(
                    form,
                    space,
                    direction=self.rising(space),
                    sign=1.0 if self.claim["action"] == "falls" else -1.0,
                    number=number,
                    within=self.claim["within"],
                )

    def rising(self, space: Space) -> Array:
        """Returns 1 for each parameter that is a value of the signal of `monotone`, at any step, else 0."""
        return np.array([float(re.split(r"[\[']", name)[0] == self.claim["signal"]) for name in space.names])

    def spaces(self) -> list[Space]:
        """Returns the boxes: one for each choice of channels that is left open."""
        seen = observed_by(self.policy)
        channels = seen.channels()
        open_ = [group for group in channels if group not in self.fixed]
        found = []
        for chosen in product(*(channels[group] for group in open_)):
            fixed = {**self.fixed, **dict(zip(open_, chosen, strict=True))}
            label = ", ".join(f"{group} {fixed[group]}" for group in open_)
            found.append(_space(self, seen, fixed, label))
        return found


@dataclass(frozen=True)
class Document:
    """Properties of a file, and the guard that it describes."""

    properties: list[Property]
    space: Limits
    """Limits that all properties share; the guard's box."""
    bound: list[tuple[float, float]]
    """Bound of the guard for each number of the action: its whole range if the file gives none."""


class _Maker:
    """Parameters of a space while it is made."""

    def __init__(self, prop: Property) -> None:
        self.prop = prop
        self.names: dict[str, int] = {}
        self.low: list[float] = []
        self.high: list[float] = []

    def parameter(self, name: str, entry: _Entry, ends: tuple[float, float]) -> int:
        """Returns the index of a parameter of an entry, with the property's limits or those of the network's input."""
        if name in self.names:
            return self.names[name]
        value = name.partition("'")[0]
        low, high = self.prop.limits.get(value, self.prop.limits.get(entry.name, (-math.inf, math.inf)))
        least, greatest = ends
        # Beyond where it is clipped, the network sees no difference.
        low = least if low == -math.inf else low
        high = max(greatest, low) if high == math.inf else high
        low = min(low, high)
        if not (math.isfinite(low) and math.isfinite(high) and high - low < 1e15):
            raise ConfigError(
                f"{self.prop.where}.if: {entry.name} has no limit: the policy clips it nowhere and the property gives "
                f"{low:g} to {high:g}; give {entry.name}: [LOW, HIGH]"
            )
        self.names[name] = len(self.low)
        self.low.append(low)
        self.high.append(high)
        return self.names[name]


def _space(prop: Property, seen: Observed, fixed: Mapping[str, str], label: str) -> Space:
    maker = _Maker(prop)
    places: list[list[int | float]] = []
    for step in range(prop.steps):
        # One number for a value that is fixed, else a parameter's index.
        row: list[int | float] = [0.0] * seen.length
        for entry in seen.entries:
            for at in range(entry.length):
                place = entry.first + at
                if entry.group in fixed and entry.name != entry.group:
                    row[place] = float(entry.name == f"{entry.group}_{fixed[entry.group]}")
                    continue
                ends = float(seen.low[place]), float(seen.high[place])
                row[place] = maker.parameter(_name(prop, entry, at, step), entry, ends)
        places.append(row)
    if len(maker.low) > MOST_PARAMETERS:
        raise ConfigError(
            f"{prop.where}: {len(maker.low)} free values; expected at most {MOST_PARAMETERS}: say "
            "`steady: true`, or take fewer steps"
        )
    matrices, shifts = [], []
    for row in places:
        matrix, shift = np.zeros((seen.length, len(maker.low))), np.zeros(seen.length)
        for place, value in enumerate(row):
            if isinstance(value, int):
                matrix[place, value] = 1
            else:
                shift[place] = value
        matrices.append(matrix)
        shifts.append(shift)
    low, high = np.array(maker.low), np.array(maker.high)
    reach = [(m @ low + s, m @ high + s) for m, s in zip(matrices, shifts, strict=True)]
    outer = np.minimum.reduce([a for a, _ in reach]), np.maximum.reduce([b for _, b in reach])
    return Space(tuple(maker.names), low, high, tuple(matrices), tuple(shifts), outer, label)


def _name(prop: Property, entry: _Entry, at: int, step: int) -> str:
    """Returns the parameter of one value: the same for values that are equal.

    Of a steady signal all values are one, until the last one changes at the second step. Otherwise each decision moves
    the values on by one place.
    """
    written = f"{entry.name}[{at - entry.length}]"
    if written in prop.limits:
        return written if step == 0 else f"{written}'{step}"
    if prop.steady:
        moved = step - (entry.length - 1 - at)
        return entry.name if moved <= 0 else f"{entry.name}'{moved}"
    if entry.length == 1:
        return entry.name if step == 0 else f"{entry.name}'{step}"
    return f"{entry.name}[{at + step}]"


def read(data: Any, policy: Artifact, origin: str) -> Document:
    """Reads properties from data. Raises ConfigError that names file and path, the value and what was expected."""
    top = _mapping(data, origin, ("properties", "steady", "space", "guard"), "properties, and steady, space or guard")
    if "properties" not in top:
        raise ConfigError(f"{origin}: no `properties`; expected a list of properties")
    listed = top["properties"]
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{origin}: properties is {_short(listed)}; expected a list of properties")
    seen = observed_by(policy)
    space, fixed = _limits(top.get("space", {}), seen, f"{origin}: space")
    if fixed:
        raise ConfigError(
            f"{origin}: space.{next(iter(fixed))}: expected it in a property's `if`: a guard has no channels"
        )
    if "guard" in top:
        listed = [*listed, {"name": "the guard changes no action", "then": {"action": top["guard"]}}]
    steady = _flag(top.get("steady", True), f"{origin}: steady")
    names: set[str] = set()
    found = []
    for at, entry in enumerate(listed):
        prop = _property(entry, policy, seen, f"{origin}: properties[{at}]", steady, space)
        if prop.name in names:
            raise ConfigError(f'{prop.where}.name: "{prop.name}" is used twice; expected a name of its own')
        names.add(prop.name)
        found.append(prop)
    bound = [action_range(policy, number) for number in range(len(policy.interface.bounds or [()]))]
    if "guard" in top:
        guard = found[-1].claim
        low, high = bound[guard["number"]]
        bound[guard["number"]] = guard.get("least", low), guard.get("most", high)
    return Document(found, space, bound)


def _property(entry: Any, policy: Artifact, seen: Observed, where: str, steady: bool, space: Limits) -> Property:
    fields = _mapping(entry, where, _KEYS, "if, then, and name, steady or steps")
    limits, fixed = _limits(fields.get("if", {}), seen, f"{where}.if")
    then = _mapping(fields.get("then"), f"{where}.then", tuple(_CLAIMS), "one of action, monotone and change")
    if len(then) != 1:
        raise ConfigError(f"{where}.then has {len(then)} claims; expected one of action, monotone and change")
    [(kind, given)] = then.items()
    claim = _mapping(given, f"{where}.then.{kind}", _CLAIMS[kind], ", ".join(_CLAIMS[kind]))
    recurrent = bool(policy.graph.state)
    steps = fields.get("steps", 3 if recurrent else 2 if kind == "change" else 1)
    least = 2 if kind == "change" else 1
    if isinstance(steps, bool) or not isinstance(steps, int) or not least <= steps <= MOST_STEPS:
        raise ConfigError(f"{where}.steps is {_short(steps)}; expected a whole number from {least} to {MOST_STEPS}")
    name = fields.get("name", f"{kind} {where.rpartition('[')[2].rstrip(']')}")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where}.name is {_short(name)}; expected text")
    claim = _claim(kind, claim, policy, seen, f"{where}.then.{kind}")
    steady = _flag(fields.get("steady", steady), f"{where}.steady")
    prop = Property(name, policy, where, {**space, **limits}, fixed, kind, claim, steady, steps, dict(fields))
    if not steady and any(length > 1 for group in seen.channels() for length in _lengths(seen, group)):
        raise ConfigError(
            f"{where}.steady is false; expected true: the policy observes a history of channels, one at a time"
        )
    spaces = prop.spaces()
    if kind == "monotone" and not any((prop.rising(each) * (each.high - each.low)).any() for each in spaces):
        points = [name for name, (low, high) in prop.limits.items() if low == high]
        if any(name.partition("[")[0] == claim["signal"] for name in points):
            raise ConfigError(f"{where}.if: {claim['signal']} is one number; expected [LOW, HIGH], over which it rises")
    return prop


def _lengths(seen: Observed, group: str) -> list[int]:
    return [entry.length for entry in seen.entries if entry.group == group]


def _limits(given: Any, seen: Observed, where: str) -> tuple[Limits, dict[str, str]]:
    limits: Limits = {}
    fixed: dict[str, str] = {}
    channels = seen.channels()
    lengths = {entry.name: entry.length for entry in seen.entries if entry.name == entry.group}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} is {_short(given)}; expected a mapping of signals to [LOW, HIGH]")
    for name, value in given.items():
        if name in channels:
            if value not in channels[name]:
                raise ConfigError(f"{where}.{name} is {_short(value)}; expected one of {', '.join(channels[name])}")
            fixed[name] = value
            continue
        signal, bracket, rest = str(name).partition("[")
        if signal not in lengths:
            known = [*lengths, *channels]
            raise ConfigError(
                f'{where}: the policy observes no "{signal}"{did_you_mean(signal, known)}; it observes '
                + ", ".join(known)
            )
        if bracket:
            length = lengths[signal]
            try:
                place = int(rest.removesuffix("]"))
            except ValueError:
                place = length
            if not -length <= place < length or not rest.endswith("]"):
                raise ConfigError(f"{where}.{name}: expected a place from -{length} (oldest) to -1 (newest)")
            name = f"{signal}[{place if place < 0 else place - length}]"
        limits[name] = _interval(value, f"{where}.{name}")
    return limits, fixed


def _interval(value: Any, where: str) -> tuple[float, float]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [value, value]
    if not (isinstance(value, list) and len(value) == 2):
        raise ConfigError(
            f"{where} is {_short(value)}; expected [LOW, HIGH], where -inf and inf are no limit, or a number"
        )
    low, high = (_number(end, where) for end in value)
    if not low <= high:
        raise ConfigError(f"{where} is {_short(value)}; expected LOW <= HIGH")
    return low, high


def _number(value: Any, where: str, finite: bool = False) -> float:
    if isinstance(value, str) and value in ("inf", "-inf", ".inf", "-.inf") and not finite:
        return float(value.replace(".", ""))
    wrong = isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value)
    if wrong or (finite and not math.isfinite(value)):
        raise ConfigError(f"{where} is {_short(value)}; expected a {'finite ' if finite else ''}number")
    return float(value)


def _claim(kind: str, claim: Mapping[str, Any], policy: Artifact, seen: Observed, where: str) -> dict[str, Any]:
    bounds = policy.interface.bounds
    found: dict[str, Any] = {}
    count = 1 if bounds is None else len(bounds)
    number = claim.get("number", 0)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise ConfigError(
            f"{where}.number is {_short(number)}; expected 0 to {count - 1}: the policy's action has {count} number(s)"
        )
    found["number"] = number
    for key in ("least", "most", "within"):
        if key in claim:
            found[key] = _number(claim[key], f"{where}.{key}", finite=True)
    low, high = action_range(policy, number)
    if kind == "action":
        if not ("least" in found or "most" in found):
            raise ConfigError(f"{where}: expected least, most or both")
        least, most = found.get("least", -math.inf), found.get("most", math.inf)
        if least > most or least > high or most < low:
            raise ConfigError(f"{where}: no action of the policy, {low:g} to {high:g}, is {least:g} to {most:g}")
    elif kind == "change":
        if found.get("most", -1.0) < 0:
            raise ConfigError(f"{where}.most is {_short(claim.get('most'))}; expected a number of 0 or more")
    else:
        if bounds is None:
            raise ConfigError(
                f"{where}: the actions are discrete; where two tie, rounding chooses, which no proof covers; "
                "expected action or change"
            )
        names = [entry.name for entry in seen.entries if entry.name == entry.group]
        if claim.get("signal") not in names:
            raise ConfigError(f"{where}.signal is {_short(claim.get('signal'))}; expected one of {', '.join(names)}")
        if claim.get("action") not in ("falls", "rises"):
            raise ConfigError(f"{where}.action is {_short(claim.get('action'))}; expected falls or rises")
        found |= {"signal": claim["signal"], "action": claim["action"]}
        found.setdefault("within", 1e-3 * (high - low))
    return found


def action_range(policy: Artifact, number: int) -> tuple[float, float]:
    """Returns the least and the greatest value of a number of the action."""
    values, bounds = policy.interface.actions, policy.interface.bounds
    return (min(values), max(values)) if bounds is None else bounds[number]


def _mapping(value: Any, where: str, keys: Sequence[str], expected: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {_short(value)}; expected a mapping: {expected}")
    for key in value:
        if key not in keys:
            raise ConfigError(
                f"{where}: unknown key {_short(key)}{did_you_mean(str(key), keys)}; expected {', '.join(keys)}"
            )
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} is {_short(value)}; expected true or false")
    return value


def _short(value: Any) -> str:
    text = "missing" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
