"""Normalisation of an SB3 model: the wrappers around its environment, combined into one normalisation.

`VecNormalize`, Gymnasium's `NormalizeObservation` and the extractor `NormalisedObservation` have the form clip((x -
offset) · scale, low, high), as has a chain of them. Other wrappers that change an observation or action are refused by
name, since an artifact could not contain them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import NormalizeObservation
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnvWrapper, VecNormalize
from torch import Tensor, nn

from ccarena.errors import PolicyError
from ccarena.policies.interface import FloatArray, Normalisation

__all__ = ["NormalisedObservation", "Statistics", "normalisation_of", "statistics_of"]

NEUTRAL = {
    *("Autoreset", "DictInfoToList", "HumanRendering", "Monitor", "NormalizeReward", "OrderEnforcing"),
    *("PassiveEnvChecker", "RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "TimeLimit"),
    *("VecCheckNan", "VecMonitor"),
}
"""Wrappers of Gymnasium and Stable-Baselines3 that change neither observations nor actions, besides those of
rewards.
"""


class NormalisedObservation(BaseFeaturesExtractor):
    """Extractor with the fixed input normalisation, which an artifact stores separately, followed by another
    extractor.
    """

    def __init__(
        self,
        observation_space: gym.spaces.Box,
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

    @property
    def normalisation(self) -> Normalisation:
        """Returns the normalisation that precedes the other extractor."""
        return Normalisation(*(self.get_buffer(name).numpy(force=True) for name in ("offset", "scale", "low", "high")))

    def forward(self, observations: Tensor) -> Tensor:
        """Maps raw observations `[N, length]` to features."""
        offset, scale, low, high = (self.get_buffer(name) for name in ("offset", "scale", "low", "high"))
        features: Tensor = self.then(torch.clamp((observations - offset) * scale, low, high))
        return features


class Statistics:
    """Normalisation by the current running statistics of a wrapper."""

    def __init__(self, mean: NDArray[Any], variance: NDArray[Any], epsilon: float, limit: float) -> None:
        self._mean, self._deviation, self._limit = mean, np.sqrt(variance + epsilon), limit

    def __call__(self, observations: NDArray[Any]) -> FloatArray:
        """Normalises observations `[N, length]` as the wrapper does."""
        scaled = (observations - self._mean) / self._deviation
        return np.clip(scaled, -self._limit, self._limit).astype(np.float32)

    def folded(self) -> Normalisation:
        """Returns the same normalisation as an artifact stores it."""
        limit = np.full(len(self._mean), self._limit)
        return Normalisation.of(self._mean, 1 / self._deviation, -limit, limit)


def normalisation_of(model: BaseAlgorithm, extractor: nn.Module) -> Normalisation:
    """Returns the normalisation of raw observations in front of the network of `model`; identity if there is none.

    Raises PolicyError for a wrapper that changes observations or actions in another way, by name.
    """
    parts = [each.folded() for each in statistics_of(model)]
    if isinstance(extractor, NormalisedObservation):
        parts.append(extractor.normalisation)
    if parts:
        return reduce(Normalisation.then, parts)
    neutral = np.ones(model.observation_space.shape or ())
    return Normalisation.of(0 * neutral, neutral, -np.inf * neutral, np.inf * neutral)


def statistics_of(model: BaseAlgorithm) -> list[Statistics]:
    """Returns the running statistics by which the environment of `model` normalises, the first applied first.

    Raises PolicyError as `normalisation_of` does.
    """
    envs = model.get_env()
    if envs is None:
        raise PolicyError(
            f"{type(model).__name__} has no environment, whose wrappers may change what it observes: give it the one "
            "that it was trained in (model.set_env(env), or load(file, env=env); VecNormalize.load for its statistics)"
        )
    found = []
    for layer in _layers(envs):
        name = type(layer).__name__
        if isinstance(layer, VecNormalize):
            if layer.norm_obs:
                found.append(Statistics(*_moments(layer.obs_rms, name), layer.epsilon, layer.clip_obs))
        elif isinstance(layer, NormalizeObservation):
            if envs.num_envs > 1:
                raise PolicyError(
                    f"{name}: each of the {envs.num_envs} environments has statistics of its own; expected one for "
                    "all: VecNormalize around them"
                )
            found.append(Statistics(*_moments(layer.obs_rms, name), layer.epsilon, np.inf))
        elif not _is_neutral(layer):
            raise PolicyError(
                f"{name}: this wrapper may change observations or actions, and the policy would lack it; expected "
                "VecNormalize, NormalizeObservation, or wrappers of rewards alone"
            )
    return found[::-1]


def _moments(rms: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if not hasattr(rms, "mean"):
        raise PolicyError(f"{name}: it normalises a dictionary of observations; expected one vector")
    return np.array(rms.mean, np.float64), np.array(rms.var, np.float64)


def _layers(envs: Any) -> Iterator[Any]:
    """Yields the wrappers around the worlds, the outermost first."""
    while isinstance(envs, VecEnvWrapper):
        yield envs
        envs = envs.venv
    if isinstance(envs, SubprocVecEnv):
        # Those worlds are in other processes, which can be asked one thing alone.
        for kind in (gym.ObservationWrapper, gym.ActionWrapper):
            if any(envs.env_is_wrapped(kind)):
                raise PolicyError(
                    f"SubprocVecEnv: worlds in other processes have a {kind.__name__}, which the policy would lack; "
                    "expected VecNormalize around them, or wrappers of rewards alone"
                )
        return
    worlds = getattr(envs, "envs", None)  # a list in DummyVecEnv, one vector environment in ccarena.envs.sb3
    inner = worlds[0] if isinstance(worlds, list) else worlds
    while isinstance(inner, (gym.Wrapper, gym.vector.VectorWrapper)):
        yield inner
        inner = inner.env


def _is_neutral(layer: Any) -> bool:
    if isinstance(layer, (gym.RewardWrapper, gym.vector.VectorRewardWrapper)):
        return True
    return type(layer).__name__ in NEUTRAL and type(layer).__module__.split(".")[0] in (
        "gymnasium",
        "stable_baselines3",
    )
