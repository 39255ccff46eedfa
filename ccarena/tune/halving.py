"""Successive halving: of the candidates that have reached a rung, the best third goes on to the next one.

Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, arXiv:1810.05934.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["REDUCTION", "promoted"]

REDUCTION = 3
"""Factor between the costs of two rungs, and between the numbers of candidates on them."""
Name = TypeVar("Name")


def promoted(batch: Mapping[Name, float], earlier: Sequence[float]) -> list[Name]:
    """Returns the candidates of a batch that go on, the best first; of equal scores, the first in the batch.

    They are at most a third of the batch, rounded up, and among the best third of all scores on this rung. These are
    the scores of the batch and of `earlier` ones.
    """
    scores = sorted([*batch.values(), *earlier], reverse=True)
    best = sorted(batch, key=lambda name: -batch[name])[: math.ceil(len(batch) / REDUCTION)]
    least = scores[math.ceil(len(scores) / REDUCTION) - 1] if scores else math.inf
    return [name for name in best if batch[name] >= least]
