"""Frames as `ccarena-kernel run` writes them, made by hand; and what the fixture `program` is."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[[str], Path]
"""Puts a Python program in the place of `ccarena-kernel`; gives the file in which it may write."""

RESULT: dict[str, Any] = {
    "duration_s": 1.0,
    "seed": 1,
    "flows": [{"name": "flow0", "scheme": "acct", "reports": {"$array": "r", "shape": [2, 3]}}],
    "links": [{"name": "link0", "log": {"arrival_ns": {"$array": "a"}}}],
    "machine": {"valid": True, "lateness": {"p99_ms": 0.1}},
}


def frame(letter: str, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload) + 1) + letter.encode() + payload


def document(letter: str, content: Any) -> bytes:
    return frame(letter, json.dumps(content).encode())


def started() -> bytes:
    flow = {"name": "flow0", "scheme": "acct", "congestion_control": "cca.hold.1", "learned": None}
    return document("S", {"flows": [flow], "zero_ns": 12})


def decision(flow: int, time_ns: int, observation: list[float], report: list[float]) -> bytes:
    head = struct.pack("<IQII", flow, time_ns, len(observation), len(report))
    return frame("D", head + np.array(observation + report, "<f4").tobytes())


def array(name: str, letter: str, values: np.ndarray) -> bytes:
    return frame("A", struct.pack("<H", len(name.encode())) + name.encode() + letter.encode() + values.tobytes())


def result() -> bytes:
    return (
        array("r", "f", np.arange(6, dtype="<f4"))
        + array("a", "Q", np.array([1, 2**63], "<u8"))
        + document("R", RESULT)
    )
