"""Network of the configuration inside Stable-Baselines3's policies."""

from __future__ import annotations

import gymnasium as gym
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor
from torch.nn import functional

from ccarena.agents.algorithm import Context
from ccarena.errors import ConfigError
from ccarena.policies.networks import has_memory

FEATURES = 64
"""Outputs of a network that SB3 puts its own linear heads on."""


class Features(BaseFeaturesExtractor):
    """Features of a network other than `mlp` (whose layers are SB3's own), on normalised observations."""

    def __init__(self, observation_space: gym.spaces.Box, context: Context) -> None:
        super().__init__(observation_space, features_dim=FEATURES)
        self.network = context.network(FEATURES)
        if has_memory(self.network):
            raise ConfigError(
                f"network = {context.config.network.name}: Stable-Baselines3 has memory of its own (RecurrentPPO) alone"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[N, spec.size]` to features."""
        return functional.relu(self.network(x))
