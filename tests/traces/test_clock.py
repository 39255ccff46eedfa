"""Times as loggers write them."""

from __future__ import annotations

import pytest

from ccarena.traces.clock import Clock

NOON = 1_681_300_800.0  # 2023-04-12T12:00:00Z, as `date -u +%s` says


@pytest.mark.parametrize(
    "text",
    [
        "2023-04-12T12:00:00Z",
        "2023-04-12 12:00:00",
        "2023-04-12T12:00",
        "2023-04-12T14:00:00+02:00",
        "2023-04-12 07:00:00 CDT",
        "2023-04-12 04:30:00.000-0730",
        "2023.04.12_12.00.00",
        "2023/4/12 12:00:00,000",
        "20230412T120000Z",
        "Wed Apr 12 12:00:00 UTC 2023",
        "Wed Apr 12 12:00:00 2023",
        "Wed, 12 Apr 2023 12:00:00 +0000",
        "1681300800",
        "1681300800.0",
        "1681300800000",
        "1681300800000000",
        "1681300800000000000",
    ],
)
def test_one_moment_in_all_usual_forms(text: str) -> None:
    begin = Clock().next("2023-04-12T12:00:00Z") - NOON if Clock()._read(text)[0] == "date" else 0.0
    assert Clock().next(text) - begin == pytest.approx(NOON, abs=1e-3)


def test_parts_of_seconds_and_months_in_order() -> None:
    clock = Clock()
    assert clock.next("2024-02-28T23:59:59.75Z") + 0.5 + 86_400 == clock.next("2024-03-01 00:00:00.25")


def test_times_of_day_pass_midnight() -> None:
    clock = Clock()
    assert [clock.next(text) for text in ("23:59:59", "00:00:00.5", "13:00:00")] == [86_399, 86_400.5, 133_200]
    assert clock.at("00:30:00", 86_399) == 86_400 + 1800


def test_the_unit_of_numbers_is_told_by_the_first_or_given() -> None:
    epoch = Clock()
    assert [epoch.next(text) for text in ("1681300800000", "1681300800500")] == [NOON, NOON + 0.5]
    assert Clock().next("1500") == 1500
    assert Clock("ms").next("1500") == 1.5
    assert Clock("us").next("1681300800000000") == NOON


def test_a_format_of_ones_own() -> None:
    clock = Clock(pattern="%d/%m/%Y %H:%M")
    assert clock.next("13/04/2023 00:01") - clock.next("12/04/2023 23:59") == 120


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "soon",
        "12/04/2023 12:00:00",
        "2023-13-01 00:00:00",
        "25:00:00",
        "nan",
        "inf",
        "2023-04-12 12:00:00 XYZ",
        "Foo 12 12:00:00 2023",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Clock().next(text)


def test_a_column_holds_one_kind_of_time() -> None:
    clock = Clock()
    clock.next("2023-04-12 12:00:00")
    with pytest.raises(ValueError, match="a date as in the rows before"):
        clock.next("17")
