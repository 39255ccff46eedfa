"""The one-RTT-late oracle: exact where theory is, and the same as a literal recursion."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.eval.heldout.oracle import one_rtt_late, trade_off


def test_constant_capacity_costs_one_round_trip_and_no_queue() -> None:
    bound = one_rtt_late(np.full(1000, 48.0), 1.0, 40.0)
    assert bound.utilisation == pytest.approx(0.96)
    assert bound.throughput_mbps == pytest.approx(48 * 0.96)
    assert bound.share_within_budget == bound.share_within_5_packets == 1.0
    assert bound.queueing_delay_p95_ms == bound.queueing_delay_mean_ms == 0.0


def test_a_fall_queues_one_round_trip_of_the_difference_and_drains_it() -> None:
    capacity = np.concatenate((np.full(500, 100.0), np.full(2000, 10.0)))
    bound = one_rtt_late(capacity, 1.0, 40.0)
    # 40 ms of (100 - 10) Mbit/s, served at 10 Mbit/s, is 360 ms of work; then the sender is silent until it is gone.
    assert bound.queueing_delay_ms.max() == pytest.approx(360, abs=2)
    # Its silence ends one RTT after the queue does at the latest.
    assert (bound.queueing_delay_ms[500 + 360 + 80 :] == 0).all()
    assert bound.rate_mbps[1000:] == pytest.approx(10.0)


def test_a_rise_costs_one_round_trip_of_the_difference() -> None:
    capacity = np.concatenate((np.full(500, 10.0), np.full(500, 100.0)))
    bound = one_rtt_late(capacity, 1.0, 40.0)
    assert bound.rate_mbps[500:540] == pytest.approx(10.0)
    assert bound.rate_mbps[540:] == pytest.approx(100.0)
    assert bound.queueing_delay_ms.max() == 0


def test_a_small_buffer_drops_the_excess() -> None:
    capacity = np.concatenate((np.full(500, 100.0), np.full(2000, 10.0)))
    limit = 30_000.0
    bound = one_rtt_late(capacity, 1.0, 40.0, limit)
    assert bound.queueing_delay_ms.max() <= limit * 8 / 10e3 + 1
    excess = 0.040 * 90e6 / 8
    # What is dropped is sent again only as new fluid: sent = served + lost.
    assert bound.loss_share == pytest.approx(
        (excess - limit) / (bound.throughput_mbps * 2.5e6 / 8 + excess - limit), rel=0.02
    )


def test_gain_trades_delay_for_throughput() -> None:
    rng = np.random.default_rng(1)
    capacity = np.repeat(rng.uniform(1, 20, 60), 100)
    bounds = [one_rtt_late(capacity, 1.0, 40.0, gain=gain) for gain in (1.0, 1.5, 2.0, 3.0)]
    assert all(a.throughput_mbps < b.throughput_mbps for a, b in itertools.pairwise(bounds))
    assert all(a.queueing_delay_p95_ms < b.queueing_delay_p95_ms for a, b in itertools.pairwise(bounds))


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.integers(1, 8),
    st.sampled_from([math.inf, 0.0, 4000.0]),
    st.integers(1, 5),
)
def test_the_same_as_the_literal_recursion(capacity: list[int], late: int, limit: float, window: int) -> None:
    bound = one_rtt_late([float(c) for c in capacity], 1.0, float(late), limit, average_ms=float(window))
    sent, served, lost, queued = [0.0], [0.0], [0.0], 0.0
    for t, rate in enumerate(capacity):
        past = capacity[max(0, t - late - window + 1) : t - late + 1] if t >= late else []
        heard = 125.0 * sum(past) / len(past) if past else 0.0
        window_left = served[t - late + 1] + lost[t - late + 1] + heard * late - sent[t] if past else 0.0
        offered = max(0.0, min(window_left, heard))
        out = min(queued + offered, 125.0 * rate)
        queued += offered - out
        dropped = max(0.0, queued - limit)
        queued -= dropped
        sent.append(sent[-1] + offered)
        served.append(served[-1] + out)
        lost.append(lost[-1] + dropped)
    assert bound.rate_mbps == pytest.approx(np.diff(served) / 125.0, abs=1e-9)
    assert sent[-1] == pytest.approx(served[-1] + lost[-1] + queued)
    assert 0 <= bound.share_within_budget <= 1
    if sum(capacity):
        assert bound.utilisation == pytest.approx(served[-1] / (125.0 * sum(capacity)), abs=1e-9)


@pytest.mark.parametrize(("capacity", "slot_ms", "rtt_ms"), [([], 1.0, 40.0), ([1.0], 0.0, 40.0), ([1.0], 1.0, 0.0)])
def test_nonsense_is_refused(capacity: list[float], slot_ms: float, rtt_ms: float) -> None:
    with pytest.raises(ValueError, match="slots"):
        one_rtt_late(capacity, slot_ms, rtt_ms)


def test_the_trade_off_has_no_point_that_another_betters() -> None:
    rng = np.random.default_rng(3)
    capacity = np.repeat(rng.uniform(2, 20, 100), 25)
    utilisation, late_ms = trade_off(capacity.tobytes(), 4.0, 40.0, math.inf)
    assert len(utilisation) > 3, "there is something to trade"
    assert (np.diff(utilisation) > 0).all() and (np.diff(late_ms) > 0).all()
    for gain, average_ms in ((1.0, 20.0), (0.8, 100.0), (2.0, 200.0)):
        one = one_rtt_late(capacity, 4.0, 40.0, gain=gain, average_ms=average_ms)
        better = (utilisation >= one.utilisation) & (late_ms <= one.queueing_delay_p95_ms)
        # Gains of the curve are close together: a sender between two of them is nearly on it.
        close = np.interp(one.utilisation, utilisation, late_ms) <= 1.1 * one.queueing_delay_p95_ms + 4
        assert better.any() or close
