"""Every vectorised figure against a slow, literal reading of its definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lindley import packet_log, simulate

from ccarena import traces
from ccarena.errors import TraceError
from ccarena.eval.measure.fairness import jain_index, satisfaction
from ccarena.eval.measure.loss import loss_shares
from ccarena.eval.measure.packet_log import SHARES, TAIL, LinkPackets, PacketLog
from ccarena.eval.measure.queueing import (
    bin_queueing_delay_ms,
    one_way_delay_ms,
    queueing_delay_ms,
    share_within_delay,
    share_within_packets,
    time_in_queue_length_ns,
)
from ccarena.eval.measure.sample import confidence_interval, difference, percentile, percentiles
from ccarena.eval.measure.signal_delay import (
    omniscient_signal_delay_ms,
    power,
    signal_delay_ms,
)
from ccarena.eval.measure.throughput import (
    bin_capacity_mbps,
    bin_throughput_mbps,
    convergence_time_s,
    throughput_mbps,
    utilisation,
)
from tests.run_figures import figures_of

MS = 1_000_000


@st.composite
def logs(draw: st.DrawFn) -> PacketLog:
    """FIFO logs with bursts, idle times and simultaneous events; arrivals and services in quarters of a millisecond."""
    gaps = draw(st.lists(st.integers(0, 24), min_size=1, max_size=40))
    services = draw(st.lists(st.integers(0, 12), min_size=len(gaps), max_size=len(gaps)))
    flows = draw(st.lists(st.integers(0, 2), min_size=len(gaps), max_size=len(gaps)))
    arrivals = [int(t) for t in np.cumsum(gaps) * MS // 4]
    return PacketLog.from_arrays(packet_log(arrivals, [s * MS // 4 for s in services], flows))


def horizon_s(log: PacketLog) -> float:
    return (int(log.departure_ns.max()) + 3 * MS) / 1e9


@given(logs())
def test_queueing_delay_is_never_negative_and_zero_for_a_lone_packet(log: PacketLog) -> None:
    delay = queueing_delay_ms(log)
    assert (delay >= 0).all()
    assert delay[0] == 0


@given(logs(), st.integers(0, 10))
def test_share_within_delay_samples_the_work_in_the_queue(log: PacketLog, budget_quarters: int) -> None:
    budget_ms, end_s = budget_quarters / 4, horizon_s(log)
    within = 0
    samples = np.arange(MS // 8, round(end_s * 1e9), MS // 4)
    for t in samples:
        work = max((int(d) - t for a, d in zip(log.arrival_ns, log.departure_ns, strict=True) if a <= t), default=0)
        within += max(work, 0) <= budget_ms * MS
    assert share_within_delay(log, budget_ms, 0.0, end_s) == pytest.approx(within / len(samples), abs=1e-9)


@given(logs(), st.integers(0, 8))
def test_queue_lengths_are_time_weighted(log: PacketLog, limit: int) -> None:
    end_s = horizon_s(log)
    samples = np.arange(MS // 8, round(end_s * 1e9), MS // 4)
    starts = log.departure_ns - log.serialisation_ns
    lengths = [sum(int(a) <= t < int(s) for a, s in zip(log.arrival_ns, starts, strict=True)) for t in samples]
    spent = time_in_queue_length_ns(log, 0.0, end_s)
    assert spent.sum() == round(end_s * 1e9)
    expected = np.bincount(lengths) / len(samples)
    assert spent / spent.sum() == pytest.approx(np.pad(expected, (0, len(spent) - len(expected))), abs=1e-9)
    share = share_within_packets(log, limit, 0.0, end_s)
    assert share == pytest.approx(np.mean(np.array(lengths) <= limit), abs=1e-9)


@given(logs(), st.integers(0, 6), st.integers(1, 9))
def test_queue_lengths_of_a_part_of_the_run(log: PacketLog, start_ms: int, length_ms: int) -> None:
    start_s, end_s = start_ms / 1e3, (start_ms + length_ms) / 1e3
    samples = np.arange(start_ms * MS + MS // 8, (start_ms + length_ms) * MS, MS // 4)
    starts = log.departure_ns - log.serialisation_ns
    lengths = [sum(int(a) <= t < int(s) for a, s in zip(log.arrival_ns, starts, strict=True)) for t in samples]
    spent = time_in_queue_length_ns(log, start_s, end_s)
    assert (spent / spent.sum())[: max(lengths) + 1] == pytest.approx(np.bincount(lengths) / len(samples), abs=1e-9)


@given(logs())
def test_signal_delay_is_mahimahis(log: PacketLog) -> None:
    arrival = [int(t) // MS for t in log.arrival_ns]
    departure = [int(t) // MS for t in log.departure_ns]
    own = {a: min(d - a for b, d in zip(arrival, departure, strict=True) if a == b) for a in arrival}
    for ms in range(max(arrival), min(arrival) - 1, -1):
        if ms not in own:
            own[ms] = own[ms + 1] + 1
    assert sorted(signal_delay_ms(log)) == sorted(own.values())


@given(
    logs(),
    st.sampled_from([(-(2**63), 2**63 - 1), (9 * MS, 60 * MS)]),
    st.sampled_from([math.inf, 0.0, 3.0]),
    st.lists(st.integers(0, 100 * MS), max_size=3),
    st.booleans(),
)
def test_figures_of_all_flows_in_one_pass_are_those_of_each_alone(
    log: PacketLog, window_ns: tuple[int, int], pauses_ms: float, gone: list[int], each: bool
) -> None:
    gone_ns = np.array(gone, np.int64)
    pauses = [(None if math.isinf(pauses_ms) else round(pauses_ms * MS), gone_ns)] * (3 if each else 1)
    link = LinkPackets({"log": vars(log), "losses": {"time_ns": gone, "flow": [1] * len(gone)}})
    went = sum(window_ns[0] < at_ns <= window_ns[1] for at_ns in gone)
    left = log.where((log.departure_ns > window_ns[0]) & (log.departure_ns <= window_ns[1]))
    active_ns = (15 * MS, 50 * MS)
    sums = link.sums(window_ns, [active_ns] * 3, active_ns)
    found = link.percentiles(window_ns, pauses, each)
    for flow, (of_sums, of_percentiles) in enumerate(zip(sums[:-1] if each else sums[-1:], found, strict=True)):
        own = left.of_flow(flow) if each else left
        queueing_ms, whole_ms = queueing_delay_ms(own), one_way_delay_ms(own, 0.0)
        assert of_sums.packets == len(own) and of_sums.bytes == own.bytes.sum()
        assert of_sums.gone == [0, 0 if each and flow != 1 else went, 0, 0]
        assert of_sums.active_bytes * 8e-6 / 0.035 == throughput_mbps(own, 0.015, 0.05)
        assert of_sums.queueing_ns / 1e6 == pytest.approx(queueing_ms.sum())
        assert of_sums.whole_ns / 1e6 == pytest.approx(whole_ms.sum())
        assert of_percentiles is not None
        expected = [
            *percentiles(queueing_ms, SHARES),
            percentile(whole_ms, TAIL),
            percentile(signal_delay_ms(own, pauses_ms, gone_ns), TAIL),
        ]
        seen = [*of_percentiles.queueing_ms, of_percentiles.whole_ms, of_percentiles.signal_ms]
        assert np.array_equal(seen, expected, equal_nan=True)


def test_signal_delays_over_days_take_no_more_memory_than_over_a_second() -> None:
    days_ms = 10**10
    link = LinkPackets({"log": packet_log([0, days_ms * MS], [MS] * 2)})
    (found,) = link.percentiles((-1, 2**63 - 1), [(None, np.empty(0, np.int64))])
    assert found is not None and found.signal_ms == int(0.95 * (days_ms + 1))
    assert omniscient_signal_delay_ms([0, days_ms]) == int(0.95 * (days_ms + 1)) - 1


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30))
def test_omniscient_signal_delay_waits_for_the_next_opportunity(times: list[int]) -> None:
    times = sorted(times)
    waits = [min(t - ms for t in times if t >= ms) for ms in range(times[0], times[-1] + 1)]
    assert omniscient_signal_delay_ms(times) == sorted(waits)[min(int(0.95 * len(waits)), len(waits) - 1)]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.integers(0, 70), st.integers(0, 70))
def test_omniscient_signal_delay_of_a_part(times: list[int], start: int, end: int) -> None:
    times = sorted(times)
    waits = sorted(min(t - ms for t in times if t >= ms) for ms in range(start, end + 1) if ms <= times[-1])
    expected = waits[min(int(0.95 * len(waits)), len(waits) - 1)] if waits else math.nan
    assert omniscient_signal_delay_ms(times, start, end) == pytest.approx(expected, nan_ok=True)


OMNISCIENT_MS = {
    "Verizon-LTE-short.down": 31,
    "Verizon-LTE-short.up": 20,
    "TMobile-LTE-driving.down": 155,
    "ATT-LTE-driving.down": 106,
    "ATT-LTE-driving.up": 27736,
    "Verizon-EVDO-driving.down": 862,
    "Verizon-EVDO-driving.up": 434,
}


@pytest.mark.parametrize("name", OMNISCIENT_MS)
def test_omniscient_signal_delay_of_recorded_traces(name: str) -> None:
    try:
        trace = traces.load(name)
    except TraceError as error:
        pytest.skip(f"RECORDED TRACE NOT FOUND: {error}")
    assert omniscient_signal_delay_ms(trace) == OMNISCIENT_MS[name]


def test_a_flow_that_pauses_has_no_signal_delay_meanwhile() -> None:
    log = PacketLog.from_arrays(packet_log([0, 5 * MS, 5000 * MS, 5001 * MS], [MS] * 4))
    assert signal_delay_ms(log).max() > 4990, "mahimahi's definition is of a sender that always has data"
    paused = signal_delay_ms(log, pauses_after_ms=20.0)
    assert len(paused) == 6 + 2 and paused.max() <= 6
    # A sender that waits for acknowledgements has data: the gaps count.
    assert np.array_equal(signal_delay_ms(log, pauses_after_ms=5000.0), signal_delay_ms(log))


def test_a_lost_packet_is_outstanding_until_the_next_one_arrives() -> None:
    log = PacketLog.from_arrays(packet_log([0, 1000 * MS], [MS] * 2))
    assert len(signal_delay_ms(log, 20.0)) == 2
    lost = signal_delay_ms(log, 20.0, np.array([10 * MS]))
    assert len(lost) == 1001 and lost.max() > 980


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_percentile_is_an_element_at_floor_qn(values: list[float], q: float) -> None:
    assert percentile(values, q) == sorted(values)[min(int(q * len(values)), len(values) - 1)]


@given(logs(), st.sampled_from([0.001, 0.002, 0.007]))
def test_bins_hold_every_departure(log: PacketLog, bin_s: float) -> None:
    duration_s = horizon_s(log)
    rates = bin_throughput_mbps(log, duration_s, bin_s)
    assert rates.sum() * bin_s / 8e-6 == pytest.approx(log.bytes.sum())
    worst = bin_queueing_delay_ms(log, duration_s, bin_s)
    delays = queueing_delay_ms(log)
    for index, value in enumerate(worst):
        inside = [d for d, t in zip(delays, log.departure_ns, strict=True) if t // round(bin_s * 1e9) == index]
        assert math.isnan(value) if not inside else value == max(inside)


@given(logs())
def test_throughput_counts_departures(log: PacketLog) -> None:
    end_s = horizon_s(log)
    assert throughput_mbps(log, 0.0, end_s) == pytest.approx(1500 * (log.departure_ns > 0).sum() * 8e-6 / end_s)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20))
def test_jain_index_lies_between_one_nth_and_one(rates: list[float]) -> None:
    index = jain_index(rates)
    if sum(x * x for x in rates) > 0:
        assert index == pytest.approx(sum(rates) ** 2 / (len(rates) * sum(x * x for x in rates)))
        assert 1 / len(rates) - 1e-9 <= index <= 1 + 1e-9
    else:
        assert math.isnan(index)


@given(st.lists(st.floats(0.0, 20.0), min_size=0, max_size=25), st.integers(1, 6))
def test_convergence_time_looks_forward(rates: list[float], hold: int) -> None:
    expected = math.nan
    for t in range(len(rates) - hold + 1):
        if all(abs(x - 10.0) <= 2.5 for x in rates[t : t + hold]):
            expected = float(t)
            break
    assert convergence_time_s(rates, 10.0, hold_s=hold) == pytest.approx(expected, nan_ok=True)


def test_difference_is_welchs() -> None:
    # Sizes 10 and 6 with 7.9 degrees of freedom: the interval by scipy's exact quantile, at 7.9 and not at 7.
    ours, theirs = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6], [27.1, 22.0, 20.8, 23.4, 23.4, 23.5]
    found = difference([*ours, math.nan], theirs)
    exact = pytest.importorskip("scipy.stats").ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs)) and found.n == 16
    # Degrees of freedom are rounded down, so that the interval is never narrower than the exact one.
    assert exact.low - 0.05 <= found.low <= exact.low + 1e-3 and exact.high - 1e-3 <= found.high <= exact.high + 0.05
    assert math.isnan(difference([1.0], [2.0, 3.0]).low) and math.isnan(difference([1.0, 1.0], [2.0, 2.0]).low)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=5), st.lists(st.floats(0, 1e-3), min_size=2, max_size=5))
def test_a_difference_is_never_surer_than_two_values_allow(ours: list[float], theirs: list[float]) -> None:
    students_t = pytest.importorskip("scipy.stats").t
    found = difference(ours, theirs)
    if math.isfinite(found.low):
        error = math.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(theirs, ddof=1) / len(theirs))
        df = min(len(ours), len(theirs)) - 1  # Welch's are at least these
        most, least = students_t.ppf(0.975, df), students_t.ppf(0.975, len(ours) + len(theirs) - 2)
        assert least * (1 - 1e-3) <= (found.high - found.low) / 2 / error <= most * (1 + 1e-3)


def test_confidence_interval_is_students() -> None:
    interval = confidence_interval([1.0, 2.0, 3.0])
    assert (interval.mean, interval.n) == (2.0, 3)
    assert interval.high - interval.mean == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)
    one = confidence_interval([5.0, math.nan])
    assert (one.mean, one.n) == (5.0, 1) and math.isnan(one.low)
    same = confidence_interval([0.1, 0.1, 0.1])
    assert (same.mean, same.n) == (0.1, 3) and math.isnan(same.low) and math.isnan(same.high)
    many = confidence_interval(np.arange(61.0))
    assert (many.high - many.mean) / (np.arange(61.0).std(ddof=1) / math.sqrt(61)) == pytest.approx(2.0003, abs=1e-3)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (power(3.68, 83.0), 44.337),  # DALIDA's published figures, 3.68 Mbit/s at 83 ms: 44.3
        (utilisation(50.0, 200.0), 0.25),
        (loss_shares(1, 2, 97)["loss_share"], 0.03),
        (loss_shares(1, 2, 97)["queue_drop_share"], 0.01),
        (loss_shares(0, 0, 0)["loss_share"], 0.0),
        (satisfaction(5.0, 10.0), 0.5),
    ],
)
def test_small_figures(got: float, expected: float) -> None:
    assert got == pytest.approx(expected, abs=1e-3)


def test_capacity_bins_are_means() -> None:
    assert bin_capacity_mbps([1.0, 3.0, 5.0, 7.0, 9.0], 2) == pytest.approx([2.0, 6.0, 9.0])


ALONE: dict[str, Any] = {
    "duration_s": 1,
    "links": [{"service": {"type": "constant", "rate_mbps": 24}}],
    "flows": [{"scheme": "cubic"}],
    "record": {"packets": True},
}


def test_a_flow_that_sent_nothing() -> None:
    result = simulate(ALONE)
    for name, values in result["links"][0]["log"].items():
        result["links"][0]["log"][name] = values[:0]
    row = figures_of(ALONE, result)
    assert row["throughput_mbps"] == 0 and row["share_within_5_packets"] == 1 and row["share_within_budget"] == 1
    assert math.isnan(row["queueing_delay_p95_ms"]) and math.isnan(row["power"]) and row["score"] == 0


def test_delays_say_whether_they_include_propagation() -> None:
    row = figures_of(ALONE, simulate(ALONE))
    # Of 24 Mbit/s: a packet takes half a millisecond, and the link's propagation is 10 ms.
    assert row["one_way_delay_mean_ms"] == pytest.approx(row["queueing_delay_mean_ms"] + 0.5 + 10, abs=1e-6)
