"""WCC's fluid models against closed forms, the paper's observations, finer steps, and a plain Euler integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.theory import fluid, stability

TWO = math.sqrt(2)


def euler(gain: list[float], cut: list[float], w_bar: float, duration: float, steps: int) -> tuple[np.ndarray, ...]:
    """Equation (3) or (4) word for word, from W = 1 and the queue that this keeps: [K, n], [K]."""
    a, b, h = np.array(gain), np.array(cut), 1 / steps
    window = np.ones((round(duration * steps) + steps + 1, len(gain)))
    queue = np.full(len(window), min(len(gain) / w_bar, 1.0) - 1)
    for k in range(steps, len(window) - 1):
        dropped = window[k] * window[k - steps] / (1 + queue[k - steps]) * (queue[k - steps] > 0)
        window[k + 1] = window[k] + h * (a / (1 + queue[k]) - b * dropped)
        queue[k + 1] = queue[k] + h * (window[k].sum() / (w_bar * (1 + queue[k])) - 1)
    return window[steps:], queue[steps:]


@pytest.mark.parametrize(("model", "gain", "cut"), [("ai", [2, 1], [0.5, 0.5]), ("md", [1, 1], [0.25, 0.5])])
@pytest.mark.parametrize("w_bar", [3.0, 5.0, 10.0])
def test_trajectory_is_the_equations(model: str, gain: list[float], cut: list[float], w_bar: float) -> None:
    ours = fluid.trajectory(model, [2, 1], w_bar, duration=12, steps=200)
    window, queue = euler(gain, cut, w_bar, 12, 4000)
    assert ours.window == pytest.approx(window[::20], abs=0.02 * w_bar)
    assert ours.queue == pytest.approx(queue[::20], abs=0.01)
    assert np.abs(ours.window - window[::20]).mean() < 2e-3 * w_bar


def test_order_of_convergence_is_two() -> None:
    def end(steps: int) -> np.ndarray:
        found = fluid.trajectory("ai", [2, 1], 5.0, duration=11, steps=steps)
        return np.append(found.window[-1], found.queue[-1])

    exact = end(2048)
    errors = [np.abs(end(steps) - exact).max() for steps in (32, 64, 128, 256)]
    assert errors[-1] < 1e-4
    # One step's luck with where a crossing falls does not count: the mean over three halvings.
    assert (errors[0] / errors[-1]) ** (1 / 3) > 2**1.6


@given(st.sampled_from(["ai", "md"]), st.lists(st.floats(0.6, 5), min_size=1, max_size=4), st.floats(0.3, 0.9))
@settings(deadline=None, max_examples=8)
def test_fixed_point_attracts_and_has_windows_root_of_twice_the_weight(
    model: str, weights: list[float], below: float
) -> None:
    w_bar = below * fluid.threshold(model, weights)
    point = fluid.fixed_point(model, weights, w_bar)
    assert point is not None and fluid.limit_cycle(model, weights, w_bar) is None
    assert point.window == pytest.approx(np.sqrt(2 * np.array(weights)))
    assert (1 + point.queue) * w_bar == pytest.approx(point.window.sum())
    end = fluid.trajectory(model, weights, w_bar, duration=150)
    assert end.window[-1] == pytest.approx(point.window, rel=1e-3) and end.queue[-1] == pytest.approx(
        point.queue, abs=1e-3
    )


def test_threshold_of_figure_6_is_that_of_the_kept_share() -> None:
    assert fluid.threshold("ai", [2, 1]) == fluid.threshold("md", [2, 1]) == pytest.approx(2 + TWO)
    assert fluid.threshold("md-kept", [2, 1]) == pytest.approx(2 / math.sqrt(3) + TWO)


@pytest.mark.parametrize(
    ("model", "weights", "w_bar"),
    [("ai", [2, 1], 3.5), ("ai", [2, 1], 10), ("md", [2, 1], 10), ("ai", [4, 3, 2, 1], 20)],
)
def test_a_cycle_is_where_trajectories_end(model: str, weights: list[float], w_bar: float) -> None:
    cycle = fluid.limit_cycle(model, weights, w_bar)
    assert cycle is not None and cycle.falls == 1
    path = fluid.trajectory(model, weights, w_bar, duration=120, steps=256)
    falls = np.flatnonzero((path.queue[:-1] > 0) & (path.queue[1:] <= 0))[-6:]
    assert np.diff(path.t[falls]).mean() == pytest.approx(cycle.period, abs=2e-3)
    span = slice(falls[0], falls[-1])
    share = (path.window[span] / (w_bar * (1 + path.queue[span, None]))).mean(axis=0)
    assert share == pytest.approx(cycle.throughput, abs=1e-3)
    assert cycle.throughput.sum() == pytest.approx(1, abs=1e-5)
    assert cycle.window[-1] == pytest.approx(cycle.window[0], abs=1e-5 * w_bar)


@pytest.mark.parametrize(
    ("model", "weights"), [("ai", [2, 1]), ("md", [2, 1]), ("ai", [2, 1.5, 1]), ("md", [4, 3, 2, 1])]
)
def test_observations_at_the_threshold(model: str, weights: list[float]) -> None:
    """Roots of the weights, exactly up to the threshold; above it they are left as 1 / T ~ 1 / log(1 / distance)."""
    roots = np.sqrt(weights) / np.sqrt(weights).sum()
    edge = fluid.threshold(model, weights)
    assert fluid.throughput(model, weights, [edge / 2, edge]) == pytest.approx(np.stack([roots, roots]), rel=1e-12)
    assert fluid.throughput(model, weights, edge + 1e-6) == pytest.approx(roots, rel=0.02)


def test_the_distance_from_the_root_falls_as_the_period_grows() -> None:
    edge, scaled = fluid.threshold("ai", [2, 1]), []
    for above in (1e-4, 1e-6, 1e-9):
        cycle = fluid.limit_cycle("ai", [2, 1], edge + above)
        assert cycle is not None
        scaled.append((cycle.throughput[0] / cycle.throughput[1] - TWO) * cycle.period)
    assert scaled == pytest.approx([scaled[0]] * 3, rel=0.02)


@pytest.mark.parametrize("weights", [[2, 1], [4, 1], [3, 2, 1]])
def test_observations_far_above_the_threshold(weights: list[float]) -> None:
    """The weights for AI, equality for MD, both approached as 1 / w̄."""
    a = np.array(weights)
    for model, limit in (("ai", a / a.sum()), ("md", np.full(len(a), 1 / len(a)))):
        away = np.abs(fluid.throughput(model, weights, [30.0, 100.0]) - limit).max(axis=1)
        assert away[1] < 0.02 and away[1] < 0.45 * away[0]


def test_ratios_of_figure_5() -> None:
    ratios = [fluid.throughput_ratio("ai", [2, 1], w) for w in (2 + TWO, 2 + TWO + 0.01, 10, 100)]
    assert ratios == pytest.approx([TWO, 1.42402, 1.66509, 1.97984], abs=2e-4)


def test_a_surface_is_its_points() -> None:
    weights = np.array([[[1, 1], [2, 1]], [[1, 2], [3, 2]]])
    surface = fluid.throughput("ai", weights, 7.0)
    assert surface.shape == (2, 2, 2) and surface[0, 1] == pytest.approx(surface[1, 0][::-1], abs=1e-6)
    assert surface[1, 1] == pytest.approx(fluid.throughput("ai", [3, 2], 7.0), abs=1e-12)


def test_an_empty_queue_wastes_capacity_and_a_deep_one_does_not() -> None:
    shallow, deep = (fluid.throughput("ai", [2, 1], 30.0, psi=psi).sum() for psi in (0.2, 1e4))
    assert shallow < 0.97 and deep == pytest.approx(1, abs=1e-4)
    path = fluid.trajectory("ai", [2, 1], 30.0, psi=0.2, duration=30)
    assert path.queue.min() == pytest.approx(-0.2 / 1.2)


def test_periods_double_above_the_threshold_where_z_sees_nothing() -> None:
    weights = [3, 2.368421]
    cycle = fluid.limit_cycle("ai", weights, 5.0)
    assert cycle is not None and cycle.falls == 2
    path = fluid.trajectory("ai", weights, 5.0, duration=120, steps=256)
    falls = path.t[:-1][(path.queue[:-1] > 0) & (path.queue[1:] <= 0)]
    times = np.diff(falls)[-8:]
    assert np.abs(times[2:] - times[:-2]).max() < 0.01 and np.abs(np.diff(times)).min() > 0.3
    values = stability.multipliers("ai", weights, 5.0, steps=32)
    assert values is not None and -1.3 < values[0].real < -1.1 and abs(values[1]) < 1
    assert stability.spectral_radius("ai", weights, 5.0) < 0.1


@pytest.mark.parametrize("model", ["ai", "md"])
@pytest.mark.parametrize("reading", ["frozen", "merged"])
def test_spectral_radius_of_figure_3_is_below_one(model: str, reading: stability.Reading) -> None:
    axis = np.array([0.75, 1, 2, 3])
    radius = stability.spectral_radius(model, np.stack(np.meshgrid(axis, axis), -1), 5.0, reading=reading)
    assert radius.shape == (4, 4) and radius == pytest.approx(radius.T, abs=1e-4) and (radius < 0.25).all()
    assert math.isnan(stability.spectral_radius(model, [4, 4], 5.0))


@pytest.mark.parametrize(("model", "w_bar"), [("ai", 10.0), ("md", 5.0), ("md", 10.0)])
def test_multipliers_tell_how_fast_returns_settle(model: str, w_bar: float) -> None:
    """A small perturbation shrinks by the largest multiplier, real in these cases, once the others are gone."""
    values = stability.multipliers(model, [2, 1], w_bar)
    assert values is not None and abs(values[0].imag) < 1e-9 and abs(values[1]) < 0.5 * abs(values[0])
    parameters = fluid._Parameters.of(model, [2, 1], w_bar)
    closed, _ = fluid._closed_histories(parameters)
    pushed = closed.copy()
    pushed[:, 0] *= 1 + 1e-2
    away = []
    for _ in range(3):
        pushed = fluid._return_map(pushed, parameters).history
        away.append((pushed - closed)[-1, 0, 0])
    assert away[2] / away[1] == pytest.approx(values[0].real, rel=0.3)


def test_the_matrix_exponential() -> None:
    turn = np.array([[0.0, -30.0], [30.0, 0.0]])
    expected = [[math.cos(30), -math.sin(30)], [math.sin(30), math.cos(30)]]
    assert stability._exponential(turn) == pytest.approx(np.array(expected), abs=1e-11)
    assert stability._exponential(np.diag([-50.0, 1.0])) == pytest.approx(np.diag([math.exp(-50), math.e]), rel=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fluid.throughput("mdd", [1, 1], 5), 'unknown fluid model "mdd"; did you mean "md"?'),
        (lambda: fluid.throughput("md", [0.5, 1], 5), "above 0.5"),
        (lambda: fluid.throughput("ai", [0, 1], 5), r"above 0\.0"),
        (lambda: fluid.throughput("ai", [1, 1], -5), "w_bar must be finite and above 0"),
        (lambda: fluid.throughput("ai", [[1, 1]] * 3, [5, 6]), "must broadcast"),
        (lambda: fluid.throughput_ratio("ai", [1], 5), "at least two weights"),
        (lambda: fluid.trajectory("ai", [1, 1], 5, psi=0), "psi"),
        (lambda: fluid.trajectory("ai", [1, 1], 5, steps=0), "steps >= 1"),
        (lambda: stability.spectral_radius("ai", [1, 1], 5, reading="both"), "unknown reading"),  # type: ignore[arg-type]
    ],
)
def test_wrong_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]


def test_aperiodic_motion_has_a_throughput_but_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fluid, "_MAX_RETURNS", 40)
    monkeypatch.setattr(fluid, "_LONG_RUN", 40)
    weights = [3, 2, 1]
    edge = fluid.threshold("ai", weights) + 1e-6
    with pytest.raises(CcarenaError, match="no limit cycle"):
        fluid.limit_cycle("ai", weights, edge)
    roots = np.sqrt(weights) / np.sqrt(weights).sum()
    assert fluid.throughput("ai", weights, edge) == pytest.approx(roots, rel=0.03)
