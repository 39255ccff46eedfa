"""Implicit Q-learning (Kostrikov, Nair and Levine, ICLR 2022, arXiv:2110.06169) on datasets of trajectories.

Departure: the policy is deterministic, so its loss is the squared error (discrete actions: the cross-entropy) weighted
by exp(temperature × advantage), where the paper has a log-likelihood.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ccarena.agents.algorithm import Arrays, Context
from ccarena.agents.offline import BehaviourCloning, Learner
from ccarena.configs.learning import IqlConfig
from ccarena.policies.networks import bind_flat

__all__ = ["Iql"]

LARGEST_WEIGHT = 100.0
"""Largest weight of an action, as in the paper."""


class _Critic(nn.Module):
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


class Iql(BehaviourCloning):
    """Algorithm `iql` (`ccarena.agents.algorithm.Algorithm`)."""

    def _build(self, context: Context) -> None:
        self._iql = cast(IqlConfig, context.config.algorithm)
        size, numbers, hidden = self._spec.size, self._spec.outputs, self._iql.critic_hidden
        self._critics = [Learner(_Critic(size + numbers, hidden), self._device) for _ in range(2)]
        self._value = Learner(_Critic(size, hidden), self._device)
        self._targeted = [deepcopy(critic.network) for critic in self._critics]
        self._target_weights = [bind_flat(network)[0] for network in self._targeted]

    def _update(self, rows: NDArray[np.int64], fresh: NDArray[np.bool_], rate: float) -> dict[str, float]:
        """Learns value function, policy and critics from `rows`, in the paper's order."""
        most, flat = self._config.max_grad_norm, rows.ravel()
        seen, following, acted = self._observations[flat], self._observations[flat + 1], self._actions[flat]
        if self._spec.bounds is None:
            acted = functional.one_hot(acted, self._spec.outputs).float()
        with torch.no_grad():
            rated = torch.minimum(*(network(seen, acted) for network in self._targeted))
        value = self._value.network(seen)
        above = rated - value
        weight = torch.where(above > 0, self._iql.expectile, 1 - self._iql.expectile)
        value_loss = (weight * above.square()).mean()
        self._value.step(value_loss, rate, most)
        with torch.no_grad():
            weights = (self._iql.temperature * above.detach()).exp().clamp(max=LARGEST_WEIGHT)
            rewards = self._rewards[flat]
            if self._iql.reward_floor is not None:
                rewards = rewards.clamp(min=self._iql.reward_floor)
            target = self._iql.reward_scale * rewards + self._iql.gamma * self._value.network(following)
        policy_loss = (weights * self._losses(rows, fresh)).mean()
        self._actor.step(policy_loss, rate, most)
        losses = []
        for critic, weights_behind in zip(self._critics, self._target_weights, strict=True):
            loss = (critic.network(seen, acted) - target).square().mean()
            critic.step(loss, rate, most)
            losses.append(float(loss.detach()))
            with torch.no_grad():
                weights_behind.lerp_(critic.weights, self._iql.target_rate)
        return {
            "policy_loss": float(policy_loss.detach()),
            "value_loss": float(value_loss.detach()),
            "critic_loss": float(np.mean(losses)),
            "action_weight": float(weights.mean()),
        }

    def _learners(self) -> dict[str, Learner]:
        critics = {f"critic{i}": critic for i, critic in enumerate(self._critics)}
        return {**super()._learners(), **critics, "value": self._value}

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns also critics and target critics."""
        arrays, rest = super().state()
        return arrays | {f"target{i}": w.cpu().numpy().copy() for i, w in enumerate(self._target_weights)}, rest

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        super().restore(arrays, rest)
        for i, weights in enumerate(self._target_weights):
            weights.copy_(torch.from_numpy(arrays[f"target{i}"].copy()))
