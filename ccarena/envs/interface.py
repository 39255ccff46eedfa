"""What all environments of a learned scheme share, single or vectorised: spaces, report, rewards and actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena.envs.actions import as_actions
from ccarena.envs.spaces import observation_space
from ccarena.errors import ScenarioError


@dataclass(frozen=True)
class Interface:
    """How one scheme is learned: spaces, report and reward."""

    observation: str
    """Name and version of the observation's layout."""
    observation_size: int
    """Length of an observation."""
    action_space: gym.Space[Any]
    """Of one world: `Discrete`, or a `Box` of shape (1,)."""
    report_fields: tuple[str, ...]
    """Columns of a report, `interval_ms` among them."""
    rewards: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    """From reports `[N, len(report_fields)]` to rewards `[N]`."""

    @cached_property
    def observation_space(self) -> gym.spaces.Box:
        """Of one world."""
        return observation_space(self.observation)

    @property
    def discrete(self) -> bool:
        """Whether actions are indices."""
        return isinstance(self.action_space, gym.spaces.Discrete)

    def check(self, observation: str) -> None:
        """Raises ScenarioError if the learner of a scenario observes something else."""
        if observation != self.observation:
            raise ScenarioError(
                f'the scenario\'s learner observes "{observation}", expected "{self.observation}": its scheme is '
                "another environment's"
            )

    def intervals_s(self, reports: NDArray[np.float32]) -> NDArray[np.float32]:
        """Lengths `[N]` of the intervals reported, s."""
        return reports[:, self.report_fields.index("interval_ms")] * np.float32(1e-3)

    def actions(self, given: Any, worlds: tuple[int, ...]) -> NDArray[np.float32]:
        """`given`, of shape `worlds` and the action space's, as float32 of shape `worlds`.

        Raises:
            ActionError: it has another shape, or is not made of numbers.
        """
        shape = worlds if self.discrete else (*worlds, 1)
        return as_actions(given, shape, "integers" if self.discrete else "numbers").reshape(worlds)
