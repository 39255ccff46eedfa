"""Implicit Q-learning (Kostrikov, Nair and Levine, ICLR 2022, arXiv:2110.06169) on datasets of trajectories."""

from __future__ import annotations

from typing import Any, cast

import torch

from ccarena.agents.algorithm import Arrays, Context
from ccarena.agents.critics import Critics, Perceptron
from ccarena.agents.learner import Learner
from ccarena.agents.offline import BehaviourCloning, Followed
from ccarena.agents.offline_policy import encoded
from ccarena.configs.learning import IqlConfig, OfflineQConfig

__all__ = ["Iql", "QLearning"]

LARGEST_WEIGHT = 100.0
"""Largest weight of an action, as in the paper."""


class QLearning(BehaviourCloning):
    """Algorithm on datasets whose critics weight the actions that the policy learns."""

    def _build(self, context: Context) -> None:
        self._q = cast(OfflineQConfig, context.config.algorithm)
        size = self._spec.size + self._spec.outputs
        self._critics = Critics(size, self._q.critic_hidden, self._q.target_rate, self._device)

    def _learned_rewards(self, followed: Followed) -> torch.Tensor:
        """Returns the rewards of decisions as learning counts them, `[R]`."""
        rewards = self._rewards[followed.rows]
        if self._q.reward_floor is not None:
            rewards = rewards.clamp(min=self._q.reward_floor)
        return self._q.reward_scale * rewards

    def _learners(self) -> dict[str, Learner]:
        critics = {f"critic{i}": critic for i, critic in enumerate(self._critics.learners)}
        return {**super()._learners(), **critics}

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns also critics and target critics."""
        arrays, rest = super().state()
        return arrays | self._critics.targets(), rest

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        super().restore(arrays, rest)
        self._critics.restore_targets(arrays)


class Iql(QLearning):
    """Algorithm `iql` (`ccarena.agents.algorithm.Algorithm`)."""

    def _build(self, context: Context) -> None:
        super()._build(context)
        self._iql = cast(IqlConfig, context.config.algorithm)
        self._value = Learner(Perceptron(self._spec.size, self._iql.critic_hidden), self._device)

    def _update(self, followed: Followed, rate: float) -> dict[str, float]:
        """Learns value function, policy and critics, in the paper's order."""
        most, rows = self._config.max_grad_norm, followed.rows
        seen, acted = self._observations[rows], encoded(self._spec, self._actions[rows])
        value = self._value.network(seen)
        above = self._critics.rate(seen, acted, target=True) - value
        weight = torch.where(above > 0, self._iql.expectile, 1 - self._iql.expectile)
        value_loss = (weight * above.square()).mean()
        self._value.step(value_loss, rate, most)
        with torch.no_grad():
            weights = (self._iql.temperature * above.detach()).exp().clamp(max=LARGEST_WEIGHT)
            returns = self._learned_rewards(followed) + self._iql.gamma * self._value.network(
                self._observations[rows + 1]
            )
        policy_loss = (weights * self._losses(followed)).mean()
        self._actor.step(policy_loss, rate, most)
        return {
            "policy_loss": float(policy_loss.detach()),
            "value_loss": float(value_loss.detach()),
            "critic_loss": self._critics.step(seen, acted, returns, rate, most),
            "action_weight": float(weights.mean()),
            "weights_cut": float((weights >= LARGEST_WEIGHT).float().mean()),
        }

    def _learners(self) -> dict[str, Learner]:
        return {**super()._learners(), "value": self._value}
