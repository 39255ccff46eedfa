"""Policies of Stable-Baselines3 and sb3-contrib: their deterministic actor as a plain module, and as an artifact.

Supported policies, whose actor gives what `predict(deterministic=True)` gives:
- actor-critic (PPO, A2C, TRPO, MaskablePPO) and recurrent ones (RecurrentPPO);
- TD3 and DDPG, SAC, TQC and CrossQ;
- DQN and QRDQN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ccarena.errors import MissingDependencyError, PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.interface import Bounds, FloatArray, Interface, continuous, said

try:
    from stable_baselines3.common.base_class import BaseAlgorithm
except ImportError as error:
    raise MissingDependencyError.for_extra("stable-baselines3", "train", "training with Stable-Baselines3") from error

import torch
from torch import Tensor, nn

from ccarena.policies import modules
from ccarena.policies.agreement import Decide
from ccarena.policies.networks import Scale
from ccarena.policies.sb3_observation import NormalisedObservation, normalisation_of, statistics_of

__all__ = ["Actor", "NormalisedObservation", "RecurrentActor", "actor", "predicting", "to_artifact"]


class Actor(nn.Module):
    """Actor: layers from normalised observations to logits, or to a continuous action."""

    def __init__(self, *layers: nn.Module, bounds: Bounds | None = None, tanh: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self._tanh, self._scale = tanh, None if bounds is None else Scale(bounds)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[N, length]` to `[N, outputs]`. With `bounds`, the layers' -1..1 are scaled to them."""
        y: Tensor = self.layers(x)
        if self._tanh:
            y = torch.tanh(y)
        return y if self._scale is None else self._scale(y)


class RecurrentActor(nn.Module):
    """An actor with an LSTM between features and layers; states `h` and `c` are `[N, layers, hidden]`."""

    def __init__(self, features: nn.Module, lstm: nn.LSTM, actor: Actor) -> None:
        super().__init__()
        self.features, self.lstm, self.actor = features, lstm, actor

    @property
    def state(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the states."""
        shape = (self.lstm.num_layers, self.lstm.hidden_size)
        return {"h": shape, "c": shape}

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the output and both next states."""
        state = (h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous())
        y, (h, c) = self.lstm(self.features(x).unsqueeze(0), state)
        return self.actor(y.squeeze(0)), h.transpose(0, 1), c.transpose(0, 1)


class _Latent(nn.Module):
    """Actor's half of an SB3 extractor of latent features."""

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor

    def forward(self, features: Tensor) -> Tensor:
        latent: Tensor = self.extractor.forward_actor(features)  # type: ignore[operator]
        return latent


class _Quantiles(nn.Module):
    """Layer that gives the mean of each action's quantiles (Dabney et al. 2018), `[N, quantiles · actions]`."""

    def __init__(self, quantiles: int, actions: int) -> None:
        super().__init__()
        self._shape = (quantiles, actions)

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, *self._shape).mean(dim=1)


def actor(model: BaseAlgorithm) -> Actor | RecurrentActor:
    """Returns the deterministic actor of `model`, from the normalised observation on.

    A `NormalisedObservation` is left out, since the artifact has it (`normalisation_of`).

    Raises PolicyError if the policy is of no known kind.
    """
    policy: Any = model.policy
    bounds = _bounds(model)
    if hasattr(policy, "mlp_extractor"):
        squashed = bool(getattr(policy, "squash_output", False))
        tanh = squashed and getattr(getattr(policy, "action_dist", None), "bijector", None) is not None
        layers = (_Latent(policy.mlp_extractor), policy.action_net)
        if hasattr(policy, "lstm_actor"):
            tail = Actor(*layers, bounds=bounds if squashed else None, tanh=tanh)
            return RecurrentActor(_features(policy), policy.lstm_actor, tail)
        return Actor(_features(policy), *layers, bounds=bounds if squashed else None, tanh=tanh)
    if hasattr(policy, "quantile_net"):
        net = policy.quantile_net
        return Actor(_features(net), net.quantile_net, _Quantiles(net.n_quantiles, int(net.action_space.n)))
    if hasattr(policy, "q_net"):
        return Actor(_features(policy.q_net), policy.q_net.q_net)
    if hasattr(policy, "actor") and hasattr(policy.actor, "latent_pi"):
        return Actor(_features(policy.actor), policy.actor.latent_pi, policy.actor.mu, bounds=bounds, tanh=True)
    if hasattr(policy, "actor") and isinstance(getattr(policy.actor, "mu", None), nn.Module):
        return Actor(_features(policy.actor), policy.actor.mu, bounds=bounds)
    raise _unknown(model)


