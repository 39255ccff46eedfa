"""Algorithms of Stable-Baselines3 and sb3-contrib by class name, with discounts by time.

SB3 discounts by step. If steps differ in length (`ccarena.agents.semi_markov`), rewards are converted when they leave
the worlds, and the discount of the future goes into the replay or rollout buffer. With `discount: step` SB3 works
unchanged.

Departures: if `noise` is given, `Explorer` explores. On-policy algorithms complete the return of a truncated episode by
γ V, not γ^τ V (SB3 adds it before the buffer is called).
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np
from torch import nn

from ccarena.agents import sb3_state
from ccarena.agents.algorithm import Arrays, Context, Run, Stats
from ccarena.agents.progress import ReportSums
from ccarena.agents.sb3_network import Features
from ccarena.configs.schema import Sb3Config
from ccarena.configs.userfile import bind
from ccarena.errors import ConfigError, MissingDependencyError, TrainingError, did_you_mean
from ccarena.extras import how_to_add
from ccarena.policies.agreement import Decide
from ccarena.policies.sb3 import NormalisedObservation, actor, predicting

try:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
except ImportError as error:
    raise MissingDependencyError.for_extra("stable-baselines3", "train", "training with Stable-Baselines3") from error

from ccarena.agents.sb3_buffers import (
    BalancedReplayBuffer,
    Explorer,
    TimedReplayBuffer,
    TimedRolloutBuffer,
    TimedVecEnv,
)

__all__ = ["Sb3", "find_class"]

log = logging.getLogger(__name__)

PACKAGES = ("stable_baselines3", "sb3_contrib")
OURS = ("policy", "env", "seed", "device", "learning_rate", "gamma", "verbose", "tensorboard_log", "_init_setup_model")
"""Arguments of SB3's classes that other keys set, or that cannot be set."""
LOSSES = {
    "actor_loss": "actor_loss",
    "critic_loss": "critic_loss",
    "loss": "loss",
    "policy_gradient_loss": "policy_loss",
    "policy_loss": "policy_loss",
    "value_loss": "value_loss",
}
"""Names in the learning curve of the figures that SB3 logs under `train/`."""

JUDGED_REWARDS, NOTICEABLE = 1_000, 0.01
"""Least number of rewards, and least share of them, for a message about the floor."""


