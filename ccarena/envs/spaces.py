"""Observation spaces of the learned schemes, with the bounds that the native schemes keep to."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from ccarena import _core


def observation_space(observation: str) -> gym.spaces.Box:
    """The space of the observation whose layout has this name and version, such as "acct-1"; float32, finite bounds.

    Raises:
        KeyError: no scheme observes that.
    """
    for scheme in _core.schemes():
        if scheme["learned"] and scheme["observation"] == observation:
            lengths = [_length(entry) for entry in scheme["observation_entries"]]
            low, high = np.repeat(np.array(scheme["observation_bounds"], np.float32), lengths, axis=0).T
            return gym.spaces.Box(low, high, dtype=np.float32)
    raise KeyError(observation)


def _length(entry: str) -> int:
    """How many values the entry `name` or `name[length]` of an observation stands for."""
    return int(entry.partition("[")[2].rstrip("]") or 1)
