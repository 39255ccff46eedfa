"""Policies of Stable-Baselines3 and sb3-contrib: their deterministic actor as a plain module, and as an artifact.

What `predict(deterministic=True)` gives, by the kind of the algorithm's policy: actor-critic ones (PPO, A2C, TRPO,
MaskablePPO), recurrent ones (RecurrentPPO), TD3 and DDPG, SAC, TQC and CrossQ, DQN and QRDQN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ccarena.errors import MissingDependencyError, PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.contract import Contract, Normalisation
from ccarena.policies.export import to_graph

try:
    from gymnasium import spaces
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
except ImportError as error:
    raise MissingDependencyError.for_extra("stable-baselines3", "train", "training with Stable-Baselines3") from error

import torch
from torch import Tensor, nn


class NormalisedObservation(BaseFeaturesExtractor):
    """The fixed input normalisation, which an artifact carries beside the network; then another extractor."""

    def __init__(
        self,
        observation_space: spaces.Box,
        normalisation: Normalisation,
        then: type[BaseFeaturesExtractor] | None = None,
        then_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        inner = None if then is None else then(observation_space, **dict(then_kwargs or {}))
        super().__init__(
            observation_space, features_dim=observation_space.shape[0] if inner is None else inner.features_dim
        )
        self.then: nn.Module = nn.Identity() if inner is None else inner
        for name, value in normalisation.tensors().items():
            self.register_buffer(name.rpartition(".")[2], torch.from_numpy(value.copy()))

    def forward(self, observations: Tensor) -> Tensor:
        """Raw observations `[N, length]` to features."""
        offset, scale, low, high = (self.get_buffer(name) for name in ("offset", "scale", "low", "high"))
        features: Tensor = self.then(torch.clamp((observations - offset) * scale, low, high))
        return features


class Actor(nn.Module):
    """Normalised observations to logits, or to a continuous action: layers one after the other."""

    def __init__(self, *layers: nn.Module, bounds: tuple[float, float] | None = None, tanh: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self._bounds, self._tanh = bounds, tanh

    def forward(self, x: Tensor) -> Tensor:
        """`[N, length]` to `[N, outputs]`. With `bounds`, the layers' -1..1 go to these."""
        y: Tensor = self.layers(x)
        if self._tanh:
            y = torch.tanh(y)
        if self._bounds is None:
            return y
        low, high = self._bounds
        return low + (high - low) * (0.5 + 0.5 * y)


class RecurrentActor(nn.Module):
    """An actor with an LSTM between features and layers; states `h` and `c` are `[N, layers, hidden]`."""

    def __init__(self, features: nn.Module, lstm: nn.LSTM, actor: Actor) -> None:
        super().__init__()
        self.features, self.lstm, self.actor = features, lstm, actor

    @property
    def state(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the states."""
        shape = (self.lstm.num_layers, self.lstm.hidden_size)
        return {"h": shape, "c": shape}

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Output and both states after it."""
        state = (h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous())
        y, (h, c) = self.lstm(self.features(x).unsqueeze(0), state)
        return self.actor(y.squeeze(0)), h.transpose(0, 1), c.transpose(0, 1)


class _Latent(nn.Module):
    """The actor's half of an SB3 extractor of latent features."""

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor

    def forward(self, features: Tensor) -> Tensor:
        latent: Tensor = self.extractor.forward_actor(features)  # type: ignore[operator]
        return latent


class _Quantiles(nn.Module):
    """The mean of each action's quantiles (Dabney et al. 2018), from all of them `[N, quantiles · actions]`."""

    def __init__(self, quantiles: int, actions: int) -> None:
        super().__init__()
        self._shape = (quantiles, actions)

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, *self._shape).mean(dim=1)


def actor(model: BaseAlgorithm) -> Actor | RecurrentActor:
    """The deterministic actor of `model`, from the normalised observation on.

    A `NormalisedObservation` is left out, since the artifact has it; with another extractor of features the model must
    have been trained on observations that are normalised already.

    Raises PolicyError if the policy is of no known kind.
    """
    policy: Any = model.policy
    bounds: tuple[float, float] | None = None
    if isinstance(model.action_space, spaces.Box):
        if model.action_space.shape != (1,):
            raise PolicyError(
                f"actions of shape {model.action_space.shape}; a learned scheme's action is one number, (1,)"
            )
        bounds = (float(model.action_space.low[0]), float(model.action_space.high[0]))
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
    raise PolicyError(
        f"{type(model).__name__}: its policy, {type(policy).__name__}, is of no known kind; expected an actor-critic "
        "one (PPO, A2C, TRPO, RecurrentPPO), or that of TD3, DDPG, SAC, TQC, CrossQ, DQN or QRDQN"
    )


def _features(owner: Any) -> nn.Module:
    extractor = getattr(owner, "pi_features_extractor", None) or owner.features_extractor
    return extractor.then if isinstance(extractor, NormalisedObservation) else extractor


def to_artifact(
    model: BaseAlgorithm,
    contract: Contract,
    params: Mapping[str, float] | None = None,
    training: Mapping[str, Any] | None = None,
    trained_on: Sequence[Mapping[str, str]] = (),
    evaluation: Mapping[str, Any] | None = None,
) -> Artifact:
    """The artifact of a trained `model`: its deterministic actor. `training` says how (JSON-serialisable).

    Raises PolicyError if the policy is of no known kind, or has an operation that a graph has not.
    """
    module = actor(model)
    graph = to_graph(module, contract.observation_len, state=getattr(module, "state", None))
    training = {"algorithm": type(model).__name__, "decisions": model.num_timesteps, **(training or {})}
    return Artifact.of(graph, contract, params, training, model.seed or 0, trained_on, evaluation)
