"""Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), independent of the executor.

A `Worker` has its own worlds and its own copy of the weights: it collects a rollout and returns its gradient. The
`Learner` owns the shared weights and applies gradients in the order in which the executor delivers them. The worker
then continues with the weights that include its gradient.

Departures from the paper:
- a worker steps all of its worlds together, with one network evaluation for them;
- gradients are means over a rollout, not sums;
- RMSProp's state starts from the first gradient;
- rewards may be compressed from below (`reward_floor`).

Learning rates fall linearly to zero, as in the paper (§5.1). The compression is useful because one overflow of a buffer
costs as much as minutes of good decisions earn, and the critic would mostly learn to predict overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from ccarena.agents.actor_critic import ActorCritic
from ccarena.agents.algorithm import Context, Stats
from ccarena.agents.collecting import Sampler, Steps
from ccarena.configs.schema import A3CConfig
from ccarena.errors import PolicyError, TrainingError
from ccarena.policies.networks import bind_flat

FloatArray = NDArray[np.float32]
CALMER = "start a new run with lower algorithm.actor_lr and algorithm.critic_lr, or with algorithm.max_grad_norm"


def n_step_returns(
    rewards: FloatArray,
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    final_values: FloatArray,
    last_values: FloatArray,
    gamma: float,
) -> FloatArray:
    """Returns discounted returns `[T, N]` of every decision, up to the end of the rollout or episode.

    `final_values[t]` are the values of the observations in which episodes were truncated at t, used only where
    `truncated` is set. `last_values[N]` are those of the observations after the rollout. A truncated episode would have
    continued, so its return is completed by that value; a terminated one is over. No value of the next episode enters a
    return.
    """
    returns = np.empty_like(rewards)
    following = last_values
    for t in range(len(rewards) - 1, -1, -1):
        following = np.where(truncated[t], final_values[t], following)
        following = np.where(terminated[t], np.float32(0), following)
        returns[t] = following = rewards[t] + np.float32(gamma) * following
    return returns


@dataclass
class Update:
    """Gradient and statistics that a worker delivers."""

    gradient: FloatArray
    """Gradient of the loss by the flat weights, actor first, clipped per network."""
    stats: Stats
    """Statistics of the rollout."""


@dataclass
class Rollout(Steps):
    """Decisions of a worker's worlds, and their statistics for the learning curve."""

    stats: Stats


class Differentiator:
    """Differentiator that turns rollouts into gradients, with its own copy of the weights on the configured device."""

    def __init__(self, context: Context, config: A3CConfig, device: str) -> None:
        self._config = config
        self.device = torch.device(device)
        self.network = ActorCritic(context).to(self.device)
        self._weights, self._gradient = bind_flat(self.network)
        self._actor_size = self.network.actor_size

    def load(self, weights: FloatArray) -> None:
        """Takes the flat `weights`."""
        with torch.no_grad():
            self._weights.copy_(torch.from_numpy(np.array(weights)))

    def update(self, rollout: Rollout, entropy_weight: float) -> Update:
        """Returns the gradient of the rollout's loss at the weights that were loaded last."""
        stats = {**rollout.stats, **self._differentiate(rollout, entropy_weight)}
        return Update(self._gradient.cpu().numpy().copy(), stats)

    def _differentiate(self, rollout: Rollout, entropy_weight: float) -> Stats:
        """Puts the gradient of the rollout's loss into `_gradient`."""
        worlds = rollout.rewards.shape[1]
        tail = np.concatenate([rollout.following, *(final for _, _, final in rollout.finals)])
        with torch.inference_mode():
            tail_values = self.network.value(torch.from_numpy(tail).to(self.device)).cpu().numpy()
        final_values = np.zeros_like(rollout.rewards)
        start = worlds
        for t, cut, _ in rollout.finals:
            final_values[t, cut] = tail_values[start : start + len(cut)]
            start += len(cut)
        returns = torch.from_numpy(
            n_step_returns(
                self._learned_rewards(rollout.rewards),
                rollout.terminated,
                rollout.truncated,
                final_values,
                tail_values[:worlds],
                self._config.gamma,
            )
        )
        returns = returns.flatten().to(self.device)
        actions = torch.from_numpy(rollout.actions).flatten(0, 1).to(self.device)
        observations = torch.from_numpy(rollout.observations).flatten(0, 1).to(self.device)

        self._gradient.zero_()
        answer, values = self.network(observations)
        log_probability, entropy = self.network.actions.evaluate(answer, actions)
        advantage = returns - values.detach()
        policy_loss = -(log_probability * advantage).mean()
        value_loss = 0.5 * (returns - values).square().mean()
        # Actor and critic share no weights, so the sum needs no balance between the two.
        (policy_loss - entropy_weight * entropy + value_loss).backward()
        for part in (self._gradient[: self._actor_size], self._gradient[self._actor_size :]):
            if self._config.max_grad_norm is not None:
                part.mul_(torch.clamp(self._config.max_grad_norm / (part.norm() + 1e-6), max=1.0))

        count = float(rollout.rewards.size)
        return {
            "entropy": float(entropy.detach()) * count,
            "policy_loss": float(policy_loss.detach()) * count,
            "value_loss": float(value_loss.detach()) * count,
        }

    def _learned_rewards(self, given: FloatArray) -> FloatArray:
        """Returns rewards for learning: compressed below the floor, then scaled."""
        rewards = given
        if self._config.reward_floor is not None:
            floor = np.float32(self._config.reward_floor)
            rewards = np.maximum(given, floor)
            if self._config.reward_below == "log":
                rewards = rewards + floor * np.log(np.minimum(given, floor) / floor)
        return rewards * np.float32(self._config.reward_scale)


