"""Fluid models of WCC: weighted AIMD flows that share one droptail bottleneck, as delay differential equations.

Zheng et al., "Revisiting Weighted AIMD-based Congestion Control", equations (3) and (4), for n flows. The unit of time
is the full queue's round trip R* = d + K/C. The round trip at a time is y = 1 + q (q > 0: the queue is over its limit
K), and w̄ = C d + K packets:

    dW_i/dt = A_i / y(t) - B_i W_i(t) W_i(t-1) / y(t-1) 1{y(t-1) > 1}
    dy/dt   = sum_i W_i(t) / (w̄ y(t)) - 1,   but not below 0 at y = 1 / (1 + psi), the empty queue

| model     | A_i | B_i             | source                                                                   |
|-----------|-----|-----------------|--------------------------------------------------------------------------|
| `ai`      | a_i | 1/2             | WCC-AI, equation (3)                                                     |
| `md`      | 1   | 1 / (2 a_i)     | WCC-MD, equation (4)                                                     |
| `md-kept` | 1   | 1 - 1 / (2 a_i) | the share 1/(2a) is kept, not lost: the only one that has Fig. 6's w̄     |

The fixed point of each is W_i = sqrt(A_i / B_i), which is sqrt(2 a_i) for `ai` and `md`; it exists while w̄ <= sum_i
W_i. Above, a limit cycle takes its place. psi = K / (C d) is infinite by default (no propagation delay): in the paper,
w̄ and the weights alone determine the dynamics, which requires that the queue never runs empty.

Method: classical Runge-Kutta with step 1/N. N is a multiple of what the stiffest rate (about w̄ per unit of time) needs,
so the delayed values are stored nodes and midpoints. If the delayed queue crosses its limit within a step, the decrease
acts for that fraction of the step, so the order is two. A limit cycle is the fixed point of the return map of whole
histories to the plane q = 0. Results therefore do not depend on where crossings fall on the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccarena.errors import CcarenaError, ConfigError, did_you_mean

__all__ = [
    "MODELS",
    "Cycle",
    "FixedPoint",
    "Trajectory",
    "fixed_point",
    "limit_cycle",
    "threshold",
    "throughput",
    "throughput_ratio",
    "trajectory",
]

Floats = NDArray[np.float64]
MODELS = ("ai", "md", "md-kept")

_STEPS = 128
_MAX_RETURNS = 400
_MAX_FALLS = 8
# Falls over which throughput is averaged where no cycle closes.
_LONG_RUN = 200
# Between points of return, windows relative to w̄, and between the times that they took.
_TOLERANCE, _SAME = 1e-8, 1e-5


@dataclass(frozen=True)
class FixedPoint:
    """Fixed point, where all derivatives vanish: `window` float64[n] in packets, `queue` the normalised q >= 0."""

    window: Floats
    queue: float


@dataclass(frozen=True)
class Trajectory:
    """Solution on an even grid: `t` [K] in units of R*, `window` [K, n] in packets, `queue` [K] normalised."""

    t: Floats
    window: Floats
    queue: Floats


@dataclass(frozen=True)
class Cycle:
    """Period of a limit cycle, from the moment at which the queue falls below its limit.

    - `period`: in units of R*;
    - `falls`: falls of the queue below its limit in a period, more than 1 where periods double;
    - `throughput` [n]: TP_i, the flows' shares of the capacity;
    - `t` [K] from 0 to `period`, `window` [K, n] in packets and `queue` [K]: the orbit;
    - `dropping` [K]: 1{q(t-1) > 0} in the step from there, between 0 and 1 where it changes.
    """

    period: float
    falls: int
    throughput: Floats
    t: Floats
    window: Floats
    queue: Floats
    dropping: Floats


def fixed_point(model: str, weights: ArrayLike, w_bar: float) -> FixedPoint | None:
    """Returns the fixed point, or None above the threshold, where a limit cycle exists instead. Raises ConfigError."""
    parameters = _Parameters.of(model, weights, w_bar)
    window = parameters.rest[:, 0]
    total = float(window.sum())
    return None if parameters.oscillates[0] else FixedPoint(window, max(0.0, total / float(w_bar) - 1.0))


def threshold(model: str, weights: ArrayLike) -> float:
    """Returns the largest w̄ with a fixed point: sum_i sqrt(A_i / B_i), in packets. Raises ConfigError."""
    return float(_Parameters.of(model, weights, 1.0).rest.sum())


def trajectory(
    model: str,
    weights: ArrayLike,
    w_bar: float,
    *,
    duration: float = 50.0,
    psi: float = math.inf,
    window: ArrayLike = 1.0,
    queue: float | None = None,
    steps: int | None = None,
) -> Trajectory:
    """Solves from a constant history of `window` packets (a number or one per flow) and `queue`, over `duration` R*.

    By default, the queue is the one that `window` sustains: sum W / w̄ - 1, at most 0. `steps` is N, the steps per R*
    (default: as for `throughput`). The paper does not give its initial conditions.
    """
    parameters = _Parameters.of(model, weights, w_bar, psi)
    count = parameters.steps if steps is None else steps
    start = np.empty((parameters.flows + 1, 1))
    start[:-1, 0] = window
    start[-1] = min(1.0, start[:-1].sum() / float(w_bar)) if queue is None else 1.0 + queue
    if count < 1 or not duration > 0 or not (start > 0).all():
        raise ConfigError(
            "a trajectory needs steps >= 1, duration > 0, windows > 0 and a queue above -1, got "
            f"{steps=}, {duration=}, {window=}, {queue=}"
        )
    np.maximum(start[-1], parameters.floor, out=start[-1])
    blocks = _blocks(np.repeat(start[None], 2 * count + 1, axis=0), parameters)
    points = [start[None], *(next(blocks)[0][2::2] for _ in range(math.ceil(duration)))]
    solution = np.concatenate(points)[: math.ceil(duration * count) + 1, :, 0]
    return Trajectory(np.arange(len(solution)) / count, solution[:, :-1], solution[:, -1] - 1.0)


def limit_cycle(model: str, weights: ArrayLike, w_bar: float, *, psi: float = math.inf) -> Cycle | None:
    """Returns the limit cycle, None if there is a fixed point. Raises ConfigError, and CcarenaError if no cycle is
    reached.
    """
    parameters = _Parameters.of(model, weights, w_bar, psi)
    if not parameters.oscillates[0]:
        return None
    (cycle,) = _cycles(parameters)
    if cycle.falls > _MAX_FALLS:
        raise CcarenaError(
            f"fluid model {model} with weights {weights!r} at w_bar = {w_bar:g} has no limit cycle: its returns still "
            f"differ after {_MAX_RETURNS}; ask for its throughput, a long-run average there, or for a trajectory"
        )
    return cycle


def throughput(model: str, weights: ArrayLike, w_bar: ArrayLike, *, psi: float = math.inf) -> Floats:
    """Returns TP_i = 1/T ∫ W_i / (w̄ y) dt over a period (or at the fixed point): the flows' shares of the capacity.

    If the motion is aperiodic, as for some weights just above the threshold, the integral is over 200 falls.

    `weights` is [..., n] and `w_bar` broadcasts to [...]: a whole surface is one call, and much faster than many. The
    result is [..., n]; its sum is 1 unless `psi` lets the queue run empty. Raises ConfigError.
    """
    parameters = _Parameters.surface(model, weights, w_bar, psi)
    shape = np.broadcast_shapes(np.shape(weights)[:-1], np.shape(w_bar))
    share = (parameters.rest / parameters.rest.sum(axis=0)).T.copy()
    for chosen in parameters.groups():
        share[chosen] = [cycle.throughput for cycle in _cycles(parameters.subset(chosen))]
    return share.reshape(*shape, parameters.flows)


def throughput_ratio(model: str, weights: ArrayLike, w_bar: float, *, psi: float = math.inf) -> float:
    """Returns TP_1 / TP_2 of the first two flows, as in Fig. 4 and Observations 1 and 2. Raises as `throughput`
    does.
    """
    share = throughput(model, weights, w_bar, psi=psi)
    if share.ndim != 1 or len(share) < 2:
        raise ConfigError(f"a throughput ratio needs one list of at least two weights, got {weights!r}")
    return float(share[0] / share[1])


@dataclass(frozen=True)
class _Parameters:
    """Parameters of S sets at once: `gain` A and `cut` B [n, S], `w_bar` [S]; `floor` is y at the empty queue."""

    gain: Floats
    cut: Floats
    w_bar: Floats
    floor: float

    @classmethod
    def of(cls, model: str, weights: ArrayLike, w_bar: ArrayLike, psi: float = math.inf) -> _Parameters:
        a = np.atleast_2d(np.asarray(weights, dtype=np.float64)).T
        w = np.atleast_1d(np.asarray(w_bar, dtype=np.float64))
        if model not in MODELS:
            raise ConfigError(f'unknown fluid model "{model}"{did_you_mean(model, MODELS)}')
        least = 0.0 if model == "ai" else 0.5
        if a.ndim != 2 or not a.size or not (np.isfinite(a).all() and (a > least).all()):
            raise ConfigError(f"weights of fluid model {model} must be finite and above {least}, got {weights!r}")
        if w.ndim != 1 or not (np.isfinite(w).all() and (w > 0).all()):
            raise ConfigError(f"w_bar must be finite and above 0 packets, got {w_bar!r}")
        if not psi > 0:
            raise ConfigError(f"psi = K / (C d) must be above 0, got {psi}")
        one = np.ones_like(a)
        gain, cut = {"ai": (a, one / 2), "md": (one, 1 / (2 * a)), "md-kept": (one, 1 - 1 / (2 * a))}[model]
        return cls(gain, cut, w, 1.0 / (1.0 + psi))

    @classmethod
    def surface(cls, model: str, weights: ArrayLike, w_bar: ArrayLike, psi: float = math.inf) -> _Parameters:
        """Broadcasts weights [..., n] and w̄ [...] against each other and flattens them."""
        a, w = np.asarray(weights, dtype=np.float64), np.asarray(w_bar, dtype=np.float64)
        try:
            shape = np.broadcast_shapes(a.shape[:-1], w.shape)
        except ValueError as error:
            raise ConfigError(
                f"weights [..., n] and w_bar [...] must broadcast, got shapes {a.shape} and {w.shape}"
            ) from error
        flat = np.broadcast_to(a, (*shape, *a.shape[-1:])).reshape(-1, *a.shape[-1:])
        return cls.of(model, flat, np.broadcast_to(w, shape).ravel(), psi)

    @property
    def flows(self) -> int:
        return len(self.gain)

    @property
    def rest(self) -> Floats:
        """Returns the windows of the fixed point [n, S]: A = B W²."""
        return np.sqrt(self.gain / self.cut)

    @property
    def oscillates(self) -> NDArray[np.bool_]:
        # A threshold that was computed by the caller in another order of operations is still the threshold.
        return self.w_bar > self.rest.sum(axis=0) * (1 + 4e-16 * self.flows)

    @property
    def steps(self) -> int:
        return _steps(float(self.w_bar.max()))

    def groups(self) -> Iterator[NDArray[np.intp]]:
        """Yields the sets that oscillate, grouped by step size, so that each set's result is independent of the
        others.
        """
        counts = np.array([_steps(float(w)) for w in self.w_bar])
        for count in sorted(set(counts[self.oscillates].tolist())):
            yield np.flatnonzero(self.oscillates & (counts == count))

    def subset(self, chosen: NDArray[np.intp]) -> _Parameters:
        return _Parameters(self.gain[:, chosen], self.cut[:, chosen], self.w_bar[chosen], self.floor)


def _steps(w_bar: float) -> int:
    """Returns N: stable and accurate for rates up to w̄ per unit of time, a power of two so that sets share it."""
    return _STEPS * 2 ** max(0, math.ceil(math.log2(2 * w_bar / _STEPS)))


def _blocks(history: Floats, parameters: _Parameters) -> Iterator[tuple[Floats, Floats]]:
    """Solves onwards from a history [2N+1, n+1, S] of nodes and midpoints, one unit of time after the other.

    Rows are W_1 ... W_n and y. Yields, for each unit, the same array for the next unit. It also yields the share of
    each step in which 1{q(t-1) > 0} holds [N, S].
    """
    n, count = parameters.flows, len(history) // 2
    h, inverse, floor = 1.0 / count, 1.0 / parameters.w_bar, parameters.floor
    source = np.empty(history.shape[1:])
    source[:n] = parameters.gain

    def slope(x: Floats, loss: Floats) -> Floats:
        source[n] = np.add.reduce(x[:n], axis=0) * inverse
        k: Floats = source / x[n]
        k[:n] -= loss * x[:n]
        k[n] -= 1.0
        if floor > 0:
            k[n] = np.where((x[n] <= floor) & (k[n] < 0), 0.0, k[n])
        return k

    while True:
        over = _share_over(history[:, n] - 1.0)
        loss = parameters.cut * history[:, :n] / history[:, n:]
        left, middle, right = (loss[from_:to:2] * over[:, None] for from_, to in ((0, -1), (1, None), (2, None)))
        following = np.empty_like(history)
        following[0] = x = history[-1]
        for i in range(count):
            k1 = slope(x, left[i])
            k2 = slope(x + h / 2 * k1, middle[i])
            half = x + h / 2 * k2
            k3 = slope(half, middle[i])
            k4 = slope(x + h * k3, right[i])
            x = x + h / 6 * (k1 + 2 * (k2 + k3) + k4)
            if floor > 0:
                np.maximum(x[n], floor, out=x[n])
                np.maximum(half[n], floor, out=half[n])
            following[2 * i + 1], following[2 * i + 2] = half, x
        history = following
        yield history, over


def _share_over(q: Floats) -> Floats:
    """Returns the share of each step in which q > 0 [N, S], from nodes and midpoints [2N+1, S]."""
    start, end = q[:-1:2], q[2::2]
    over = (start > 0).astype(np.float64)
    step, column = np.nonzero((start > 0) != (end > 0))
    where = _crossing(q, step, column)
    over[step, column] = np.where(start[step, column] > 0, where, 1.0 - where)
    return over


def _crossing(q: Floats, step: NDArray[np.intp], column: NDArray[np.intp]) -> Floats:
    """Returns the zero in [0, 1] of the parabola through start, midpoint and end of the given steps; the ends differ in
    sign.
    """
    start, middle, end = (q[2 * step + k, column] for k in range(3))
    linear, square = 4 * middle - 3 * start - end, 2 * (start + end - 2 * middle)
    # Of the two roots the one in [0, 1], without cancellation; Newton would need a guess.
    root = np.sqrt(np.maximum(linear**2 - 4 * square * start, 0.0))
    half = -0.5 * (linear + np.copysign(root, linear))
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = start / half, half / square
    inside = np.abs(first - 0.5) <= np.abs(second - 0.5)
    return np.clip(np.where(inside | ~np.isfinite(second), first, second), 0.0, 1.0)


@dataclass(frozen=True)
class _Return:
    """Orbit between two falls of q through 0: `orbit` [2M+1, n+1, S] on the half grid from time 0, and `over` [M, S].

    The next fall is in step `step` [S] at `fraction` [S] of it. `history` [2N+1, n+1, S] is the unit of time before it.
    """

    orbit: Floats
    over: Floats
    step: NDArray[np.intp]
    fraction: Floats
    history: Floats


def _return_map(history: Floats, parameters: _Parameters) -> _Return:
    """Follows each set until q falls through 0."""
    n, count, columns = parameters.flows, len(history) // 2, np.arange(history.shape[2])
    # A cycle takes w̄ / (2 sum A) to fill the link and some units around it; near the threshold log(1 / distance) more.
    patience = 80 + math.ceil(4 * float((parameters.w_bar / parameters.gain.sum(axis=0)).max()))
    blocks, overs = [history[-1:]], []
    fell = np.zeros(history.shape[2], dtype=bool)
    for unit, (block, over) in enumerate(_blocks(history, parameters)):
        blocks.append(block[1:])
        overs.append(over)
        y = block[::2, n]
        fell |= ((y[:-1] > 1) & (y[1:] <= 1)).any(axis=0)
        if fell.all():
            break
        if unit > patience:
            raise CcarenaError(
                f"a fluid model's queue did not fall below its limit again within {patience} round trips, at w_bar = "
                f"{parameters.w_bar[~fell][0]:g}: widen the distance to the threshold, or ask for a trajectory"
            )
    orbit = np.concatenate(blocks)
    y = orbit[::2, n]
    step = ((y[:-1] > 1) & (y[1:] <= 1)).argmax(axis=0)
    fraction = _crossing(orbit[:, n] - 1.0, step, columns)
    # Index 2N of what is known is time 0, and the history to take ends 2 (step + fraction) later.
    position = 2 * (step + fraction) + np.arange(2 * count + 1)[:, None]
    known = np.concatenate((history[:-1], orbit))
    back = _interpolate(known, position)
    back[-1, n] = 1.0
    return _Return(orbit, np.concatenate(overs), step, fraction, back)


def _interpolate(grid: Floats, position: Floats) -> Floats:
    """Returns cubic (Lagrange, four points) values of grid [L, rows, S] at the indices position [P, S]: [P,
    rows, S].
    """
    base = np.clip(np.floor(position).astype(np.intp) - 1, 0, len(grid) - 4)
    s = position - base
    columns = np.arange(grid.shape[2])
    weights = (
        -(s - 1) * (s - 2) * (s - 3) / 6,
        s * (s - 2) * (s - 3) / 2,
        -s * (s - 1) * (s - 3) / 2,
        s * (s - 1) * (s - 2) / 6,
    )
    # Advanced indices around a slice come first: [P, S, rows].
    points = np.zeros((*position.shape, grid.shape[1]))
    for k, weight in enumerate(weights):
        points += weight[..., None] * grid[base + k, :, columns]
    return np.moveaxis(points, 2, 1)


def _closed_histories(
    parameters: _Parameters, *, steps: int | None = None, damping: float = 0.0
) -> tuple[Floats, NDArray[np.intp]]:
    """Iterates the map to find each set's history before a fall of the limit cycle, and its falls per period.

    A set has 0 falls if it does not close within `_MAX_FALLS` falls after `_MAX_RETURNS`: its motion is aperiodic.

    With `damping`, that share of the old history stays in each new one. Cycles that shed perturbations with alternating
    sign, or not at all (a multiplier between -3 and 1 at 0.5), are then found as well.
    """
    n, count, sets = parameters.flows, steps or parameters.steps, len(parameters.w_bar)
    history = np.ones((2 * count + 1, n + 1, sets))
    # A link just full, shared as at the threshold.
    history[:, :n] = parameters.rest / parameters.rest.sum(axis=0) * parameters.w_bar
    active, falls = np.arange(sets), np.ones(sets, dtype=np.intp)
    # The last points of return and times between them, newest first.
    points = np.full((_MAX_FALLS + 1, n + 1, sets), np.nan)
    for _ in range(_MAX_RETURNS):
        part = parameters.subset(active)
        back = _return_map(history[:, :, active], part)
        history[:, :, active] = (1 - damping) * back.history + damping * history[:, :, active]
        points[1:, :, active] = points[:-1, :, active]
        points[0, :n, active] = (history[-1, :n, active].T / part.w_bar).T
        points[0, n, active] = (back.step + back.fraction) / count
        distance = np.abs(points[:1, :, active] - points[1:, :, active]).max(axis=1)
        # Slow convergence with alternating sign looks closed after two falls first; it is one all the same.
        falls[active] = 1 + (distance < _SAME).argmax(axis=0)
        active = active[~(distance < _TOLERANCE).any(axis=0)]
        if not len(active):
            return history, falls
    falls[active] = 0
    return history, falls


def _cycles(parameters: _Parameters) -> Sequence[Cycle]:
    """Returns the limit cycles of sets that oscillate; for sets without one, `_LONG_RUN` falls in succession."""
    history, falls = _closed_histories(parameters)
    wanted = np.where(falls == 0, _LONG_RUN, falls)
    rounds: list[list[Cycle]] = [[] for _ in wanted]
    for k in range(int(wanted.max())):
        active = np.flatnonzero(wanted > k)
        part = parameters.subset(active)
        closed = _return_map(history[:, :, active], part)
        history[:, :, active] = closed.history
        for s, index in enumerate(active):
            rounds[index].append(_one_round(closed, part, s))
    return [_joined(several) for several in rounds]


def _one_round(closed: _Return, parameters: _Parameters, s: int) -> Cycle:
    """Returns set `s` from one fall to the next."""
    n, count = parameters.flows, len(closed.history) // 2
    step, fraction = int(closed.step[s]), float(closed.fraction[s])
    orbit = closed.orbit[: 2 * step + 3, :, s]
    ends = _interpolate(orbit[:, :, None], 2 * step + 2 * fraction * np.array([[0.5], [1.0]]))[:, :, 0]
    rate, last = (x[:, :n] / (x[:, n:] * parameters.w_bar[s]) for x in (orbit, ends))
    # Simpson's rule, over the whole steps and over the part of the last.
    whole = (rate[0:-3:2] + 4 * rate[1:-2:2] + rate[2:-1:2]).sum(axis=0)
    sent = (whole + fraction * (rate[-3] + 4 * last[0] + last[1])) / (6 * count)
    nodes = np.concatenate((orbit[: 2 * step + 1 : 2], ends[1:]))
    period = (step + fraction) / count
    t = np.append(np.arange(step + 1) / count, period)
    dropping = np.append(closed.over[: step + 1, s], closed.over[step, s])
    return Cycle(period, 1, sent / period, t, nodes[:, :n], nodes[:, n] - 1.0, dropping)


def _joined(rounds: Sequence[Cycle]) -> Cycle:
    starts = np.cumsum([0.0] + [r.period for r in rounds])
    return Cycle(
        float(starts[-1]),
        len(rounds),
        np.average([r.throughput for r in rounds], axis=0, weights=[r.period for r in rounds]),
        np.concatenate([r.t + start for r, start in zip(rounds, starts[:-1], strict=True)]),
        np.concatenate([r.window for r in rounds]),
        np.concatenate([r.queue for r in rounds]),
        np.concatenate([r.dropping for r in rounds]),
    )
