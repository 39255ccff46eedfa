"""Observations of a policy, recorded while it decides on links of its own training distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.configs.link_distribution import distribution_json
from ccarena.configs.schema import TrainConfig
from ccarena.errors import ConfigError, TraceError
from ccarena.policies.artifact import Artifact
from ccarena.policies.trained_by import configuration_of

__all__ = ["Recording", "record"]

FLOWS = 16
"""Flows that decide at a time, each on its own link if the configuration trains one flow per link."""


@dataclass(frozen=True, repr=False)
class Recording:
    """Decisions of several flows."""

    observations: NDArray[np.float32]
    """Raw observations `[decisions, flows, length]`."""
    starts: NDArray[np.bool_]
    """Flags `[decisions, flows]` of decisions before which the flow's memory is zero."""

    def __repr__(self) -> str:
        return "Recording of {} decisions of {} flows, {} numbers each".format(*self.observations.shape)

    @property
    def rows(self) -> NDArray[np.float32]:
        """Returns all observations, `[N, length]`."""
        return self.observations.reshape(-1, self.observations.shape[2])

    def flows(self, most: int) -> list[NDArray[np.float32]]:
        """Returns the first `most` decisions of each flow, each `[N, length]`."""
        out = []
        for flow in range(self.observations.shape[1]):
            starts = np.flatnonzero(self.starts[:, flow])
            for start, end in zip(starts, [*starts[1:], len(self.starts)], strict=True):
                out.append(self.observations[start : min(start + most, end), flow])
        return out


def record(policy: Artifact, decisions: int = 4096, seed: int = 1) -> Recording:
    """Records at least `decisions` decisions of `policy` in float32, on links drawn from `seed`.

    If recorded traces of its training are missing here, they are left out. Raises ConfigError if the other training
    links cannot be made.
    """
    trained = configuration_of(policy)
    learners = trained.env.learners
    worlds = _core.VecWorlds(_domain(trained), worlds=max(1, FLOWS // learners), seed=seed, learners=learners)
    flows, length = max(1, FLOWS // learners) * learners, policy.interface.observation_len
    native = _core.Policy.of(policy.encode())
    seen, final = np.zeros((flows, length), np.float32), np.zeros((flows, length), np.float32)
    reports = np.zeros((flows, len(worlds.spec["report"])), np.float32)
    intervals_s = np.zeros(flows, np.float32)
    truncated, starts = np.zeros(flows, np.bool_), np.ones(flows, np.bool_)
    state = np.zeros((flows, native.state_len), np.float32)
    worlds.reset(seen)
    observations, begun = [], []
    for _ in range(-(-decisions // flows)):
        observations.append(seen.copy())
        begun.append(starts.copy())
        state[starts] = 0
        best, outputs = native.act(seen, state)
        actions = best.astype(np.float32) if policy.interface.actions else outputs.reshape(-1)
        worlds.step(np.ascontiguousarray(actions), seen, reports, intervals_s, truncated, final)
        starts = truncated.copy()
    return Recording(np.stack(observations), np.stack(begun))


def _domain(trained: TrainConfig) -> str:
    try:
        return distribution_json(trained)
    except (ConfigError, TraceError):
        kinds = trained.env.link.kinds.model_copy(update={"trace": 0.0})
        if not any(kinds.model_dump().values()):  # trained on recordings alone, which this machine lacks
            kinds = kinds.model_copy(update={"constant": 1.0})
        link = trained.env.link.model_copy(update={"kinds": kinds})
        return distribution_json(trained.model_copy(update={"env": trained.env.model_copy(update={"link": link})}))
