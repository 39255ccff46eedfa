"""Critics: two networks from observation and action to the return, each with a target that follows it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.agents.learner import Learner
from ccarena.policies.networks import bind_flat

__all__ = ["Critics", "Perceptron"]


class Perceptron(nn.Module):
    """Fully connected layers with ReLUs, to one number."""

    def __init__(self, inputs: int, hidden: list[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [nn.Linear(inputs, units), nn.ReLU()]
            inputs = units
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, *parts: Tensor) -> Tensor:
        """Maps `[N, ...]` to `[N]`."""
        y: Tensor = self.layers(torch.cat(parts, dim=1)).squeeze(1)
        return y


class Critics:
    """Two critics and their targets. Actions are numbers, or one-hot indices."""

    def __init__(self, inputs: int, hidden: list[int], target_rate: float, device: torch.device) -> None:
        self.learners = [Learner(Perceptron(inputs, hidden), device) for _ in range(2)]
        self._targets = [deepcopy(each.network) for each in self.learners]
        self._target_weights = [bind_flat(network)[0] for network in self._targets]
        self._target_rate = target_rate

    def rate(self, seen: Tensor, acted: Tensor, target: bool = False) -> Tensor:
        """Returns the smaller of both returns, `[N]`; those of the targets if `target`."""
        networks = self._targets if target else [each.network for each in self.learners]
        with torch.no_grad():
            return torch.minimum(*(network(seen, acted) for network in networks))

    def step(self, seen: Tensor, acted: Tensor, returns: Tensor, rate: float, most: float) -> float:
        """Moves both to `returns`, `[N]`, and their targets after them; returns their mean squared error."""
        losses = []
        for learner, behind in zip(self.learners, self._target_weights, strict=True):
            loss = (learner.network(seen, acted) - returns).square().mean()
            learner.step(loss, rate, most)
            losses.append(float(loss.detach()))
            with torch.no_grad():
                behind.lerp_(learner.weights, self._target_rate)
        return float(np.mean(losses))

    def targets(self) -> dict[str, NDArray[Any]]:
        """Returns the weights of the targets."""
        return {f"target{i}": w.cpu().numpy().copy() for i, w in enumerate(self._target_weights)}

    def restore_targets(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores `targets()`."""
        for i, weights in enumerate(self._target_weights):
            weights.copy_(torch.from_numpy(arrays[f"target{i}"].copy()))
