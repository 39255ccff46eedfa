"""Actions of A3C's workers: the actor's answers for a few dozen worlds at a time, thousands of times a second.

A batch this small takes microseconds, and PyTorch's modules spend most of them on dispatch. NumPy evaluates the
network's graph (`ccarena.policies.graph`), which every policy artifact has, in a fraction of that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.agents.actor_critic import Actor
from ccarena.policies.export import to_graph
from ccarena.policies.graph import Graph, run
from ccarena.policies.spec import Spec

__all__ = ["Act", "acting", "live"]

FloatArray = NDArray[np.float32]
Act = Callable[[FloatArray], FloatArray]
"""Function from raw observations `[N, spec.size]` to the actor's answers `[N, outputs]`."""


def acting(network: Actor, spec: Spec, device: torch.device) -> Act:
    """Returns a function that answers with the current weights of `network`, which must keep their place in memory.

    On the CPU, NumPy evaluates the network as its artifact does, without parts that only training uses. PyTorch does on
    another device, and if the graph has constants computed from weights, as of a batch normalisation.
    """
    graph = live(network.actor, spec.size) if device.type == "cpu" else None
    if graph is None:

        def by_torch(observations: FloatArray) -> FloatArray:
            with torch.inference_mode():
                y: FloatArray = network.act(torch.from_numpy(observations).to(device)).cpu().numpy()
            return y

        return by_torch
    known, normalised = graph, spec.interface.normalisation
    return lambda observations: run(known, normalised(observations))[0]


def live(actor: nn.Module, size: int) -> Graph | None:
    """Returns the graph of `actor` with the module's own memory as its tensors; None if some tensors are computed."""
    graph = to_graph(actor, size)
    own: dict[str, Tensor] = {**dict(actor.named_parameters()), **dict(actor.named_buffers())}
    for name, tensor in graph.tensors.items():
        found = own.get(name)
        if found is None or found.dtype != torch.float32 or not np.array_equal(found.detach().numpy(), tensor):
            return None
    return replace(graph, tensors={name: own[name].detach().numpy() for name in graph.tensors})
