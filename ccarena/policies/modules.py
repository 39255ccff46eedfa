"""PyTorch module as a policy: its graph, compared with the module on recorded observations."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ccarena.policies.agreement import Decide, checked
from ccarena.policies.artifact import Artifact
from ccarena.policies.export import to_graph
from ccarena.policies.interface import FloatArray, Interface, continuous

__all__ = ["deciding", "to_artifact"]


def to_artifact(
    module: nn.Module,
    interface: Interface,
    *,
    state: Mapping[str, Sequence[int]] | None = None,
    model: Decide | None = None,
    name: str | None = None,
    **provenance: Any,
) -> Artifact:
    """Returns the artifact of `module`, which maps normalised observations to logits or to the continuous action.

    Arguments:
        interface: what it was trained for.
        state: the recurrent states by name with their shapes, as for `export.to_graph`.
        model: what decides in training, if that is more than the module; the module by default.
        name: what messages call the model; the class's name by default.
        provenance: further arguments of `Artifact.of`, such as `training` and `seed`.

    Raises PolicyError for an operation that a graph does not have, and if artifact and model decide differently.
    """
    artifact = Artifact.of(to_graph(module, interface.observation_len, state=state), interface, **provenance)
    artifact.encode()  # what does not fit the interface is said before anything is compared
    return checked(artifact, model or deciding(module, interface, state), name or type(module).__name__)


def deciding(module: nn.Module, interface: Interface, state: Mapping[str, Sequence[int]] | None = None) -> Decide:
    """Returns a model that decides by `module` itself in PyTorch, on observations normalised by `interface`."""
    network = copy.deepcopy(module).cpu().float().eval()
    shapes = [tuple(shape) for shape in (state or {}).values()]
    memory: list[torch.Tensor] = []

    def decide(observations: FloatArray, starts: NDArray[np.bool_]) -> NDArray[Any]:
        if not memory:
            memory.extend(torch.zeros(len(observations), *shape) for shape in shapes)
        for part in memory:
            part[torch.from_numpy(starts)] = 0
        with torch.no_grad():
            found = network(torch.from_numpy(interface.normalisation(observations)), *memory)
        y, *memory[:] = found if shapes else (found,)
        y = y.reshape(len(observations), -1).numpy()
        return y.argmax(axis=1) if interface.bounds is None else continuous(y)

    return decide
