"""From rates to opportunities: bytes and lengths are conserved, memory is bounded, what cannot be is refused."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena.errors import ConfigError, TraceError
from ccarena.traces import rates_mbps
from ccarena.traces.opportunities import from_rates, opportunities

ROWS = st.lists(
    st.tuples(st.floats(0, 200, allow_subnormal=False), st.floats(0.05, 3)), min_size=1, max_size=40
).filter(lambda rows: sum(rate * span for rate, span in rows) > 0.1)


@settings(deadline=None)
@given(rows=ROWS, burstiness=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 2**32))
def test_conversion_conserves_bytes_up_to_every_row(rows, burstiness: float, seed: int) -> None:
    rates, spans = map(np.asarray, zip(*rows, strict=True))
    times = from_rates(rates, spans, burstiness=burstiness, seed=seed)
    packets = np.cumsum(rates * spans * 1e6 / 12_000)
    assert times[-1] == math.ceil(spans.sum() * 1000 - 1e-6), "as long as the recording"
    assert times.size - 1 <= packets[-1] + 1e-6, "at most the packet that the end cuts short is added"
    assert times.size >= math.floor(packets[-1] - 1e-6)
    assert times[0] >= 1
    # At the end of each row, what has been emitted is what has been gathered: no row's fraction is lost.
    for end_ms, gathered in zip(np.cumsum(spans) * 1000, packets, strict=True):
        assert np.searchsorted(times[:-1], math.floor(end_ms + 1e-6), side="right") <= gathered + 1e-6
        assert np.searchsorted(times, math.ceil(end_ms - 1e-6), side="right") >= math.floor(gathered - 1e-6)


@given(st.sampled_from([0.5, 1, 1.5, 5, 7, 12, 24, 48, 100]), st.integers(1, 20))
def test_a_constant_rate_spreads_evenly(rate: float, seconds: int) -> None:
    times = from_rates([rate] * seconds, 1.0)
    whole = math.floor(rate * seconds * 1e6 / 12_000 + 1e-9)
    wanted = np.ceil(np.arange(1, whole + 1) * 12 / rate - 1e-6).tolist()
    assert times.tolist() == wanted + [seconds * 1000] * (wanted[-1] < seconds * 1000)


def test_fractions_carry_over_between_rows() -> None:
    # 1.4 packets per row: Pensieve's converter, which drops the fraction, would give 10 and not 14.
    assert from_rates([1.4 * 0.012] * 10, 1.0).size == 14


def test_burstiness_varies_within_rows_and_keeps_their_means() -> None:
    rates = np.tile([4.0, 20.0], 100)
    smooth, bursty = from_rates(rates, 1.0), from_rates(rates, 1.0, burstiness=0.6, seed=3)
    assert rates_mbps(bursty, 1000) == pytest.approx(rates, abs=0.013)
    assert rates_mbps(smooth)[::20].std() < 0.1
    even = rates_mbps(bursty).reshape(-1, 10)[::2]
    assert 0.2 < (even.std(axis=1) / even.mean(axis=1)).mean() < 0.6
    assert np.array_equal(bursty, from_rates(rates, 1.0, burstiness=0.6, seed=3))
    assert not np.array_equal(bursty, from_rates(rates, 1.0, burstiness=0.6, seed=4))


@pytest.mark.parametrize(
    ("rates", "spans", "message"),
    [
        ([1, math.nan], 1.0, "rates:2: nan is not a rate"),
        ([-1], 1.0, "rates:1: -1.0 is not a rate"),
        ([math.inf], 1.0, "rates:1: inf is not a rate"),
        ([1, 1], [1, 0], "rates:2: 0.0 is not an interval"),
        ([0.001], 1.0, "expected at least 1500"),
        ([0, 0], 1.0, "carry 0 bytes"),
        ([1], 1e7, "a trace ends before"),
        ([10_000], 2000.0, "1.667e[+]09 opportunities of 1500 bytes; a trace has at most 1e[+]09"),
    ],
)
def test_wrong_rates_are_refused(rates, spans, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        from_rates(rates, spans)


def test_wrong_burstiness_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected 0 to 2"):
        from_rates([1], 1.0, burstiness=3)


def test_an_outage_at_the_end_stays() -> None:
    times = from_rates([10, 0], [10, 50])
    assert (times.size, times[-1]) == (8334, 60_000)  # 8333.3 packets: the third of one stands at the end
    assert from_rates([12, 0], [1, 1])[-2:].tolist() == [1000, 2000]
    assert from_rates([0, 12], [1, 1])[[0, -1]].tolist() == [1001, 2000]


def test_memory_does_not_grow_with_the_rate() -> None:
    """At 118 bytes per opportunity, as an array of each takes, this would be 400 MB."""
    tracemalloc.start()
    try:
        size = sum(times.size for times in opportunities([135.6] * 300, 1.0, burstiness=0.3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 3_390_000
    assert peak < 40e6


def test_bursts_do_not_depend_on_how_rows_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = np.tile([4.0, 20.0], 40)
    whole = from_rates(rates, 1.0, burstiness=0.6, seed=3)
    monkeypatch.setattr("ccarena.traces.opportunities._CHUNK", 128)
    assert np.array_equal(from_rates(rates, 1.0, burstiness=0.6, seed=3), whole)
    with pytest.raises(TraceError, match="rates:1: a row of 4000 s; burstiness takes at most 3600 s"):
        opportunities([1], 4000.0, burstiness=0.6)
