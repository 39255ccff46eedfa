"""Descriptions of the configuration keys, from the schema: for messages, `--help` and the documentation."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ccarena.configs.learning import ALGORITHMS, Named, kind_of
from ccarena.configs.schema import TrainConfig
from ccarena.configs.sections import Range

_NOUNS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}

TITLES = {
    "a3c": "algorithm: a3c",
    "bc": "algorithm: bc",
    "crr": "algorithm: crr",
    "cma_es": "algorithm: cma_es",
    "es": "algorithm: es",
    "iql": "algorithm: iql",
    "rllib": "algorithm: rllib",
    "sb3": "algorithm: Stable-Baselines3",
    "own": "algorithm: your own",
}
"""Titles of the sections of `algorithm`, by kind."""


@dataclass(frozen=True)
class Key:
    """Leaf of the configuration."""

    path: str
    """Path with dots, such as `env.link.rate_mbps`."""
    expected: str
    """Type and allowed values in words; empty for an argument, which its function alone checks."""
    default: Any
    """Default, or the value in a configuration, as plain data (numbers, text, lists, mappings, None)."""
    doc: str
    """Meaning, with the unit."""
    kind: str = ""
    """Key of `ccarena.configs.learning.ALGORITHMS` that a key of `algorithm` belongs to."""


def keys() -> list[Key]:
    """Returns every leaf of the configuration, in the schema's order."""
    defaults = {
        name: None if field.is_required() else _plain_data(field.default)
        for name, field in TrainConfig.model_fields.items()
    }
    return list(_leaves(TrainConfig, "", defaults))


def keys_of(config: TrainConfig) -> list[Key]:
    """Returns every leaf of `config` with its value as `default`; of `algorithm` only the keys of the current one.

    Arguments of the reward, the network and the algorithm, which belong to no schema, follow the name.
    """
    values, kind = config.model_dump(mode="json"), kind_of(config.algorithm)
    found = []
    for key in keys():
        if key.kind not in ("", kind):
            continue
        parent, _, name = key.path.rpartition(".")
        section = values
        for part in parent.split(".") if parent else ():
            section = section[part]
        found.append(replace(key, default=section[name]))
        if name == "name" and isinstance(named := getattr(config, parent, None), Named):
            doc = f"Argument of {plain(named.name)}."
            found += [Key(f"{parent}.{n}", "", v, doc, key.kind) for n, v in named.arguments.items()]
    return found


def plain(value: Any) -> str:
    """Returns `value` as one line of YAML, for a file or the command line."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).removesuffix("...\n").strip()


def _plain_data(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain_data(item) for item in value] if isinstance(value, (list, tuple)) else value


def _leaves(model: type[BaseModel], prefix: str, defaults: dict[str, Any], kind: str = "") -> Iterator[Key]:
    for name, field in model.model_fields.items():
        section = section_of(field)
        if variants := variants_of(field):
            for variant, each in variants.items():
                yield from _leaves(each, f"{prefix}{name}.", each.model_construct().model_dump(mode="json"), variant)
        elif section is None:
            yield Key(prefix + name, expected(field), defaults[name], field.description or "", kind)
        else:
            yield from _leaves(section, f"{prefix}{name}.", defaults[name], kind)


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Returns the model behind `field`, if it is a section and no leaf."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def variants_of(field: FieldInfo) -> dict[str, type[BaseModel]]:
    """Returns the models that `field` may be, by kind, if it is a section of several kinds."""
    return dict(ALGORITHMS) if any(part in field_types(field) for part in ALGORITHMS.values()) else {}


def field_types(field: FieldInfo) -> list[Any]:
    """Returns the types that `field` is a union of, without their metadata."""
    return [get_args(arg)[0] if hasattr(arg, "__metadata__") else arg for arg in get_args(field.annotation)]


def expected(field: FieldInfo) -> str:
    """Returns the values that `field` takes, in words: `a whole number, 1 to 1024`."""
    if section_of(field) or variants_of(field):
        return "a mapping"
    text = _describe(field.annotation, field.metadata)
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    limits = " and ".join(f"{words[b]} {getattr(m, b)}" for m in field.metadata for b in words if hasattr(m, b))
    pattern = next((m.pattern for m in field.metadata if getattr(m, "pattern", None)), None)
    return text + (f", {limits}" if limits else "") + (f" matching {pattern}" if pattern else "")


def _describe(annotation: Any, metadata: list[Any] | tuple[Any, ...] = ()) -> str:
    if ranged := next((m for m in metadata if isinstance(m, Range)), None):
        return str(ranged)
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in _NOUNS:
        return _NOUNS[annotation]
    if hasattr(annotation, "__metadata__"):
        return _describe(args[0], annotation.__metadata__)
    if origin is Literal:
        return args[0] if len(args) == 1 else "one of " + ", ".join(args)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a mapping with " + ", ".join(annotation.model_fields)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(arg) for arg in args)
    if origin is list:
        return f"a list, each item {_describe(args[0])}"
    if origin is tuple:
        return f"a list of {len(args)}, each item {_describe(args[0])}"
    if origin is dict:
        return "a mapping" if args[1] is Any else f"a mapping, each value {_describe(args[1])}"
    raise TypeError(f"no description of the type {annotation}: add one to ccarena.configs.keys")
