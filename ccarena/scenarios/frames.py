"""Frames that a program such as `ccarena-kernel run` writes to its standard output, little-endian throughout.

A frame is a u32, the length of what follows, a type byte and a payload:

| type | payload                                                                                              |
|------|------------------------------------------------------------------------------------------------------|
| `S`  | JSON: everything is set up; `flows`, and `zero_ns`, CLOCK_MONOTONIC at the scenario's time zero       |
| `D`  | u32 flow, u64 ns of scenario time, u32 n, u32 m, f32[n] observation, f32[m] report: a decision is due |
| `A`  | u16 length, name, dtype (`B` u8, `Q` u64, `I` u32, `d` f64, `f` f32), values: an array of the result          |
| `R`  | JSON: the result (docs/results.md), in which `{"$array": name}` stands for an array sent before, with |
|      | `shape` if it has rows                                                                               |
| `E`  | JSON: `kind` and `message` of what went wrong; nothing follows                                        |
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import RunnerError

__all__ = ["ANSWER", "Array", "Decision", "Decoder", "Failure", "Frame", "Result", "Started", "assemble"]

ANSWER = struct.Struct("<Id")
"""Format of an answer: flow and action."""

LARGEST_FRAME_BYTES = 1 << 31
"""Size above which frames are refused: a packet log of an hour at 100 Mbit/s has 0.2 GB per column."""

_HEAD = struct.Struct("<IB")
_DECISION = struct.Struct("<IQII")
_DTYPES: dict[bytes, np.dtype[Any]] = {
    b"B": np.dtype("u1"),
    b"Q": np.dtype("<u8"),
    b"I": np.dtype("<u4"),
    b"d": np.dtype("<f8"),
    b"f": np.dtype("<f4"),
}


@dataclass(frozen=True)
class Started:
    """Start of the run."""

    flows: list[dict[str, Any]]
    """`name`, `scheme`, `congestion_control` and `learned` (the interface, or None) of each flow."""
    zero_ns: int


@dataclass(frozen=True)
class Decision:
    """Decision that is due. Until it is answered, the last action stays in force and the world goes on."""

    flow: int
    time_ns: int
    observation: NDArray[np.float32]
    report: NDArray[np.float32]
    """Report of the interval that has ended."""


@dataclass(frozen=True)
class Array:
    """Array of a result."""

    name: str
    values: NDArray[Any]


@dataclass(frozen=True)
class Result:
    """Result of a finished run; `assemble` adds the arrays."""

    document: dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """Failure: the run cannot start or cannot continue."""

    kind: str
    message: str


Frame = Started | Decision | Array | Result | Failure


class Decoder:
    """Decoder of frames from pieces of any size."""

    def __init__(self, program: str = "ccarena-kernel") -> None:
        self._program = program
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that `data` completes. Raises RunnerError at the first byte that can belong to no frame."""
        self._pending += data
        at = 0
        try:
            while len(self._pending) - at >= _HEAD.size:
                length, kind = _HEAD.unpack_from(self._pending, at)
                if not 1 <= length <= LARGEST_FRAME_BYTES or kind not in _READERS:
                    raise RunnerError(
                        f"{self._program} wrote what is no frame (type {bytes([kind])!r}, {length} bytes): another "
                        "version of it? `make setup` builds both"
                    )
                end = at + 4 + length
                if len(self._pending) < end:
                    break
                payload = bytes(memoryview(self._pending)[at + _HEAD.size : end])
                at = end
                yield _READERS[kind](payload)
        finally:
            del self._pending[:at]


def assemble(result: Result, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Returns the result with its arrays in place. Raises RunnerError if one was not sent."""

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$array" not in value:
            return {key: put(item) for key, item in value.items()}
        array = arrays.get(value["$array"])
        if array is None:
            raise RunnerError(f"ccarena-kernel's result refers to an array that it did not send: {value['$array']!r}")
        try:
            return array.reshape(value.get("shape", array.shape))
        except (TypeError, ValueError):
            raise _broken("R", f"a shape that {array.size} values have, not {value['shape']!r}") from None

    return {key: put(value) for key, value in result.document.items()}


def _started(payload: bytes) -> Started:
    document = _json(payload)
    flows, zero_ns = document.get("flows"), document.get("zero_ns")
    if not isinstance(flows, list) or not all(isinstance(flow, dict) for flow in flows) or not isinstance(zero_ns, int):
        raise _broken("S", "flows (a list of mappings) and zero_ns (a whole number)")
    return Started(flows, zero_ns)


def _decision(payload: bytes) -> Decision:
    if len(payload) < _DECISION.size:
        raise _broken("D", f"at least {_DECISION.size} bytes")
    flow, time_ns, observed, reported = _DECISION.unpack_from(payload)
    if len(payload) != _DECISION.size + 4 * (observed + reported):
        raise _broken("D", f"{observed} and {reported} numbers")
    values = np.frombuffer(payload, "<f4", offset=_DECISION.size).astype(np.float32)
    return Decision(flow, time_ns, values[:observed], values[observed:])


def _array(payload: bytes) -> Array:
    length = int.from_bytes(payload[:2], "little")
    raw_name, dtype, values = payload[2 : 2 + length], payload[2 + length : 3 + length], payload[3 + length :]
    if dtype not in _DTYPES or len(values) % _DTYPES[dtype].itemsize:
        raise _broken("A", "a name, one of the types B, Q, I, d, f, and whole numbers of values")
    try:
        name = raw_name.decode()
    except UnicodeDecodeError:
        raise _broken("A", "a name in UTF-8") from None
    return Array(name, np.frombuffer(values, _DTYPES[dtype]))


def _result(payload: bytes) -> Result:
    document = _json(payload)
    if not isinstance(document.get("flows"), list) or not isinstance(document.get("links"), list):
        raise _broken("R", "a result with flows and links")
    return Result(document)


def _failure(payload: bytes) -> Failure:
    document = _json(payload)
    return Failure(str(document.get("kind", "internal")), str(document.get("message", "without a message")))


def _json(payload: bytes) -> dict[str, Any]:
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise RunnerError(f"ccarena-kernel wrote a frame that is no JSON mapping: {payload[:80]!r}")
    return document


def _broken(kind: str, expected: str) -> RunnerError:
    return RunnerError(f"ccarena-kernel wrote a broken frame of type {kind}; expected {expected}")


_READERS: dict[int, Callable[[bytes], Frame]] = {
    ord("S"): _started,
    ord("D"): _decision,
    ord("A"): _array,
    ord("R"): _result,
    ord("E"): _failure,
}
