"""Formats of recordings that have a name: one entry each."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path

from ccarena.errors import ConfigError, TraceError, did_you_mean
from ccarena.traces import iperf, link_log, pensieve, rattan, tables
from ccarena.traces.recording import Gaps, Part, Recording, take
from ccarena.traces.tables import Condition, Table

__all__ = ["FORMATS", "Format", "detect", "find_format"]

_HEAD = 16_384


@dataclasses.dataclass(frozen=True)
class Format:
    """Format of a file, read as a table or by a function of its own."""

    name: str
    summary: str
    source: Table | Callable[[Path], Recording]
    looks_like: Callable[[str], bool] = lambda head: False
    """Function that recognises the format from the first lines of a file."""

    def read(self, path: Path, gaps: Gaps | None = None, part: Part | None = None) -> list[Recording]:
        """Returns the recordings in a file, limited to `part`. Raises TraceError with the place of a fault."""
        if isinstance(self.source, Table):
            return tables.read(path, self.source, gaps or Gaps(), part or Part())
        return take([self.source(path)], part or Part())


def find_format(name: str) -> Format:
    """Returns the format called `name`. Raises ConfigError, naming the nearest, if there is none."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise ConfigError(f'unknown table format "{name}"{did_you_mean(name, [known.name for known in FORMATS])}')


def detect(path: Path) -> Format | None:
    """Returns the only format that a file looks like, else None. Raises TraceError if the file cannot be read."""
    if not path.is_file():  # a pipe can be read only once
        return None
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8-sig", "replace")
    except OSError as error:
        raise TraceError(f"{path}: cannot read the table: {error.strerror}; expected a readable file") from error
    likely = [known for known in FORMATS if known.looks_like(head)]
    return likely[0] if len(likely) == 1 else None


def _has_columns(*names: str) -> Callable[[str], bool]:
    return lambda head: set(names) <= set(next(csv.reader(head.splitlines()[:1]), []))


def _bytes_in(digits: int) -> Callable[[str], bool]:
    """Returns a test for lines of six numbers, the first an epoch with `digits` digits."""

    def looks_like(head: str) -> bool:
        cells = head.partition("\n")[0].split()
        return len(cells) == 6 and cells[0].isdecimal() and len(cells[0]) == digits

    return looks_like


_BYTES = Table(rate=4, unit="bytes", interval=5, time_unit="ms", header=False, delimiter=" ")
_MTU_RATE = "RATE(MBit/s)"
# Columns as the sets' own descriptions give them.
FORMATS: tuple[Format, ...] = (
    Format(
        "mbps-csv",
        "CSV with a column rate_mbps, one row per second",
        Table("rate_mbps"),
        _has_columns("rate_mbps"),
    ),
    Format(
        "nyu-mets",
        "NYU-METS, New York public transport, 1 s rows 'value,Mbits/sec' (ODbL 1.0)",
        Table(rate=0, unit_column=1, header=False),
        lambda head: head.partition("\n")[0].strip().lower().endswith("bits/sec") and "," in head and "[" not in head,
    ),
    Format(
        "irish-5g",
        "Raca et al., 5G production dataset (MMSys 2020), downloading rows only (GPL-3)",
        Table("DL_bitrate", unit="kbps", time="Timestamp", keep=(Condition("State", "=", "D"),)),
        _has_columns("Timestamp", "State", "DL_bitrate"),
    ),
    Format(
        "conext-2023",
        "Satellite-vs-Cellular (CoNEXT 2023): throughput of Starlink and cellular networks, in Mbit/s",
        Table("throughput", time="time"),
        _has_columns("time", "throughput"),
    ),
    Format(
        "mtu-5g",
        "Measurements5G (MTU): uplink rate of a 5G modem, without its counter's faults",
        Table(_MTU_RATE, time="Time", drop=(Condition(_MTU_RATE, "<", "0"), Condition(_MTU_RATE, ">", "1000"))),
        _has_columns("Time", _MTU_RATE),
    ),
    Format(
        "hsdpa",
        "Riiser et al., HSDPA commute paths in Norway (MMSys 2013), bytes received in each interval",
        _BYTES,
        _bytes_in(10),
    ),
    Format(
        "ghent",
        "van der Hooft et al., 4G/LTE in Ghent (IEEE Communications Letters 2016), bytes received in each interval",
        _BYTES,
        _bytes_in(13),
    ),
    Format("iperf3-json", "iperf3 -J or --json-stream", iperf.read_json, iperf.looks_like_json),
    Format("iperf3", "what iperf3 prints", iperf.read_text, iperf.looks_like_text),
    Format("mahimahi-log", "a link's log of mm-link: its delivery opportunities", link_log.read, link_log.looks_like),
    Format("pensieve", "a cooked trace: lines of seconds and Mbit/s", pensieve.read, pensieve.looks_like),
    Format("rattan", "the trace of a BwReplay cell, in JSON or TOML", rattan.read, rattan.looks_like),
)
