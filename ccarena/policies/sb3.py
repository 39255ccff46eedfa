"""ACCT's networks as a Stable-Baselines3 policy, for its on-policy algorithms (A2C, PPO)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ccarena.acct import spec
from ccarena.errors import MissingDependencyError, PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.networks import ActorCritic, Architecture, Normalisation, Trunk

try:
    from gymnasium import spaces
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
except ImportError as error:
    raise MissingDependencyError.for_extra("stable-baselines3", "train", "training with Stable-Baselines3") from error

from torch import Tensor, nn


class NormalisedObservation(BaseFeaturesExtractor):
    """The fixed input normalisation, which actor and critic share."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, features_dim=spec.OBSERVATION_SIZE)
        self.normalisation = Normalisation()

    def forward(self, observations: Tensor) -> Tensor:
        """Raw observations `[N, OBSERVATION_SIZE]` to the same, normalised."""
        normalised: Tensor = self.normalisation(observations)
        return normalised


class Trunks(nn.Module):
    """The two networks without their outputs, in the place of SB3's `MlpExtractor`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.latent_dim_pi = self.latent_dim_vf = architecture.hidden
        self.actor = Trunk(architecture)
        self.critic = Trunk(architecture)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised observations to the hidden features of actor and critic."""
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        """Those of the actor."""
        hidden: Tensor = self.actor(features)
        return hidden

    def forward_critic(self, features: Tensor) -> Tensor:
        """Those of the critic."""
        hidden: Tensor = self.critic(features)
        return hidden


class AcctPolicy(ActorCriticPolicy):
    """`PPO(AcctPolicy, envs, policy_kwargs={"filters": 8, "hidden": 128})`; other arguments are SB3's."""

    def __init__(self, *args: Any, filters: int = 8, hidden: int = 128, **kwargs: Any) -> None:
        self.architecture = Architecture(filters, hidden)
        kwargs["features_extractor_class"] = NormalisedObservation
        super().__init__(*args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Trunks(self.architecture).to(self.device)  # type: ignore[assignment]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | asdict(self.architecture)


def to_artifact(model: BaseAlgorithm, training: Mapping[str, Any]) -> Artifact:
    """The artifact of a trained SB3 `model`; `training` says how (JSON-serialisable).

    Raises PolicyError if the model's policy is not an `AcctPolicy`.
    """
    policy = model.policy
    if not isinstance(policy, AcctPolicy):
        raise PolicyError(f"the model's policy is {type(policy).__name__}, expected AcctPolicy")
    network = ActorCritic(policy.architecture)
    pieces: dict[str, Any] = {
        "normalisation": policy.features_extractor.normalisation,
        "actor": policy.mlp_extractor.actor,
        "actor.out": policy.action_net,
        "critic": policy.mlp_extractor.critic,
        "critic.out": policy.value_net,
    }
    network.load_state_dict(
        {f"{name}.{key}": value for name, piece in pieces.items() for key, value in piece.state_dict().items()}
    )
    training = {"algorithm": type(model).__name__, "decisions": model.num_timesteps, **training}
    return Artifact.of(network, training, model.seed or 0)
