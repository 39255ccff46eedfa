"""Rattan's bandwidth traces (the file that a `BwReplay` cell's `trace` names), JSON or TOML.

The models are netem-trace's: `StaticBwConfig` is one rate for a time, `TraceBwConfig` a list of them, and
`RepeatedBwPatternConfig` repeats others, for ever with the count 0. Endless patterns are converted once, since a
mahimahi trace repeats for ever. Models that draw rates at random or compute them are refused.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from ccarena.core.reader import parse_json, read_bytes
from ccarena.errors import ConfigError, MissingDependencyError, TraceError
from ccarena.traces.recording import Recording

__all__ = ["looks_like", "read"]

MAX_ROWS = 2_000_000
"""Rates in a trace once its patterns are written out."""

_MODELS = ("StaticBwConfig", "TraceBwConfig", "RepeatedBwPatternConfig")
_MODEL = re.compile(r"\b[A-Z]\w*Bw(Pattern)?Config\b")
# As the crates human-bandwidth and humantime write them.
_RATE = re.compile(r"(\d+(?:\.\d+)?) *([kKMGT]?)(?:bps|bit/s|b/s) *")
_FACTORS = {"": 1e-6, "k": 1e-3, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
_TIME = re.compile(r"(\d+) *([a-zµ]+) *")
_SECONDS = {
    **dict.fromkeys(("nsec", "ns"), 1e-9),
    **dict.fromkeys(("usec", "us", "µs"), 1e-6),
    **dict.fromkeys(("msec", "ms", "millis"), 1e-3),
    **dict.fromkeys(("seconds", "second", "sec", "secs", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "min", "mins", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hr", "hrs", "h"), 3600.0),
}

Row = tuple[float, float]
"""Row of a trace: seconds and Mbit/s."""


def looks_like(head: str) -> bool:
    """Returns whether `head`, the start of a file, is a bandwidth trace of Rattan's."""
    return head.lstrip().startswith(("{", "[")) and bool(_MODEL.search(head))


def read(path: Path) -> Recording:
    """Reads the rates of a trace; errors say where in the document. Raises TraceError."""
    try:
        rows = _rows(_document(read_bytes(path), str(path)), "", outermost=True)
    except OSError as error:
        raise TraceError(f"{path}: cannot read the trace: {error.strerror}; expected a readable file") from error
    except ConfigError as error:
        raise TraceError(str(error)) from error
    except RecursionError as error:
        raise TraceError(f"{path}: nested too deeply; expected a bandwidth trace of Rattan's") from error
    except (TypeError, ValueError) as error:
        raise TraceError(f"{path}: {error}") from error
    if not rows:
        raise TraceError(f"{path}: the trace has no rates; expected at least one")
    spans, rates = np.array(rows).T
    return Recording(str(path), np.arange(1, len(rows) + 1), np.cumsum(spans) - spans, spans, rates)


def _document(data: bytes, origin: str) -> Any:
    if data.lstrip().startswith(b"{"):
        return parse_json(data, origin)
    try:
        tomllib = importlib.import_module("tomllib")
    except ModuleNotFoundError as error:
        raise MissingDependencyError("a trace in TOML needs Python 3.11 or newer; write it as JSON") from error
    return tomllib.loads(data.decode("utf-8"))


def _rows(model: Any, where: str, outermost: bool = False) -> list[Row]:
    """Returns the rates of a model. Raises ValueError, whose message says where and what was expected."""
    if not isinstance(model, dict) or len(model) != 1 or next(iter(model)) not in _MODELS:
        names = ", ".join(sorted(map(str, model))) if isinstance(model, dict) else type(model).__name__
        raise ValueError(f"{where or 'document'}: got {names[:80]}; expected one of {', '.join(_MODELS)}")
    ((name, fields),) = model.items()
    where = f"{where}.{name}".lstrip(".")
    pattern = fields.get("pattern") if isinstance(fields, dict) else fields
    if name == "StaticBwConfig":
        if not isinstance(fields, dict):
            raise ValueError(f"{where}: expected bw and duration")
        return [(_duration(fields.get("duration"), where), _rate(fields.get("bw"), where))]
    if not isinstance(pattern, list):
        raise ValueError(f"{where}.pattern: expected a list")
    if name == "TraceBwConfig":
        rows: list[Row] = []
        for number, one in enumerate(pattern):
            at = f"{where}.pattern[{number}]"
            if not (isinstance(one, list) and len(one) == 2 and isinstance(one[1], list)):
                raise ValueError(f"{at}: expected [duration, [rates]]")
            seconds = _duration(one[0], at)
            rows += [(seconds, _rate(rate, at)) for rate in one[1]]
        return rows
    count = fields.get("count", 0)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0 or (count == 0 and not outermost):
        raise ValueError(f"{where}.count: got {count}; expected 1 or more, or 0 (for ever) in the outermost pattern")
    once: list[Row] = []
    for number, one in enumerate(pattern):
        once += _rows(one, f"{where}.pattern[{number}]")
        if len(once) * max(count, 1) > MAX_ROWS:
            raise ValueError(f"{where}: {len(once)} rates {count} times; expected at most {MAX_ROWS} in all")
    return once * max(count, 1)


def _rate(value: Any, where: str) -> float:
    """Returns Mbit/s from text, from `{gbps, bps}`, or from a number of bit/s."""
    if isinstance(value, dict) and set(value) == {"gbps", "bps"}:
        return float(value["gbps"]) * 1e3 + float(value["bps"]) * 1e-6
    if isinstance(value, str) and re.fullmatch(f"({_RATE.pattern})+", value):
        return sum(float(number) * _FACTORS[factor] for number, factor in _RATE.findall(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{where}: the rate is {value!r:.60}; expected one such as 12Mbps")


def _duration(value: Any, where: str) -> float:
    """Returns seconds from text, from `{secs, nanos}`, or from a number of milliseconds."""
    seconds = 0.0
    if isinstance(value, dict) and set(value) == {"secs", "nanos"}:
        seconds = float(value["secs"]) + float(value["nanos"]) * 1e-9
    elif isinstance(value, str) and re.fullmatch(f"({_TIME.pattern})+", value):
        seconds = sum(float(number) * _SECONDS.get(unit, float("nan")) for number, unit in _TIME.findall(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{where}: the duration is {value!r:.60}; expected one such as 100ms")
    return seconds
