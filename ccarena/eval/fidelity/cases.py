"""Recorded kernel runs: reading and checking a file of cases, and finding their traces.

Every fault is a ConfigError that names the field (`cases[3].queue_args`); a missing trace is a TraceError.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccarena import _core
from ccarena.core.reader import parse_json, read_bytes
from ccarena.errors import ConfigError, TraceError, did_you_mean

__all__ = ["Case", "load", "trace_folders"]

# mahimahi's queue -> its arguments, by the scenario's names; `packets` and `bytes` are the limit of all but infinite.
LIMITS = {"packets": "packets", "bytes": "bytes"}
QUEUES: dict[str, dict[str, str]] = {
    "infinite": {},
    "droptail": LIMITS,
    "drophead": LIMITS,
    "codel": {**LIMITS, "target": "target_ms", "interval": "interval_ms"},
    "pie": {**LIMITS, "qdelay_ref": "target_ms", "max_burst": "burst_ms"},
}
# Mahimahi's own differs from what its name says (docs/scenario.md).
DIFFERENT = {"codel", "pie"}
MTU_BYTES, LOGGED_BYTES = 1500, 1504


@dataclass(frozen=True)
class Case:
    """Recorded setup and its runs."""

    fields: Mapping[str, Any]
    """Case as it is in the file."""
    where: str
    """Place in the file, for errors."""
    name: str
    up: str
    """Path of the uplink's trace; `down` likewise."""
    down: str
    owd_ms: float
    queue: Mapping[str, Any]
    """Queue in the scenario's form."""
    loss: float
    schemes: tuple[str, ...]
    seconds: float
    first_data_ms: int
    runs: tuple[Mapping[str, Any], ...]
    """`throughput_mbps` and `qdelay_ms` (`mean`, `p95`) of the result and its repeats."""


