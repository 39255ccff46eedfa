"""The statistics, against hand-made traces and against the figures published for public ones."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from ccarena.errors import TraceError
from ccarena.traces import describe, files

# Name: CV; autocorrelation of the 100 ms rate at .1 .5 1 2 5 10 s; outages per minute and their mean; mean Mbit/s.
PUBLISHED = {
    "Verizon-LTE-short.down": (0.71, (0.87, 0.75, 0.67, 0.53, 0.29, 0.08), (2.1, 0.466), 5.03),
    "ATT-LTE-driving.down": (0.60, (0.86, 0.83, 0.79, 0.72, 0.60, 0.51), (5.3, 0.650), 5.17),
    "TMobile-LTE-driving.down": (0.89, (0.83, 0.73, 0.62, 0.54, 0.38, 0.21), (10.2, 0.422), 12.77),
    "trace-3199718-timessquare": (0.51, (0.71, 0.44, 0.30, 0.23, 0.07, 0.15), None, 11.70),
    "trace-3114405-bus": (0.79, (0.83, 0.68, 0.61, 0.56, 0.36, 0.19), None, 8.105),
    "Verizon-EVDO-driving.down": (None, None, (33, 0.486), 0.521),
}
# Apparent sigma in packets/s after one second, for windows of 0.1, 0.2, 0.5 and 1 s.
SIGMA = {
    "Verizon-LTE-short.down": (472, 343, 234, 172),
    "Verizon-LTE-short.up": (451, 359, 262, 222),
    "ATT-LTE-driving.down": (391, 202, 123, 108),
    "TMobile-LTE-driving.down": (2048, 1253, 776, 595),
}


def _load(name: str) -> np.ndarray:
    try:
        return files.load(name)
    except TraceError as error:
        pytest.skip(f"RECORDED TRACE ABSENT, published figures not checked: {error}")


@pytest.mark.parametrize("name", PUBLISHED)
def test_figures_of_recorded_traces_are_the_published_ones(name: str) -> None:
    cv, autocorrelation, outages, mean_mbps = PUBLISHED[name]
    found = describe(_load(name), name)
    assert found.mean_mbps == pytest.approx(mean_mbps, rel=0.005)
    if cv is not None:
        assert found.cv == pytest.approx(cv, abs=0.01)
        assert list(found.autocorrelation.values()) == pytest.approx(autocorrelation, abs=0.011)
    if outages is not None:
        assert (found.outages_per_min, found.outage_mean_s) == pytest.approx(outages, rel=0.025)


@pytest.mark.parametrize("name", SIGMA)
def test_apparent_sigma_is_the_published_one(name: str) -> None:
    found = describe(_load(name), name).apparent_sigma_packets_per_s
    assert list(found.values()) == pytest.approx(SIGMA[name], rel=0.02)


def test_a_constant_link() -> None:
    found = describe(np.arange(1, 10_001))
    assert (found.mean_mbps, found.cv, found.duration_s) == (12.0, 0.0, 10.0)
    assert (found.p5_mbps, found.p50_mbps, found.p95_mbps) == pytest.approx((12, 12, 12))
    assert (found.outages_per_min, found.outage_mean_s, found.outage_max_s) == (0, 0, 0)


def test_outages_are_gaps_of_at_least_200_ms() -> None:
    times = np.concatenate([np.arange(200, 30_001, 100), np.arange(30_199, 59_801, 199), [60_000]])
    found = describe(times)
    assert found.outages_per_min == pytest.approx(2, abs=0.01)  # before the first, and before the last
    assert found.outage_max_s >= 0.2


def test_a_square_wave_has_its_period_in_the_autocorrelation() -> None:
    half = np.arange(1, 501)  # 12 Mbit/s for half a second, then nothing for half a second
    found = describe(np.concatenate([half + 1000 * second for second in range(60)]))
    assert found.autocorrelation[0.5] == pytest.approx(-1, abs=0.03)
    assert found.autocorrelation[1.0] == pytest.approx(1, abs=0.03)
    assert found.cv == pytest.approx(1, abs=0.02)
    assert found.outages_per_min == pytest.approx(60, abs=1.5)


def test_brownian_rates_show_their_sigma_in_every_window() -> None:
    rng = np.random.default_rng(1)
    rate = np.abs(60_000 + np.cumsum(rng.normal(0, 5000 * math.sqrt(0.001), 60_000)))
    times = np.repeat(np.arange(1, rate.size + 1), rng.poisson(rate / 1000))
    found = describe(times).apparent_sigma_packets_per_s
    assert [found[0.1], found[0.2], found[0.5]] == pytest.approx([5000] * 3, rel=0.15)


def test_short_traces_say_nothing_rather_than_nonsense() -> None:
    found = describe([7])
    assert math.isnan(found.cv)
    assert all(math.isnan(value) for value in found.autocorrelation.values())
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["cv"] is None
