"""Executors of independent pieces of work: threads, processes or a Ray cluster.

    for done in executor.run(measure, pieces):
        results[done.index] = done.result()

A piece runs again if its worker died or was slow, so the work must be a function of the piece alone. Each piece is
reported exactly once, as soon as it is finished, in any order.
"""

from ccarena.executors.local import Processes, Threads
from ccarena.executors.pieces import Done, Executor
from ccarena.executors.pool import pool_of, stopped

__all__ = ["Done", "Executor", "Processes", "Threads", "pool_of", "stopped"]
