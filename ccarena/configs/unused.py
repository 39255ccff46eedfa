"""Keys without effect, given the values of others: the command line refuses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ccarena.configs.cluster import RayConfig
from ccarena.configs.learning import RAY_WORKERS
from ccarena.configs.schema import TrainConfig, ValidationConfig
from ccarena.core.reader import COMMAND_LINE
from ccarena.errors import ConfigError

__all__ = ["RULES", "refuse_unused_keys"]

RULES: tuple[tuple[tuple[str, ...], Callable[[TrainConfig], bool], str], ...] = (
    (
        ("env.link.rate_mbps",),
        lambda c: sum(c.env.link.kinds.model_dump(exclude={"cellular", "trace"}).values()) == 0,
        "env.link.kinds draws no constant, no random_steps, no wifi and no grants",
    ),
    (("env.link.wifi",), lambda c: c.env.link.kinds.wifi == 0, "env.link.kinds draws no wifi"),
    (("env.link.grants",), lambda c: c.env.link.kinds.grants == 0, "env.link.kinds draws no grants"),
    (("env.link.step_s",), lambda c: c.env.link.kinds.random_steps == 0, "env.link.kinds draws no random_steps"),
    (("env.link.presets",), lambda c: c.env.link.kinds.cellular == 0, "env.link.kinds draws no cellular"),
    (("env.link.traces",), lambda c: c.env.link.kinds.trace == 0, "env.link.kinds draws no trace"),
    (("env.link.adversarial",), lambda c: c.env.link.kinds.adversarial == 0, "env.link.kinds draws no adversarial"),
    (("env.link.models",), lambda c: c.env.link.kinds.model == 0, "env.link.kinds draws no model"),
    (("env.link.buffer_bdp",), lambda c: c.env.link.buffer_packets is not None, "env.link.buffer_packets is given"),
    (("env.link.lossy",), lambda c: c.env.link.loss == (0, 0), "env.link.loss is 0"),
    (("env.link.router_headroom", "env.link.router"), lambda c: c.env.link.signal == 0, "env.link.signal is 0"),
    (
        ("env.cross_traffic.schemes", "env.cross_traffic.flows", "env.cross_traffic.on_off"),
        lambda c: c.env.cross_traffic.probability == 0,
        "env.cross_traffic.probability is 0",
    ),
    (
        ("algorithm.discount_unit_s",),
        lambda c: getattr(c.algorithm, "discount", None) == "step",
        "algorithm.discount is step",
    ),
    (
        ("algorithm.reward_below",),
        lambda c: getattr(c.algorithm, "reward_floor", 0.0) is None,
        "algorithm.reward_floor is null",
    ),
    (tuple(f"ray.{name}" for name in RayConfig.model_fields), lambda c: c.executor != "ray", "executor is local"),
    (
        ("ray.exchange", "ray.max_staleness"),
        lambda c: not c.algorithm.shares_gradients,
        "algorithm is not a3c",
    ),
    (
        ("ray.workers",),
        lambda c: c.algorithm.workers_key != RAY_WORKERS,
        "a3c has algorithm.workers, and evolution as many as there are cores",
    ),
    (
        ("ray.deaths", "ray.patience_s"),
        lambda c: c.algorithm.whole_runs,
        "evolution's candidates are moved as often as need be",
    ),
    (
        tuple(f"validation.{name}" for name in ValidationConfig.model_fields if name != "kinds"),
        lambda c: not c.validation.kinds,
        "validation.kinds is empty",
    ),
    (
        ("eval.duration_s", "eval.seeds", "eval.recordings", "rules.links"),
        lambda c: not c.eval.link_sets,
        "eval.link_sets is empty",
    ),
    (
        ("rules.law", "rules.law_action", "rules.law_candidates"),
        lambda c: not c.rules.links or not c.eval.link_sets,
        "no rules are searched",
    ),
)
"""Keys, configurations in which they have no effect, and reasons."""


def refuse_unused_keys(config: TrainConfig, given: Iterable[str]) -> None:
    """Raises ConfigError for the first of the keys `given` that has no effect in `config`."""
    for keys, unused, because in RULES:
        for key in given:
            if key in keys and unused(config):
                raise ConfigError(
                    f"{COMMAND_LINE}: {key} has no effect, because {because}; change that, or leave it out"
                )
