"""Conversion of a user's name of a learned scheme (a name, a file, a mapping) to its configuration."""

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
"""Argument for a configuration: a shipped name, a YAML file, a mapping, a configuration, or a spec alone."""

SPEC_KEY = "learned"
"""Key that every spec has and no configuration: the version of its format."""


def configuration_of(scheme: Scheme) -> TrainConfig:
    """Returns the configuration of `scheme`. A spec alone gets the default reward, network, algorithm and distribution.

    Raises ConfigError for anything else.
    """
    if isinstance(scheme, TrainConfig):
        return scheme
    if isinstance(scheme, Mapping):
        return _of_spec(scheme) if SPEC_KEY in scheme else load_config(scheme)
    name = os.fspath(scheme)
    if name in shipped():
        return load_config(name)
    path = Path(name)
    if path.is_file():
        data = read_data(path)
        return _of_spec(data) if isinstance(data, Mapping) and SPEC_KEY in data else load_config(name)
    raise ConfigError(f"{name!r} is neither a learned scheme of this package nor a file{did_you_mean(name, shipped())}")


def _of_spec(spec: Mapping[str, Any]) -> TrainConfig:
    name = spec.get("name")
    return load_config({"spec": dict(spec), **({"name": name} if isinstance(name, str) else {})})
