"""Export of a dataset to Minari (minari.farama.org), whose datasets other libraries of offline learning read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ccarena import __version__
from ccarena.data.dataset import Dataset, Rewards
from ccarena.errors import ConfigError, MissingDependencyError
from ccarena.policies.spec import Spec

__all__ = ["export"]


def export(dataset: Dataset, spec: Spec, reward: Rewards, name: str) -> int:
    """Writes the flows as episodes of the Minari dataset `name`, such as `ccarena/heuristics-v0`; returns their number.

    An episode ends with its run, so it is truncated. Raises MissingDependencyError without Minari, and ConfigError for
    a name that Minari refuses or has.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise MissingDependencyError.for_extra("minari", "minari", "an export to Minari") from error
    data = dataset.load(reward)
    buffers = []
    for number, (start, stop) in enumerate(zip(data.starts, data.stops, strict=True)):
        actions = data.actions[start : stop - 1]
        ended = np.zeros(stop - 1 - start, bool)
        truncated = ended.copy()
        truncated[-1] = True
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=data.observations[start:stop],
                actions=actions[:, 0].astype(np.int64) if spec.bounds is None else actions,
                rewards=list(data.rewards[start : stop - 1].astype(float)),
                terminations=list(ended),
                truncations=list(truncated),
            )
        )
    about: dict[str, Any] = {
        "algorithm_name": ", ".join(dataset.manifest["schemes"]),
        "description": f"Spec {spec.name} {spec.digest}, dataset {dataset.digest} of ccarena {__version__}",
        "observation_space": spec.observation_space,
        "action_space": spec.action_space,
        "data_format": "arrow",
    }
    try:
        minari.create_dataset_from_buffers(dataset_id=name, buffer=buffers, **about)
    except ValueError as error:
        raise ConfigError(f"--name {name}: Minari refuses it: {error}") from error
    return len(buffers)
