"""Algorithm A3C for the training loop: one learner, and workers in threads or on Ray."""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch

from ccarena.agents.a3c import Learner, Update, Worker
from ccarena.agents.algorithm import Arrays, Context, Run
from ccarena.agents.collecting import seeds
from ccarena.configs.schema import A3CConfig

__all__ = ["A3C"]


class Executor(Protocol):
    """Executor of the workers: `LocalExecutor` or `RayExecutor`."""

    def step(self) -> Update | None:
        """Applies one more gradient; returns None if none has come for a while."""

    def figures(self) -> dict[str, float]:
        """Returns figures of the workers for the learning curve."""

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns the arguments of `restore`, as arrays and as JSON."""

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`."""

    def close(self) -> None:
        """Ends the workers."""


class A3C:
    """Algorithm A3C (`ccarena.agents.algorithm.Algorithm`)."""

    def __init__(self, context: Context) -> None:
        config = cast(A3CConfig, context.config.algorithm)
        self._context, self._config = context, config
        self._learner = Learner(context, config)
        if context.config.executor == "ray":
            from ccarena.agents.ray import wait_for_gpu

            wait_for_gpu(context.config)  # before anything is written
        self._executor: Executor | None = None
        self._generation = 0

    @property
    def decisions(self) -> int:
        """Returns the number of decisions that the shared weights have learned from."""
        return self._learner.decisions

    def learn(self, run: Run) -> None:
        """Applies gradients until `run` ends the training."""
        while run.rest():
            executor = self._start()
            update = executor.step()
            if update is not None:
                now = {"entropy_weight": self._learner.entropy_weight, **executor.figures()}
                run.record(update.stats, updates=self._learner.updates, **now)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns the state of the learner and of its executor."""
        arrays, rest = self._learner.state()
        executor_arrays, executor_rest = self._start().state()
        arrays = {f"learner.{name}": array for name, array in arrays.items()}
        arrays |= {f"executor.{name}": array for name, array in executor_arrays.items()}
        return arrays, {"learner": rest, "executor": executor_rest}

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`; workers are restored when they are started.

        With another executor, or another number of workers, they continue with the weights on fresh episodes.
        """
        self._learner.restore(_part(arrays, "learner"), rest["learner"])
        if self._learner.done:
            return
        # Workers draw fresh episodes by the number of updates so far: they start after it is known.
        same = len(rest["executor"].get("workers", ())) == self._config.workers
        if same and self._context.config.executor == "local":
            self._start().restore(_part(arrays, "executor"), rest["executor"])
        else:
            self._generation = self._learner.updates

    def move(self, context: Context) -> None:
        """Goes on in worlds of other links; gradients from the old ones are dropped."""
        self.close()
        self._context, self._executor, self._generation = context, None, self._learner.updates

    def policy(self) -> torch.nn.Module:
        """Returns the actor with the shared weights."""
        return self._learner.network().policy()

    def close(self) -> None:
        """Ends the workers."""
        if self._executor is not None:
            self._executor.close()

    def _start(self) -> Executor:
        if self._executor is None:
            self._executor = self._new_executor()
        return self._executor

    def _new_executor(self) -> Executor:
        if self._context.config.executor == "ray":
            from ccarena.agents.ray import RayExecutor

            return RayExecutor(self._learner, self._context, self._config)
        from ccarena.agents.local import LocalExecutor

        threads, count = self._context.config.threads, self._config.workers
        side_by_side = min(threads, count)
        rows = self._context.rows // count
        workers = [
            Worker(
                self._context.make_envs(rows, threads // side_by_side),
                self._context,
                self._config,
                *seeds(self._context.config.seed, index, self._generation),
            )
            for index in range(count)
        ]
        return LocalExecutor(self._learner, workers, side_by_side)


def _part(arrays: Arrays, name: str) -> Arrays:
    prefix = f"{name}."
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
