"""Fanning out pieces of work that depend on nothing but themselves: over threads, processes or a Ray cluster.

    for done in executor.run(measure, pieces):
        results[done.index] = done.result()

A piece may run more than once, where its worker died or was slow, so that the work must be a function of the piece
alone; each piece is nevertheless reported exactly once, as soon as it is over, in any order.
"""

from ccarena.executors.local import Processes, Threads
from ccarena.executors.pieces import Done, Executor

__all__ = ["Done", "Executor", "Processes", "Threads"]