def predicting(model: BaseAlgorithm) -> Decide:
    """Returns a model that decides by `model.predict(deterministic=True)`, on observations as its environment gives
    them.
    """
    wrappers = statistics_of(model)
    memory: Any = None

    def decide(observations: FloatArray, starts: NDArray[np.bool_]) -> NDArray[Any]:
        nonlocal memory
        seen = reduce(lambda x, normalised: normalised(x), wrappers, observations)
        actions, memory = model.predict(seen, memory, starts, deterministic=True)
        return continuous(np.asarray(actions).reshape(len(observations), -1))

    return decide


def to_artifact(
    model: BaseAlgorithm,
    interface: Interface,
    params: Mapping[str, float] | None = None,
    training: Mapping[str, Any] | None = None,
    trained_on: Sequence[Mapping[str, str]] = (),
    evaluation: Mapping[str, Any] | None = None,
) -> Artifact:
    """Returns the artifact of a trained `model`: its deterministic actor, which acts as `predict` does.

    The artifact normalises observations as the model's environment and extractor do (`normalisation_of`). `training`
    describes the training (JSON-serialisable).

    Raises PolicyError in these cases:
    - observations or actions are not those of `interface`;
    - the policy is of no known kind;
    - a wrapper or an operation cannot be part of an artifact;
    - the artifact decides otherwise than the model.
    """
    _check_spaces(model, interface)
    return modules.to_artifact(
        module := actor(model),
        replace(interface, normalisation=normalisation_of(model, _extractor(_owner(model)))),
        state=getattr(module, "state", None),
        model=predicting(model),
        name=type(model).__name__,
        params=params,
        training={"algorithm": type(model).__name__, "decisions": model.num_timesteps, **(training or {})},
        seed=model.seed or 0,
        trained_on=trained_on,
        evaluation=evaluation,
    )


def _check_spaces(model: BaseAlgorithm, interface: Interface) -> None:
    """Raises PolicyError unless the model's observation and action spaces fit `interface`."""
    name, space = type(model).__name__, model.observation_space
    if not isinstance(space, spaces.Box) or space.shape != (interface.observation_len,):
        raise PolicyError(
            f"{name}: it observes {space}; expected a vector of the scheme's {interface.observation_len} numbers"
        )
    taken = model.action_space
    if interface.bounds is None:
        expected = str(spaces.Discrete(len(interface.actions)))
        fits = taken == spaces.Discrete(len(interface.actions))
    else:
        expected = f"a Box of shape ({len(interface.bounds)},) from {said(interface.bounds)}"
        fits = _bounds(model) == tuple(
            (float(np.float32(low)), float(np.float32(high))) for low, high in interface.bounds
        )
    if not fits:
        raise PolicyError(f"{name}: its actions are {taken}; expected those of the scheme, {expected}")


def _bounds(model: BaseAlgorithm) -> Bounds | None:
    """Returns the bounds of a continuous action. Raises PolicyError unless it is a vector of numbers."""
    space = model.action_space
    if not isinstance(space, spaces.Box):
        return None
    if len(space.shape) != 1:
        raise PolicyError(
            f"actions of shape {space.shape}; a learned scheme's action is a number per actuator, such as (1,)"
        )
    return tuple(zip(space.low.tolist(), space.high.tolist(), strict=True))


def _owner(model: BaseAlgorithm) -> Any:
    """Returns the part of the policy that has the actor's extractor. Raises PolicyError if the policy is of no known
    kind.
    """
    policy: Any = model.policy
    parts = (getattr(policy, name, None) for name in ("quantile_net", "q_net", "actor"))
    owner = policy if hasattr(policy, "mlp_extractor") else next((part for part in parts if part is not None), None)
    if owner is None:
        raise _unknown(model)
    return owner


def _extractor(owner: Any) -> nn.Module:
    found: nn.Module = getattr(owner, "pi_features_extractor", None) or owner.features_extractor
    return found


def _features(owner: Any) -> nn.Module:
    extractor = _extractor(owner)
    return extractor.then if isinstance(extractor, NormalisedObservation) else extractor


def _unknown(model: BaseAlgorithm) -> PolicyError:
    return PolicyError(
        f"{type(model).__name__}: its policy, {type(model.policy).__name__}, is of no known kind; expected an "
        "actor-critic one (PPO, A2C, TRPO, RecurrentPPO), or that of TD3, DDPG, SAC, TQC, CrossQ, DQN or QRDQN"
    )
