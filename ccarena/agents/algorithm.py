"""Interface between the training loop and an algorithm.

An algorithm is a class, built-in or in the user's own file (`algorithm: mine.py:Dagger`), built as

    Dagger(context, learning_rate=1e-3)

where everything but `context` comes from the keys of `algorithm` in the configuration. The loop restores its state if a
run is resumed, and calls `learn` once:

- `learn` gives every batch that it has learned from to `run.record`;
- it calls `run.rest()` between updates, when `state()` has everything that the next update needs;
- it returns when `run.rest()` is False. The loop has then written a checkpoint of this state.

An algorithm that can train against attacks (`env.link.attack`) has a method `move(context)`: it goes on with fresh
episodes in the worlds of another context, which differs in its links alone. The loop calls it within `run.rest()`.

An algorithm that also finds parameters of the spec has a method `params() -> dict[str, float]`; the artifact gets them
with the policy. If its `policy()` translates the model that it trains, it has a method
`model() -> ccarena.policies.agreement.Decide`. Every saved policy has to agree with that model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym
from numpy.typing import NDArray

from ccarena.configs.schema import TrainConfig
from ccarena.policies.spec import Spec

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Algorithm", "Arrays", "Context", "MakeEnvs", "Run", "Stats"]

Arrays = dict[str, NDArray]
Stats = dict[str, float]
"""Sums over decisions (and episodes), so that adding two merges them.

Keys: `decisions`, `reward`; optionally `episodes`, `return`, `episode_decisions`; and further figures per decision for
the learning curve.
"""
MakeEnvs = Callable[[int, int], gym.vector.VectorEnv]
"""Function of `(rows, threads)` that makes a vector environment over the configured link distribution.

A row is one learned flow of one simulated network (a world). The environment has same-step autoreset.
"""


class Run(Protocol):
    """Training loop, as an algorithm sees it."""

    def record(self, stats: Stats, *, updates: int = 0, **now: float) -> None:
        """Records a batch for the learning curve and the display; `now` goes into the curve unchanged.

        Raises TrainingError if the curve cannot be written.
        """

    def rest(self) -> bool:
        """Lets the loop validate, write a checkpoint or stop, and returns whether to continue.

        Call it between updates, when `state()` has everything that the next update needs. If it returns False, the loop
        has written a checkpoint of this state.
        """


@dataclass(frozen=True)
class Context:
    """Arguments that an algorithm is built from."""

    config: TrainConfig
    """Configuration of the training; the algorithm uses `seed`, `device`, `threads`, `total_decisions` and
    `env.worlds`.
    """
    spec: Spec
    """Spec of the learned scheme: its observation, report and actions."""
    make_envs: MakeEnvs
    """Maker of the training's vector environments; picklable.

    `envs.get_state()` and `set_state()` are part of an algorithm's state. `infos["privileged"]` is privileged state.
    """

    @property
    def rows(self) -> int:
        """Returns the number of rows of the configured environment: simulated networks (worlds) times learned flows in
        each.
        """
        return self.config.env.worlds * self.config.env.learners

    @cached_property
    def portable(self) -> dict[str, Any]:
        """Returns the configuration as checkpoints and artifacts have it, fixed at the first call."""
        from ccarena.configs.own_files import portable

        return portable(self.config)

    def network(self, outputs: int) -> nn.Module:
        """Returns a new network as configured, from normalised observations `[N, spec.size]` to `[N, outputs]`."""
        from ccarena.policies.networks import build

        return build(self.config.network, self.spec, outputs)

    def normalisation(self) -> nn.Module:
        """Returns the layer from raw observations to normalised ones."""
        from ccarena.policies.networks import Normalisation

        return Normalisation(self.spec)


class Algorithm(Protocol):
    """Algorithm that learns a policy."""

    @property
    def decisions(self) -> int:
        """Returns the number of decisions that it has learned from, over all rows."""

    def learn(self, run: Run) -> None:
        """Learns until `run.rest()` is False."""

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns everything that the rest of the training depends on, as arrays and as JSON."""

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`: its `arrays`, and its JSON data as `rest`.

        Raises KeyError, ValueError or RuntimeError if it belongs to another training.
        """

    def policy(self) -> nn.Module:
        """Returns the current policy: normalised observations `[N, spec.size]` to logits `[N, actions]`, or to the
        action `[N, 1]`. A policy with memory has the form that `ccarena.policies.networks` describes.
        """

    def close(self) -> None:
        """Ends its worlds and threads."""
