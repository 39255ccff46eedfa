"""From a name or a YAML file and dotted overrides to a checked configuration, and back to YAML.

jsonargparse would give the same command line, but it prints pydantic's internals for a wrong value, has no nearest name
for an unknown key and skips validators of single fields (its `[100, 5]` passed as a range), so the translation is ours.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ccarena import __version__
from ccarena.configs.keys import expected, keys, plain, section_of
from ccarena.configs.schema import TRAININGS, AnyTrainConfig, TrainConfig
from ccarena.errors import ConfigError, did_you_mean
from ccarena.files import write_atomically

__all__ = ["dump_config", "load_config", "parse_overrides", "save_config", "shipped"]

BASE_KEY = "base"
OLDER_KEYS = {"eval.suites": "eval.link_sets"}
"""Keys of earlier versions by their present names; both are read, and only the present ones written."""
COMMAND_LINE = "command line"


def load_config(
    name_or_file: str | os.PathLike[str] = "acct", overrides: Mapping[str, Any] | None = None
) -> AnyTrainConfig:
    """The configuration of a shipped name (see [`shipped`]) or of a YAML file, with `overrides` on top.

    A file may start from another with `base: NAME_OR_FILE`; its mappings are merged into the base's, everything else
    replaces. An override, `{"env.link.rate_mbps": 48}`, replaces what stands at its key, mappings included.

    Raises ConfigError that names each wrong key with its value, what was expected and the nearest right name.
    """
    data = _read(str(name_or_file), ())
    given = {OLDER_KEYS.get(path, path): value for path, value in (overrides or {}).items()}
    for path, value in given.items():
        _put(data, path, value)
    return build(data, str(name_or_file), given)


def shipped() -> list[str]:
    """Names of the configurations in this package."""
    return sorted(
        f.name.removesuffix(".yaml") for f in resources.files(__package__).iterdir() if f.name.endswith(".yaml")
    )


def dump_config(config: AnyTrainConfig) -> str:
    """`config` as YAML, every key present and in the schema's order; loading it gives `config` again."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=100)


def save_config(config: AnyTrainConfig, path: str | os.PathLike[str]) -> None:
    """Writes `config` to `path` whole or not at all. Raises ConfigError if the file cannot be written."""
    header = f"# The effective configuration of this run, written by ccarena {__version__}.\n"
    write_atomically(Path(path), header + dump_config(config))


def parse_overrides(tokens: Sequence[str], options: Sequence[str] = ()) -> dict[str, Any]:
    """`["--env.link.rate_mbps", "[5,100]", "--total-decisions=1e6"]` as `{"env.link.rate_mbps": [5, 100], ...}`.

    Values are YAML; dashes in keys equal underscores; of a repeated key the last one counts. `options` are the names of
    the command's own options, for hints.
    """
    found: dict[str, Any] = {}
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        if not token.startswith("--") or token == "--":
            raise ConfigError(
                f"{COMMAND_LINE}: unexpected {token!r}; expected --KEY VALUE, such as --env.link.rate_mbps 48"
            )
        key, equals, text = token[2:].partition("=")
        path = key.replace("-", "_")
        if not equals:
            if not rest or rest[0].startswith("--"):
                hint = "" if path in [k.path for k in keys()] else _nearest(path, options)
                raise ConfigError(f"{COMMAND_LINE}: {token} has no value; expected --KEY VALUE{hint}")
            text = rest.pop(0)
        found[path] = parse_yaml(text, f"{COMMAND_LINE}: {path} = {text}")
    return found


def build(data: Mapping[str, Any], source: str, overrides: Mapping[str, Any]) -> AnyTrainConfig:
    """`data` checked against the schema; errors name `source`, or the command line for what `overrides` gave."""
    model = _model(data)
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        problems = list(dict.fromkeys(_problem(e, model, data, source, overrides) for e in errors))
    if len(problems) == 1:
        raise ConfigError(problems[0])
    raise ConfigError(f"the configuration has {len(problems)} problems:\n" + "\n".join(f"  {p}" for p in problems))


def _model(data: Mapping[str, Any]) -> type[AnyTrainConfig]:
    """The schema of the environment that `data` names; ACCT's if it names none that there is."""
    env = data.get("env")
    name = env.get("id") if isinstance(env, Mapping) else None
    return TRAININGS.get(name, TrainConfig) if isinstance(name, str) else TrainConfig


def _problem(error: Any, model: type[AnyTrainConfig], data: Any, source: str, overrides: Mapping[str, Any]) -> str:
    """One of pydantic's errors as `WHERE: KEY = VALUE: what was expected`."""
    section: type[BaseModel] | None = model
    field, path, value = None, [], data
    for part in error["loc"]:
        # Below a leaf, pydantic lists indices and branches of unions, such as `list[str]`: the whole leaf is shown.
        if section is None or not isinstance(value, Mapping):
            break
        field = section.model_fields.get(str(part))
        section = section_of(field) if field else None
        value = value[part]
        path.append(str(part))
    key = ".".join(path)
    where = source
    if any(
        f"{key}.".startswith(f"{given}.") or f"{given}.".startswith(f"{key}." if key else "") for given in overrides
    ):
        where = COMMAND_LINE if key else f"{source} and the command line"
    if error["type"] == "extra_forbidden":
        return f"{where}: {key} = {_show(value)}: unknown key{_nearest(key, model=model)}"
    if error["type"] == "value_error" and str(error["ctx"]["error"]):
        return f"{where}: {key + ': ' if key else ''}{error['ctx']['error']}"
    return f"{where}: {key} = {_show(value)}: expected {expected(field) if field else 'a mapping'}"


