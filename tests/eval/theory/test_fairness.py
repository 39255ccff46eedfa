"""Fair rates against what their definitions say: feasible, Pareto optimal, and lexicographically the largest."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.errors import ConfigError
from ccarena.eval.theory.fairness import hrf_distance, hrf_rates, max_min_distance, max_min_rates, normalised_rates

HERCULES = [(20, 30), (40, 60), (60, 90)]
NETWORK = ({"a": 10, "b": 4}, [["a", "b"], ["a"], ["b"]])


def test_hercules_example() -> None:
    assert hrf_rates(120, HERCULES) == [20, 40, 60]
    assert max_min_rates(120, [30, 60, 90]) == [30, 45, 45]
    assert normalised_rates([20, 40, 60], HERCULES) == [0, 0, 0]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    # b = 1.5 a: the normalised rates are equal where x / a are.
    [(45, [7.5, 15, 22.5]), (150, [25, 50, 75]), (180, [30, 60, 90]), (240, [40, 80, 120])],
)
def test_hrf_of_requirements_in_proportion(capacity: float, expected: list[float]) -> None:
    assert hrf_rates(capacity, HERCULES) == expected


def test_hrf_below_the_minimum_can_leave_a_flow_nothing() -> None:
    # At x = 0: -10 for (10, 11), -0.5 for (5, 15), so that the first is worse off until it has 9.5.
    assert hrf_rates(9.5, [(10, 11), (5, 15)]) == [9.5, 0]
    assert hrf_rates(10.6, [(10, 11), (5, 15)]) == [9.6, 1]


def test_flows_without_requirement_share_what_is_left() -> None:
    assert hrf_rates(240, [*HERCULES, None, None]) == [40, 80, 120, 0, 0]
    assert hrf_rates(240, [*HERCULES, None, None], cap=True) == [30, 60, 90, 30, 30]
    assert hrf_rates(240, [*HERCULES, None, None], demands=[30, 60, 90, 10, None]) == [30, 60, 90, 10, 50]
    assert math.isnan(normalised_rates([3], [None])[0])


def test_max_min_over_a_network() -> None:
    assert max_min_rates(NETWORK[0], [None] * 3, NETWORK[1]) == [2, 8, 2]
    assert max_min_rates(NETWORK[0], [None, 3, 1], NETWORK[1]) == [3, 3, 1]


def test_decimals_are_taken_as_written() -> None:
    assert max_min_rates(0.3, [0.1, None, None]) == [0.1, 0.1, 0.1]


def test_distances() -> None:
    assert hrf_distance([20, 40, 60], 120, HERCULES) == 0
    assert hrf_distance([40, 40, 40], 120, HERCULES) == pytest.approx(40 / 120)
    assert max_min_distance([40, 40, 40], 120, [30, 60, 90]) == pytest.approx(20 / 120)
    assert max_min_distance([0, 0, 0], 120, [30, 60, 90]) == 1
    assert math.isnan(max_min_distance([1], 10, [0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hrf_rates(10, [(3, 3)]), r"requirements\[0\]: the minimum must be below the maximum"),
        (lambda: hrf_rates(10, [None, (-1, 3)]), r"requirements\[1\]: expected a number of at least 0"),
        (lambda: hrf_rates(10, [(1, math.inf)]), "expected a finite number"),
        (lambda: hrf_rates(0, [(1, 2)]), "capacity: expected a number above 0"),
        (lambda: max_min_rates({"wifi": 1}, [1], [["wfii"]]), 'unknown link "wfii"; did you mean "wifi"?'),
        (lambda: max_min_rates({"wifi": 1}, [1]), "one path per flow"),
        (lambda: max_min_rates(1, [1], [["wifi"]]), "paths need a capacity per link"),
        (lambda: max_min_rates(10, [-1]), r"demands\[0\]"),
        (lambda: max_min_distance([1, 2], 10, [None]), "one per flow"),
    ],
)
def test_wrong_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]


Case = tuple[dict[str, int], list[list[str]], list[tuple[int, int]], list[int | None]]


@st.composite
def networks(draw: st.DrawFn, links: int = 3, flows: int = 5, most: int = 12) -> Case:
    capacity = {name: draw(st.integers(1, most)) for name in "abc"[: draw(st.integers(1, links))]}
    n = draw(st.integers(1, flows))
    path = st.lists(st.sampled_from(sorted(capacity)), min_size=1, unique=True)
    paths = [draw(path) for _ in range(n)]
    pairs = [(a := draw(st.integers(0, most)), a + draw(st.integers(1, most))) for _ in range(n)]
    demands = [draw(st.none() | st.integers(0, most)) for _ in range(n)]
    return capacity, paths, pairs, demands


def solve(case: Case, objective: str) -> list[float]:
    capacity, paths, pairs, demands = case
    if objective == "max-min":
        return max_min_rates(capacity, demands, paths)
    return hrf_rates(capacity, pairs, paths, demands=demands)


def level(case: Case, objective: str, flow: int, rate: float) -> float:
    a, b = case[2][flow] if objective == "hrf" else (0, 1)
    return (rate - a) / (b - a)


objectives = pytest.mark.parametrize("objective", ["max-min", "hrf"])


@objectives
@given(networks())
def test_rates_are_feasible_and_each_has_its_bottleneck(objective: str, case: Case) -> None:
    """Bertsekas and Gallager's characterisation, which implies both Pareto and lexicographic optimality: each flow has
    its demand, or crosses a full link on which no flow that gets anything is above it."""
    capacity, paths, _, demands = case
    rates = solve(case, objective)
    load = {name: sum(x for x, path in zip(rates, paths, strict=True) if name in path) for name in capacity}
    for name, most in capacity.items():
        assert load[name] <= most + 1e-9
    for i, rate in enumerate(rates):
        assert rate >= 0
        demand = demands[i]
        if demand is not None:
            assert rate <= demand
            if rate == demand:
                continue
        mine = level(case, objective, i, rate)
        assert any(
            load[name] >= capacity[name] - 1e-9
            and all(
                level(case, objective, j, other) <= mine + 1e-9
                for j, other in enumerate(rates)
                if name in paths[j] and other > 0
            )
            for name in paths[i]
        )


@objectives
@given(networks(links=2, flows=3, most=4))
def test_no_allocation_on_a_grid_is_lexicographically_larger(objective: str, case: Case) -> None:
    capacity, paths, _, demands = case
    best = sorted(level(case, objective, i, rate) for i, rate in enumerate(solve(case, objective)))
    grid = [k / 2 for k in range(2 * max(capacity.values()) + 1)]
    for rates in itertools.product(grid, repeat=len(paths)):
        if any(d is not None and x > d for x, d in zip(rates, demands, strict=True)):
            continue
        if any(sum(x for x, p in zip(rates, paths, strict=True) if name in p) > c for name, c in capacity.items()):
            continue
        levels = sorted(level(case, objective, i, rate) for i, rate in enumerate(rates))
        first = next((i for i, (x, y) in enumerate(zip(levels, best, strict=True)) if abs(x - y) > 1e-9), None)
        assert first is None or levels[first] < best[first]


@objectives
@given(networks(), st.integers(1, 50))
def test_scaling_every_number_scales_the_rates(objective: str, case: Case, by: int) -> None:
    capacity, paths, pairs, demands = case
    scaled: Case = (
        {name: by * c for name, c in capacity.items()},
        paths,
        [(by * a, by * b) for a, b in pairs],
        [None if d is None else by * d for d in demands],
    )
    assert solve(scaled, objective) == pytest.approx([by * x for x in solve(case, objective)], rel=1e-12)


@objectives
@given(networks(links=1), st.integers(1, 9))
def test_more_capacity_takes_nothing_from_any_flow_of_one_link(objective: str, case: Case, more: int) -> None:
    larger: Case = ({name: c + more for name, c in case[0].items()}, *case[1:])
    assert all(y >= x for x, y in zip(solve(case, objective), solve(larger, objective), strict=True))


@given(networks(), st.randoms(use_true_random=False))
def test_order_of_flows_does_not_matter(case: Case, random: object) -> None:
    capacity, paths, pairs, _ = case
    order = list(range(len(paths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    rates = hrf_rates(capacity, pairs, paths)
    assert hrf_rates(capacity, [pairs[i] for i in order], [paths[i] for i in order]) == [rates[i] for i in order]


@given(networks(), st.integers(0, 40))
def test_requirements_moved_to_one_shape_make_hrf_max_min(case: Case, span: int) -> None:
    capacity, paths, _, _ = case
    same = [(0, span + 1)] * len(paths)
    assert hrf_rates(capacity, same, paths) == max_min_rates(capacity, [None] * len(paths), paths)


def test_thirds_are_exact_until_the_last_rounding() -> None:
    assert max_min_rates(Fraction(1, 3), [None] * 3) == [float(Fraction(1, 9))] * 3
