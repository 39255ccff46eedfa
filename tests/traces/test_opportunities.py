"""Conversion of tables: bytes are conserved, rows are read as their sets describe them, faults name their line."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccarena.errors import ConfigError, TraceError
from ccarena.traces import convert, rates_mbps
from ccarena.traces.convert import find_format, from_rates

ROWS = st.lists(
    st.tuples(st.floats(0, 200, allow_subnormal=False), st.floats(0.05, 3)), min_size=1, max_size=40
).filter(lambda rows: sum(rate * span for rate, span in rows) > 0.1)


@settings(deadline=None)
@given(rows=ROWS, burstiness=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 2**32))
def test_conversion_conserves_bytes_up_to_every_row(rows, burstiness: float, seed: int) -> None:
    rates, spans = map(np.asarray, zip(*rows, strict=True))
    times = from_rates(rates, spans, burstiness=burstiness, seed=seed)
    packets = np.cumsum(rates * spans * 1e6 / 12_000)
    assert times.size in (math.floor(packets[-1] - 1e-6), math.floor(packets[-1] + 1e-6))
    assert times[0] >= 1
    assert times[-1] <= math.ceil(spans.sum() * 1000)
    # At the end of each row, what has been emitted is what has been gathered: no row's fraction is lost.
    for end_ms, gathered in zip(np.cumsum(spans) * 1000, packets, strict=True):
        assert np.searchsorted(times, math.floor(end_ms + 1e-6), side="right") <= gathered + 1e-6
        assert np.searchsorted(times, math.ceil(end_ms - 1e-6), side="right") >= math.floor(gathered - 1e-6)


@given(st.sampled_from([0.5, 1, 1.5, 5, 7, 12, 24, 48, 100]), st.integers(1, 20))
def test_a_constant_rate_spreads_evenly(rate: float, seconds: int) -> None:
    times = from_rates([rate] * seconds, 1.0)
    assert times.size == math.floor(rate * seconds * 1e6 / 12_000 + 1e-9)
    wanted = np.ceil(np.arange(1, times.size + 1) * 12 / rate - 1e-6)
    assert times.tolist() == wanted.tolist()


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
    ],
)
def test_wrong_rates_are_refused(rates, spans, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        from_rates(rates, spans)


def test_wrong_burstiness_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected 0 to 2"):
        from_rates([1], 1.0, burstiness=3)


TABLES = {
    "mbps-csv": ("rate_mbps\n12\n24\n", [12, 24], [1, 1]),
    "nyu-mets": ("0.57,Mbits/sec\n1,Mbits/sec\n500,Kbits/sec\n", [0.57, 1, 0.5], [1, 1, 1]),
    "irish-5g": (
        "Timestamp,State,DL_bitrate,UL_bitrate\n2019.12.16_13.40.04,I,9,9\n2019.12.16_13.40.05,D,12000,9\n",
        [12],
        [1],
    ),
    "hsdpa": (
        "1289406399 549893 59.851 10.781 215500 1000\n1289406401 551894 59.8 10.7 3000 2000\n",
        [1.724, 0.012],
        [1, 2],
    ),
    "ghent": ("1453122790686 2999 51.04 3.73 1500 1000\n", [0.012], [1]),
}


@pytest.mark.parametrize("known", convert.FORMATS, ids=lambda known: known.name)
def test_every_format_reads_its_rows(known: convert.Format, tmp_path: Path) -> None:
    text, rates, spans = TABLES[known.name]
    (tmp_path / "t").write_text(text)
    found_rates, found_spans = convert.read_table(tmp_path / "t", known)
    assert found_rates == pytest.approx(rates)
    assert found_spans == pytest.approx(spans)


def test_a_time_column_gives_the_intervals(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("ms\tkbps\r\n0\t1000\r\n500\t2000\r\n1500\t3000\r\n")
    table = convert.Format("own", "", rate="kbps", unit="kbps", time="ms", time_unit="ms", delimiter="\t")
    rates, spans = convert.read_table(tmp_path / "t", table)
    assert rates.tolist() == [1, 2, 3]
    assert spans.tolist() == [0.5, 1, 0.75]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate_mbps\n1\nnan\n", 't:3: column "rate_mbps" is "nan"; expected a number'),
        ("rate_mbps\n-1\n", 't:2: column "rate_mbps" is "-1"'),
        ("rate_mbps\nfast\n", 't:2: column "rate_mbps" is "fast"'),
        ("rate\n1\n", 't:2: there is no column "rate_mbps"; columns here: rate'),
        ("", "the table has no rows"),
        ("rate_mbps\n\x00\n", "t"),
        (b"\xff\xfe\x00", "expected a text table"),
    ],
)
def test_faults_in_tables_name_their_line(text: str | bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TraceError, match=message):
        convert.read_table(tmp_path / "t", find_format("mbps-csv"))


def test_times_that_do_not_increase_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("rate_mbps,s\n1,0\n1,0\n")
    with pytest.raises(TraceError, match="t:3: time 0 s is not after the row before"):
        convert.read_table(tmp_path / "t", dataclasses.replace(find_format("mbps-csv"), time="s"))


def test_unknown_formats_and_units_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='did you mean "nyu-mets"'):
        find_format("nyu-met")
    (tmp_path / "t").write_text("1,Mbyte/s\n")
    with pytest.raises(TraceError, match='t:1: the unit is "Mbyte/s"'):
        convert.read_table(tmp_path / "t", find_format("nyu-mets"))
    with pytest.raises(TraceError, match="cannot read the table"):
        convert.read_table(tmp_path / "absent", find_format("nyu-mets"))
