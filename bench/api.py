"""What `ccarena.run` adds to the native simulator's time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ccarena
from bench.sheet import Sheet
from ccarena import _core
from ccarena.core.measurements import Ratio, Target

SCENARIOS = 100
ROUNDS = 5
MOST = 1.05


def measure(sheet: Sheet) -> None:
    """100 scenarios of one flow each, of 10 s: by `ccarena.run`, and by `_core.simulate` in as many threads."""
    documents = [_document(index) for index in range(SCENARIOS)]
    recorded = {"record": {"packets": True, "series": True}}
    texts = [json.dumps({**document, **recorded}) for document in documents]
    threads = len(os.sched_getaffinity(0))

    def native() -> Any:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(_core.simulate, texts))

    def ours() -> Any:
        return ccarena.run(documents, threads=threads, progress=False)

    # In turns, and the best of each: what else the machine does slows down both.
    rounds = [(_seconds(native), _seconds(ours)) for _ in range(ROUNDS)]
    native_s, ours_s = (min(each) for each in zip(*rounds, strict=True))
    sheet.add(
        "simulator/python",
        f"{SCENARIOS} scenarios of 10 s by `ccarena.run`, {threads} threads",
        ours_s,
        "s",
        ratio=Ratio(ours_s / native_s, "the native simulator's time", Target(at_most=MOST)),
    )


def _document(index: int) -> dict[str, Any]:
    """One flow of CUBIC, at another rate in each scenario."""
    link = {"service": {"type": "constant", "rate_mbps": 10.0 + index}, "delay_ms": 10}
    return {"duration_s": 10, "links": [link], "flows": [{"scheme": "cubic"}]}


def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
