"""What the training loop asks of an algorithm, and what it gives to one.

An algorithm is a class, built-in or in the user's own file (`algorithm: mine.py:Dagger`), built as

    Dagger(context, learning_rate=1e-3)

where everything but `context` comes from the keys of `algorithm` in the configuration. The loop restores its state if a
run is resumed, and calls `learn` once. `learn` hands every batch that it has learned from to `run.record`, asks
`run.rest()` whenever `state()` is complete, and returns when that is False: then the checkpoint of this very state has
been written, whether the training is over or was interrupted.

An algorithm that also finds parameters of the spec has a method `params() -> dict[str, float]`, whose answer goes
into the artifact with the policy. One whose `policy()` is a translation of the model that it trains has a method
`model() -> ccarena.policies.agreement.Decide`: what decides by the model itself, which every saved policy has to agree
with.
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
"""Sums over decisions (and episodes), so that adding two of them merges them: `decisions`, `reward`; if the algorithm
counts them, `episodes`, `return`, `episode_decisions`; and whatever else the learning curve is to have per decision."""
MakeEnvs = Callable[[int, int], gym.vector.VectorEnv]
"""`(rows, threads)` to a vector environment of the training distribution with autoreset in the same step."""


class Run(Protocol):
    """The training, as an algorithm sees it."""

    def record(self, stats: Stats, *, updates: int = 0, **now: float) -> None:
        """Books a batch for the learning curve and the display; `now` goes into the curve as it is.

        Raises TrainingError if the curve cannot be written.
        """

    def rest(self) -> bool:
        """Says that `state()` is complete now. Whether to go on; if not, a checkpoint of it has been written."""


@dataclass(frozen=True)
class Context:
    """What an algorithm is built from."""

    config: TrainConfig
    """The whole config; `seed`, `device`, `threads`, `total_decisions` and `env.worlds` are for the algorithm."""
    spec: Spec
    """What the scheme sees, reports and takes."""
    make_envs: MakeEnvs
    """The training's worlds; picklable. `envs.get_state()` and `set_state()` are part of an algorithm's state, and
    `infos["truth"]` what only the simulator knows."""

    @property
    def rows(self) -> int:
        """Rows of the configured environment: worlds times learners."""
        return self.config.env.worlds * self.config.env.learners

    @cached_property
    def portable(self) -> dict[str, Any]:
        """The configuration as checkpoints and artifacts have it, as it was when it was first asked for."""
        from ccarena.configs.own_files import portable

        return portable(self.config)

    def network(self, outputs: int) -> nn.Module:
        """A new network as configured, from normalised observations `[N, spec.size]` to `[N, outputs]`."""
        from ccarena.policies.networks import build

        return build(self.config.network, self.spec, outputs)

    def normalisation(self) -> nn.Module:
        """From raw observations to normalised ones."""
        from ccarena.policies.networks import Normalisation

        return Normalisation(self.spec)


class Algorithm(Protocol):
    """Something that learns a policy."""

    @property
    def decisions(self) -> int:
        """Decisions that it has learned from, over all rows."""

    def learn(self, run: Run) -> None:
        """Learns until `run.rest()` is False."""

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Everything that the rest of the training depends on, as arrays and as JSON."""

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Back to a `state()`. Raises KeyError, ValueError or RuntimeError if it is of another training."""

    def policy(self) -> nn.Module:
        """The policy as it is now: normalised observations `[N, spec.size]` to logits `[N, actions]`, or to the action
        `[N, 1]`; with memory as `ccarena.policies.networks` says."""

    def close(self) -> None:
        """Ends its worlds and threads."""
