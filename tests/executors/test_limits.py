"""Limits of processor time and memory: what exceeds them ends, and costs nothing else."""

from __future__ import annotations

import itertools
import sys
import time

import pytest

from ccarena.errors import WorkerError
from ccarena.executors import Processes
from ccarena.executors.limits import LimitError, limited


def loops(kind: str) -> str:
    try:
        with limited(0.1, 300.0):
            if kind == "python":
                while True:
                    try:
                        while True:
                            pass
                    except Exception:
                        pass
            if kind == "deaf":
                return str(max(itertools.repeat(0)))
            if kind == "asleep":
                time.sleep(60)
            if kind == "memory":
                return str(len(bytearray(10**9)))
    except LimitError as error:
        return str(error)
    except MemoryError:
        return "memory"
    return "done"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_what_exceeds_a_limit_costs_only_itself() -> None:
    kinds = ["python", "deaf", "asleep", "memory", "other"]
    found = {}
    for done in Processes(2).run(loops, kinds):
        try:
            found[kinds[done.index]] = done.result()
        except WorkerError as error:
            found[kinds[done.index]] = f"killed: {error}"
    assert found.pop("deaf").startswith("killed: its process was killed")
    assert found == {
        "python": "it took more than 0.1 s of processor time",
        "asleep": "it took more than 1 s without an end",
        "memory": "memory",
        "other": "done",
    }
