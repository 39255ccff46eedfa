"""ACCT's untrained networks, and artifacts of them, for tests."""

from __future__ import annotations

from typing import Any

from ccarena.agents.actor_critic import ActorCritic
from ccarena.agents.algorithm import Context
from ccarena.configs import load_config
from ccarena.policies.artifact import Artifact
from ccarena.policies.export import to_graph
from ccarena.policies.spec import spec_of

RECORD = load_config("acct")
SPEC = spec_of(RECORD)


def network(filters: int = 8, hidden: int = 128) -> ActorCritic:
    """Actor and critic of this size."""
    record = load_config("acct", {"network.filters": filters, "network.hidden": hidden})
    return ActorCritic(Context(record, SPEC, lambda rows, threads: None))  # type: ignore[arg-type, return-value]


def to_artifact(
    actor_critic: ActorCritic, training: dict[str, Any], seed: int, evaluation: dict[str, Any] | None = None
) -> Artifact:
    """The artifact of the actor."""
    graph = to_graph(actor_critic.policy(), SPEC.size)
    return Artifact.of(graph, SPEC.interface, {}, training, seed, evaluation=evaluation)
