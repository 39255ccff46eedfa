"""One learned flow on one simulated path, as a Gymnasium environment: what all schemes' have in common."""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.envs.interface import Interface
from ccarena.errors import ScenarioError

Act = TypeVar("Act")


class WorldEnv(gym.Env[NDArray[np.float32], Act]):
    """A native world with one learner. Subclasses say which scheme it is, in words and in their `Interface`."""

    def __init__(self, interface: Interface, documents: tuple[str | None, str | None]) -> None:
        """`documents` is (domain, scenario) as `ccarena.envs.domain.documents` gives it."""
        # Gymnasium types it by the observation, a box by any number.
        self.observation_space = interface.observation_space  # type: ignore[assignment]
        self.action_space = interface.action_space
        self._interface = interface
        self._documents = documents
        self._start(seed=0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode: the first of the run seeded with `seed`, else the one after the last."""
        super().reset(seed=seed)
        if seed is not None:
            self._start(seed)
        self._world.reset(self._episode)
        self._episode += 1
        return self._world.observe(0), {}

    def step(self, action: Act) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Puts `action` in force and runs to the next decision.

        The info is the report of the time between, by name, and `interval_s`, how long that was.

        Raises:
            ActionError: the action is not in the action space; nothing has moved.
        """
        given = self._interface.actions(action, ()).reshape(1)
        (report,), _, over = self._world.step(given)
        info = dict(zip(self._interface.report_fields, report[0].tolist(), strict=True))
        info["interval_s"] = info["interval_ms"] / 1e3
        return self._world.observe(0), float(self._interface.rewards(report)[0]), False, over, info

    def _start(self, seed: int) -> None:
        """A run from its first episode."""
        self._world = _core.SharedWorld(*self._documents, seed=seed)
        self._episode = 0
        self._interface.check(self._world.observation)
        if self._world.learners != 1:
            raise ScenarioError(
                f"the scenario has {self._world.learners} flows whose scheme is learned and has no policy; expected "
                "exactly one (ccarena.envs.multi.AcctParallelEnv takes several)"
            )
