"""Branch and bound: splits a box until a claim is certain on every part, and looks for points where it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.eval.certify.bounds import forwards
from ccarena.eval.certify.network import Network
from ccarena.eval.certify.questions import Rows
from ccarena.eval.certify.spaces import Space
from ccarena.eval.certify.volumes import share_below

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

    def rows(self, outputs: Array) -> Rows:
        """Returns what to show at centres with these outputs `[N, size]`."""

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
    boxes = _Boxes.whole(space)
    chunk = _chunk(question)
    with ThreadPoolExecutor(_CHUNKS) as pool:
        while len(boxes.low) and found.boxes < most_boxes:
            if found.point is not None and boxes.undecided.sum() <= enough:
                break
            order = np.argsort(-boxes.priority, kind="stable")
            taken, rest = order[: CHUNK * _CHUNKS], order[CHUNK * _CHUNKS :]
            parts = [boxes.at(taken[start : start + chunk]) for start in range(0, len(taken), chunk)]
            answers = list(pool.map(lambda part: _bound(question, part), parts))
            found.boxes += len(taken)
            found.holds += sum(answer.holds for answer in answers)
            found.violated += sum(answer.violated for answer in answers)
            if found.point is None:
                _try(question, found, np.concatenate([answer.suspects for answer in answers]))
            boxes = _Boxes.together([boxes.at(rest), *(answer.left for answer in answers)])
            if np.all(boxes.high - boxes.low <= SLIVER * (space.high - space.low)):
                break
    size = np.exp2(boxes.volume)
    found.left, found.undecided = len(boxes.low), float(boxes.undecided.sum())
    found.holds += float((size * boxes.holds).sum())
    found.violated += float((size * boxes.violated).sum())
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
class _Boxes:
    """Boxes that are not decided, with the shares of each that are."""

    low: Array
    high: Array
    volume: Array
    """Share of the space's volume of each box, as its binary logarithm: it may be too small for a float."""
    holds: Array
    """Share of each box in which the claim is proved: a half-space of it."""
    violated: Array

    @classmethod
    def whole(cls, space: Space) -> _Boxes:
        """Returns the space as one box."""
        return cls(space.low[None], space.high[None], np.zeros(1), np.zeros(1), np.zeros(1))

    @classmethod
    def together(cls, parts: Sequence[_Boxes]) -> _Boxes:
        """Returns the boxes of all parts."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    @property
    def undecided(self) -> Array:
        """Returns the volume of each box that is not decided."""
        return np.exp2(self.volume) * np.maximum(1 - self.holds - self.violated, 0.0)

    @property
    def priority(self) -> Array:
        """Returns the binary logarithm of that volume, by which boxes are bounded, the largest first."""
        return self.volume + np.log2(np.maximum(1 - self.holds - self.violated, SLIVER))

    def at(self, places: NDArray[np.intp]) -> _Boxes:
        """Returns the boxes at these places."""
        return _Boxes(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class _Answer:
    """Boxes that are left of some, and volumes that were decided."""

    left: _Boxes
    holds: float
    violated: float
    suspects: Array


def _bound(question: Question, boxes: _Boxes) -> _Answer:
    """Bounds a claim over boxes, cuts off what is certain, and splits the rest."""
    low, high, volume = boxes.low, boxes.high, np.exp2(boxes.volume)
    centres, widths = (low + high) / 2, (high - low) / 2
    asked = question.rows(question.network.evaluate(centres)[question.output])
    rows, offset = (np.concatenate(pair, axis=1) for pair in zip(asked.holding, asked.violating, strict=True))
    forms = forwards(question.network, low, high)
    linear = forms.backwards(question.output, rows, offset)
    level, slopes = linear.centre + linear.radius, linear.slopes
    reach = np.abs(slopes).sum(axis=2)
    shown = (level + reach <= 0) | (forms.greatest(question.output, rows) + offset <= 0)
    count = asked.holding[1].shape[1]
    sides = slice(None, count), slice(count, None)
    holds, violated = (shown[:, side].all(axis=1) for side in sides)
    hulls = [_hull(level[:, side], slopes[:, side], reach[:, side]) for side in sides]
    # A side without width is not cut.
    hulls = [(np.where(widths > 0, a, -1.0), np.where(widths > 0, b, 1.0)) for a, b in hulls]
    # First what holds is cut off, then of the rest what is violated.
    first, last = np.maximum(hulls[0][0], hulls[1][0]), np.minimum(hulls[0][1], hulls[1][1])
    kept, after = _log_share(first, last), np.exp2(_log_share(*hulls[0]))
    left = ~(holds | violated | (last < first).any(axis=1))
    rest = np.where(left, np.exp2(kept), 0.0)
    proved = np.where(holds, 1.0, np.where(violated, 0.0, 1 - after))
    wrong = np.where(holds, 0.0, np.where(violated, 1.0, after - rest))
    suspects = [centres[~asked.holds], _worst(slopes[:, sides[0]], centres, widths)[left & asked.holds]]
    # A side that is not cut keeps its ends: neighbours must touch.
    low = np.where(first > -1, np.maximum(low, centres + first * widths), low)[left]
    high = np.where(last < 1, np.minimum(high, centres + last * widths), high)[left]
    middle, half = (last + first)[left] / 2, (last - first)[left] / 2
    over = _Bounds(
        level[left] + np.matmul(slopes[left], middle[:, :, None])[:, :, 0],
        slopes[left] * half[:, None],
        linear.blame[left] * half,
    )
    return _Answer(
        _halves(low, high, (boxes.volume + kept)[left], kept[left] > -1, over, sides),
        float((volume * proved).sum()),
        float((volume * wrong).sum()),
        np.concatenate(suspects),
    )


def _log_share(first: Array, last: Array) -> Array:
    """Returns the binary logarithm of the share of the cube [-1, 1]^n between these ends."""
    with np.errstate(divide="ignore"):
        found: Array = np.minimum(np.log2(np.maximum(last - first, 0.0) / 2).sum(axis=1), 0.0)
    return found


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


@dataclass(frozen=True)
class _Bounds:
    """Bounds of the rows over boxes: `level` + `slopes` t at most, with t in [-1, 1] along each side, and `blame`."""

    level: Array
    slopes: Array
    blame: Array


def _halves(
    low: Array, high: Array, volume: Array, split: NDArray[np.bool_], over: _Bounds, sides: Sequence[slice]
) -> _Boxes:
    """Halves the boxes of `split` across the side that contributes most to the width of their bounds.

    The bounds `over` each box tell which part of each half is decided already.
    """
    side = np.where(high > low, over.blame, -1.0).argmax(axis=1)
    second = np.flatnonzero(split)
    source = np.concatenate([np.arange(len(low)), second])
    which = np.concatenate([np.where(split, -1.0, 0.0), np.ones(len(second))])
    at, cut = np.arange(len(source)), side[source]
    low, high, level, slopes = low[source], high[source], over.level[source], over.slopes[source]
    middle = (low[at, cut] + high[at, cut]) / 2
    low[at, cut] = np.where(which > 0, middle, low[at, cut])
    high[at, cut] = np.where(which < 0, middle, high[at, cut])
    level = level + which[:, None] * slopes[at, :, cut] / 2
    slopes[at, :, cut] *= np.where(which == 0, 1.0, 0.5)[:, None]
    below = share_below(slopes, level)
    holds, violated = (np.maximum(1 - (1 - below[:, part]).sum(axis=1), 0.0) for part in sides)
    return _Boxes(low, high, np.where(split, volume - 1, volume)[source], holds, violated)