class Sb3:
    """Algorithm of SB3 (`ccarena.agents.algorithm.Algorithm`)."""

    def __init__(self, context: Context) -> None:
        config = cast(Sb3Config, context.config.algorithm)
        self._context, self._config = context, config
        self._sums = ReportSums(context.spec, context.config.progress)
        found, arguments = find_class(config.name), _arguments(context, config)
        balance = _balance(context, config)
        self._worlds = TimedVecEnv(context.make_envs(context.rows, context.config.threads), config, balance)
        try:
            self._model = _build(found, arguments, context, config, self._worlds)
        except BaseException:
            self._worlds.close()
            raise

    @property
    def decisions(self) -> int:
        """Returns the number of decisions, over all rows."""
        return int(self._model.num_timesteps)

    def learn(self, run: Run) -> None:
        """Runs SB3's loop until `run` ends the training."""
        done = self.decisions
        left = self._context.config.total_decisions - done
        try:
            self._model.learn(left, _Callback(self, run), log_interval=sys.maxsize, reset_num_timesteps=done == 0)
        except _Stopped:
            return
        run.rest()

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Returns the state of the model, its buffers, worlds and random generators."""
        return sb3_state.state(self._model)

    def restore(self, arrays: Arrays, rest: dict[str, Any]) -> None:
        """Restores a `state()`."""
        sb3_state.restore(self._model, arrays, rest)

    def move(self, context: Context) -> None:
        """Goes on with fresh episodes in worlds of other links; what is in a replay buffer stays."""
        self._worlds.envs.close()
        self._context, self._worlds.envs = context, context.make_envs(context.rows, context.config.threads)
        sb3_state.begin(self._model)

    def policy(self) -> nn.Module:
        """Returns the deterministic policy."""
        return actor(self._model)

    def model(self) -> Decide:
        """Returns the model's own `predict`, which every saved policy has to agree with."""
        return predicting(self._model)

    def close(self) -> None:
        """Closes the worlds."""
        self._worlds.close()

    def stats(self, each: list[dict[str, Any]]) -> Stats:
        """Returns statistics of the last step of all worlds, whose infos are `each`."""
        rewards, native = self._worlds.rewards, self._worlds.infos
        ended = [info["episode"] for info in each if "episode" in info]
        stats: Stats = {
            "decisions": float(len(rewards)),
            "reward": float(rewards.sum(dtype=np.float64)),
            "episodes": float(len(ended)),
            "return": float(sum(episode["r"] for episode in ended)),
            "episode_decisions": float(sum(episode["l"] for episode in ended)),
        }
        if (reports := native.get("reports")) is not None:
            stats |= self._sums(reports)
        for logged, value in self._model.logger.name_to_value.items():
            if (name := LOSSES.get(logged.partition("/")[2])) is None:
                continue
            if not np.isfinite(value):
                raise TrainingError(
                    f"after {self.decisions} decisions: the {name} is not finite; start a new run with a lower "
                    "algorithm.learning_rate"
                )
            stats[name] = float(value) * stats["decisions"]
        return stats

    def cut(self) -> str | None:
        """Returns a message if the floor replaced a noticeable share of the rewards, None if it did not so far."""
        seen, raised, floor = self._worlds.seen, self._worlds.raised, self._config.reward_floor
        if seen < JUDGED_REWARDS or raised < NOTICEABLE * seen:
            return None
        return (
            f"{100 * raised / seen:.0f} % of the first {seen:,} rewards were below algorithm.reward_floor = {floor:g} "
            f"and count as {floor:g}, in learning and below; set it lower, or to null for no floor"
        )

    def figures(self) -> dict[str, float]:
        """Returns figures of the worlds' processes, if they have their own, for the learning curve."""
        found: Callable[[], dict[str, float]] = getattr(self._worlds.envs, "figures", dict)
        return found()

    @property
    def updates(self) -> int:
        """Returns the number of gradient steps so far."""
        return int(getattr(self._model, "_n_updates", 0))


class _Stopped(Exception):
    """Exception that leaves SB3's loop between two rollouts, where its state is complete."""


class _Callback(BaseCallback):
    """Callback of SB3's loop that records and stops."""

    def __init__(self, algorithm: Sb3, run: Run) -> None:
        super().__init__()
        self._algorithm, self._run, self._told = algorithm, run, False

    def _on_rollout_start(self) -> None:
        if not self._told and (note := self._algorithm.cut()) is not None:
            log.warning("%s", note)
            self._told = True
        if not self._run.rest():
            raise _Stopped

    def _on_step(self) -> bool:
        stats = self._algorithm.stats(self.locals["infos"])
        self._run.record(stats, updates=self._algorithm.updates, **self._algorithm.figures())
        return True


def find_class(name: str) -> type[BaseAlgorithm]:
    """Returns the algorithm `name` of SB3 or sb3-contrib. Raises ConfigError for an unknown one, with the nearest."""
    known: dict[str, type[BaseAlgorithm]] = {}
    absent = []
    for package in PACKAGES:
        try:
            module = import_module(package)
        except ImportError:
            absent.append(package.replace("_", "-"))
            continue
        known |= {
            key: value
            for key, value in vars(module).items()
            if inspect.isclass(value) and issubclass(value, (OnPolicyAlgorithm, OffPolicyAlgorithm))
        }
    if name in known:
        return known[name]
    hint = f" (and others in {', '.join(absent)}, which is not installed: {how_to_add('train')})" if absent else ""
    raise ConfigError(
        f"algorithm.name = {name}: unknown algorithm, and no FILE.py:CLASS of your own"
        f"{did_you_mean(name, ['a3c', *known])}{hint}"
    )


