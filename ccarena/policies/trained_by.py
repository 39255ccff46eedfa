"""What an artifact says of its scheme, read as data: nothing that it names is loaded or run."""

from __future__ import annotations

import json
from typing import Any

from ccarena.configs.load import load_config
from ccarena.configs.own_files import DIGESTS
from ccarena.configs.schema import TrainConfig
from ccarena.configs.spec_files import digest_of
from ccarena.errors import ConfigError
from ccarena.policies.artifact import Artifact

__all__ = ["RULE", "configuration_of", "rule_of", "scheme_of"]

RULE = "rule"
"""Beside the configuration of a training: the rule that a policy follows in which nothing is learned."""


def configuration_of(policy: Artifact) -> TrainConfig:
    """The configuration that `policy` was trained by; its spec alone if it names none that is understood."""
    spec = json.loads(policy.interface.spec)
    training = {key: value for key, value in policy.training.items() if key not in (RULE, DIGESTS)}
    try:
        config = load_config({**training, "spec": spec})
    except ConfigError:
        config = load_config({"spec": spec})
    return config.model_copy(update={"params": dict(policy.params)})


def rule_of(policy: Artifact) -> str:
    """The rule that `policy` follows, if nothing in it is learned; else empty."""
    return str(policy.training.get(RULE, ""))


def scheme_of(policy: Artifact) -> str | dict[str, Any]:
    """What a scenario's `scheme` is for `policy`: the name of a shipped spec, or the artifact's own spec."""
    spec: dict[str, Any] = json.loads(policy.interface.spec)
    name = spec.get("name")
    return str(name) if digest_of(name) == policy.interface.digest else spec
