"""Time that `ccarena.run` and `summary()` of its results take, over the native simulator's."""

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
SUMMARY_FLOWS = (1, 4)
MOST_SUMMARY = 0.2


def measure(sheet: Sheet) -> None:
    """100 scenarios of one flow each, of 10 s: by `ccarena.run`, and by `_core.simulate` in as many threads."""
    documents = _documents(flows=1)
    texts = _texts(documents)
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
    for flows in SUMMARY_FLOWS:
        _summary(sheet, flows)


def _summary(sheet: Sheet, flows: int) -> None:
    """Measures `summary()` of results with packets, and the simulation of the same scenarios in one thread."""
    documents = _documents(flows)
    texts = _texts(documents)
    rounds = []
    for _ in range(ROUNDS):
        native_s = _seconds(lambda: [_core.simulate(text) for text in texts])
        rounds.append((native_s, _seconds(ccarena.run(documents, progress=False).summary)))
    native_s, ours_s = (min(each) for each in zip(*rounds, strict=True))
    sheet.add(
        f"simulator/summary-{flows}",
        f"`summary()` of {SCENARIOS} scenarios of 10 s with packets, {flows} flow{'s' if flows > 1 else ''} each",
        ours_s,
        "s",
        ratio=Ratio(ours_s / native_s, "their simulation in one thread", Target(at_most=MOST_SUMMARY)),
    )


def _documents(flows: int) -> list[dict[str, Any]]:
    """Returns scenarios with flows of CUBIC, each at another rate."""
    links = [{"service": {"type": "constant", "rate_mbps": 10.0 + k}, "delay_ms": 10} for k in range(SCENARIOS)]
    return [{"duration_s": 10, "links": [link], "flows": [{"scheme": "cubic"}] * flows} for link in links]


def _texts(documents: list[dict[str, Any]]) -> list[str]:
    """Returns the documents as the native simulator takes them, with all that `ccarena.run` records."""
    recorded = {"record": {"packets": True, "series": True, "transmissions": True}}
    return [json.dumps({**document, **recorded}) for document in documents]


def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
