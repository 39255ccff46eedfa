"""Times in a table's column: numbers, dates with a time, and times of day, as seconds.

A column holds one kind of time. Numbers are seconds unless a unit is given; a first number of the size of an epoch in
milliseconds, microseconds or nanoseconds is taken for one. Dates without a zone count as UTC, which cancels out. A time
of day that falls by more than twelve hours has passed midnight.
"""

from __future__ import annotations

import calendar
import datetime
import math
import re

__all__ = ["EXAMPLES", "UNITS", "Clock"]

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_EPOCHS = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
"""First numbers of a column that mean an epoch, with its unit: 1e11 s is the year 5138, 1e11 ms is 1973."""
EXAMPLES = "a number, 2023-04-12T10:40:20.5Z, 2020.01.01_10.00.00, Fri Dec 17 14:06:06 UTC 2021 or 14:06:06"
_DAY_S = 86_400.0

_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
# RFC 5322, section 4.3, and names that loggers write elsewhere. Inside one recording only a change of zone matters.
_ZONES = {
    **{"Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3},
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"JST": 9, "KST": 9, "AEST": 10, "AEDT": 11},
}
_TIME = r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}(?:[.,]\d+)?))?"
_ZONE = r"(?:\s*(?P<zone>[A-Z]{1,4}|[+-]\d{2}:?\d{2}))?"
_DAY = r"(?:[A-Z][a-z]{2},? +)?"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<year>\d{{4}})[-./](?P<month>\d{{1,2}})[-./](?P<day>\d{{1,2}})[T _]{_TIME}{_ZONE}",
        rf"(?P<year>\d{{4}})(?P<month>\d{{2}})(?P<day>\d{{2}})[T_](?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d){_ZONE}",
        rf"{_DAY}(?P<name>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_TIME}{_ZONE} (?P<year>\d{{4}})",
        rf"{_DAY}(?P<day>\d{{1,2}})[ -](?P<name>[A-Z][a-z]{{2}})[ -](?P<year>\d{{4}}) {_TIME}{_ZONE}",
    )
)
_OF_DAY = re.compile(_TIME.replace("[:.]", ":"))


class Clock:
    """Reads the times of one column, in the order of its rows."""

    def __init__(self, unit: str | None = None, pattern: str | None = None) -> None:
        """`unit` of numbers: one of `UNITS`, or None to tell by the first; `pattern`: as `strptime` takes it."""
        self._unit = unit
        self._pattern = pattern
        self._kind = ""
        self._last = -math.inf
        self._days = 0

    @property
    def dated(self) -> bool:
        """Returns whether the times read so far are dates or times of day, not numbers."""
        return self._kind not in ("", "number")

    def next(self, text: str) -> float:
        """Returns the seconds of the next row's time. Raises ValueError, whose message says what was expected."""
        kind, seconds = self._read(text)
        if self._kind and kind != self._kind:
            raise ValueError(f"a {self._kind} as in the rows before")
        self._kind = kind
        if kind == "time of day":
            if seconds < self._last - _DAY_S / 2:
                self._days += 1
            self._last = seconds
            seconds += self._days * _DAY_S
        return seconds

    def at(self, text: str, first: float) -> float:
        """Returns the seconds of a point in the recording that starts at `first`. Raises ValueError as `next` does."""
        kind, seconds = self._read(text)
        if kind != self._kind:
            raise ValueError(f"seconds from the start, or a {self._kind} as the table has it")
        return seconds + _DAY_S if kind == "time of day" and seconds < first else seconds

    def _read(self, text: str) -> tuple[str, float]:
        if self._pattern is not None:
            when = datetime.datetime.strptime(text, self._pattern)
            return "date", (when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)).timestamp()
        try:
            return "number", self._number(float(text))
        except ValueError:
            pass
        for pattern in _DATES:
            if match := pattern.fullmatch(text):
                return "date", _seconds(match.groupdict())
        if match := _OF_DAY.fullmatch(text):
            return "time of day", _of_day(match.groupdict())
        raise ValueError(f"a time, such as {EXAMPLES}; others are read with --time-format")

    def _number(self, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError
        if self._unit is None:
            self._unit = next((unit for least, unit in _EPOCHS if value >= least), "s")
        return value * UNITS[self._unit]


def _seconds(parts: dict[str, str | None]) -> float:
    month = parts.get("month") or _MONTHS.get(parts["name"] or "")
    if month is None:
        raise ValueError(f"a month in English, such as Dec, not {parts['name']}")
    day = datetime.date(int(parts["year"] or 0), int(month), int(parts["day"] or 0))
    return day.toordinal() * _DAY_S + _of_day(parts) - _offset_s(parts["zone"])


def _of_day(parts: dict[str, str | None]) -> float:
    hour, minute = int(parts["hour"] or 0), int(parts["minute"] or 0)
    second = float((parts["second"] or "0").replace(",", "."))
    if hour > 23 or minute > 59 or second >= 61:
        raise ValueError("at most 23 hours, 59 minutes and 60 seconds")
    return hour * 3600 + minute * 60 + second


def _offset_s(zone: str | None) -> float:
    if not zone:
        return 0.0
    if zone[0] in "+-":
        sign = -1 if zone[0] == "-" else 1
        return sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
    if zone not in _ZONES:
        raise ValueError(f'a known time zone, not "{zone}"; write it as an offset, such as +02:00')
    return _ZONES[zone] * 3600.0
