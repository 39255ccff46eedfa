"""Replay of SAC as arrays: RLlib's makes an object of each decision that it draws, which takes most of its time.

Used where the learner is in the training's own process. RLlib splits batches among learner processes by its own
episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import LearnerConnectorPipeline
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

__all__ = ["ArrayReplay", "take_arrays"]


class Drawn:
    """Decisions that were drawn, as RLlib counts and passes on an episode."""

    def __init__(self, columns: dict[str, NDArray[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[Columns.REWARDS])


class ArrayReplay:
    """Buffer of the last `capacity` decisions, a row of arrays each, as RLlib's training step uses one."""

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity, self._rng = capacity, np.random.Generator(np.random.PCG64([seed, 2]))
        self._rows: dict[str, NDArray[Any]] = {}
        self._next = self._count = 0

    def add(self, episodes: list[SingleAgentEpisode]) -> None:
        """Adds every decision of `episodes`, pieces that end with the observation after their last decision."""
        for columns in _columns(episodes):
            length = len(columns[Columns.REWARDS])
            if not self._rows:
                self._rows = {
                    name: np.zeros((self.capacity, *each.shape[1:]), each.dtype) for name, each in columns.items()
                }
            at = (self._next + np.arange(length)) % self.capacity
            for name, each in columns.items():
                self._rows[name][at] = each
            self._next = (self._next + length) % self.capacity
            self._count = min(self._count + length, self.capacity)

    def sample(self, num_items: int, **kwargs: Any) -> list[Drawn]:
        """Returns `num_items` decisions, each drawn uniformly of all."""
        drawn = self._rng.integers(self._count, size=num_items)
        return [Drawn({name: each[drawn] for name, each in self._rows.items()})]

    def get_metrics(self) -> dict[str, Any]:
        """Returns no figures."""
        return {}


def _columns(episodes: list[SingleAgentEpisode]) -> Iterator[dict[str, NDArray[Any]]]:
    for each in episodes:
        observations = np.asarray(each.observations.data)
        rewards = np.asarray(each.rewards.data, np.float32)
        terminated, truncated = np.zeros((2, len(rewards)), np.bool_)
        terminated[-1], truncated[-1] = each.is_terminated, each.is_truncated
        yield {
            Columns.OBS: observations[:-1],
            Columns.NEXT_OBS: observations[1:],
            Columns.ACTIONS: np.asarray(each.actions.data),
            Columns.REWARDS: rewards,
            Columns.TERMINATEDS: terminated,
            Columns.TRUNCATEDS: truncated,
        }


class _Batch(ConnectorV2):
    """Connector from drawn decisions to the learner's batch."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._device = device

    def __call__(self, *, episodes: Any, **kwargs: Any) -> dict[str, Any]:
        (drawn,) = episodes
        batch = {name: torch.from_numpy(each).to(self._device) for name, each in drawn.columns.items()}
        ones = torch.ones(len(drawn), device=self._device)
        return {DEFAULT_MODULE_ID: {**batch, "n_step": ones, "weights": ones}}


def take_arrays(learner: Any) -> None:
    """Has a learner of RLlib take what `ArrayReplay` draws."""
    learner._learner_connector = LearnerConnectorPipeline(connectors=[_Batch(learner._device)])
