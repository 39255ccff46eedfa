"""How a worker of A3C acts: the actor's answers for a few dozen worlds at a time, thousands of times a second.

So few rows are a matter of microseconds, of which PyTorch's modules take most to find their operations. The network's
graph, which every policy artifact has (`ccarena.policies.graph`), needs a fraction of that in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.agents.actor_critic import ActorCritic
from ccarena.policies.export import to_graph
from ccarena.policies.graph import Graph, run
from ccarena.policies.spec import Spec

__all__ = ["Act", "acting", "live"]

FloatArray = NDArray[np.float32]
Act = Callable[[FloatArray], FloatArray]
"""Raw observations `[N, spec.size]` to the actor's answers `[N, outputs]`."""


def acting(network: ActorCritic, spec: Spec, device: torch.device) -> Act:
    """What answers with the weights that `network` has at the time, which must stay where they are in memory.

    By NumPy on the CPU, as an artifact of the network answers: without what only training uses. By PyTorch on another
    device, and where the graph has constants that were computed from the weights, as of a batch normalisation.
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
    """The graph of `actor`, whose tensors are the module's own memory; None if it has others than the module."""
    graph = to_graph(actor, size)
    own: dict[str, Tensor] = {**dict(actor.named_parameters()), **dict(actor.named_buffers())}
    for name, tensor in graph.tensors.items():
        found = own.get(name)
        if found is None or found.dtype != torch.float32 or not np.array_equal(found.detach().numpy(), tensor):
            return None
    return replace(graph, tensors={name: own[name].detach().numpy() for name in graph.tensors})
