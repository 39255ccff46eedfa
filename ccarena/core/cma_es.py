"""CMA-ES of the package `cma`: it learns the covariance of successful candidates, for up to a few hundred numbers.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772. The package's state is an object graph that
only a pickle could store, and pickles are never loaded here. The state is a function of the seed and of all scores so
far: a checkpoint stores these, and restoring replays them.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import MissingDependencyError

try:
    with warnings.catch_warnings():
        # Its plots, which are not used here, need the package matplotlib.
        warnings.filterwarnings("ignore", message="Could not import matplotlib")
        import cma
except ImportError as error:
    raise MissingDependencyError.for_extra("cma", "train", "training by CMA-ES") from error

__all__ = ["CmaEs"]

Vectors = NDArray[np.float64]


class Settings(Protocol):
    """Keys of a configuration that the search reads (`ccarena.configs.learning.CmaEsConfig`)."""

    @property
    def population(self) -> int | None:
        """Candidates per generation; None for the package's choice."""

    @property
    def sigma(self) -> float:
        """Standard deviation of the first generation."""


class CmaEs:
    """Search that proposes candidates and takes their scores; numbers from `weights` on stay between 0 and 1."""

    def __init__(self, start: Vectors, weights: int, config: Settings, seed: int) -> None:
        rng = np.random.Generator(np.random.PCG64([seed, 2]))
        inside = [None] * weights
        options: dict[str, Any] = {
            "verbose": -9,
            "randn": lambda *shape: rng.standard_normal(shape),
            # The package would seed NumPy's global generator; ours is the one above.
            "seed": np.nan,
            "bounds": [[*inside, *[0.0] * (start.size - weights)], [*inside, *[1.0] * (start.size - weights)]],
        }
        if config.population is not None:
            options["popsize"] = config.population
        # One number has no covariance, for which the package has no code: a second one that nothing depends on.
        self._size = start.size
        if start.size == 1:
            start = np.append(start, 0.5)
            options["bounds"] = [[*bound, None] for bound in options["bounds"]]
        self._cma = cma.CMAEvolutionStrategy(start, config.sigma, options)
        self._scores: list[Vectors] = []
        self._asked: list[Vectors] = []

    @property
    def centre(self) -> Vectors:
        """The mean of the distribution."""
        return np.asarray(self._cma.result.xfavorite, dtype=np.float64)[: self._size]

    @property
    def sigma(self) -> float:
        """The overall standard deviation."""
        return float(self._cma.sigma)

    def ask(self) -> Vectors:
        """The next generation."""
        self._asked = self._cma.ask()
        return np.array(self._asked, dtype=np.float64)[:, : self._size]

    def tell(self, scores: Vectors, progress: float) -> None:
        """Moves mean, step size and covariance towards the best half."""
        self._cma.tell(self._asked, [-float(score) for score in scores])
        self._scores.append(np.asarray(scores, dtype=np.float64).copy())

    def state(self) -> tuple[dict[str, Vectors], dict[str, Any]]:
        """Returns the scores of all generations so far, `[generations, population]`."""
        scores = np.array(self._scores) if self._scores else np.empty((0, self._cma.popsize))
        return {"scores": scores}, {"size": self._size}

    def restore(self, arrays: dict[str, Any], rest: dict[str, Any]) -> None:
        """Restores a `state()` by replaying it. Raises ValueError if it has another size or population."""
        scores = arrays["scores"]
        if rest["size"] != self._size or scores.shape[1] != self._cma.popsize:
            raise ValueError(
                f"{rest['size']} numbers searched by {scores.shape[1]} candidates, expected {self._size} by "
                f"{self._cma.popsize}"
            )
        for generation in scores:
            self.ask()
            self.tell(generation, 0.0)
