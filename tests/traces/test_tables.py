"""Tables: which rows count, for how long each holds, and which ones are refused by their line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ccarena.errors import ConfigError, TraceError
from ccarena.traces.convert import recordings
from ccarena.traces.formats import Format
from ccarena.traces.recording import Gaps, Part, Recording
from ccarena.traces.tables import Condition, Table

TIMED = Table(rate="mbps", time="t")


def read(tmp_path: Path, text: str | bytes, table: Table = TIMED, **options: Any) -> list[Recording]:
    (tmp_path / "t").write_bytes(text if isinstance(text, bytes) else text.encode())
    return recordings(tmp_path / "t", Format("own", "", table), **options)


def rows(recording: Recording) -> list[tuple[float, float]]:
    return list(zip(recording.rates_mbps.tolist(), recording.spans_s.tolist(), strict=True))


def timed(*pairs: tuple[Any, float]) -> str:
    return "t,mbps\n" + "".join(f"{time},{rate}\n" for time, rate in pairs)


def test_a_time_column_gives_the_intervals(tmp_path: Path) -> None:
    table = Table(rate="kbps", unit="kbps", time="ms", time_unit="ms", delimiter="\t")
    (found,) = read(tmp_path, "ms\tkbps\r\n0\t1000\r\n500\t2000\r\n1500\t3000\r\n", table)
    assert rows(found) == [(1, 0.5), (2, 1), (3, 0.75)]


def test_rows_of_one_time_share_its_interval(tmp_path: Path) -> None:
    (found,) = read(tmp_path, timed((0, 1), (1, 2), (1, 4), (2, 3), (2, 5)))
    assert rows(found) == [(1, 1), (2, 0.5), (4, 0.5), (3, 0.5), (5, 0.5)]
    (found,) = read(tmp_path, timed((7, 1), (7, 3)))
    assert rows(found) == [(1, 0.5), (3, 0.5)], "all rows have one time"


def test_a_short_gap_is_held_and_a_long_one_has_to_be_named(tmp_path: Path) -> None:
    text = timed((0, 1), (1, 2), (2, 3), (9, 4))
    (found,) = read(tmp_path, text)
    assert rows(found) == [(1, 1), (2, 1), (3, 7), (4, 1)]
    with pytest.raises(TraceError, match=r"t:5: no row for 7 s, 7 times the usual 1 s; say with --gaps"):
        read(tmp_path, text, gaps=Gaps(longer_than=5))
    (found,) = read(tmp_path, text, gaps=Gaps("hold", 5))
    assert rows(found) == [(1, 1), (2, 1), (3, 7), (4, 1)]
    (found,) = read(tmp_path, text, gaps=Gaps("outage", 5))
    assert rows(found) == [(1, 1), (2, 1), (3, 1), (0, 6), (4, 1)]
    (found,) = read(tmp_path, text, gaps=Gaps("cut", 5))
    assert rows(found) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert [rows(one) for one in read(tmp_path, text, gaps=Gaps("split", 5))] == [[(1, 1), (2, 1), (3, 1)], [(4, 1)]]


def test_a_session_that_goes_back_in_time_is_split_or_refused_with_its_row(tmp_path: Path) -> None:
    text = timed((100, 1), (101, 2), (50, 3), (51, 4))
    for action in ("refuse", "hold", "outage"):
        with pytest.raises(TraceError, match=r"t:4: time goes back by 51 s; .*--gaps split"):
            read(tmp_path, text, gaps=Gaps(action))
    assert [rows(one) for one in read(tmp_path, text, gaps=Gaps("split"))] == [[(1, 1), (2, 1)], [(3, 1), (4, 1)]]
    (joined,) = read(tmp_path, text, gaps=Gaps("cut"))
    assert rows(joined) == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_bytes_per_row_are_spread_over_the_time_that_the_row_has(tmp_path: Path) -> None:
    table = dataclasses.replace(TIMED, unit="bytes")
    (found,) = read(tmp_path, timed((0, 250_000), (2, 125_000), (2, 125_000), (4, 1_000_000)), table)
    assert rows(found) == [(1, 2), (1, 1), (1, 1), (4, 2)]


def test_all_conditions_hold_and_take_their_time_with_them(tmp_path: Path) -> None:
    text = "t,run,net,mbps\n0,1,5G,1\n1,1,LTE,2\n2,2,5G,3\n3,1,5G,4\n"
    keep = (Condition.of("run=1", "--keep"), Condition.of("net=5G", "--keep"))
    (found,) = read(tmp_path, text, dataclasses.replace(TIMED, keep=keep))
    assert rows(found) == [(1, 1), (4, 1)]
    drop = (Condition.of("mbps >= 3", "--drop"), Condition.of("net!=5G", "--drop"))
    (found,) = read(tmp_path, text, dataclasses.replace(TIMED, drop=drop))
    assert rows(found) == [(1, 1)]
    with pytest.raises(TraceError, match="t: the table has no rows with run=1 and not net=5G and not net=LTE"):
        drop = (Condition.of("net=5G", "--drop"), Condition.of("net=LTE", "--drop"))
        read(tmp_path, text, dataclasses.replace(TIMED, keep=keep[:1], drop=drop))
    with pytest.raises(TraceError, match='t:2: there is no column "carrier"; columns here: t, run, net, mbps'):
        read(tmp_path, text, dataclasses.replace(TIMED, keep=(Condition.of("carrier=A", "--keep"),)))


def test_a_row_that_is_left_out_may_be_broken(tmp_path: Path) -> None:
    table = dataclasses.replace(TIMED, drop=(Condition.of("mbps<0", "--drop"), Condition.of("t=-", "--drop")))
    (found,) = read(tmp_path, timed((0, 1), (1, -5), ("-", 2), (2, 3)), table)
    assert rows(found) == [(1, 1), (3, 1)]


@pytest.mark.parametrize("text", ["run", "=1", "mbps<fast"])
def test_wrong_conditions_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f'--keep is "{text}"; expected'):
        Condition.of(text, "--keep")


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ("nan", 't:3: column "mbps" is "nan"; expected a number'),
        ("-1", 't:3: column "mbps" is "-1"'),
        ("inf", 't:3: column "mbps" is "inf"'),
        ("fast", 't:3: column "mbps" is "fast"'),
        ("", 't:3: column "mbps" is ""'),
        ("22835.1", "t:3: a rate of 22835.1 Mbit/s; expected 0 to 10000 .*--drop.*--max-mbps"),
    ],
)
def test_an_impossible_rate_is_named_with_its_row(rate: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, f"t,mbps\n0,1\n1,{rate}\n2,1\n")


def test_more_than_usual_may_be_allowed(tmp_path: Path) -> None:
    (found,) = read(tmp_path, timed((0, 1), (1, 40_000)), max_mbps=100_000)
    assert rows(found)[1] == (40_000, 1)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Part("1.5", "3"), [(2, 0.5), (3, 1)]),
        (Part("", "0.25"), [(1, 0.25)]),
        (Part("2023-04-12 12:00:02", "2023-04-12 12:00:02.5"), [(3, 0.5)]),
        (Part("3", ""), [(4, 1)]),
    ],
)
def test_a_range_is_cut_out(part: Part, expected: list[tuple[float, float]], tmp_path: Path) -> None:
    text = timed(*((f"2023-04-12 12:00:0{second}", second + 1) for second in range(4)))
    (found,) = read(tmp_path, text, part=part)
    assert rows(found) == expected


def test_sessions_outside_the_range_are_left_out(tmp_path: Path) -> None:
    text = timed(("10:00:00", 1), ("10:00:01", 2), ("09:00:00", 3), ("09:00:01", 4))
    (found,) = read(tmp_path, text, gaps=Gaps("split"), part=Part("10:00:01"))
    assert rows(found) == [(2, 1)]


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (Part("4", ""), TraceError, "t: no rows from 4 until the end; the recording lasts 4 s"),
        (Part("3", "2"), TraceError, "t: no rows from 3 until 2"),
        (
            Part("noon", ""),
            ConfigError,
            "--from is noon; expected seconds from the start, since the rows have no dates",
        ),
        (Part("", "-1"), ConfigError, "--until is -1; expected seconds from the start, 0 or more"),
    ],
)
def test_a_wrong_range_is_refused(part: Part, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        read(tmp_path, timed((0, 1), (1, 1), (2, 1), (3, 1)), part=part)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mbps,s\n1,0\n", 't:2: there is no column "t"; columns here: mbps, s'),
        ("t,mbps\n0,1\n1\n", 't:3: the row ends before column "mbps"; expected 2 cells'),
        ("t,mbps\n0,1\nlater,1\n", 't:3: column "t" is "later"; expected a '),
        ("t,mbps\n0,1\n12:00:00,1\n", 't:3: column "t" is "12:00:00"; expected a number as in the rows before'),
        ("", "the table has no rows"),
        ("t,mbps\n\x00\n", "t:2: the line has a zero byte; expected a text table"),
        ("t,mbps\n" + "1" * 70_000, "t:2: the line has more than 65536 characters"),
        (b"\xff\xfe\x00", "expected a text table"),
    ],
)
def test_faults_in_tables_name_their_line(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, text)


def test_a_file_without_lines_is_not_read_to_its_end() -> None:
    with pytest.raises(TraceError, match="/dev/zero: cannot read the table: it is a device; expected a file"):
        recordings(Path("/dev/zero"), Format("own", "", TIMED))


def test_columns_by_number_stand_in_tables_with_and_without_header(tmp_path: Path) -> None:
    table = Table(rate=1, time=0)
    (with_header,) = read(tmp_path, timed((0, 1), (1, 2)), table)
    (without,) = read(tmp_path, "0,1\n1,2\n", dataclasses.replace(table, header=False))
    assert rows(with_header) == rows(without) == [(1, 1), (2, 1)]
