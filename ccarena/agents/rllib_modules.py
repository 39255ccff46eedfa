"""Networks of the configuration as RLlib's modules, on raw observations.

Departure from RLlib's own: deviations of continuous actions are learned constants, as A3C has them, so that the
simulator's own threads can draw all actions of a rollout (`LearnedVectorEnv.rollout`).
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchSquashedGaussian,
)
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    InferenceOnlyAPI,
    TargetNetworkAPI,
    ValueFunctionAPI,
)
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from ccarena.agents.actor_critic import Actor, ActorCritic
from ccarena.agents.algorithm import Context

__all__ = ["CONTEXT", "OnPolicy", "Sac", "inputs_of"]

CONTEXT = "context"
"""Key of the parcel with the `Context` in a module's and a runner's settings."""


def inputs_of(actor: Actor, observation: Tensor) -> Tensor:
    """Returns the inputs of RLlib's distributions: logits, or means and the logarithms of deviations."""
    answer = actor.act(observation)
    return answer if actor.spread is None else torch.cat([answer, actor.spread.expand_as(answer)], dim=-1)


class OnPolicy(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI, InferenceOnlyAPI):
    """Actor and critic of PPO, APPO and IMPALA."""

    def setup(self) -> None:
        """Builds the networks."""
        settings: Any = self.model_config
        context: Context = settings[CONTEXT].open()
        self.network = ActorCritic(context)
        self.action_dist_cls = TorchCategorical if context.spec.bounds is None else TorchDiagGaussian

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: inputs_of(self.network, batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Returns the critic's values."""
        return self.network.value(batch[Columns.OBS])

    def make_target_networks(self) -> None:
        """Makes the copy of the networks that APPO clips against."""
        self.behind: Any = make_target_network(self.network)

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """Returns networks with their copies."""
        return [(self.network, self.behind)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer of the copy."""
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: inputs_of(self.behind, batch[Columns.OBS])}

    def get_non_inference_attributes(self) -> list[str]:
        """Returns the parts that workers do without."""
        return ["behind"]


class _Catalog:
    """Catalog of nothing: `Sac` builds its networks itself."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def get_action_dist_cls(self, framework: str) -> None:
        """Returns None: `Sac.setup` chooses the distribution."""


class _Acting(nn.Module):
    """Actor as RLlib's encoder."""

    def __init__(self, actor: Actor) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {ENCODER_OUT: inputs_of(self.actor, batch[Columns.OBS])}


class _Rating(nn.Module):
    """Hidden layers of a critic as RLlib's encoder: on the observation, and on the action if it is continuous."""

    def __init__(self, context: Context, hidden: list[int]) -> None:
        super().__init__()
        self.normalisation = context.normalisation()
        layers: list[nn.Module] = []
        inputs = context.spec.size + (0 if context.spec.bounds is None else context.spec.numbers)
        for units in hidden:
            layers += [nn.Linear(inputs, units), nn.ReLU()]
            inputs = units
        self.layers = nn.Sequential(*layers)

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        x = self.normalisation(batch[Columns.OBS])
        if Columns.ACTIONS in batch:
            x = torch.cat([x, batch[Columns.ACTIONS]], dim=-1)
        return {ENCODER_OUT: self.layers(x)}


class Sac(DefaultSACTorchRLModule):
    """Actor and critics of SAC. Continuous actions are from -1 to 1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "catalog_class": _Catalog})

    def setup(self) -> None:
        """Builds the networks, under the names that RLlib's learner expects."""
        settings: Any = self.model_config
        context: Context = settings[CONTEXT].open()
        bounds, hidden = context.spec.bounds, settings["critic_hidden"]
        self.twin_q = settings["twin_q"]
        self.pi_encoder, self.pi = _Acting(Actor(context)), nn.Identity()
        self.action_dist_cls = TorchCategorical if bounds is None else TorchSquashedGaussian
        if self.inference_only:
            return
        for name in ("qf", "qf_twin") if self.twin_q else ("qf",):
            setattr(self, f"{name}_encoder", _Rating(context, hidden))
            setattr(self, name, nn.Linear(hidden[-1], context.spec.outputs if bounds is None else 1))

    @property
    def network(self) -> Actor:
        """Returns the actor."""
        return self.pi_encoder.actor
