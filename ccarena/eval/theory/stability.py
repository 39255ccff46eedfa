"""Stability of the limit cycles of WCC's fluid models, by the paper's matrix Z and by the delayed system's multipliers.

Zheng et al. (Lemma 1, Theorem 1) linearise the Poincaré map at x*, where the cycle falls through q = 0, as

    Z = (I - F c / (c F)) exp(integral over a period of J_F(x(s), u(s-1)) ds),    F = F(x*, 1), c = (0, ..., 0, 1)

and call the cycle stable if and only if the spectral radius of Z is below 1. Two things stand between Z and the system:

* F has W(t-1) and q(t-1) as arguments, but the paper writes F(x(t), u(t-1)). `reading` chooses an interpretation:
  "frozen" takes them as given functions of time, "merged" as equal to W(t) and q(t).
* The exponential of an integral is the transition matrix only where the matrices J_F(s) commute, which they do not.
  `ordered=True` takes the product of the exponentials of the steps instead.

Neither accounts for a perturbation that returns one round trip later. `multipliers` does: it differentiates the return
map of whole histories numerically. The two differ. Just above the threshold the cycle of one fall per period can have a
multiplier below -1, while Z's radius stays far below 1. The system then settles to a cycle with two falls.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.theory.fluid import (
    Cycle,
    Floats,
    _closed_histories,
    _one_round,
    _Parameters,
    _return_map,
)

__all__ = ["multipliers", "spectral_radius"]

Reading = Literal["frozen", "merged"]
_DIFFERENCE = 1e-6


def spectral_radius(
    model: str, weights: ArrayLike, w_bar: ArrayLike, *, reading: Reading = "frozen", ordered: bool = False
) -> Floats:
    """Returns the spectral radius of Z, of the cycle with one fall per period; NaN if there is a fixed point instead.

    `weights` is [..., n] and `w_bar` broadcasts to [...], which is the result's shape: Fig. 3's surface is one call.
    Raises ConfigError, and CcarenaError if no cycle is found.
    """
    if reading not in ("frozen", "merged"):
        raise ConfigError(f'unknown reading "{reading}" of the Jacobian; known: frozen, merged')
    parameters = _Parameters.surface(model, weights, w_bar)
    shape = np.broadcast_shapes(np.shape(weights)[:-1], np.shape(w_bar))
    radius = np.full(len(parameters.w_bar), math.nan)
    for chosen in parameters.groups():
        part = parameters.subset(chosen)
        closed = _return_map(_one_fall(part, part.steps), part)
        for s, index in enumerate(chosen):
            z = _matrix(_one_round(closed, part, s), part.subset(np.array([s])), reading == "merged", ordered)
            radius[index] = np.abs(np.linalg.eigvals(z)).max()
    return radius.reshape(shape)


def multipliers(model: str, weights: ArrayLike, w_bar: float, *, steps: int = 64) -> NDArray[np.complex128] | None:
    """Returns the characteristic multipliers of the return map of histories, the largest first; None at a fixed point.

    They belong to the cycle with one fall per period; a perturbation along the cycle is left out. `steps` is the least
    number of steps per round trip. There are (n + 1) (2 steps + 1) - 1 values, most of which are 0. The cycle is stable
    if all are below 1 in magnitude. Raises as `spectral_radius`.
    """
    parameters = _Parameters.of(model, weights, w_bar)
    if not parameters.oscillates[0]:
        return None
    count = max(steps, 2 ** math.ceil(math.log2(2 * float(parameters.w_bar[0]))))
    history = _one_fall(parameters, count)
    scale = np.full(history.shape, _DIFFERENCE)
    scale[:, :-1] *= parameters.w_bar[0]
    size = history.size - 1
    # Every entry of the history but the last, q = 0 on the plane, up and down.
    change = np.zeros((size + 1, size))
    np.fill_diagonal(change, scale.ravel()[:size])
    change = change.reshape(*history.shape[:2], size)
    many = parameters.subset(np.zeros(size, dtype=np.intp))
    ends = [_return_map(history + sign * change, many).history.reshape(size + 1, size)[:size] for sign in (1, -1)]
    derivative = (ends[0] - ends[1]) / (2 * scale.ravel()[:size])
    values = np.linalg.eigvals(derivative).astype(np.complex128)
    return values[np.argsort(-np.abs(values))]


def _one_fall(parameters: _Parameters, count: int) -> Floats:
    """Returns the closed histories of the cycles with one fall per period, stable or not."""
    history, falls = _closed_histories(parameters, steps=count)
    for damping in (0.5, 0.8, 0.95):
        several = np.flatnonzero(falls != 1)
        if not len(several):
            break
        part = parameters.subset(several)
        history[:, :, several], falls[several] = _closed_histories(part, steps=count, damping=damping)
    if (falls != 1).any():
        w_bar = parameters.w_bar[falls != 1][0]
        raise CcarenaError(
            f"no cycle of one fall per period was found at w_bar = {w_bar:g}: widen the distance to the threshold"
        )
    return history


def _matrix(cycle: Cycle, parameters: _Parameters, merged: bool, ordered: bool) -> Floats:
    """Returns Z [n+1, n+1] of one cycle, in the coordinates W_1 ... W_n, q."""
    n, gain, w = parameters.flows, parameters.gain[:, 0], float(parameters.w_bar[0])
    loss = _loss(cycle, parameters.cut[:, 0], merged)
    steps = np.diff(cycle.t)[:, None, None] * _jacobian(cycle, gain, loss, w, merged)
    if ordered:
        transition = np.eye(n + 1)
        for step in steps:
            transition = _exponential(step) @ transition
    else:
        transition = _exponential(steps.sum(axis=0))
    start = cycle.window[0]
    # At the fall the queue has been over its limit for more than a round trip: u = 1, and y = 1.
    f = np.append(gain - loss[0] * start, start.sum() / w - 1.0)
    projection = np.eye(n + 1)
    projection[:, n] -= f / f[n]
    z: Floats = projection @ transition
    return z


def _loss(cycle: Cycle, cut: Floats, merged: bool) -> Floats:
    """Returns B_i W_i / y, one round trip earlier unless `merged`, [K, n]."""
    ratio = cut * cycle.window / (1.0 + cycle.queue[:, None])
    if merged:
        return ratio
    earlier = cycle.t - 1.0
    columns = [np.interp(earlier, cycle.t, column, period=cycle.period) for column in ratio.T]
    return np.stack(columns, axis=1)


def _jacobian(cycle: Cycle, gain: Floats, loss: Floats, w_bar: float, merged: bool) -> Floats:
    """Returns J_F, averaged over each step of the cycle [K-1, n+1, n+1]."""
    n, window, y = len(gain), cycle.window, 1.0 + cycle.queue
    free, dropping = np.zeros((2, len(y), n + 1, n + 1))
    index = np.arange(n)
    free[:, index, n] = -gain / y[:, None] ** 2
    free[:, n, :n] = 1.0 / (w_bar * y[:, None])
    free[:, n, n] = -window.sum(axis=1) / (w_bar * y**2)
    dropping[:, index, index] = -loss * (2.0 if merged else 1.0)
    if merged:
        dropping[:, index, n] = loss * window / y[:, None]
    share = cycle.dropping[:-1, None, None]
    result: Floats = (free[:-1] + free[1:] + share * (dropping[:-1] + dropping[1:])) / 2
    return result


def _exponential(a: Floats) -> Floats:
    """Returns the matrix exponential: Taylor's series of a / 2^k, squared k times (Moler and Van Loan, 2003,
    method 3).
    """
    halvings = max(0, math.ceil(math.log2(max(float(np.abs(a).sum(axis=1).max()), 1e-300) / 0.25)))
    small = a / 2.0**halvings
    term = result = np.eye(len(a))
    for k in range(1, 15):
        term = term @ small / k
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return result
