"""Spec of a learned scheme in Python: observation, report and actions, with names, bounds, scales and spaces.

The native extension reads and checks specs; this module adds types and Gymnasium's spaces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ccarena import _core
from ccarena.configs.schema import TrainConfig
from ccarena.configs.spec_files import Action, action_of, spec_json
from ccarena.errors import ConfigError, ScenarioError, did_you_mean
from ccarena.policies.actions import as_actions
from ccarena.policies.interface import Bounds, Interface, Normalisation, bounds_of, said

__all__ = ["Entry", "Spec", "spec_of"]


@dataclass(frozen=True)
class Entry:
    """Named piece of the observation with its normalisation: clip((x - offset) · scale, clip)."""

    name: str
    signal: str
    """Signal of which this is a channel, by its name in the spec; most signals have one channel."""
    length: int
    """Number of values: the history, oldest first."""
    low: float
    high: float
    """Bounds of its raw values, finite."""
    offset: float
    scale: float
    clip: tuple[float, float]
    unit: str
    doc: str


@dataclass(frozen=True, repr=False)
class Spec:
    """Observation, report and actions of a learned scheme."""

    name: str
    digest: str
    """Digest of the spec's canonical form; a policy decides only for a spec with its digest."""
    canonical: str
    """Canonical form of the spec, JSON."""
    observation: tuple[Entry, ...]
    """Pieces of the observation in their order."""
    actions: tuple[float, ...]
    """Values of discrete actions by index; empty where actions are continuous."""
    action_names: tuple[str, ...]
    """Names of discrete actions by index, such as the schemes of a choice."""
    bounds: Bounds | None
    """Bounds of a continuous action: a pair for each of its numbers, one per actuator."""
    report: tuple[str, ...]
    """Columns of a report, float32, one row per decision; `interval_ms` is among them."""
    privileged: tuple[str, ...]
    """Columns of privileged state, which only the simulator knows and no observation may name."""
    params: dict[str, float]
    """Parameters of the spec and their defaults."""

    def __repr__(self) -> str:
        actions = f"one of {len(self.actions)} actions" if self.actions else f"an action in {said(self.bounds or ())}"
        return f"Spec of {self.name} {self.digest}: {self.size} numbers to {actions}"

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Spec:
        """Builds a spec from the answer of `ccarena._core.learned`."""
        return cls(
            name=found["name"],
            digest=found["digest"],
            canonical=found["canonical"],
            observation=tuple(
                Entry(**{**{key: entry[key] for key in Entry.__dataclass_fields__}, "clip": tuple(entry["clip"])})
                for entry in found["observation"]
            ),
            actions=tuple(found["actions"]),
            action_names=tuple(found["action_names"]),
            bounds=bounds_of(found["bounds"] or ()),
            report=tuple(found["report"]),
            privileged=tuple(found["privileged"]),
            params={param["name"]: float(param["default"]) for param in found["params"]},
        )

    @property
    def size(self) -> int:
        """Returns the length of the observation, float32."""
        return sum(entry.length for entry in self.observation)

    @cached_property
    def signals(self) -> dict[str, slice]:
        """Returns the slice of the observation of each signal: its channels, one after the other."""
        out: dict[str, slice] = {}
        start = 0
        for entry in self.observation:
            first = out[entry.signal].start if entry.signal in out else start
            start += entry.length
            out[entry.signal] = slice(first, start)
        return out

    def each(self, *fields: str) -> tuple[NDArray[np.float32], ...]:
        """Returns `low`, `scale` or another field of the entries, one value for every number of the observation."""
        lengths = [entry.length for entry in self.observation]
        return tuple(
            np.repeat(np.array([getattr(entry, field) for entry in self.observation], np.float32), lengths)
            for field in fields
        )

    @property
    def normalisation(self) -> dict[str, NDArray[np.float32]]:
        """Returns `offset`, `scale`, `low`, `high` of x' = clip((x - offset) · scale, low, high), each `[size]`."""
        lengths = [entry.length for entry in self.observation]
        low, high = (
            np.repeat(np.array([entry.clip[end] for entry in self.observation], np.float32), lengths) for end in (0, 1)
        )
        offset, scale = self.each("offset", "scale")
        return {"offset": offset, "scale": scale, "low": low, "high": high}

    @cached_property
    def observation_space(self) -> gym.spaces.Box:
        """Returns the observation space of one learner, with finite bounds."""
        low, high = self.each("low", "high")
        return gym.spaces.Box(low, high, dtype=np.float32)

    @cached_property
    def action_space(self) -> gym.spaces.Discrete | gym.spaces.Box:
        """Returns the action space of one learner: `Discrete`, an index into `actions`, or a `Box` of a number per
        actuator.
        """
        if self.bounds is None:
            return gym.spaces.Discrete(len(self.actions))
        low, high = np.array(self.bounds, np.float32).T
        return gym.spaces.Box(low, high, dtype=np.float32)

    @cached_property
    def actuators(self) -> tuple[str, ...]:
        """Returns the kinds of the spec's actuators."""
        acts = json.loads(self.canonical)["act"]
        return tuple(act["kind"] for act in (acts if isinstance(acts, list) else [acts]))

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """Returns the name of the base: its kind, its scheme, or the schemes of a choice in their order."""
        base = json.loads(self.canonical)["base"]
        found: list[str] = [each["scheme"] for each in base.get("schemes", [base]) if "scheme" in each]
        return tuple(found) or (base["kind"],)

    @property
    def numbers(self) -> int:
        """Returns the count of numbers of one action: 1, or one per actuator of a continuous action."""
        return len(self.bounds or [()])

    @property
    def outputs(self) -> int:
        """Returns the number of a policy network's outputs: a logit per discrete action, or a continuous action's
        numbers.
        """
        return len(self.actions) or self.numbers

    @property
    def interface(self) -> Interface:
        """Returns the interface of policies for this spec, as an artifact stores it."""
        normalisation = Normalisation(**self.normalisation)
        return Interface(self.canonical, self.digest, normalisation, self.actions, self.bounds)

    def values(self, params: Mapping[str, float]) -> dict[str, float]:
        """Returns every parameter of the spec, from `params` or by default."""
        return {**self.params, **params}

    def constant(self, action: Action) -> Action:
        """Returns the value of a scenario's `policy: {constant: ...}` for `action`: its index, or a continuous action
        itself.

        Raises ConfigError if there is no such action.
        """
        return action_of({"name": self.name, "actions": self.actions, "bounds": self.bounds}, action)

    def action_name(self, action: Action) -> str:
        """Returns the name of an action that a scenario's `constant` has: `0.5`, `bbr` or `0.5, 1.2`."""
        if self.bounds is None:
            return self.action_names[int(np.asarray(action))]
        return ", ".join(f"{number:.3g}" for number in np.atleast_1d(np.asarray(action, np.float64)))

    def check(self, other: Mapping[str, Any]) -> None:
        """Raises ScenarioError if a scenario's learner, whose spec is `other`, belongs to another scheme."""
        if other["digest"] != self.digest:
            raise ScenarioError(
                f"the scenario's learner is {other['name']} ({other['digest']}), the environment's {self.name} "
                f"({self.digest}): expected the same spec; give it as spec="
            )

    def column(self, name: str, key: str) -> int:
        """Returns the index of the report's column `name`. Raises ConfigError, naming the configuration's `key`, if it
        is missing.
        """
        if name not in self.report:
            raise ConfigError(
                f'{key}: {self.name} reports no "{name}"{did_you_mean(name, self.report)}; columns are in `report` of '
                "its spec"
            )
        return self.report.index(name)

    def intervals_s(self, reports: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the lengths `[N]` of the reported intervals, s."""
        return reports[:, self.report.index("interval_ms")] * np.float32(1e-3)

    def given(self, actions: Any, learners: tuple[int, ...]) -> NDArray[np.float32]:
        """Returns `actions`, of shape `learners` and the action space's, as float32 `[learners · numbers]`.

        Raises:
            ActionError: it has another shape, or is not made of numbers.
        """
        shape = learners if self.actions else (*learners, self.numbers)
        return as_actions(actions, shape, "integers" if self.actions else "numbers").reshape(-1)


def spec_of(config: TrainConfig) -> Spec:
    """Returns the spec of the learned scheme of `config`. Raises ConfigError or ScenarioError for a wrong spec."""
    return Spec.of(_core.learned(spec_json(config)))
