"""Check, before a policy is saved, that it takes the same actions as the trained model that it was converted from.

The policy's artifact and the model both decide on the same recorded observations of several flows. A policy with memory
has one state per flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.interface import FloatArray
from ccarena.policies.recording import record

__all__ = ["DECISIONS", "Decide", "checked"]

DECISIONS = 1024
"""Least number of recorded decisions in the comparison."""
ROUNDING = 1e-4
"""Rounding of float32 over a network's layers, as a share of the largest logit or continuous action."""
TIES = 0.01
"""Largest share of decisions in which two logits are equal to rounding, so that both actions are accepted."""

Decide = Callable[[FloatArray, NDArray[np.bool_]], NDArray[Any]]
"""Model as a function: raw observations `[N, length]` of N flows, and the flag `[N]` of flows that begin, to actions
`[N]`.
"""


def checked(policy: Artifact, model: Decide, name: str) -> Artifact:
    """Returns `policy` if it decides as `model`, which messages call `name`.

    Raises PolicyError with the number of different decisions if it does not.
    """
    recording = record(policy, DECISIONS)
    flows = recording.observations.shape[1]
    state = np.zeros((flows, policy.graph.state_len), np.float32)
    differs, close = [], []
    for observations, starts in zip(recording.observations, recording.starts, strict=True):
        state[starts] = 0
        outputs = policy.outputs(observations, state)
        theirs = np.asarray(model(observations, starts)).reshape(flows, -1)
        other, near = _compared(policy, outputs, theirs)
        differs.append(other)
        close.append(other & near)
    count, total = int(np.sum(differs)), int(np.size(differs))
    ties = int(np.sum(close))
    if count > ties or ties > TIES * total:
        step, flow = np.argwhere(np.array(differs))[0]
        raise PolicyError(
            f"{name}: the policy would decide otherwise than the model in {count} of {total} recorded decisions "
            f"(first: decision {step + 1} of flow {flow + 1}), and is not saved: expected a model that decides by "
            "its network and normalisation alone (docs/artifact.md)"
        )
    return policy


def _compared(
    policy: Artifact, outputs: FloatArray, theirs: NDArray[Any]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns the decisions whose actions differ, and those that differ only by rounding; both `[N]`."""
    if policy.interface.bounds is not None:
        low, high = np.array(policy.interface.bounds).T
        theirs = np.clip(theirs, low, high)
        scale = np.minimum(high - low, np.maximum(1.0, np.abs(theirs).max(axis=0)))
        # Not `>`, which is false of what is not a number.
        same = (np.abs(outputs - theirs) <= ROUNDING * scale).all(axis=1)
        return ~same, np.zeros_like(same)
    rows = np.arange(len(outputs))
    chosen = theirs[:, 0].astype(np.int64)
    scale = ROUNDING * np.abs(outputs).max(axis=1)
    return outputs.argmax(axis=1) != chosen, outputs.max(axis=1) - outputs[rows, chosen] <= scale
