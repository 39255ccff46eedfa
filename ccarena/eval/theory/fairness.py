"""The rates that a fairness objective asks for, exactly, and how far measured rates are from them.

Two objectives over flows that share links, both by progressive filling (Bertsekas and Gallager, *Data Networks*,
§6.5.2): raise all flows together until a link is full or a flow has its demand, freeze the flows concerned, go on.

* Max-min fairness: the sorted vector of rates is lexicographically the largest (Hercules calls it MMF or LMMF).
* HRF, Hercules' heterogeneous requirements fairness: the same of the normalised rates (x_i - a_i) / (b_i - a_i) of
  flows with requirement (a_i, b_i). They are 0 at a and 1 at b, negative below a, and go on above 1: HRF uses all the
  capacity that there is. `cap=True` stops each flow at b instead, above which it "will have no significant gain".

Where the capacity is too small for all a, the least normalised rate can be so negative that a flow would be below 0:
rates end at 0, and the others share. A flow without requirement has no normalised rate, and Hercules says nothing of
it: here it comes after the others, which share first as if alone; what they leave is shared max-min fairly. As they use
all of a link without `cap`, it is left something only beside capped flows and on links where they are not.

Arithmetic is of `fractions.Fraction` over the numbers as given in decimal (0.1 is one tenth), so that there is no
tolerance: results are rounded once, on return. Units are the caller's; the examples are in Mbit/s.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ccarena.errors import ConfigError, did_you_mean

__all__ = ["distance", "hrf_distance", "hrf_rates", "max_min_distance", "max_min_rates", "normalised_rates"]

Number: TypeAlias = float | int | Fraction
# One bottleneck, or links by name.
Capacity: TypeAlias = Number | Mapping[str, Number]
Paths: TypeAlias = Sequence[Sequence[str]]
Requirement: TypeAlias = tuple[Number, Number]


def max_min_rates(capacity: Capacity, demands: Sequence[Number | None], paths: Paths | None = None) -> list[float]:
    """Returns the max-min fair rates of flows with the given demands (None: unbounded), in their order.

    `capacity` is one bottleneck's, or {link: capacity}; then `paths` names each flow's links. Raises ConfigError.
    """
    links = _links(capacity, paths, len(demands))
    most = [None if demand is None else _exact(demand, f"demands[{i}]") for i, demand in enumerate(demands)]
    if set(most) == {None} and all(len(users) == len(most) for _, users in links):
        return [float(min(room for room, _ in links) / len(most))] * len(most)  # the commonest case, without a search
    return [float(rate) for rate in _fill(links, [Fraction(0)] * len(most), [Fraction(1)] * len(most), most)]


def hrf_rates(
    capacity: Capacity,
    requirements: Sequence[Requirement | None],
    paths: Paths | None = None,
    *,
    demands: Sequence[Number | None] | None = None,
    cap: bool = False,
) -> list[float]:
    """Returns the HRF rates of flows with requirements (a, b), 0 <= a < b, or None, in their order.

    `capacity` and `paths` as in `max_min_rates`. `demands` bound rates from above, whatever is required. `cap`: no flow
    gets more than its b. Raises ConfigError.
    """
    wanted = _requirements(requirements)
    links = _links(capacity, paths, len(wanted))
    if demands is not None and len(demands) != len(wanted):
        raise ConfigError(f"demands must have one entry per requirement, {len(wanted)}, got {len(demands)}")
    limits: list[Fraction | None] = [
        None if demand is None else _exact(demand, f"demands[{i}]")
        for i, demand in enumerate(demands or [None] * len(wanted))
    ]
    rates = [Fraction(0)] * len(wanted)
    first = [i for i, requirement in enumerate(wanted) if requirement is not None]
    last = [i for i, requirement in enumerate(wanted) if requirement is None]
    base, span, most = [], [], []
    for i in first:
        a, b = wanted[i] or (Fraction(0), Fraction(1))
        base.append(a)
        span.append(b - a)
        most.append(_least(limits[i], b if cap else None))
    for i, rate in zip(first, _fill(_part(links, first), base, span, most), strict=True):
        rates[i] = rate
    left = [(room - sum((rates[i] for i in first if i in users), Fraction(0)), users) for room, users in links]
    zero, one = [Fraction(0)] * len(last), [Fraction(1)] * len(last)
    for i, rate in zip(last, _fill(_part(left, last), zero, one, [limits[i] for i in last]), strict=True):
        rates[i] = rate
    return [float(rate) for rate in rates]


def normalised_rates(rates: ArrayLike, requirements: Sequence[Requirement | None]) -> list[float]:
    """Returns (x - a) / (b - a) of each flow (Hercules, equation 2); NaN without a requirement. Raises ConfigError."""
    wanted, x = _requirements(requirements), _measured(rates, len(requirements))
    return [
        math.nan if requirement is None else (rate - float(requirement[0])) / float(requirement[1] - requirement[0])
        for rate, requirement in zip(x, wanted, strict=True)
    ]


def max_min_distance(
    rates: ArrayLike, capacity: Capacity, demands: Sequence[Number | None], paths: Paths | None = None
) -> float:
    """Returns sum |x - x*| / sum x*, where x* are the max-min fair rates; NaN if no flow gets any.

    It is 0 at the optimum and 1 if nothing is sent. If the total is right, half of it is the share of traffic that the
    wrong flow has.
    """
    return distance(rates, max_min_rates(capacity, demands, paths))


def hrf_distance(
    rates: ArrayLike,
    capacity: Capacity,
    requirements: Sequence[Requirement | None],
    paths: Paths | None = None,
    *,
    demands: Sequence[Number | None] | None = None,
    cap: bool = False,
) -> float:
    """Returns sum |x - x*| / sum x*, where x* are the HRF rates; comparable with `max_min_distance`."""
    return distance(rates, hrf_rates(capacity, requirements, paths, demands=demands, cap=cap))


def distance(rates: ArrayLike, optimum: Sequence[float]) -> float:
    """Returns sum |x - x*| / sum x*, where x* is the optimum; NaN if its sum is 0. Raises ConfigError."""
    total = math.fsum(optimum)
    away = math.fsum(abs(x - best) for x, best in zip(_measured(rates, len(optimum)), optimum, strict=True))
    return away / total if total > 0 else math.nan


# A link's capacity and the flows that cross it.
_Links: TypeAlias = list[tuple[Fraction, frozenset[int]]]


def _fill(
    links: _Links, base: Sequence[Fraction], span: Sequence[Fraction], most: Sequence[Fraction | None]
) -> list[Fraction]:
    """Returns x_i = max(0, base_i + level span_i), each at most most_i, at the highest common level (progressive
    filling).

    A link's load is piecewise linear in the level, with a break where a flow leaves 0. The level at which the next link
    is full, or the next flow has its demand, is solved for, not searched.
    """
    n = len(base)
    rates: list[Fraction | None] = [None] * n
    free = set(range(n))

    def level_of(i: int, rate: Fraction) -> Fraction:
        return (rate - base[i]) / span[i]

    def full_at(link: int) -> Fraction | None:
        """The level at which the link would be full; None if none of its flows can rise."""
        capacity, users = links[link]
        rising = users & free
        if not rising:
            return None
        spare = capacity - sum((rates[i] or Fraction(0) for i in users - free), Fraction(0))
        return _full_at(spare, [(level_of(i, Fraction(0)), span[i]) for i in rising])

    # By level, then number. A flow that stops before its link is full leaves it room, so that levels only rise: one
    # that is out of date is too low, and is found when its turn comes.
    stops = [(level, link) for link in range(len(links)) if (level := full_at(link)) is not None]
    heapq.heapify(stops)
    demands = [(level_of(i, limit), i) for i in range(n) if (limit := most[i]) is not None]
    heapq.heapify(demands)
    while free:
        level, link = stops[0]
        now = full_at(link)
        if now is None:
            heapq.heappop(stops)
        elif now > level:
            heapq.heapreplace(stops, (now, link))
        elif demands and demands[0][0] <= level:
            # All that have their demand before any link is full, at once.
            while demands and demands[0][0] <= level:
                own, i = heapq.heappop(demands)
                if i in free:
                    rates[i] = max(Fraction(0), base[i] + own * span[i])
                    free.remove(i)
        else:
            for i in links[link][1] & free:
                rates[i] = max(Fraction(0), base[i] + level * span[i])
                free.remove(i)
    return [rate or Fraction(0) for rate in rates]


def _full_at(spare: Fraction, rising: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """Returns the level at which sum max(0, (level - zero_i) span_i) = spare, over the (zero, span) of the flows."""
    ordered = sorted(rising)
    slope, offset = ordered[0][1], ordered[0][0] * ordered[0][1]
    for zero, span in ordered[1:]:
        if spare + offset <= zero * slope:
            break
        slope += span
        offset += zero * span
    return (spare + offset) / slope


def _part(links: _Links, chosen: Sequence[int]) -> _Links:
    """Returns the links with the `chosen` flows alone, numbered in that order."""
    number = {i: k for k, i in enumerate(chosen)}
    return [(capacity, frozenset(number[i] for i in users if i in number)) for capacity, users in links]


def _links(capacity: Capacity, paths: Paths | None, flows: int) -> _Links:
    if not isinstance(capacity, Mapping):
        if paths is not None:
            raise ConfigError("paths need a capacity per link, {name: capacity}, got one number")
        return [(_positive(capacity, "capacity"), frozenset(range(flows)))]
    rooms = {name: _positive(value, f"capacity of link {name!r}") for name, value in capacity.items()}
    if paths is None or len(paths) != flows:
        raise ConfigError(f"links by name need one path per flow, {flows}, got {0 if paths is None else len(paths)}")
    for i, path in enumerate(paths):
        if isinstance(path, str) or not path:
            raise ConfigError(f"paths[{i}] must be a list of at least one link, got {path!r}")
        for name in path:
            if name not in rooms:
                raise ConfigError(f'paths[{i}]: unknown link "{name}"{did_you_mean(name, rooms)}')
    users: dict[str, list[int]] = {name: [] for name in rooms}
    for i, path in enumerate(paths):
        for name in path:
            users[name].append(i)
    return [(room, frozenset(users[name])) for name, room in rooms.items()]


def _requirements(requirements: Sequence[Requirement | None]) -> list[tuple[Fraction, Fraction] | None]:
    wanted: list[tuple[Fraction, Fraction] | None] = []
    for i, requirement in enumerate(requirements):
        if requirement is None:
            wanted.append(None)
            continue
        if len(requirement) != 2:
            raise ConfigError(f"requirements[{i}] must be (minimum, maximum), got {requirement!r}")
        a, b = (_exact(value, f"requirements[{i}]") for value in requirement)
        if a >= b:
            raise ConfigError(f"requirements[{i}]: the minimum must be below the maximum, got {requirement!r}")
        wanted.append((a, b))
    return wanted


def _exact(value: Number, where: str) -> Fraction:
    """Returns the exact value of a decimal number that is not negative."""
    try:
        number = value if isinstance(value, Fraction) else Fraction(Decimal(repr(float(value))))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{where}: expected a finite number, got {value!r}") from error
    if number < 0:
        raise ConfigError(f"{where}: expected a number of at least 0, got {value!r}")
    return number


def _positive(value: Number, where: str) -> Fraction:
    number = _exact(value, where)
    if number == 0:
        raise ConfigError(f"{where}: expected a number above 0, got {value!r}")
    return number


def _least(x: Fraction | None, y: Fraction | None) -> Fraction | None:
    return y if x is None else x if y is None else min(x, y)


def _measured(rates: ArrayLike, flows: int) -> list[float]:
    x = np.asarray(rates, dtype=np.float64)
    if x.shape != (flows,) or not np.isfinite(x).all() or (x < 0).any():
        raise ConfigError(f"rates must be {flows} finite numbers of at least 0, one per flow, got {rates!r}")
    return [float(rate) for rate in x]
