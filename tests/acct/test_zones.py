"""Zones partition the plane of rate and delay."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccarena.acct import zones
from ccarena.acct.zones import Zone


def test_the_four_corners() -> None:
    cwnd, delay = [10, 20, 20, 10], [4.9, 4.9, 5.0, 5.0]
    assert zones.classify(cwnd, 20, delay).tolist() == [Zone.GREEN, Zone.YELLOW, Zone.RED, Zone.BLUE]


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0.1, 100))
def test_every_point_has_one_zone(cwnd: float, twnd: float, delay: float, budget: float) -> None:
    zone = int(zones.classify(cwnd, twnd, delay, budget))
    assert (zone in (Zone.GREEN, Zone.BLUE)) == (cwnd < twnd)
    assert (zone in (Zone.GREEN, Zone.YELLOW)) == (delay < budget)


def test_shares() -> None:
    assert zones.shares([0, 0, 1, 3]).tolist() == [0.5, 0.25, 0, 0.25]
    assert zones.shares(np.zeros(0)).tolist() == [0, 0, 0, 0]