def load(path: Path, traces: Path | None = None, only: str = "") -> list[Case]:
    """Returns the cases of `path` whose names hold every word of `only`, with traces found in `trace_folders(path,
    traces)`.

    Raises ConfigError and TraceError, naming file and field. Faults of cases that are not chosen are found too, except
    for missing traces.
    """
    try:
        document = parse_json(read_bytes(path), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the cases: {error.strerror}; expected a JSON file") from error
    if not isinstance(document, list) or not document:
        raise ConfigError(f"{path}: expected a list of cases, found {_kind(document)}")
    read = [_case(raw, f"{path}: cases[{index}]") for index, raw in enumerate(document)]
    chosen = [case for case in read if all(word in case.name for word in only.split())]
    if not chosen:
        raise ConfigError(f'{path}: no case has "{only}" in its name; the first is {read[0].name}')
    folders = trace_folders(path, traces)
    return [_with_traces(case, folders) for case in chosen]


def trace_folders(cases: Path, traces: Path | None = None) -> list[Path]:
    """Returns the folders in which traces are looked up.

    They are `traces`, the folder of `cases`, `../traces` and CCARENA_TRACE_DIR (a colon list), and `mahimahi/` in each
    of these.
    """
    configured = [Path(p) for p in os.environ.get("CCARENA_TRACE_DIR", "").split(os.pathsep) if p]
    folders = [*([traces] if traces else []), cases.parent, cases.parent.parent / "traces", *configured]
    return [place for folder in folders for place in (folder, folder / "mahimahi")]


def _with_traces(case: Case, folders: Sequence[Path]) -> Case:
    found = {}
    for field in ("up", "down"):
        name = case.fields[field]
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            places = ", ".join(map(str, folders))
            raise TraceError(
                f'{case.where}.{field}: no trace "{name}" (looked in {places}); give its folder: --traces DIR'
            )
        found[field] = str(path)
    return replace(case, up=found["up"], down=found["down"])


def _case(raw: Any, where: str) -> Case:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: expected a case (a mapping), found {_kind(raw)}")
    get = _Reader(raw, where)
    queue = get("queue", str, "a queue of mahimahi", lambda q: q in QUEUES, f"one of {', '.join(QUEUES)}")
    result = get("result", dict, "what was measured")
    repeats = get("repeats", list, "a list of further results", default=[])
    schemes = _schemes(raw.get("cc"), f"{where}.cc")
    owd_ms = get("owd_ms", (int, float), "a delay in ms", lambda x: x >= 0, "at least 0")
    loss = get("loss", (int, float), "a probability", lambda x: 0 <= x < 1, "0 up to 1", default=None) or 0.0
    arguments = get("queue_args", str, 'arguments such as "packets=100"', default="")
    up = get("up", str, "a trace's file name")
    tail = f" loss {loss:g}" if loss else ""
    kind = f"{queue}({arguments.replace(' ', '').replace('packets=', '')})" if arguments else queue
    return Case(
        fields=raw,
        where=where,
        name=f"{up} {owd_ms:g} ms {kind} {'+'.join(schemes)}{tail}",
        up=up,
        down=get("down", str, "a trace's file name"),
        owd_ms=float(owd_ms),
        queue=_queue(queue, arguments, f"{where}.queue_args"),
        loss=float(loss),
        schemes=schemes,
        seconds=float(get("seconds", (int, float), "a time in s", lambda x: x > 0, "above 0")),
        first_data_ms=round(
            _Reader(result, f"{where}.result")(
                "first_data_ms", (int, float), "a time in ms", lambda x: x >= 0, "0 or more"
            )
        ),
        runs=(
            _run(result, f"{where}.result"),
            *(_run(run, f"{where}.repeats[{index}]") for index, run in enumerate(repeats)),
        ),
    )


def _run(raw: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: expected a result (a mapping), found {_kind(raw)}")
    number = (int, float)
    _Reader(raw, where)("throughput_mbps", number, "a rate in Mbit/s", lambda x: x > 0, "above 0")
    delay = _Reader(_Reader(raw, where)("qdelay_ms", dict, "delays"), f"{where}.qdelay_ms")
    for key in ("mean", "p95"):
        delay(key, number, "a delay in ms", lambda x: x >= 0, "at least 0")
    return raw


def _schemes(raw: Any, where: str) -> tuple[str, ...]:
    names = raw if isinstance(raw, list) else [raw]
    known = [scheme["name"] for scheme in _core.schemes() if not scheme["learned"]]
    if not names:
        raise ConfigError(f"{where}: expected a congestion control or a list of them, found an empty list")
    for index, name in enumerate(names):
        at = f"{where}[{index}]" if isinstance(raw, list) else where
        if not isinstance(name, str):
            raise ConfigError(f"{at}: expected the name of a congestion control, found {_kind(name)}")
        if name not in known:
            raise ConfigError(f'{at}: no scheme "{name}"{did_you_mean(name, known)}')
    return tuple(names)


def _queue(kind: str, text: str, where: str) -> dict[str, Any]:
    """Returns a scenario's queue from mahimahi's `KEY=INTEGER, ...`."""
    queue: dict[str, Any] = {"type": kind, **({"compat": "mahimahi"} if kind in DIFFERENT else {})}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value.isdigit():
            raise ConfigError(f'{where}: "{part}" is not KEY=INTEGER; expected such as "packets=100"')
        if key not in QUEUES[kind]:
            raise ConfigError(f'{where}: {kind} has no argument "{key}"{did_you_mean(key, QUEUES[kind])}')
        # Mahimahi counts 1504 bytes where the scenario counts 1500.
        queue[QUEUES[kind][key]] = int(value) * MTU_BYTES // LOGGED_BYTES if key == "bytes" else int(value)
    missing = [key for key in QUEUES[kind] if QUEUES[kind][key] not in queue and key not in LIMITS]
    if QUEUES[kind] and not LIMITS.keys() & queue.keys():
        missing.insert(0, "packets or bytes")
    if missing:
        raise ConfigError(f'{where}: "{text}" lacks {", ".join(missing)}, which {kind} needs')
    return queue


class _Reader:
    """Reader of a mapping's fields that names their place in errors."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self.raw, self.where = raw, where

    def __call__(
        self,
        field: str,
        kind: type | tuple[type, ...],
        what: str,
        fits: Callable[[Any], bool] = lambda value: True,
        allowed: str = "",
        **default: Any,
    ) -> Any:
        value = self.raw.get(field)
        if value is None and "default" in default:
            return default["default"]
        where = f"{self.where}.{field}"
        if field not in self.raw:
            raise ConfigError(f"{where} is missing; expected {what}")
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, float) and math.isnan(value)):
            raise ConfigError(f"{where}: expected {what}, found {_kind(value)}")
        if not fits(value):
            raise ConfigError(f"{where}: {value!r}; expected {what}, {allowed}")
        return value


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), f"{value!r}")
