"""Policies that learn from datasets: a distribution of actions in training, and its mean as the artifact decides.

The likelihood of a mixture of Gaussians makes small actions count: among a scheme's 100 changes of the window per
second, all but a few are a thousandth of the largest, and they decide where the window goes. The mean of the mixture is
what Sage acts by (Yen, Abbasloo and Chao, SIGCOMM 2023), too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ccarena.errors import ConfigError
from ccarena.policies.interface import Bounds
from ccarena.policies.networks import Scale, states_of
from ccarena.policies.spec import Spec

__all__ = ["Choice", "Distribution", "Mixture", "OfflinePolicy", "Standardised", "encoded", "offline_policy", "targets"]

CLIPPED = 5.0
"""Deviations at which a standardised observation is cut."""
NARROWEST = 1e-3
"""Least deviation of a Gaussian; actions are from -1 to 1. Most of a scheme's changes are zero, and would have none."""
FIRST_DEVIATION = -3.0
SPREAD = 0.2
"""Means of the first Gaussians lie within this of 0."""
GAIN = 0.3
"""Factor on the network's outputs."""


def targets(spec: Spec, actions: NDArray[np.float32]) -> Tensor:
    """Returns actions `[R, numbers]` as algorithms on datasets learn them: indices `[R]`, or numbers from -1 to 1."""
    if spec.bounds is None:
        return torch.from_numpy(actions[:, 0].astype(np.int64))
    low, high = np.array(spec.bounds, np.float32).T
    return torch.from_numpy(2 * (actions - low) / (high - low) - 1)


def encoded(spec: Spec, actions: Tensor) -> Tensor:
    """Returns `targets` as critics see them: numbers, or one-hot indices."""
    return actions if spec.bounds is not None else functional.one_hot(actions, spec.outputs).float()


class Standardised(nn.Module):
    """Layer that gives each value of an observation the mean 0 and the deviation 1 over a dataset."""

    mean: Tensor
    factor: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("factor", torch.ones(size))

    def fit(self, observations: Tensor) -> None:
        """Takes mean and deviation of `observations`, `[R, size]`."""
        self.mean.copy_(observations.mean(0))
        self.factor.copy_(1.0 / (observations.std(0, correction=0) + 1e-3))

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[N, size]` to `[N, size]`."""
        return torch.clamp((x - self.mean) * self.factor, -CLIPPED, CLIPPED)


class Distribution(nn.Module, ABC):
    """Distribution of actions that a network's outputs `[N, outputs]` describe."""

    outputs: int

    @abstractmethod
    def forward(self, y: Tensor) -> Tensor:
        """Returns the decision, as an artifact has it."""

    @abstractmethod
    def log_likelihood(self, y: Tensor, actions: Tensor) -> Tensor:
        """Returns the logarithm of the likelihood of `actions`, `[N]`."""

    @abstractmethod
    def sample(self, y: Tensor, count: int) -> Tensor:
        """Draws actions, `[count, N]` or `[count, N, numbers]`."""


class Choice(Distribution):
    """Distribution of an index; the outputs are logits."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, y: Tensor) -> Tensor:
        """Returns the logits."""
        return y

    def log_likelihood(self, y: Tensor, actions: Tensor) -> Tensor:
        """Returns the logarithm of the likelihood of indices `[N]`."""
        return -functional.cross_entropy(y, actions, reduction="none")

    def sample(self, y: Tensor, count: int) -> Tensor:
        """Draws indices, `[count, N]`."""
        return torch.multinomial(torch.softmax(y, 1), count, replacement=True).T


class Mixture(Distribution):
    """Mixture of Gaussians over one or several numbers from -1 to 1."""

    start: Tensor

    def __init__(self, bounds: Bounds, components: int) -> None:
        super().__init__()
        self.numbers, self.components = len(bounds), components
        self.outputs = components * (1 + 2 * self.numbers)
        self.scale = Scale(bounds)
        place = torch.linspace(-1, 1, components) if components > 1 else torch.zeros(1)
        means = (SPREAD * place.sign() * place.square()).repeat(self.numbers)
        deviations = torch.full((components * self.numbers,), FIRST_DEVIATION)
        self.register_buffer("start", torch.cat([torch.zeros(components), means, deviations]))

    def forward(self, y: Tensor) -> Tensor:
        """Returns the mean within the bounds, `[N, numbers]`."""
        y, count = GAIN * y + self.start, self.components
        share = torch.softmax(y[:, :count], 1)
        parts = [
            (share * y[:, count * (1 + i) : count * (2 + i)]).mean(1, keepdim=True) * float(count)
            for i in range(self.numbers)
        ]
        mean: Tensor = self.scale(torch.clamp(torch.cat(parts, dim=1), -1.0, 1.0))
        return mean

    def _parts(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns logarithms of shares `[N, K]`, and means and deviations `[N, numbers, K]`."""
        y, shape = GAIN * y + self.start, (-1, self.numbers, self.components)
        width = self.components * self.numbers
        share, mean, deviation = y.split([self.components, width, width], dim=1)
        widths = NARROWEST + SPREAD * functional.softplus(deviation)
        return functional.log_softmax(share, 1), mean.reshape(shape), widths.reshape(shape)

    def log_likelihood(self, y: Tensor, actions: Tensor) -> Tensor:
        """Returns the logarithm of the density at `actions`, `[N, numbers]`."""
        share, mean, deviation = self._parts(y)
        distance = (actions.unsqueeze(2) - mean) / deviation
        each = -0.5 * distance.square() - deviation.log() - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(share + each.sum(1), 1)

    def sample(self, y: Tensor, count: int) -> Tensor:
        """Draws actions, `[count, N, numbers]`."""
        share, mean, deviation = self._parts(y)
        which = torch.multinomial(share.exp(), count, replacement=True).T
        at = which[:, :, None, None].expand(-1, -1, self.numbers, 1)
        chosen, wide = (x.expand(count, *x.shape).gather(3, at).squeeze(3) for x in (mean, deviation))
        return (chosen + wide * torch.randn_like(wide)).clamp(-1, 1)


class OfflinePolicy(nn.Module):
    """Network with the observations of a dataset in front and a distribution of actions behind."""

    def __init__(self, network: nn.Module, distribution: Distribution, size: int) -> None:
        super().__init__()
        self.standardised = Standardised(size)
        self.network, self.distribution = network, distribution
        self.state = states_of(network)

    def forward(self, x: Tensor) -> Tensor:
        """Maps observations to the decision."""
        decision: Tensor = self.distribution(self.network(self.standardised(x)))
        return decision


class _Remembering(OfflinePolicy):
    """Policy with one state."""

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Maps observations and the state to the decision and the next state."""
        y, h = self.network(self.standardised(x), h)
        return self.distribution(y), h


class _RememberingTwo(OfflinePolicy):
    """Policy with two states, such as an LSTM's."""

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Maps observations and the states to the decision and the next states."""
        y, h, c = self.network(self.standardised(x), h, c)
        return self.distribution(y), h, c


def offline_policy(network: nn.Module, distribution: Distribution, size: int) -> OfflinePolicy:
    """Returns the policy of `network` with its memory. Raises ConfigError if it has more than two states."""
    states = len(states_of(network))
    if states > 2:
        raise ConfigError(f"network: it has {states} states; learning from datasets takes two at most")
    return (OfflinePolicy, _Remembering, _RememberingTwo)[states](network, distribution, size)
