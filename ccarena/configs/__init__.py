"""Typed configuration: `schema` defines the keys, `load` reads them; the YAML files here are the shipped
configurations.
"""

from ccarena.configs.load import dump_config, load_config, parse_overrides, save_config, shipped
from ccarena.configs.schema import TrainConfig

__all__ = ["TrainConfig", "dump_config", "load_config", "parse_overrides", "save_config", "shipped"]
