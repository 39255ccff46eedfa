"""Branch and bound: splits a box until a claim is certain on every part, and looks for points where it is wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.eval.certify.bounds import forwards
from ccarena.eval.certify.network import Network
from ccarena.eval.certify.spaces import Space

__all__ = ["Found", "Question", "decide"]

Array = NDArray[Any]
CHUNK = 256
"""Most boxes that are bounded together."""
_CHUNKS = 2
"""Chunks in one round, on a thread each: as many on every machine, so that all have the same answer."""
SAMPLES = 4096
"""Points that are tried before anything is bounded."""
SLIVER = 2.0**-40
"""Share of the space's side below which no side of a box is split."""
MOST_BYTES = 200_000_000
"""Memory for the bounds of the boxes of one chunk."""
_SAFE = 1e-9
"""Distance of a cut from where a bound says the claim becomes certain, in half sides of the box."""


class Question(Protocol):
    """Claim about a network's outputs over a space."""

    space: Space
    network: Network
    output: int

    def rows(self, outputs: Array) -> tuple[NDArray[Any], Array, Array]:
        """Returns what to show at centres with these outputs `[N, size]`.

        The first array says for each box whether to show that the claim holds, or that it is violated. That is certain
        where all of `rows` `[N, rows, size]` times the outputs plus `offset` `[N, rows]` are at most 0.
        """

    def violated(self, points: Array) -> NDArray[Any]:
        """Returns where the policy itself, run in its form, violates the claim."""


@dataclass
class Found:
    """Answer to a question."""

    holds: float = 0.0
    """Share of the volume where the claim is proved."""
    violated: float = 0.0
    """Share of the volume where it is proved to be violated."""
    undecided: float = 1.0
    boxes: int = 0
    """Number of boxes that were bounded."""
    left: int = 0
    """Number of boxes on which neither is proved; their volume may be too small for a float."""
    point: Array | None = None
    """Point at which the policy violates the claim."""


def decide(question: Question, most_boxes: int, enough: float, seed: int = 0) -> Found:
    """Splits the question's space until at most the share `enough` is undecided, or `most_boxes` were bounded.

    If no point violates the claim, it goes on until nothing is undecided. The same arguments give the same answer.
    """
    space, found, rng = question.space, Found(), np.random.default_rng(seed)
    _try(question, found, space.sample(rng, SAMPLES))
    low, high, volume = space.low[None], space.high[None], np.zeros(1)
    chunk = _chunk(question)
    with ThreadPoolExecutor(_CHUNKS) as pool:
        while len(low) and found.boxes < most_boxes:
            if found.point is not None and np.exp2(volume).sum() <= enough:
                break
            order = np.argsort(-volume, kind="stable")
            taken, rest = order[: CHUNK * _CHUNKS], order[CHUNK * _CHUNKS :]
            parts = [taken[start : start + chunk] for start in range(0, len(taken), chunk)]
            chunks = [(question, low[part], high[part], volume[part]) for part in parts]
            answers = list(pool.map(lambda chunk: _bound(*chunk), chunks))
            found.boxes += len(taken)
            found.holds += sum(answer.holds for answer in answers)
            found.violated += sum(answer.violated for answer in answers)
            if found.point is None:
                _try(question, found, np.concatenate([answer.suspects for answer in answers]))
            low = np.concatenate([low[rest], *(answer.low for answer in answers)])
            high = np.concatenate([high[rest], *(answer.high for answer in answers)])
            volume = np.concatenate([volume[rest], *(answer.volume for answer in answers)])
            if np.all(high - low <= SLIVER * (space.high - space.low)):
                break
    found.left, found.undecided = len(low), float(np.exp2(volume).sum())
    return found


