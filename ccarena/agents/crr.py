"""Critic-regularised regression (Wang et al., NeurIPS 2020, arXiv:2006.15134) on datasets of trajectories.

The critics learn the return of the policy itself, and the policy learns the actions that they rate above its own. Sage
(SIGCOMM 2023) learns by it.

Departures: two critics, of which the smaller return counts; they have no memory, and the paper's have; the return is a
number, not a distribution.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ccarena.agents.algorithm import Context
from ccarena.agents.iql import QLearning
from ccarena.agents.offline import Followed
from ccarena.agents.offline_policy import encoded
from ccarena.configs.learning import CrrConfig

__all__ = ["Crr"]

LARGEST_WEIGHT = 20.0
"""Largest weight of an action, as in the paper."""


class Crr(QLearning):
    """Algorithm `crr` (`ccarena.agents.algorithm.Algorithm`)."""

    def _build(self, context: Context) -> None:
        super()._build(context)
        self._crr = cast(CrrConfig, context.config.algorithm)

    def _update(self, followed: Followed, rate: float) -> dict[str, float]:
        """Learns policy and critics from decisions."""
        most, rows = self._config.max_grad_norm, followed.rows
        seen, acted, following = (
            self._observations[rows],
            encoded(self._spec, self._actions[rows]),
            self._observations[rows + 1],
        )
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._context.config.seed * 1_000_003 + self._updates)
            own = self._rated(seen, followed.outputs, self._crr.samples).mean(0)
            advantage = self._critics.rate(seen, acted) - own
            if self._crr.weight == "binary":
                weights = (advantage > 0).float()
            else:
                weights = (self._crr.temperature * advantage).exp().clamp(max=LARGEST_WEIGHT)
            next_outputs = self._policy.network(following, *followed.memory)
            next_outputs = next_outputs[0] if followed.memory else next_outputs
            next_value = self._rated(following, next_outputs, 1, target=True)[0]
            returns = self._learned_rewards(followed) + self._crr.gamma * next_value
        policy_loss = (weights * self._losses(followed)).mean()
        self._actor.step(policy_loss, rate, most)
        return {
            "policy_loss": float(policy_loss.detach()),
            "critic_loss": self._critics.step(seen, acted, returns, rate, most),
            "action_weight": float(weights.mean()),
            "advantage": float(advantage.abs().mean()),
        }

    def _rated(self, seen: Tensor, outputs: Tensor, count: int, target: bool = False) -> Tensor:
        """Returns the critics' returns of `count` actions of the policy, `[count, R]`."""
        drawn = encoded(self._spec, self._distribution.sample(outputs, count))
        many = seen.expand(count, *seen.shape).reshape(-1, seen.shape[1])
        return self._critics.rate(many, drawn.reshape(len(many), -1), target).reshape(count, -1)