class Worker:
    """Worker that collects rollouts of `rollout_length` decisions in each of its worlds, and computes their gradients.

    `device` is the device of its network (default: the configured one).
    """

    def __init__(
        self,
        envs: gym.vector.VectorEnv,
        context: Context,
        config: A3CConfig,
        env_seed: int,
        sampling_seed: int,
        device: str | None = None,
    ) -> None:
        own = self._differentiator = Differentiator(context, config, device or context.config.device)
        self._sampler = Sampler(envs, own.network, context, own.device, config.rollout_length, env_seed, sampling_seed)

    def run(self, weights: FloatArray, entropy_weight: float) -> Update:
        """Collects one rollout with `weights` and returns its gradient at the same weights."""
        return self._differentiator.update(self.collect(weights), entropy_weight)

    def collect(self, weights: FloatArray) -> Rollout:
        """Collects one rollout with `weights`, in buffers that the next one overwrites. Raises TrainingError."""
        self._differentiator.load(weights)
        try:
            steps, stats = self._sampler.collect()
        except PolicyError as error:
            raise TrainingError(f"the actor has no finite answer any more ({error}); {CALMER}") from error
        return Rollout(**vars(steps), stats=stats)

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Returns everything that the next `run` depends on besides its arguments, as arrays and as JSON."""
        return self._sampler.state()

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        self._sampler.restore(arrays, rest)

    def close(self) -> None:
        """Closes the worlds."""
        self._sampler.close()


class Learner:
    """Learner with the shared weights and their RMSProp, whose statistics all workers share (Mnih et al., §4)."""

    def __init__(self, context: Context, config: A3CConfig) -> None:
        self._context = context
        self._config = config
        self._total_decisions = context.config.total_decisions
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.config.seed)
            network = ActorCritic(context)
        self.weights: FloatArray = bind_flat(network)[0].numpy()
        actor_size = network.actor_size
        self._rates = np.full_like(self.weights, config.critic_lr)
        self._rates[:actor_size] = config.actor_lr
        self._mean_square = np.zeros_like(self.weights)
        self.decisions = 0
        self.updates = 0

    @property
    def done(self) -> bool:
        """Returns whether training has seen `total_decisions`."""
        return self.decisions >= self._total_decisions

    @property
    def entropy_weight(self) -> float:
        """Returns the current weight of the entropy bonus."""
        start, end = self._config.entropy
        share = min(1.0, self.decisions / (self._config.entropy_decay_fraction * self._total_decisions))
        return start + (end - start) * share

    def apply(self, update: Update) -> None:
        """Applies one RMSProp step. Raises TrainingError if the gradient is not finite; the weights then stay as they
        are.
        """
        gradient = update.gradient
        if not np.isfinite(gradient).all():
            raise TrainingError(
                f"update {self.updates + 1}, after {self.decisions} decisions: the gradient is not finite; {CALMER}"
            )
        square = np.square(gradient)
        if self.updates == 0:
            self._mean_square[:] = square
        else:
            decay = np.float32(self._config.rms_decay)
            self._mean_square *= decay
            self._mean_square += (np.float32(1) - decay) * square
        left = max(0.0, 1.0 - self.decisions / self._total_decisions)
        step = (
            np.float32(left)
            * self._rates
            * gradient
            / (np.sqrt(self._mean_square) + np.float32(self._config.rms_epsilon))
        )
        # A new array: workers may still be reading the old one.
        self.weights = self.weights - step
        self.decisions += int(update.stats["decisions"])
        self.updates += 1

    def network(self) -> ActorCritic:
        """Returns the current network."""
        network = ActorCritic(self._context)
        torch.nn.utils.vector_to_parameters(torch.from_numpy(self.weights.copy()), network.parameters())
        return network

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Returns everything that the next `apply` depends on, as arrays and as JSON."""
        arrays: dict[str, NDArray] = {"weights": self.weights, "mean_square": self._mean_square.copy()}
        return arrays, {"decisions": self.decisions, "updates": self.updates}

    def restore(self, arrays: dict[str, NDArray], rest: dict[str, Any]) -> None:
        """Restores a `state()`. Raises ValueError if it belongs to networks of another size."""
        if arrays["weights"].shape != self.weights.shape:
            raise ValueError(f"{len(arrays['weights'])} weights, expected {len(self.weights)}")
        self.weights = arrays["weights"].astype(np.float32)
        self._mean_square = arrays["mean_square"].astype(np.float32)
        self.decisions, self.updates = int(rest["decisions"]), int(rest["updates"])