def _chunk(question: Question) -> int:
    """Returns how many boxes fit into the memory of a chunk. Raises PolicyError if not one does."""
    network = question.network
    size = 8 * sum(network.sizes) * (network.parameters + network.sizes[question.output])
    if size > MOST_BYTES:
        raise PolicyError(
            f"bounds of one box take {size / 1e6:,.0f} MB; expected at most {MOST_BYTES / 1e6:,.0f}: certify fewer "
            "steps, `steady: true`, or a smaller network"
        )
    return min(CHUNK, MOST_BYTES // size)


def _try(question: Question, found: Found, points: Array) -> None:
    if len(points):
        wrong = question.violated(points)
        if wrong.any():
            found.point = points[int(wrong.argmax())]


@dataclass(frozen=True)
class _Answer:
    """Boxes that are left of some, and volumes that were decided."""

    low: Array
    high: Array
    volume: Array
    """Share of the space's volume of each box, as its binary logarithm: it may be too small for a float."""
    holds: float
    violated: float
    suspects: Array


def _bound(question: Question, low: Array, high: Array, volume: Array) -> _Answer:
    """Bounds a claim over boxes, cuts off what is certain, and splits the rest."""
    centres, widths = (low + high) / 2, (high - low) / 2
    outputs = question.network.evaluate(centres)[question.output]
    sides, rows, offset = question.rows(outputs)
    forms = forwards(question.network, low, high)
    linear = forms.backwards(question.output, rows, offset)
    reach = np.abs(linear.slopes).sum(axis=2)
    shown = (linear.centre + reach + linear.radius <= 0) | (forms.greatest(question.output, rows) + offset <= 0)
    certain = shown.all(axis=1)
    first, last = _hull(linear.centre + linear.radius, linear.slopes, reach)
    first, last = np.where(widths > 0, first, -1.0), np.where(widths > 0, last, 1.0)
    left = ~(certain | (last < first).any(axis=1))
    with np.errstate(divide="ignore"):
        kept = np.minimum(np.log2(np.maximum(last - first, 0.0) / 2).sum(axis=1), 0.0)
    decided = np.exp2(volume) * np.where(left, 1 - np.exp2(kept), 1.0)
    suspects = np.concatenate([centres[~sides], _worst(linear.slopes, centres, widths)[left & sides]])
    # A side that is not cut keeps its ends: neighbours must touch.
    low = np.where(first > -1, np.maximum(low, centres + first * widths), low)[left]
    high = np.where(last < 1, np.minimum(high, centres + last * widths), high)[left]
    volume, kept, blame = (volume + kept)[left], kept[left], linear.blame[left] * ((last - first) / 2)[left]
    parts = _halves(low, high, volume, blame, kept > -1)
    return _Answer(*parts, float(decided[sides].sum()), float(decided[~sides].sum()), suspects)


def _hull(level: Array, slopes: Array, reach: Array) -> tuple[Array, Array]:
    """Returns the part of [-1, 1] in each direction outside of which every row is certain: `level` + slopes t <= 0.

    Where row r may be positive, slopes_r t >= -level_r; with the other directions at their best, that bounds each t_k.
    """
    possible = ~(level + reach <= 0)
    others = reach[:, :, None] - np.abs(slopes)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = (-level[:, :, None] - others) / slopes
    steep = np.abs(slopes) > 1e-300
    least = np.where(steep & (slopes > 0), bound - _SAFE, -1.0)
    greatest = np.where(steep & (slopes < 0), bound + _SAFE, 1.0)
    least = np.where(possible[:, :, None], np.fmax(least, -1.0), 1.0)
    greatest = np.where(possible[:, :, None], np.fmin(greatest, 1.0), -1.0)
    return least.min(axis=1), greatest.max(axis=1)


def _worst(slopes: Array, centres: Array, widths: Array) -> Array:
    """Returns the corner of each box at which the steepest row is largest."""
    steepest = np.abs(slopes).sum(axis=2).argmax(axis=1)
    return centres + np.sign(slopes[np.arange(len(slopes)), steepest]) * widths


def _halves(
    low: Array, high: Array, volume: Array, blame: Array, split: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """Halves the boxes of `split` across the side that contributes most to the width of their bounds."""
    side = np.where(high > low, blame, -1.0).argmax(axis=1)
    rows = np.flatnonzero(split)
    middle = (low[rows, side[rows]] + high[rows, side[rows]]) / 2
    other = low[rows].copy()
    other[np.arange(len(rows)), side[rows]] = middle
    first = high.copy()
    first[rows, side[rows]] = middle
    volume = np.where(split, volume - 1, volume)
    return np.concatenate([low, other]), np.concatenate([first, high[rows]]), np.concatenate([volume, volume[rows]])
