"""Executor of A3C's workers in threads of this process, with a result that does not depend on timing.

Workers collect and differentiate at the same time: simulator and network kernels release the interpreter lock.
Gradients are applied round robin, and a worker continues from the weights right after its own. Every gradient is
therefore `workers - 1` updates old: A3C's asynchrony without races.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from numpy.typing import NDArray

from ccarena.agents.a3c import Learner, Update, Worker


class LocalExecutor:
    """Executor that feeds `learner` from `workers`, on at most `threads` threads."""

    def __init__(self, learner: Learner, workers: list[Worker], threads: int) -> None:
        self._learner = learner
        self._workers = workers
        self._next = 0
        self._pending: list[Future[Update]] = []
        # One thread per network: matrices this small lose more to hand-over than they gain (and stay reproducible).
        self._pool = ThreadPoolExecutor(
            min(threads, len(workers)), thread_name_prefix="worker", initializer=torch.set_num_threads, initargs=(1,)
        )

    def step(self) -> Update:
        """Waits for the worker whose turn it is, applies its gradient and starts its next rollout."""
        if not self._pending:
            self._pending = [self._submit(worker) for worker in self._workers]
        update = self._pending[self._next].result()
        self._learner.apply(update)
        self._pending[self._next] = self._submit(self._workers[self._next])
        self._next = (self._next + 1) % len(self._workers)
        return update

    def _submit(self, worker: Worker) -> Future[Update]:
        return self._pool.submit(worker.run, self._learner.weights, self._learner.entropy_weight)

    def figures(self) -> dict[str, float]:
        """Returns no figures: every gradient is `workers - 1` updates old."""
        return {}

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Returns the workers and their finished gradients; waits until all workers have finished their current
        rollouts.
        """
        updates = [future.result() for future in self._pending]
        arrays: dict[str, NDArray] = {}
        workers = []
        for index, worker in enumerate(self._workers):
            worker_arrays, rest = worker.state()
            if updates:
                worker_arrays["gradient"] = updates[index].gradient
                rest["stats"] = updates[index].stats
            arrays |= {f"{index}.{name}": array for name, array in worker_arrays.items()}
            workers.append(rest)
        return arrays, {"next": self._next, "workers": workers}

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Restores a `state()` with the same number of workers."""
        if len(rest["workers"]) != len(self._workers):
            raise ValueError(f"{len(rest['workers'])} workers, expected {len(self._workers)}")
        self._next = rest["next"]
        self._pending = []
        for index, (worker, state) in enumerate(zip(self._workers, rest["workers"], strict=True)):
            prefix = f"{index}."
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            worker.restore(own, state)
            if "stats" in state:
                ready: Future[Update] = Future()
                ready.set_result(Update(own["gradient"], state["stats"]))
                self._pending.append(ready)

    def close(self) -> None:
        """Waits until the workers have finished their current rollouts, stops the threads and closes the worlds."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.close()
