"""Links of models from the literature: each link has parameters of its own, and each seed draws its capacity anew.

| model    | capacity                                                       | source                                   |
|----------|----------------------------------------------------------------|------------------------------------------|
| `fading` | log-normal with exponential autocorrelation, and short outages | Gudmundson, Electronics Letters 27, 1991 |
| `markov` | a chain over ten levels, which prefers near ones               | Pensieve's synthetic traces              |
| `steps`  | phases of constant capacity                                    | Genet's congestion control links         |
| `wired`  | constant                                                       |                                          |

Mean rates are drawn evenly in their logarithm from `MEAN_MBPS`. On every second link acknowledgements cross an uplink
of the same model with a fifth of the mean rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.traces.recorded import HELD_OUT_SEED

__all__ = ["LINKS_OF_EACH", "genet", "of_models", "pensieve"]

LINKS_OF_EACH = 24
"""Links of each model."""
MEAN_MBPS = (1.0, 20.0)
UPLINK = 0.2
"""Mean rate of an uplink over that of its downlink."""
TICK_S = 0.1
"""Time between two rates of a fading link, s."""
LEAST_MBPS = 0.05
"""Least rate, which outages have, too."""
_PARAMETERS, _CAPACITY = 6, 7
Rng = np.random.Generator
Service = Callable[[float, int], dict[str, Any]]
"""Function that returns a scenario's `service` for a duration in s and a seed."""


def of_models() -> Iterator[tuple[str, Service, Service | None]]:
    """Yields every link: its name, its service, and its uplink's service or None."""
    for kind, model in enumerate(_MODELS):
        for number in range(LINKS_OF_EACH):
            up = partial(_drawn, model, kind, number, 1) if number % 2 else None
            yield f"{model}-{number + 1}", partial(_drawn, model, kind, number, 0), up


def _drawn(model: str, kind: int, number: int, way: int, duration_s: float, seed: int) -> dict[str, Any]:
    own = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, _PARAMETERS, kind, number]))
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, _CAPACITY, kind, number, way, seed]))
    mean = math.exp(own.uniform(*np.log(MEAN_MBPS))) * (UPLINK if way else 1.0)
    rates = [(at_s, round(max(rate, LEAST_MBPS), 3)) for at_s, rate in _MODELS[model](mean, own, rng, duration_s)]
    return {"type": "steps", "steps": [{"at_s": at_s, "rate_mbps": rate} for at_s, rate in rates]}


def _fading(mean_mbps: float, own: Rng, rng: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields (s, Mbit/s) of log-normal capacity; Gudmundson has it for the signal's power, which departs from it.

    The coefficient of variation is from 0.2 to 1, the memory from 0.3 to 10 s. Outages of 0.5 s on average begin every
    10 to 60 s on average.
    """
    spread = math.sqrt(math.log1p(own.uniform(0.2, 1.0) ** 2))
    memory_s = math.exp(own.uniform(math.log(0.3), math.log(10.0)))
    every_s = own.uniform(10.0, 60.0)
    kept = math.exp(-TICK_S / memory_s)
    level, until_s = rng.standard_normal(), 0.0
    for tick in range(math.ceil(duration_s / TICK_S)):
        at_s = round(tick * TICK_S, 3)
        if at_s >= until_s and rng.random() < TICK_S / every_s:
            until_s = at_s + rng.exponential(0.5)
        yield at_s, 0.0 if at_s < until_s else mean_mbps * math.exp(spread * level - spread**2 / 2)
        level = kept * level + math.sqrt(1.0 - kept**2) * rng.standard_normal()


def _markov(mean_mbps: float, own: Rng, rng: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields (s, Mbit/s) of a chain whose levels are from a tenth of the mean rate to nearly twice the mean rate."""
    levels = mean_mbps * np.linspace(0.1, 1.9, 10)
    stay, at = 1.0 - 1.0 / own.uniform(2.0, 10.0), int(rng.integers(0, len(levels)))
    yield from _chain(levels, stay, at, rng, duration_s)


def _chain(
    levels: NDArray[np.float64], stay: float, at: int, rng: Rng, duration_s: float
) -> Iterator[tuple[float, float]]:
    """Yields (s, Mbit/s) each second of a Markov chain that jumps with a geometric preference for near levels."""
    for second in range(math.ceil(duration_s)):
        if rng.random() >= stay:
            likely = np.where(np.arange(len(levels)) == at, 0.0, 0.5 ** np.abs(np.arange(len(levels)) - at))
            at = int(rng.choice(len(levels), p=likely / likely.sum()))
        yield float(second), float(levels[at] * (1.0 + 0.05 * rng.standard_normal()))


def _steps(mean_mbps: float, own: Rng, rng: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields (s, Mbit/s) of phases that last 1 s to 3 to 15 s; the highest rate is 2 to 10 times the lowest."""
    ratio, longest_s, at_s = own.uniform(2.0, 10.0), own.uniform(3.0, 15.0), 0.0
    low = mean_mbps * math.log(ratio) / (ratio - 1.0)
    while at_s < duration_s:
        yield round(at_s, 3), low * ratio ** rng.random()
        at_s += rng.uniform(1.0, longest_s)


def _wired(mean_mbps: float, own: Rng, rng: Rng, duration_s: float) -> Iterator[tuple[float, float]]:
    """Yields one rate, within 20 % of the mean."""
    yield 0.0, mean_mbps * rng.uniform(0.8, 1.2)


_MODELS: dict[str, Callable[[float, Rng, Rng, float], Iterator[tuple[float, float]]]] = {
    "fading": _fading,
    "markov": _markov,
    "steps": _steps,
    "wired": _wired,
}


def pensieve(duration_s: float, seed: int) -> dict[str, Any]:
    """Returns a link of Pensieve's synthetic traces (Mao, Netravali, Alizadeh, SIGCOMM 2017, section 5.1; the authors'
    `sim/`).

    A Markov chain over ten levels from 0.2 to 4.3 Mbit/s takes a step a second. It stays with probability 1 - 1/T, T
    drawn from 2 to 10 s, and else jumps with a geometric preference for near levels. Departure: Gaussian noise is 5 %
    of the level, which the paper does not give.
    """
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 4, seed]))
    levels = np.linspace(0.2, 4.3, 10)
    stay, at = 1.0 - 1.0 / rng.uniform(2.0, 10.0), int(rng.integers(0, len(levels)))
    rates = _chain(levels, stay, at, rng, duration_s)
    steps = [{"at_s": at_s, "rate_mbps": round(max(0.1, rate), 3)} for at_s, rate in rates]
    return {"type": "steps", "steps": steps}


def genet(duration_s: float, seed: int) -> dict[str, Any]:
    """Returns one of Genet's congestion control links (Xia et al., SIGCOMM 2022, ranges): rates that change within 15
    s.

    Departures: rates are drawn evenly in their logarithm from 1 to 50 Mbit/s, of the paper's 0.1 to 100, so that one
    fast phase does not dominate a run. A phase lasts 1 s at least.
    """
    rng = np.random.Generator(np.random.PCG64([HELD_OUT_SEED, 5, seed]))
    steps, at_s = [], 0.0
    while at_s < duration_s:
        steps.append({"at_s": round(at_s, 3), "rate_mbps": round(float(np.exp(rng.uniform(0.0, np.log(50.0)))), 3)})
        at_s += rng.uniform(1.0, 15.0)
    return {"type": "steps", "steps": steps}
