"""Typed configuration: `schema` says what exists, `load` reads it, the YAML files beside them are the shipped ones."""

from ccarena.configs.load import dump_config, load_config, parse_overrides, save_config, shipped
from ccarena.configs.schema import TrainConfig

__all__ = ["TrainConfig", "dump_config", "load_config", "parse_overrides", "save_config", "shipped"]
