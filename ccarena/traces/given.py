"""Traces that a user names with `--traces`, for evaluations and competitions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena import traces
from ccarena.core.arguments import Unused
from ccarena.errors import ConfigError, TraceError

__all__ = [
    "BUFFERS_PACKETS",
    "DELAYS_MS",
    "HELP",
    "GivenTrace",
    "TraceLinks",
    "add_options",
    "of_options",
    "read_traces",
]

HELP = (
    "links that follow these traces: a file, the name of a trace, or a folder for all in it; NAME=TRACE calls it NAME, "
    "with TRACE,BACK the acknowledgements cross the trace BACK"
)
BUFFERS_PACKETS = (100, 1000)
DELAYS_MS = (20.0,)
_DIRECTIONS = {".down": ".up", ".up": ".down"}


@dataclass(frozen=True)
class GivenTrace:
    """Trace for a link's data, and optionally another one for its acknowledgements."""

    name: str
    file: Path
    back: Path | None = None


@dataclass(frozen=True)
class TraceLinks:
    """Links over traces: each trace with each buffer and each delay."""

    traces: tuple[GivenTrace, ...]
    buffers_packets: tuple[int, ...] = BUFFERS_PACKETS
    delays_ms: tuple[float, ...] = DELAYS_MS
    """One-way propagation delays."""

    @classmethod
    def of(
        cls,
        given: Sequence[str | os.PathLike[str]],
        buffers: Sequence[int] = BUFFERS_PACKETS,
        delays_ms: Sequence[float] = DELAYS_MS,
        pairs: bool = False,
    ) -> TraceLinks:
        """Builds the links from the arguments of `read_traces`, checked. Raises ConfigError or TraceError."""
        if not buffers or not all(isinstance(n, int) and n >= 1 for n in buffers):
            raise ConfigError(f"buffers = {list(buffers)}: expected whole numbers of packets from 1")
        if not delays_ms or not all(0 < ms <= 10_000 for ms in delays_ms):
            raise ConfigError(f"delays_ms = {list(delays_ms)}: expected one-way delays above 0 and at most 10000 ms")
        return cls(tuple(read_traces(given, pairs)), tuple(buffers), tuple(float(ms) for ms in delays_ms))

    def each(self) -> Iterator[tuple[int, GivenTrace, int, float]]:
        """Yields (number of the trace, trace, buffer in packets, one-way delay in ms) of every link."""
        for buffer in self.buffers_packets:
            for delay_ms in self.delays_ms:
                for index, trace in enumerate(self.traces):
                    yield index, trace, buffer, delay_ms

    def words(self) -> list[str]:
        """Returns the same choice as options of the command line."""
        given = [f"{t.name}={t.file}" + (f",{t.back}" if t.back else "") for t in self.traces]
        buffers, delays = map(str, self.buffers_packets), (f"{ms:g}" for ms in self.delays_ms)
        return ["--traces", *given, "--buffers", *buffers, "--delays-ms", *delays]


def read_traces(given: Iterable[str | os.PathLike[str]], pairs: bool = False) -> list[GivenTrace]:
    """Reads and checks the named traces, under names that differ.

    With `pairs`, acknowledgements of NAME.down travel over NAME.up, and the other way round. Raises ConfigError for a
    name or a pair that is missing, TraceError for a file that is no trace.
    """
    found: dict[str, GivenTrace] = {}
    for text in given:
        for trace in _read(os.fspath(text)):
            trace = _paired(trace) if pairs and trace.back is None else trace
            if trace.name in found:
                raise ConfigError(
                    f'--traces: "{trace.name}" is given twice ({found[trace.name].file} and {trace.file}); call one of '
                    "them otherwise: NAME=TRACE"
                )
            found[trace.name] = trace
    if not found:
        raise ConfigError("--traces: no trace was given; expected a file, a folder or a name")
    for trace in found.values():
        for file in (trace.file, *([trace.back] if trace.back else [])):
            traces.load(file)
    return list(found.values())


def _read(text: str) -> list[GivenTrace]:
    folder = Path(text)
    if folder.is_dir():
        files = traces.in_folder(folder)
        if not files:
            raise TraceError(f"{folder}: no trace in this folder; expected files of delivery times, one per line")
        return [GivenTrace(file.relative_to(folder).as_posix(), file) for file in files]
    if folder.is_file():
        return [GivenTrace(folder.name, folder)]
    name, equals, rest = text.partition("=")
    forward, comma, back = (rest if equals else text).partition(",")
    file = traces.find(forward)
    return [GivenTrace(name if equals else file.name, file, traces.find(back) if comma else None)]


def _paired(trace: GivenTrace) -> GivenTrace:
    other = _DIRECTIONS.get(trace.file.suffix)
    if other is None:
        raise ConfigError(f"--pairs: {trace.file}: expected a name that ends in .down or .up, or a pair TRACE,BACK")
    back = trace.file.with_suffix(other)
    if not back.is_file():
        raise ConfigError(f"--pairs: {trace.file} has no {back.name} beside it; give the pair as TRACE,BACK")
    return GivenTrace(trace.name, trace.file, back)


UNUSED = (Unused(("buffers", "delays_ms", "pairs"), lambda args: args.traces is None, "without --traces"),)


def add_options(parser: Any) -> None:
    """Declares `--traces` and its options."""
    parser.add_argument("--traces", nargs="+", metavar="TRACE", help=HELP)
    parser.add_argument(
        "--buffers", nargs="+", type=int, metavar="PACKETS", help="with --traces: queue limits (100 1000)"
    )
    parser.add_argument("--delays-ms", nargs="+", type=float, metavar="MS", help="with --traces: one-way delays (20)")
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="with --traces: acknowledgements of NAME.down cross NAME.up, and vice versa",
    )


def of_options(args: Any) -> TraceLinks | None:
    """Returns the links that the options of `add_options` ask for. Raises ConfigError or TraceError."""
    if args.traces is None:
        return None
    return TraceLinks.of(args.traces, args.buffers or BUFFERS_PACKETS, args.delays_ms or DELAYS_MS, args.pairs)
