"""Configuration and scheme of an artifact, read as data: nothing that it names is loaded or run."""

from __future__ import annotations

import json
from typing import Any

from ccarena.configs.load import load_config
from ccarena.configs.own_files import DIGESTS
from ccarena.configs.schema import TrainConfig
from ccarena.configs.spec_files import digest_of, is_built_in
from ccarena.errors import ConfigError
from ccarena.policies.artifact import Artifact

__all__ = ["RULE", "configuration_of", "rule_of", "scheme_of"]

RULE = "rule"
"""Key of a training's configuration: the rule of a policy in which nothing is learned."""


def configuration_of(policy: Artifact) -> TrainConfig:
    """Returns the configuration that `policy` was trained by; only its spec if the artifact names no known one."""
    spec = json.loads(policy.interface.spec)
    training = {key: value for key, value in policy.training.items() if key not in (RULE, DIGESTS)}
    try:
        config = load_config({**training, "spec": spec})
    except ConfigError:
        config = load_config({"spec": spec})
    return config.model_copy(update={"params": dict(policy.params)})


def rule_of(policy: Artifact) -> str:
    """Returns the rule that `policy` follows, if nothing in it is learned; else ""."""
    return str(policy.training.get(RULE, ""))


def scheme_of(policy: Artifact) -> str | dict[str, Any]:
    """Returns a scenario's `scheme` for `policy`: the name of a shipped spec, or the artifact's own spec."""
    spec: dict[str, Any] = json.loads(policy.interface.spec)
    name = spec.get("name")
    return str(name) if is_built_in(name) and digest_of(name) == policy.interface.digest else spec
