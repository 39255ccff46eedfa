"""Tests of comparisons, and of the groups and differences that follow from them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ccarena.eval.leaderboard.comparison import agreement, better, groups, two_sided, visible


@pytest.mark.parametrize("units", [10, 40])
def test_ranks_allow_for_many_comparisons(units: int) -> None:
    """Eight that are equal are 28 pairs: each at 5 % by itself would set someone apart in most of these worlds."""
    false, by_itself, found = 0, 0, 0
    for world in range(60):
        rng = np.random.default_rng(world)
        data = rng.normal(size=(units, 8))
        false += bool(better(data).any())
        drawn = rng.multinomial(units, [1 / units] * units, 500) / units @ data
        by_itself += bool((np.quantile(drawn[:, :, None] - drawn[:, None, :], 0.025, axis=0) > 0).any())
        data[:, 0] += 10 / math.sqrt(units)
        apart = better(data)
        found += bool(apart[0, 1:].all())
        assert not (apart & apart.T).any()
    assert false <= 6 and by_itself > 20 and found > 30, (false, by_itself, found)


def test_the_t_test_is_that_of_tables() -> None:
    """Critical values of Student's t at 5 % and 1 %, two-sided, from any table."""
    for freedom, five, one in (
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (11, 2.201, 3.106),
        (30, 2.042, 2.75),
    ):
        assert two_sided(np.array([five, one, 0.0]), freedom) == pytest.approx([0.05, 0.01, 1.0], rel=2e-3)


def test_what_never_differs_cannot_be_told_apart() -> None:
    assert not better(np.zeros((40, 3))).any()
    assert not better(np.array([[1.0, 0.0]])).any(), "seen once"
    assert better(np.array([[1.0, 0.0], [3.0, 2.0], [4.0, 3.0]])).tolist() == [[False, True], [False, False]]


def worlds(count: int) -> list[np.ndarray]:
    """Log scores `[blocks, entrants]` with levels, spreads and sizes of many kinds; ties are among them."""
    out = []
    for world in range(count):
        rng = np.random.default_rng(world)
        blocks, entrants = int(rng.integers(2, 40)), int(rng.integers(1, 9))
        level = rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=entrants)
        level[rng.integers(entrants)] = level[0]
        out.append(level + rng.choice([0.05, 0.5, 2.0], size=entrants) * rng.normal(size=(blocks, entrants)))
    return out


def test_groups_follow_the_order_and_hold_nobody_who_is_worse_than_their_best() -> None:
    for data in worlds(150):
        means, apart = data.mean(axis=0), better(data)
        found = groups(means.tolist(), apart)
        order = [index for each in found for index in each]
        assert sorted(order) == list(range(data.shape[1])), "each entrant once"
        assert [means[index] for index in order] == sorted(means, reverse=True)
        for each in found:
            assert not any(apart[each[0], other] for other in each)
        for before, after in itertools.pairwise(found):
            assert apart[before[0], after[0]], "a group ends where somebody is worse than its best, and not before"


def test_groups_do_not_depend_on_who_is_listed_first() -> None:
    for world, data in enumerate(worlds(60)):
        if len(set(data.mean(axis=0).tolist())) < data.shape[1]:
            continue
        shuffled = np.random.default_rng(world).permutation(data.shape[1])
        found = groups(data.mean(axis=0).tolist(), better(data))
        again = groups(data[:, shuffled].mean(axis=0).tolist(), better(data[:, shuffled]))
        assert [[int(shuffled[index]) for index in each] for each in again] == found


def test_a_visible_difference_is_found_four_times_in_five() -> None:
    """Two entrants: the difference that is said to be visible is added, and the test is asked for it."""
    rng = np.random.default_rng(7)
    found, said = 0, []
    for _ in range(400):
        data = rng.normal(size=(30, 1)) + 0.3 * rng.normal(size=(30, 2))
        seen = visible(data, [0, 1])
        assert seen is not None
        said.append(seen[0])
        data[:, 0] += math.log1p(np.median(said))
        found += bool(better(data)[0, 1])
    assert 0.74 < found / 400 < 0.86, found


def test_more_links_show_smaller_differences() -> None:
    rng = np.random.default_rng(1)
    few, many = (visible(rng.normal(size=(blocks, 6)), range(6)) for blocks in (12, 50))
    assert few is not None and many is not None and many[0] < 0.5 * few[0]
    assert visible(np.zeros((1, 3)), [0, 1, 2]) is None and visible(np.zeros((9, 1)), [0]) is None


def test_agreement_of_two_orders() -> None:
    """Kendall's own example, "The Treatment of Ties in Ranking Problems", and the ends of the range."""
    assert agreement([1, 2, 3], [10, 20, 30]) == 1.0 and agreement([1, 2, 3], [3, 2, 1]) == -1.0
    first, second = [1, 2.5, 2.5, 4.5, 4.5, 6.5, 6.5, 8, 9.5, 9.5], [1, 2, 4.5, 4.5, 4.5, 4.5, 8, 8, 8, 10]
    assert agreement(first, second) == pytest.approx(0.859, abs=1e-3)
    assert math.isnan(agreement([1, 1], [1, 2]))
