"""The one-RTT-late oracle: exact where theory is, and the same as a literal recursion."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena import _core
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
    # Whole packets of 1500 bytes per slot, as of a trace.
    capacity = np.repeat(rng.integers(0, 4, 400), 25) * 12.0 * (rng.uniform(size=10_000) < 0.5)
    utilisation, signal_ms = trade_off(capacity.tobytes(), 1.0, 40, math.inf)
    assert len(utilisation) > 3, "there is something to trade"
    assert (np.diff(utilisation) > 0).all() and (np.diff(signal_ms) > 0).all()
    assert 0 < utilisation[0] and utilisation[-1] <= 1 and signal_ms[0] >= 0


def test_packets_alone_pass_an_outage_and_bring_news_of_its_end() -> None:
    """Two packets per 10 ms, then a second of nothing, then as before; known 40 ms later."""
    served_most = np.zeros(4000)
    served_most[::5] = 1500.0
    served_most[2000:3000] = 0.0
    sent, served, lost, queue = _core.one_rtt_late(served_most, served_most, 40, 1.0, math.inf, 1500.0)
    assert (np.mod(sent, 1500.0) == 0).all() and (lost == 0).all()
    assert sent[-1] == pytest.approx(served[-1] + queue[-1])
    gone = np.diff(sent)
    assert gone[2100:3000].sum() == pytest.approx(1500 * 22, abs=1500), "one per round trip into the outage"
    assert np.diff(served)[3000] == 1500.0, "so that its end is used at once"


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(1, 8), st.sampled_from([math.inf, 0.0, 4500.0])
)
def test_packets_stay_whole_and_none_gets_lost_on_the_way(capacity: list[int], late: int, limit: float) -> None:
    served_most = np.array(capacity) * 1500.0
    sent, served, lost, queue = _core.one_rtt_late(served_most, served_most, late, 1.3, limit, 1500.0)
    for totals in (sent, served, lost):
        assert (np.diff(totals) >= 0).all() and (np.mod(totals, 1500.0) == 0).all()
    assert sent == pytest.approx(served + lost + queue)
    assert (queue <= limit + 1e-9).all()
    assert (np.diff(served) <= served_most).all()
