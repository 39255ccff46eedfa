"""Ray actors that are replaced if they are lost, with messages if they cannot be."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from ccarena.core.terminal import again
from ccarena.errors import TrainingError
from ccarena.executors.ray import first_line, last_line, module, on_machine, reason_of

__all__ = ["Crew", "Lost"]

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0
_WAITING_S = 20.0
"""Seconds that a worker may take to start before a message; each further message comes after twice the time."""


class Lost(Exception):
    """Error for a lost answer. The actor is replaced if it was lost too; ask again."""


class Crew:
    """Crew of `count` actors, made by `create(index)`.

    An actor that dies is replaced, at most `deaths` times in a row without an answer in between. Deaths are counted per
    actor, since the loss of a machine takes many actors that are not at fault.
    """

    def __init__(
        self, create: Callable[[int], Any], count: int, deaths: int, patience_s: float, together: bool = False
    ) -> None:
        """Creates the actors. `together`: work needs every one of them, not only those that there are cores for."""
        self._ray = module("executor = ray")
        self._create, self._deaths, self._patience_s, self._together = create, deaths, patience_s, together
        self.actors = [create(index) for index in range(count)]
        self.restarts = 0
        """Actors that were replaced so far."""
        self._failures = [0] * count
        now_s = time.monotonic()
        self._waiting: dict[int, float] = dict.fromkeys(range(count), now_s)
        """Actors that have not answered yet, and since when."""
        self._alone_s: float | None = now_s
        self._looked_s, self._say_after_s = now_s, _WAITING_S

    def take(self, index: int, reference: Any) -> Any:
        """Returns the answer of actor `index`. Raises Lost, after which it can be asked again; else TrainingError."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(reference)
        except errors.RayTaskError as error:
            raise TrainingError(f"worker {index} failed{on_machine(error)}: {error.cause or error}") from error
        except errors.ObjectLostError as error:
            log.warning("an answer of worker %d was lost (%s); it is asked again", index, first_line(error))
            raise Lost from error
        except (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.OutOfMemoryError,
            errors.LocalRayletDiedError,
        ) as error:
            if getattr(error, "actor_init_failed", False):
                failed = f"worker {index} cannot start{on_machine(error)}: {last_line(error)}"
                raise TrainingError(f"{failed}; mend that there, and {again()}") from error
            self._replace(index, error)
            raise Lost from error
        except errors.RayError as error:
            raise TrainingError(f"worker {index}: the Ray cluster failed: {first_line(error)}; see its logs") from error
        self._failures[index] = 0
        self._waiting.pop(index, None)
        return answer

    def _replace(self, index: int, error: Exception) -> None:
        self._failures[index] += 1
        self.restarts += 1
        if self._failures[index] >= self._deaths:
            raise TrainingError(
                f"worker {index} died {self._failures[index]} times in a row, the last time{on_machine(error)}: "
                f"{reason_of(error)}; see Ray's logs; {again()}"
            ) from error
        log.warning("worker %d died (%s); replacing it with fresh worlds", index, reason_of(error))
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self.actors[index])
        self.actors[index] = self._create(index)
        self._waiting[index] = time.monotonic()

    def look(self) -> None:
        """Prints which actors wait for a core. Raises TrainingError if there has been no core for too long."""
        now_s = time.monotonic()
        present = len(self.actors) - len(self._waiting)
        goes_on = present == len(self.actors) if self._together else present > 0
        if goes_on:
            self._alone_s = None
        elif self._alone_s is None:
            self._alone_s = now_s
        if not self._waiting or now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        waited_s = now_s - min(self._waiting.values())
        if waited_s < _WAITING_S:
            self._say_after_s = _WAITING_S
            return
        if self._alone_s is not None and now_s - self._alone_s > self._patience_s:
            who = f"{len(self._waiting)} of {len(self.actors)} workers have not" if present else "no worker has"
            raise TrainingError(
                f"{who} started for {now_s - self._alone_s:.0f} s, and {self._cores()}; add machines, ask for fewer "
                f"workers or wait longer (ray.patience_s); {again()}"
            )
        if waited_s >= self._say_after_s:
            self._say_after_s = 2 * waited_s
            log.warning(
                "%d of %d workers have not started for %.0f s: %s; training %s",
                len(self._waiting),
                len(self.actors),
                waited_s,
                self._cores(),
                f"goes on with {present}" if goes_on else "waits",
            )

    def _cores(self) -> str:
        there, free = (
            int(each().get("CPU", 0)) for each in (self._ray.cluster_resources, self._ray.available_resources)
        )
        return f"of the cluster's {there} cores {free} are free"

    def figures(self) -> dict[str, float]:
        """Returns the number of workers and of replaced ones, for the learning curve."""
        return {"workers": float(len(self.actors) - len(self._waiting)), "restarts": float(self.restarts)}

    def close(self) -> None:
        """Ends the actors."""
        for actor in self.actors:
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(actor)
