"""Best rule without learning, as a policy: the baseline that a network has to beat.

A rule is a constant action, or one action for each category of the previous interval, such as ACCT's zone. Its graph is
one layer, so that the simulator, the kernel, QUIC and every export run it like a learned policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccarena import _core
from ccarena.configs.spec_files import Action
from ccarena.errors import PolicyError
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.interface import FloatArray, Interface
from ccarena.policies.spec import Spec
from ccarena.policies.trained_by import RULE

__all__ = ["best_of", "best_rule", "rule_policy"]


def best_rule(policy: Artifact) -> Mapping[str, Any]:
    """Returns the rule that scored best on the policy's training links, as the artifact has it.

    Raises PolicyError if the artifact has no rule, or if the base alone is the best, which no policy can express.
    """
    best = best_of(policy.rules)
    if best is None:
        raise PolicyError("it names no rule without learning: train it with rules.links above 0, and evaluate it")
    if best["policy"] == "none":
        raise PolicyError("its best rule is the base alone, which needs no policy: `policy: none` in a scenario")
    return best


def best_of(rules: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the rule with the highest score; None if no rule has one."""
    found = [rule for rule in rules if rule.get("score") is not None]
    return max(found, key=lambda rule: float(rule["score"]), default=None)


def rule_policy(policy: Artifact) -> Artifact:
    """Returns a policy that follows the best rule of `policy`, with its parameters and provenance.

    Raises PolicyError as `best_rule` does, and if the observation lacks the category that the rule depends on.
    """
    rule = best_rule(policy)
    says = rule["policy"]
    if "by" in says:
        graph = _table(policy.interface, says["by"], says["actions"])
    else:
        graph = _always(policy.interface, says["constant"])
    return Artifact.of(
        graph,
        policy.interface,
        params=rule["params"],
        training={**policy.training, RULE: rule["label"]},
        seed=policy.seed,
        trained_on=policy.trained_on,
    )


def _always(interface: Interface, action: Action) -> Graph:
    return _layer(
        interface, np.zeros((interface.outputs, interface.observation_len), np.float32), _answer(interface, action)
    )


def _table(interface: Interface, column: str, actions: list[Action]) -> Graph:
    """Returns a layer over the observation's channels for the categories in the newest interval.

    The bias is the answer in the first category, and before the first interval; the weights are the differences of the
    other categories.
    """
    spec = Spec.of(_core.learned(interface.spec))
    ends = np.cumsum([entry.length for entry in spec.observation])
    places = [int(end) - 1 for entry, end in zip(spec.observation, ends, strict=True) if entry.signal == column]
    if len(places) != len(actions):
        raise PolicyError(
            f'its best rule goes by "{column}", of which its observation has {len(places)} channels; expected one for '
            f"each of the {len(actions)} categories"
        )
    first, *_ = answers = [_answer(interface, action) for action in actions]
    differences = np.stack([answer - first for answer in answers], axis=1)
    weight = np.zeros((interface.outputs, interface.observation_len), np.float32)
    weight[:, places] = differences / interface.normalisation.scale[places]
    bias = first + differences @ interface.normalisation.offset[places]
    return _layer(interface, weight, bias.astype(np.float32))


def _layer(interface: Interface, weight: FloatArray, bias: FloatArray) -> Graph:
    node = Node("out", "linear", (OBSERVATION,), {"weight": "out.weight", "bias": "out.bias"})
    return Graph(interface.observation_len, (node,), "out", {"out.weight": weight, "out.bias": bias})


def _answer(interface: Interface, action: Action) -> FloatArray:
    """Returns a network's output for `action`: logits, or the values themselves."""
    if interface.bounds is not None:
        return np.atleast_1d(np.asarray(action, np.float32))
    return np.eye(interface.outputs, dtype=np.float32)[int(np.asarray(action))]
