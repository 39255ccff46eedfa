"""Antithetic evolution strategies: candidates in mirrored pairs, fitness by rank, Adam on the estimated gradient.

Source: Salimans, Ho, Chen, Sidor, Sutskever, "Evolution Strategies as a Scalable Alternative to Reinforcement
Learning", arXiv:1703.03864.

Departure: parameters of the spec, as shares of their ranges, are searched with the same step as weights, and clipped to
their range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.agents.algorithm import Arrays
from ccarena.configs.schema import EsConfig

__all__ = ["Es", "centred_ranks"]

Vectors = NDArray[np.float64]
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def centred_ranks(scores: Vectors) -> Vectors:
    """Returns ranks of `scores` `[N]` from -0.5 to 0.5; equal scores share a rank. Ranks bound the effect of one lucky
    run.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    rank = (last - (counts - 1) / 2.0)[place]
    return rank / max(len(scores) - 1, 1) - 0.5


class Es:
    """Antithetic evolution as a strategy (`ccarena.agents.evolution.Strategy`)."""

    def __init__(self, start: Vectors, weights: int, config: EsConfig, seed: int) -> None:
        self._config = config
        self._centre = start.copy()
        self._first, self._second = np.zeros_like(start), np.zeros_like(start)
        self._steps = 0
        self._rng = np.random.Generator(np.random.PCG64([seed, 1]))
        self._noise = np.empty((0, start.size))

    @property
    def centre(self) -> Vectors:
        """Returns the best guess."""
        return self._centre

    @property
    def sigma(self) -> float:
        """Returns the standard deviation of candidates around the centre."""
        return self._config.sigma

    def ask(self) -> Vectors:
        """Returns the next generation: each candidate of the first half has its mirror image in the second."""
        self._noise = self._rng.standard_normal((self._config.population // 2, self._centre.size))
        step = self._config.sigma * self._noise
        return np.concatenate((self._centre + step, self._centre - step))

    def tell(self, scores: Vectors, progress: float) -> None:
        """Takes one step of Adam up the gradient of the expected rank."""
        config, half = self._config, len(scores) // 2
        ranks = centred_ranks(scores)
        gradient = (ranks[:half] - ranks[half:]) @ self._noise / (len(scores) * config.sigma)
        self._steps += 1
        self._first += (1.0 - BETA_1) * (gradient - self._first)
        self._second += (1.0 - BETA_2) * (gradient**2 - self._second)
        first = self._first / (1.0 - BETA_1**self._steps)
        second = self._second / (1.0 - BETA_2**self._steps)
        rate = config.learning_rate * (1.0 - progress * (1.0 - config.learning_rate_end))
        # A new array: policies may have been made of the old one.
        self._centre = (1.0 - rate * config.weight_decay) * self._centre + rate * first / (np.sqrt(second) + EPSILON)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns centre, moments and generator."""
        arrays: Arrays = {"centre": self._centre, "first": self._first.copy(), "second": self._second.copy()}
        return arrays, {"steps": self._steps, "rng": self._rng.bit_generator.state}

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`. Raises ValueError if it has another size."""
        if arrays["centre"].shape != self._centre.shape:
            raise ValueError(f"{arrays['centre'].size} numbers searched, expected {self._centre.size}")
        self._centre = arrays["centre"].copy()
        self._first, self._second = arrays["first"].copy(), arrays["second"].copy()
        self._steps = int(rest["steps"])
        self._rng.bit_generator.state = rest["rng"]
