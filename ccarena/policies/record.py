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

__all__ = ["CONTROL", "control_of", "record_of", "scheme_of"]

CONTROL = "control"
"""Beside the record of a training: the rule that a policy follows in which nothing is learned."""


def record_of(policy: Artifact) -> TrainConfig:
    """The record that `policy` was trained by; its document alone if it names none that is understood."""
    document = json.loads(policy.contract.document)
    training = {key: value for key, value in policy.training.items() if key not in (CONTROL, DIGESTS)}
    try:
        record = load_config({**training, "document": document})
    except ConfigError:
        record = load_config({"document": document})
    return record.model_copy(update={"params": dict(policy.params)})


def control_of(policy: Artifact) -> str:
    """The rule that `policy` follows, if nothing in it is learned; else empty."""
    return str(policy.training.get(CONTROL, ""))


def scheme_of(policy: Artifact) -> str | dict[str, Any]:
    """What a scenario's `scheme` is for `policy`: the name of a shipped document, or the artifact's own document."""
    document: dict[str, Any] = json.loads(policy.contract.document)
    name = document.get("name")
    return str(name) if digest_of(name) == policy.contract.digest else document