def _nearest(key: str, options: Sequence[str] = (), model: type[AnyTrainConfig] = TrainConfig) -> str:
    """The hint for an unknown `key`: a near name beside it, else its last part anywhere, else the names beside it."""
    known = [k.path for k in keys(model)]
    parent, dot, leaf = key.rpartition(".")
    prefix = parent + dot
    beside = {p.removeprefix(prefix).split(".")[0]: p for p in known if p.startswith(prefix)}
    by_leaf = {p.rpartition(".")[2]: p for p in known}
    if near := difflib.get_close_matches(leaf, [*beside, *options], n=1, cutoff=0.6):
        return f'; did you mean "{prefix}{near[0]}"?'
    if near := difflib.get_close_matches(leaf, by_leaf, n=1, cutoff=0.8):
        return f'; did you mean "{by_leaf[near[0]]}"?'
    return did_you_mean(leaf, beside) or did_you_mean(key, known)


def _read(name: str, parents: tuple[str, ...]) -> dict[str, Any]:
    """The mapping behind a name or file, merged over its base."""
    if name in parents:
        raise ConfigError(
            f"{parents[-1]}: {BASE_KEY} = {name}: goes round in a circle ({' -> '.join((*parents, name))})"
        )
    text, origin = _text_of(name, parents)
    data = parse_yaml(text, origin)
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(f"{origin}: expected a mapping from keys to values, got {_show(data)}")
    for older, key in OLDER_KEYS.items():
        _rename(data, older.split("."), key.rpartition(".")[2])
    base = data.pop(BASE_KEY, None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"{origin}: {BASE_KEY} = {_show(base)}: expected the name of a configuration or a file")
    beside = Path(origin).parent / base
    return merge(_read(str(beside) if base not in shipped() and beside.is_file() else base, (*parents, name)), data)


def _rename(data: Any, path: Sequence[str], key: str) -> None:
    """Calls what stands at `path` by `key`, in the same section; does nothing if it is not there."""
    for section in path[:-1]:
        data = data.get(section) if isinstance(data, dict) else None
    if isinstance(data, dict) and path[-1] in data:
        data.setdefault(key, data.pop(path[-1]))


def _text_of(name: str, parents: tuple[str, ...]) -> tuple[bytes, str]:
    """Contents of a shipped configuration or of a file, and what to call it in messages."""
    if name in shipped():
        return resources.files(__package__).joinpath(f"{name}.yaml").read_bytes(), name
    try:
        return Path(name).read_bytes(), name
    except FileNotFoundError:
        where = f"{parents[-1]}: {BASE_KEY} = {name}" if parents else f"configuration {name!r}"
        raise ConfigError(
            f"{where}: neither a file nor a shipped configuration{did_you_mean(name, shipped())}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name}: cannot be read: {reason}; expected a YAML file") from error


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`, mappings merged key by key at every depth; neither is changed."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        child = data.get(part)
        data[part] = dict(child) if isinstance(child, Mapping) else {}
        data = data[part]
    data[last] = value


class _Loader(yaml.SafeLoader):
    """YAML's safe subset with the scalars of YAML 1.2: `1e-4` is a number, `no` and `2024-01-01` are text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            problem = f"the key {key!r} is not text" if not isinstance(key, str) else f'the key "{key}" is there twice'
            if not isinstance(key, str) or key in mapping:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


_Loader.yaml_implicit_resolvers = {}  # the class's own, instead of YAML 1.1's
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def parse_yaml(text: str | bytes, origin: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # our Loader is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = ""
        if mark is not None and not origin.startswith(COMMAND_LINE):
            place = f", line {mark.line + 1}, column {mark.column + 1}"
        raise ConfigError(f"{origin}{place}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError includes text that is not UTF-8
        raise ConfigError(f"{origin}: not a YAML text file: {(str(error).splitlines() or ['?'])[0]}") from error
    except (AttributeError, LookupError, TypeError) as error:
        # PyYAML's constructors trust an explicit tag: `!!timestamp x` and `!!bool x` end in these.
        raise ConfigError(f"{origin}: a value does not fit its explicit tag; leave tags (!!...) out") from error
    except RecursionError:
        raise ConfigError(f"{origin}: nested too deeply; expected a mapping from keys to values") from None


def _show(value: Any) -> str:
    """`value` as one short line of YAML."""
    text = plain(value)
    return text if len(text) <= 80 else text[:77] + "..."