def _arguments(context: Context, config: Sb3Config) -> dict[str, Any]:
    """Returns the checked keyword arguments of the class from the configuration. Raises ConfigError."""
    found = find_class(config.name)
    return bind(found, config.arguments, "algorithm", config.name, OURS, tuple(Sb3Config.model_fields))


def _balance(context: Context, config: Sb3Config) -> int | None:
    """Returns the index of the report's column by which replay is balanced, None if it is not. Raises ConfigError."""
    if config.balance is None:
        return None
    columns = context.spec.report
    if config.balance not in columns:
        hint = did_you_mean(config.balance, columns)
        raise ConfigError(f"algorithm.balance = {config.balance}: {context.spec.name} reports no such column{hint}")
    if not issubclass(find_class(config.name), OffPolicyAlgorithm) or config.discount != "time":
        raise ConfigError(
            f"algorithm.balance = {config.balance}: it is for off-policy algorithms with algorithm.discount: time; "
            "leave it out, or null"
        )
    return columns.index(config.balance)


def _build(
    found: type[BaseAlgorithm], arguments: dict[str, Any], context: Context, config: Sb3Config, worlds: TimedVecEnv
) -> BaseAlgorithm:
    takes = inspect.signature(found).parameters
    policy = dict(arguments.pop("policy_kwargs", None) or {})
    network, features = context.config.network, None
    if network.name == "mlp":
        policy.setdefault("net_arch", list(network.arguments.get("hidden", (64, 64))))
        policy.setdefault("activation_fn", nn.ReLU)
    else:
        features = Features
        policy.setdefault("net_arch", [])
        # Actor and critic share nothing, as everywhere here.
        if issubclass(found, OnPolicyAlgorithm) or "ent_coef" in takes or "policy_delay" in takes:
            policy.setdefault("share_features_extractor", False)
    policy["features_extractor_class"] = NormalisedObservation
    policy["features_extractor_kwargs"] = {
        "normalisation": context.spec.interface.normalisation,
        "then": features,
        "then_kwargs": {} if features is None else {"context": context},
    }
    given: dict[str, Any] = {
        "learning_rate": _falling(config.learning_rate, config.learning_rate_end),
        "gamma": config.gamma,
        "seed": context.config.seed,
        "device": context.config.device,
        "policy_kwargs": policy,
        **arguments,
    }
    if config.discount == "time":
        if "replay_buffer_class" in takes and "discounts" in inspect.getsource(found):
            memory = TimedReplayBuffer if config.balance is None else BalancedReplayBuffer
            given.setdefault("replay_buffer_class", memory)
        elif "rollout_buffer_class" in takes:
            given.setdefault("rollout_buffer_class", TimedRolloutBuffer)
            given.setdefault("rollout_buffer_kwargs", {"discounts": worlds})
        else:
            raise ConfigError(
                f"algorithm.discount = time: {config.name} keeps no discount per step; give algorithm.discount: step"
            )
    if config.noise is not None:
        if not issubclass(found, OffPolicyAlgorithm) or context.spec.bounds is None:
            raise ConfigError(
                f"algorithm.noise = {config.noise}: it is for off-policy algorithms with continuous actions; leave it "
                "out, or null"
            )
        found = type(f"Exploring{found.__name__}", (Explorer, found), {"noise": config.noise})
    recurrent = "Recurrent" in found.__name__
    try:
        model: BaseAlgorithm = found("MlpLstmPolicy" if recurrent else "MlpPolicy", worlds, **given)
    except (AssertionError, TypeError, ValueError) as error:
        raise ConfigError(f"algorithm = {config.name}: {error}") from error
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def _falling(rate: float, end: float) -> Callable[[float], float]:
    """Returns a learning rate that falls linearly to `end`, a share of `rate`."""
    return lambda left: rate * (end + (1.0 - end) * left)
