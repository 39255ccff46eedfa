"""From whatever a user calls a learned scheme by (a name, a file, a mapping) to its record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccarena.configs.load import load_config, shipped
from ccarena.configs.schema import TrainConfig
from ccarena.core.reader import read_data
from ccarena.errors import ConfigError, did_you_mean

Scheme = str | os.PathLike[str] | Mapping[str, Any] | TrainConfig
"""A record, or what leads to one: the name of a shipped one, a YAML file, a mapping; or a document alone."""

DOCUMENT_KEY = "learned"
"""The key that every document has and no record: the version of its format."""


def record_of(scheme: Scheme) -> TrainConfig:
    """The record of `scheme`. A document alone gets the default reward, network, algorithm and distribution.

    Raises ConfigError for what is neither.
    """
    if isinstance(scheme, TrainConfig):
        return scheme
    if isinstance(scheme, Mapping):
        return _of_document(scheme) if DOCUMENT_KEY in scheme else load_config(scheme)
    name = os.fspath(scheme)
    if name in shipped():
        return load_config(name)
    path = Path(name)
    if path.is_file():
        data = read_data(path)
        return _of_document(data) if isinstance(data, Mapping) and DOCUMENT_KEY in data else load_config(name)
    raise ConfigError(f"{name!r} is neither a learned scheme of this package nor a file{did_you_mean(name, shipped())}")


def _of_document(document: Mapping[str, Any]) -> TrainConfig:
    name = document.get("name")
    return load_config({"document": dict(document), **({"name": name} if isinstance(name, str) else {})})
