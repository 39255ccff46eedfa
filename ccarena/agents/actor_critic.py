"""Actor, critic and the distributions of their actions: a choice among indices, or numbers within bounds."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccarena.agents.algorithm import Context
from ccarena.errors import ConfigError
from ccarena.policies.interface import Bounds
from ccarena.policies.networks import Normalisation, Squash, has_memory
from ccarena.policies.spec import Spec

FloatArray = NDArray[np.float32]
ACTOR_GAIN = 0.01
"""Gain of the actor's output at the start: nearly the uniform policy, whose entropy makes A3C explore."""


class Actions(Protocol):
    """Distribution of actions, given the actor's answer."""

    shape: tuple[int, ...]
    dtype: type[np.generic]

    @property
    def spread(self) -> FloatArray:
        """Returns the factor of the noise for each number of an action; empty for discrete actions."""

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Returns random numbers for `shape` decisions."""

    def sample(self, answer: FloatArray, noise: FloatArray, out: NDArray[Any]) -> None:
        """Draws an action per row of `answer` `[N, outputs]`."""

    def given(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Returns drawn actions as the environment takes them."""

    def evaluate(self, answer: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probability `[N]` of drawn actions, and the mean entropy."""


class Discrete:
    """Choice of one of n actions, by the softmax of n logits."""

    shape: tuple[int, ...] = ()
    dtype: type[np.generic] = np.int64
    spread: FloatArray = np.empty(0, np.float32)

    def __init__(self, count: int) -> None:
        self._count = count

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Returns Gumbel noise: argmax(logits + noise) is a sample of softmax(logits)."""
        waits = rng.standard_exponential((*shape, self._count), dtype=np.float32)
        return -np.log(waits + np.float32(1e-20))

    def sample(self, answer: FloatArray, noise: FloatArray, out: NDArray[Any]) -> None:
        """Draws the index of the largest sum."""
        np.argmax(answer + noise, axis=1, out=out)

    def given(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Returns the indices unchanged."""
        return actions

    def evaluate(self, answer: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probability and entropy of the softmax."""
        # Across rows, of which there are many: PyTorch takes several times as long along ones as short as these.
        log_probabilities = torch.log_softmax(answer.t(), dim=0)
        entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=0).mean()
        return log_probabilities.gather(0, actions.unsqueeze(0)).squeeze(0), entropy


class Gaussian:
    """Normal distribution of each y around the actor's answer, squashed into the bounds, with learned constant spreads.

    Log-probabilities and entropy are those of y: the correction for tanh has no gradient.
    """

    dtype: type[np.generic] = np.float32

    def __init__(self, bounds: Bounds, log_std: nn.Parameter) -> None:
        self._bounds, self._log_std = np.array(bounds).T, log_std
        self.shape: tuple[int, ...] = (len(bounds),)

    @property
    def spread(self) -> FloatArray:
        """Returns the standard deviation of each y."""
        return np.array([math.exp(each) for each in self._log_std.detach().tolist()], np.float32)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Returns standard normal noise."""
        return rng.standard_normal((*shape, *self.shape), dtype=np.float32)

    def sample(self, answer: FloatArray, noise: FloatArray, out: NDArray[Any]) -> None:
        """Draws y, before it is squashed."""
        np.add(answer, noise * self.spread, out=out)

    def given(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Returns y squashed into the bounds."""
        low, high = self._bounds
        return (low + (high - low) * (0.5 + 0.5 * np.tanh(actions))).astype(np.float32)

    def evaluate(self, answer: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probability and entropy of the normal distribution of y."""
        log_std = self._log_std
        scaled = (actions - answer) / log_std.exp()
        constant = log_std + 0.5 * math.log(2.0 * math.pi)
        return (-0.5 * scaled.square() - constant).sum(dim=1), (0.5 + constant).sum()


class Actor(nn.Module):
    """Actor as configured, on normalised observations. Raises ConfigError."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        spec: Spec = context.spec
        self.normalisation = Normalisation(spec)
        self.actor = context.network(spec.outputs)
        self.spread = None if spec.bounds is None else nn.Parameter(torch.zeros(spec.numbers))
        if has_memory(self.actor):
            raise ConfigError(
                f"network = {context.config.network.name}: it has memory, and {context.config.algorithm.name} learns "
                "without; take RecurrentPPO, or an algorithm of your own"
            )
        self._bounds, self._outputs = spec.bounds, spec.outputs

    @property
    def actor_size(self) -> int:
        """Returns the number of the actor's weights, the first ones of `parameters()`."""
        spread = 0 if self.spread is None else self.spread.numel()
        return spread + sum(p.numel() for p in self.actor.parameters())

    @property
    def actions(self) -> Actions:
        """Returns the distribution of actions that the actor's answer parametrises."""
        if self._bounds is None or self.spread is None:
            return Discrete(self._outputs)
        return Gaussian(self._bounds, self.spread)

    def act(self, observation: Tensor) -> Tensor:
        """Maps raw observations to the actor's answer `[N, outputs]`."""
        y: Tensor = self.actor(self.normalisation(observation))
        return y

    def policy(self) -> nn.Module:
        """Returns the actor on normalised observations, squashed into the bounds if it is continuous."""
        return self.actor if self._bounds is None else nn.Sequential(self.actor, Squash(self._bounds))


class ActorCritic(Actor):
    """Actor and critic as configured, without shared weights, on one normalisation. Raises ConfigError."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.critic = context.network(1)
        last = [layer for layer in self.actor.modules() if isinstance(layer, nn.Linear)]
        if last:
            with torch.no_grad():
                last[-1].weight.mul_(ACTOR_GAIN)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Maps raw observations `[N, spec.size]` to the actor's answer `[N, outputs]` and values `[N]`."""
        x = self.normalisation(observation)
        return self.actor(x), self.critic(x).squeeze(1)

    def value(self, observation: Tensor) -> Tensor:
        """Maps raw observations to the critic's values `[N]`."""
        y: Tensor = self.critic(self.normalisation(observation)).squeeze(1)
        return y
