"""Bounds of linear functions of a network's values over many boxes at once.

Forwards, each value gets an interval and a form centre + G t ± r, with t in [-1, 1] along each side of the box; both
enclose it, and their intersection bounds what a function is applied to. Backwards, a linear function of the outputs is
carried through the same lines to the parameters, so that errors of neurons that cancel do so. This is the linear
relaxation of DeepZ (Singh et al., 2018) evaluated backwards, as CROWN (Zhang et al., 2018) does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.eval.certify.functions import Line
from ccarena.eval.certify.network import Affine, Map, Network, Product

__all__ = ["Forms", "Linear", "forwards"]

Array = NDArray[Any]
MARGIN = 1.01
"""Factor on bounds of the inference's rounding."""
DOUBLE = 2.0**-40
"""Rounding of these bounds in float64, relative to the sum of sizes in a step: more than γ_n of 4096 terms."""


@dataclass(frozen=True)
class Linear:
    """Linear functions over each box: `centre` + `slopes` t ± `radius`; arrays `[N, rows]` and `[N, rows, parameters]`.

    `blame` `[N, parameters]` estimates what each side of the box contributes to the bounds' width.
    """

    centre: Array
    slopes: Array
    radius: Array
    blame: Array


class Forms:
    """Enclosures of all values of a network over boxes."""

    def __init__(self, network: Network, centres: Array, widths: Array) -> None:
        """Encloses the values over the boxes `centres` ± `widths`, each `[N, parameters]`."""
        self.network = network
        self.centre, self.slopes, self.radius = [centres], [_diagonal(widths)], [np.zeros_like(centres)]
        self.low, self.high = [centres - widths], [centres + widths]
        self.lines: list[Line | None] = [None]
        self.errors: list[Array | None] = [None]
        for step in network.steps:
            if isinstance(step, Affine):
                self._affine(step)
            elif isinstance(step, Map):
                self._map(step)
            elif isinstance(step, Product):
                self._product(step)
            else:
                low, high = step.bounds([self.low[x] for x in step.inputs], [self.high[x] for x in step.inputs])
                margin = DOUBLE * np.maximum(np.abs(low), np.abs(high))
                low, high = low - margin, high + margin
                none = np.zeros((*low.shape, centres.shape[1]))
                self._append((low + high) / 2, none, (high - low) / 2, (low, high), None, None)

    def _append(
        self,
        centre: Array,
        slopes: Array,
        radius: Array,
        ends: tuple[Array, Array],
        line: Line | None,
        error: Array | None,
    ) -> None:
        reach = np.abs(slopes).sum(axis=2) + radius
        self.centre.append(centre)
        self.slopes.append(slopes)
        self.radius.append(radius)
        low, high = np.maximum(ends[0], centre - reach), np.minimum(ends[1], centre + reach)
        # Both hold; float64's rounding may cross the ends of an interval of no width.
        self.low.append(np.minimum(low, high))
        self.high.append(np.maximum(low, high))
        self.lines.append(line)
        self.errors.append(error)

    def _affine(self, step: Affine) -> None:
        centre: Any = step.bias
        middle, size = centre, np.abs(centre)
        slopes: Any = 0.0
        radius: Any = 0.0
        reach: Any = 0.0
        for x, matrix in zip(step.inputs, step.matrices, strict=True):
            absolute = np.abs(matrix)
            centre = centre + self.centre[x] @ matrix.T
            slopes = slopes + np.matmul(matrix, self.slopes[x])
            radius = radius + self.radius[x] @ absolute.T
            middle = middle + ((self.low[x] + self.high[x]) / 2) @ matrix.T
            reach = reach + ((self.high[x] - self.low[x]) / 2) @ absolute.T
            if step.relative or not step.exact:
                size = size + np.maximum(np.abs(self.low[x]), np.abs(self.high[x])) @ absolute.T
        own = 0.0 if step.exact else DOUBLE
        error = (MARGIN * step.relative + own) * size + MARGIN * step.absolute + np.zeros_like(centre)
        ends = middle - reach - error, middle + reach + error
        self._append(centre, slopes, radius + error, ends, None, error)

    def _map(self, step: Map) -> None:
        x = step.input
        line = step.function.enclose(self.low[x], self.high[x])
        largest = np.maximum(np.abs(line.low), np.abs(line.high))
        error = MARGIN * (step.function.slack * largest + step.absolute) + np.zeros_like(line.slope)
        ends = line.low - error, line.high + error
        farthest = np.maximum(np.abs(self.low[x]), np.abs(self.high[x]))
        error = error + DOUBLE * (largest + np.abs(line.slope) * farthest)
        centre = line.slope * self.centre[x] + line.middle
        radius = np.abs(line.slope) * self.radius[x] + line.radius + error
        self._append(centre, line.slope[:, :, None] * self.slopes[x], radius, ends, line, error)

    def _product(self, step: Product) -> None:
        x, z = step.left, step.right
        a, b = (self.low[x] + self.high[x]) / 2, (self.low[z] + self.high[z]) / 2
        p, q = (self.high[x] - self.low[x]) / 2, (self.high[z] - self.low[z]) / 2
        largest = (np.abs(a) + p) * (np.abs(b) + q)
        error = (MARGIN * step.relative + DOUBLE) * largest + MARGIN * step.absolute + p * q
        centre = b * self.centre[x] + a * self.centre[z] - a * b
        slopes = b[:, :, None] * self.slopes[x] + a[:, :, None] * self.slopes[z]
        radius = np.abs(b) * self.radius[x] + np.abs(a) * self.radius[z] + error
        corners = np.stack([(a + i * p) * (b + j * q) for i in (-1, 1) for j in (-1, 1)])
        ends = corners.min(axis=0) - (error - p * q), corners.max(axis=0) + (error - p * q)
        self._append(centre, slopes, radius, ends, None, error)

    def backwards(self, value: int, rows: Array, offset: Array) -> Linear:
        """Returns `rows` `[N, rows, size]` of a value plus `offset` `[N, rows]` as functions of the parameters."""
        count, parameters = len(rows), self.network.parameters
        adjoint: dict[int, Array] = {value: rows}
        centre, radius = offset.astype(np.float64), np.zeros(offset.shape)
        blame = np.zeros((count, parameters))
        for index in range(value, 0, -1):
            a = adjoint.pop(index, None)
            if a is None:
                continue
            step, error = self.network.steps[index - 1], self.errors[index]
            size = np.abs(a)
            if isinstance(step, Affine):
                centre = centre + a @ step.bias
                for x, matrix in zip(step.inputs, step.matrices, strict=True):
                    adjoint[x] = adjoint.get(x, 0.0) + a @ matrix
            elif isinstance(step, Map):
                line = self.lines[index]
                assert line is not None
                adjoint[step.input] = adjoint.get(step.input, 0.0) + a * line.slope[:, None]
                centre = centre + np.matmul(a, line.middle[:, :, None])[:, :, 0]
                radius = radius + np.matmul(size, line.radius[:, :, None])[:, :, 0]
                blame += self._blamed(step.input, size.max(axis=1) * line.radius)
            elif isinstance(step, Product):
                x, z = step.left, step.right
                of_x, of_z = (self.low[z] + self.high[z]) / 2, (self.low[x] + self.high[x]) / 2
                adjoint[x] = adjoint.get(x, 0.0) + a * of_x[:, None]
                adjoint[z] = adjoint.get(z, 0.0) + a * of_z[:, None]
                centre = centre - np.matmul(a, (of_x * of_z)[:, :, None])[:, :, 0]
                blame += self._blamed(x, size.max(axis=1) * self.errors[index])
                blame += self._blamed(z, size.max(axis=1) * self.errors[index])
            else:
                centre = centre + np.matmul(a, self.centre[index][:, :, None])[:, :, 0]
                radius = radius + np.matmul(size, self.radius[index][:, :, None])[:, :, 0]
                for x in step.inputs:
                    share = size.max(axis=1).max(axis=1, keepdims=True) * self.radius[index].max(axis=1, keepdims=True)
                    blame += self._blamed(x, np.broadcast_to(share, self.low[x].shape))
            if error is not None:
                radius = radius + np.matmul(size, error[:, :, None])[:, :, 0]
        a = adjoint.pop(0, np.zeros((count, rows.shape[1], parameters)))
        widths = (self.high[0] - self.low[0]) / 2
        slopes = a * widths[:, None]
        centre = centre + np.matmul(a, self.centre[0][:, :, None])[:, :, 0]
        blame += np.abs(slopes).max(axis=1)
        return Linear(centre, slopes, radius, blame)

    def greatest(self, value: int, rows: Array) -> Array:
        """Returns the largest result of `rows` `[N, rows, size]` by the intervals of a value alone.

        It is exact where actions lie at a bound, which lines are not.
        """
        above, below = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
        found: Array = (above @ self.high[value][:, :, None] + below @ self.low[value][:, :, None])[:, :, 0]
        return found

    def _blamed(self, value: int, weights: Array) -> Array:
        """Returns each parameter's part in `weights` `[N, size]` of a value's entries."""
        size = np.abs(self.slopes[value])
        total = size.sum(axis=2) + self.radius[value]
        share = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
        return np.matmul(share[:, None], size)[:, 0]


def _diagonal(widths: Array) -> Array:
    return widths[:, :, None] * np.eye(widths.shape[1])


def forwards(network: Network, low: Array, high: Array) -> Forms:
    """Returns the enclosures over the boxes `low` to `high`, each `[N, parameters]`."""
    centres = (low + high) / 2
    return Forms(network, centres, np.maximum(high - centres, centres - low))
