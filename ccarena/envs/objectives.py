"""Objectives: scores of whole runs, by name or as any callable of the user's own file.

Evolution maximises the mean objective over links, and a policy is compared with baseline rules by it. An objective is a
function of `run`, the columns of N learners' runs, `float64[N]` each:

- the figures of `ccarena._core.Trials.figures`, such as `run.throughput_mbps` or `run.signal_delay_to_end_p95_ms`;
- `run.reward`: the mean of the configuration's reward over time, each interval's by its length;
- parameters and inputs of the spec that the configuration sets or draws.

It returns `[N]` numbers. Every further parameter is a coefficient: a key of `objective` in the configuration. Its value
may be the name of a column, so that a run's own preference is the weight.

A policy with mean objective p has the gain (p - r) / |r| over a baseline rule with mean objective r. If the objective
is a logarithm, the gain is exp(p - r) - 1. `LOGARITHMIC` lists the built-in logarithms; your own function has an
attribute (`mine.logarithmic = True`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.configs.schema import ObjectiveConfig
from ccarena.configs.userfile import bind, find, is_own
from ccarena.envs.rewards import Columns
from ccarena.errors import ConfigError, did_you_mean

__all__ = ["BUILT_IN", "Objective", "coefficients", "known_power", "log_power", "reward"]

LEAST_MBPS, LEAST_MS = 1e-3, 0.5
"""Least values in logarithms: a packet in twelve seconds, and the resolution of a signal delay."""


def reward(run: Columns) -> NDArray[np.float64]:
    """Returns the mean of the configuration's reward over time."""
    return run.reward


def log_power(run: Columns, weight: float = 1.0) -> NDArray[np.float64]:
    """Returns ln(share of capacity) - `weight` (¼ ln s90 + ½ ln s95 + ¼ ln s98), with signal delays s in ms.

    s90, s95 and s98 are the 90th, 95th and 98th percentile of the signal delay over time, plus half of the base RTT.
    With s95 alone, this would be the logarithm of throughput / p95 signal delay up to a constant: the score of the
    congestion control contests of MIT 6.829 and Stanford CS244.
    """
    share = np.maximum(run.throughput_mbps, LEAST_MBPS) / np.maximum(run.capacity_mbps, LEAST_MBPS)
    one_way_ms = run.base_rtt_ms / 2.0
    p90, p95, p98 = (
        np.log(np.maximum(run[f"signal_delay_to_end_p{q}_ms"] + one_way_ms, LEAST_MS)) for q in (90, 95, 98)
    )
    return np.log(share) - weight * (0.25 * p90 + 0.5 * p95 + 0.25 * p98)


def known_power(
    run: Columns, epsilon: float = 5.0, delay: float = 1.0, inference_ms: float = 0.0
) -> NDArray[np.float64]:
    """Returns ((thr - `epsilon` loss) / capacity) (RTT_min / RTT)^`delay`, Hyvar's and Orca's reward for a whole run.

    Throughput is relative to the capacity; in the reward it is relative to the flow's own highest throughput, and a
    flow that never uses the capacity gets nearly the full reward. RTT is the base RTT with the mean queueing delay. An
    inference costs as much as `inference_ms` of full capacity: with 10, ten per second cost a tenth.
    """
    share = run.throughput_mbps / np.maximum(run.capacity_mbps, LEAST_MBPS)
    lost = run.loss_share / np.maximum(1.0 - run.loss_share, 1e-3)
    rtt_ms = np.maximum(run.base_rtt_ms, LEAST_MS)
    worth = share * (1.0 - epsilon * lost) * (rtt_ms / (rtt_ms + run.queueing_delay_mean_ms)) ** delay
    return worth - inference_ms / 1e3 * run.decisions / run.duration_s


BUILT_IN: dict[str, Callable[..., NDArray[np.float64]]] = {
    "known_power": known_power,
    "log_power": log_power,
    "reward": reward,
}
"""Objectives by name."""
LOGARITHMIC = ("log_power",)


class Objective:
    """Objective with its coefficients. Raises ConfigError for an unknown name or argument."""

    def __init__(self, config: ObjectiveConfig) -> None:
        self._name, self._call = config.name, _named(config.name)
        # A coefficient may be a column's name: the number that it stands for is each run's own.
        self._by_name = {key: value for key, value in config.arguments.items() if isinstance(value, str)}
        given = {key: 0.0 if key in self._by_name else value for key, value in config.arguments.items()}
        self._coefficients = bind(self._call, given, "objective", config.name, ("run",))
        self.logarithmic = config.name in LOGARITHMIC or bool(getattr(self._call, "logarithmic", False))
        """Whether a difference is a relative change."""

    def __call__(self, run: Columns) -> NDArray[np.float64]:
        """Returns the objectives `[N]` of N runs. Raises ConfigError if the user's own objective raises or returns
        something else.
        """
        named = {key: run[column] for key, column in self._by_name.items()}
        try:
            out: ArrayLike = self._call(run, **{**self._coefficients, **named})
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"objective = {self._name}: for {len(run['duration_s'])} runs it raised {type(error).__name__}: {error}"
            ) from error
        values = np.asarray(out, dtype=np.float64)
        shape = (len(run["duration_s"]),)
        if values.shape != shape:
            raise ConfigError(
                f"objective = {self._name}: it answered shape {values.shape}; expected {shape}, a number per run"
            )
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            seen = {name: float(run[name][row]) for name in run}
            raise ConfigError(
                f"objective = {self._name}: it answered {values[row]} for the run {seen}; guard divisions and "
                "logarithms against runs in which nothing arrived"
            )
        return values


def coefficients(name: str) -> dict[str, inspect.Parameter]:
    """Returns the coefficients of the objective `name`."""
    return {key: p for key, p in inspect.signature(_named(name)).parameters.items() if key != "run"}


def _named(name: str) -> Callable[..., Any]:
    if is_own(name):
        found = find(name, "objective")
        if not callable(found):
            raise ConfigError(f"objective = {name}: it is no function")
        called: Callable[..., Any] = found
        return called
    if name not in BUILT_IN:
        raise ConfigError(
            f"objective = {name}: unknown objective, and no FILE.py:NAME of your own{did_you_mean(name, BUILT_IN)}"
        )
    return BUILT_IN[name]
