"""Actor and critic of ACCT's agent (paper, §II-C and Fig. 3).

Each series of the observation goes through a 1-D convolution as wide as the series, so that every filter gives one
scalar; ReLU; these and the two scalar inputs are fully connected to a hidden layer of ReLUs; from there 15 logits
(actor) or one value (critic). Actor and critic share no weights. The filter count is not in the paper; 8 keeps
inference in a kernel at microseconds, Pensieve, which the design follows, has 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ccarena.acct import spec
from ccarena.errors import MissingDependencyError
from ccarena.policies import contract
from ccarena.policies.artifact import Artifact

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:
    raise MissingDependencyError.for_extra("torch", "train", "training a policy") from error


@dataclass(frozen=True)
class Architecture:
    """Size of the networks."""

    filters: int = 8
    """Filters of each convolution."""
    hidden: int = 128
    """Units of the hidden layer (paper: 128)."""


class Normalisation(nn.Module):
    """ACCT's fixed input normalisation, as buffers."""

    offset: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, value in contract.acct_normalisation().items():
            self.register_buffer(name, torch.from_numpy(value))

    def forward(self, observation: Tensor) -> Tensor:
        """`[N, OBSERVATION_SIZE]` to the same."""
        return torch.clamp((observation - self.offset) * self.scale, self.low, self.high)


class SeriesConv(nn.Module):
    """A 1-D convolution whose kernel is as wide as its input, hence one matrix product: weight `[F, C, HISTORY]`."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(filters, channels, spec.HISTORY))
        self.bias = nn.Parameter(torch.zeros(filters))
        nn.init.orthogonal_(self.weight, gain=2**0.5)

    def forward(self, series: Tensor) -> Tensor:
        """`[N, C · HISTORY]` to `[N, F]`."""
        return functional.linear(series, self.weight.flatten(1), self.bias)


class Trunk(nn.Module):
    """Normalised observation `[N, OBSERVATION_SIZE]` to hidden features `[N, hidden]`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        filters = architecture.filters
        self.conv = nn.ModuleDict({name: SeriesConv(channels, filters) for name, channels in spec.SERIES.items()})
        self.hidden = nn.Linear(len(spec.SERIES) * filters + len(spec.SCALARS), architecture.hidden)
        nn.init.orthogonal_(self.hidden.weight, gain=2**0.5)
        nn.init.zeros_(self.hidden.bias)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        parts = [conv(x[:, spec.SERIES_SLICES[name]]) for name, conv in self.conv.items()]
        features = functional.relu(torch.cat(parts, dim=1))
        return functional.relu(self.hidden(torch.cat((features, x[:, spec.SCALAR_SLICE]), dim=1)))


class Tower(Trunk):
    """A trunk and a linear output."""

    def __init__(self, architecture: Architecture, outputs: int, gain: float) -> None:
        super().__init__(architecture)
        self.out = nn.Linear(architecture.hidden, outputs)
        nn.init.orthogonal_(self.out.weight, gain=gain)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised observation `[N, OBSERVATION_SIZE]` to `[N, outputs]`."""
        return self.out(super().forward(x))


class ActorCritic(nn.Module):
    """Both networks."""

    def __init__(self, architecture: Architecture = Architecture()) -> None:
        super().__init__()
        self.architecture = architecture
        self.normalisation = Normalisation()
        # A small actor gain starts from the uniform policy, whose entropy is what A3C explores with.
        self.actor = Tower(architecture, len(spec.ACTIONS), gain=0.01)
        self.critic = Tower(architecture, 1, gain=1.0)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Raw observations `[N, OBSERVATION_SIZE]` to logits `[N, len(ACTIONS)]` and values `[N]`."""
        x = self.normalisation(observation)
        return self.actor(x), self.critic(x).squeeze(1)

    def logits(self, observation: Tensor) -> Tensor:
        """The actor alone: raw observations to logits `[N, len(ACTIONS)]`."""
        return self.actor(self.normalisation(observation))

    def value(self, observation: Tensor) -> Tensor:
        """The critic alone: raw observations to values `[N]`."""
        return self.critic(self.normalisation(observation)).squeeze(1)


def to_artifact(
    network: ActorCritic, training: Mapping[str, Any], seed: int, evaluation: Mapping[str, Any] | None = None
) -> Artifact:
    """The artifact of a trained `network`: its actor. `training` and `evaluation` must be JSON-serialisable."""
    from ccarena.policies.export import to_graph

    buffers = {name: value.cpu().numpy().copy() for name, value in network.normalisation.named_buffers()}
    trained_for = replace(contract.scheme(spec.OBSERVATION_ID), normalisation=contract.Normalisation(**buffers))
    graph = to_graph(network.actor, spec.OBSERVATION_SIZE)
    return Artifact.of(graph, trained_for, {}, training, seed, evaluation=evaluation)


def bind_flat(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Moves the parameters of `module` into one vector and their gradients into another; both are returned.

    Parameters and gradients become views, so that copying weights, clipping and optimising are single vector
    operations. Gradients must afterwards be zeroed in place, not set to None.
    """
    parameters = list(module.parameters())
    weights = torch.cat([p.detach().reshape(-1) for p in parameters])
    gradient = torch.zeros_like(weights)
    start = 0
    for p in parameters:
        stop = start + p.numel()
        p.data = weights[start:stop].view(p.shape)
        p.grad = gradient[start:stop].view(p.shape)
        start = stop
    return weights, gradient
