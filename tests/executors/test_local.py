"""Pieces of work in threads and processes of this machine."""

from __future__ import annotations

import os
import time

import pytest

from ccarena.errors import ScenarioError, WorkerError
from ccarena.executors import Executor, Processes, Threads


def square(x: int) -> int:
    if x == 13:
        raise ScenarioError("thirteen")
    time.sleep(0.02 * (x % 3))
    return x * x


def deadly(x: int) -> int:
    if x == 1:
        os._exit(9)
    return x


@pytest.mark.parametrize("executor", [Threads(3), Processes(2)], ids=["threads", "processes"])
def test_each_piece_is_reported_once_and_an_error_costs_its_own_alone(executor: Executor) -> None:
    pieces = [*range(12), 13]
    results: dict[int, int] = {}
    failed = []
    for done in executor.run(square, pieces):
        assert done.index not in results
        try:
            results[done.index] = done.result()
        except ScenarioError as error:
            failed.append((done.index, str(error)))
    assert results == {index: x * x for index, x in enumerate(pieces) if x != 13}
    assert failed == [(12, "thirteen")]
    assert list(executor.run(square, [])) == []


def test_a_piece_that_kills_its_process_costs_no_other() -> None:
    results = {}
    for done in Processes(2).run(deadly, range(4)):
        if done.index == 1:
            with pytest.raises(WorkerError, match="its process was killed"):
                done.result()
        else:
            results[done.index] = done.result()
    assert results == {0: 0, 2: 2, 3: 3}
