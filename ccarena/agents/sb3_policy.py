"""The configured network inside Stable-Baselines3's policies, and the trained policy out of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from ccarena.agents.algorithm import Context
from ccarena.envs.spec import Spec
from ccarena.errors import ConfigError
from ccarena.policies.networks import Normalisation, Squash, has_memory

FEATURES = 64
"""Outputs of a network that SB3 puts its own linear heads on."""


class Extractor(BaseFeaturesExtractor):
    """Normalisation, and the configured network unless that is `mlp`, whose layers are SB3's own (`net_arch`)."""

    def __init__(self, observation_space: gym.spaces.Box, context: Context) -> None:
        own = context.config.network.name != "mlp"
        super().__init__(observation_space, features_dim=FEATURES if own else context.spec.size)
        self.normalisation = Normalisation(context.spec)
        self.network = nn.Sequential(context.network(FEATURES), nn.ReLU()) if own else nn.Sequential()
        if own and has_memory(self.network[0]):
            raise ConfigError(
                f"network = {context.config.network.name}: Stable-Baselines3 has memory of its own (RecurrentPPO) alone"
            )

    def forward(self, observations: Tensor) -> Tensor:
        """Raw observations `[N, spec.size]` to features."""
        y: Tensor = self.network(self.normalisation(observations))
        return y


class Quantiles(nn.Module):
    """Mean over the quantiles of each action's return, `[N, quantiles · actions]` to `[N, actions]`."""

    def __init__(self, quantiles: int, actions: int) -> None:
        super().__init__()
        self.mean = nn.Linear(quantiles * actions, actions, bias=False)
        with torch.no_grad():
            self.mean.weight.copy_(torch.eye(actions).repeat(1, quantiles) / quantiles)

    def forward(self, y: Tensor) -> Tensor:
        """See the class."""
        mean: Tensor = self.mean(y)
        return mean


class Recurrent(nn.Module):
    """SB3's recurrent actor, one decision at a time."""

    def __init__(self, before: nn.Sequential, lstm: nn.LSTM, after: nn.Sequential) -> None:
        super().__init__()
        self.before, self.lstm, self.after = before, lstm, after

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        """Of the LSTM, for one flow."""
        shape = (self.lstm.num_layers, self.lstm.hidden_size)
        return {"h": shape, "c": shape}

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[N, spec.size]` and the states before, `[N, layers, hidden]`, to the answer and the states after."""
        y, (h, c) = self.lstm(self.before(x).unsqueeze(0), (h.transpose(0, 1), c.transpose(0, 1)))
        return self.after(y.squeeze(0)), h.transpose(0, 1), c.transpose(0, 1)


def policy_of(model: BaseAlgorithm, spec: Spec) -> nn.Module:
    """The deterministic policy of a trained `model`, from normalised observations. Raises ConfigError if it has none."""
    policy: Any = model.policy
    if getattr(policy, "lstm_actor", None) is not None:
        before = [*_torso(policy.pi_features_extractor)]
        after = [*policy.mlp_extractor.policy_net, policy.action_net]
        return Recurrent(nn.Sequential(*before), policy.lstm_actor, nn.Sequential(*after))
    if getattr(policy, "mlp_extractor", None) is not None:
        extractor = getattr(policy, "pi_features_extractor", policy.features_extractor)
        return nn.Sequential(*_torso(extractor), *policy.mlp_extractor.policy_net, policy.action_net)
    if (actor := getattr(policy, "actor", None)) is not None and spec.bounds is not None:
        inner = [*actor.latent_pi, actor.mu] if hasattr(actor, "latent_pi") else _before_tanh(actor.mu)
        return nn.Sequential(*_torso(actor.features_extractor), *inner, Squash(spec.bounds))
    if (net := getattr(policy, "quantile_net", None)) is not None:
        quantiles = Quantiles(net.n_quantiles, spec.outputs)
        return nn.Sequential(*_torso(net.features_extractor), *net.quantile_net, quantiles)
    if (net := getattr(policy, "q_net", None)) is not None:
        return nn.Sequential(*_torso(net.features_extractor), *net.q_net)
    raise ConfigError(f"the policy of {type(model).__name__} is {type(policy).__name__}, which cannot be exported")


def _torso(extractor: Any) -> list[nn.Module]:
    """What stands between the normalised observation and SB3's layers."""
    return list(extractor.network)


def _before_tanh(mu: nn.Sequential) -> list[nn.Module]:
    return [layer for layer in mu if not isinstance(layer, nn.Tanh)]
