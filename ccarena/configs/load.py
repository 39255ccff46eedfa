"""Loading of configurations: from a name or a YAML file and dotted overrides to a checked one, and back to YAML.

jsonargparse would give the same command line, but it prints pydantic's internals for a wrong value. It has no nearest
name for an unknown key, and skips validators of single fields (its `[100, 5]` passed as a range). The translation is
therefore ours.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ccarena import __version__
from ccarena.configs.keys import expected, keys, plain, section_of, variants_of
from ccarena.configs.learning import OWN_FILE, SPEC_FILES
from ccarena.configs.schema import TrainConfig
from ccarena.core.files import write_atomically
from ccarena.core.reader import COMMAND_LINE, parse, parse_yaml, read_bytes
from ccarena.errors import ConfigError, did_you_mean, excerpt, several

__all__ = ["DEFAULT", "build", "dump_config", "load_config", "parse_overrides", "save_config", "shipped"]

DEFAULT = "acct"
"""Configuration of whoever names none."""
BASE_KEY = "base"
NAMED = ("reward", "objective", "network", "algorithm")
"""Keys whose value is a mapping with a `name`; the name alone may replace it."""
MOVED = {
    "agent": "the key is now `algorithm`, with its `name`: a3c, or a class of Stable-Baselines3 such as TD3",
    "env.id": "the scheme is now named by `spec`, such as spec: acct",
    "eval.schemes": "the heuristics are now `baselines`",
    "eval.suites": "the key is now `link_sets`",
    "network.filters": "give the network's name, too: network: {name: acct_conv, filters: 8, hidden: 128}",
}
"""Keys of older configurations, and their replacements."""


def load_config(
    name_or_file: str | os.PathLike[str] | Mapping[str, Any] = DEFAULT, overrides: Mapping[str, Any] | None = None
) -> TrainConfig:
    """Loads the configuration of a shipped name (see [`shipped`]), a YAML file or a mapping, with `overrides` on top.

    A file may extend another with `base: NAME_OR_FILE`: its mappings are merged into the base's, everything else
    replaces. An override, `{"env.link.rate_mbps": 48}`, replaces the value at its key, mappings included. Files that a
    file names are relative to it; those of an override or a mapping, to the working directory.

    Raises ConfigError that names each wrong key with its value, the expectation and the nearest right name.
    """
    if isinstance(name_or_file, Mapping):
        source, data = "the configuration", _merge_base(_spelt_out(name_or_file, Path()), "the configuration", ())
    else:
        source = str(name_or_file)
        data = _read(source, ())
        data.setdefault("name", Path(source).stem)
    for path, value in (overrides or {}).items():
        _put(data, path, value)
    return build(_spelt_out(data, Path()), source, overrides or {})


def shipped() -> list[str]:
    """Returns names of the configurations in this package."""
    return sorted(
        f.name.removesuffix(".yaml") for f in resources.files(__package__).iterdir() if f.name.endswith(".yaml")
    )


def dump_config(config: TrainConfig) -> str:
    """Returns `config` as YAML, every key present and in the schema's order; loading it gives `config` again."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=100)


def save_config(config: TrainConfig, path: str | os.PathLike[str]) -> None:
    """Writes `config` to `path` atomically: another process finds the old file or the whole new one."""
    header = f"# The effective configuration of this run, written by ccarena {__version__}.\n"
    write_atomically(Path(path), header + dump_config(config))


def parse_overrides(tokens: Sequence[str], options: Sequence[str] = ()) -> dict[str, Any]:
    """Returns `["--env.link.rate_mbps", "[5,100]", "--total-decisions=1e6"]` as `{"env.link.rate_mbps": [5, 100],
    ...}`.

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


def build(data: Mapping[str, Any], source: str, overrides: Mapping[str, Any]) -> TrainConfig:
    """Returns `data` checked against the schema; errors name `source`, or the command line for values of
    `overrides`.
    """
    if moved := _moved(data, source, overrides):
        raise ConfigError(moved)
    try:
        return TrainConfig.model_validate(dict(data))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    raise ConfigError(several("the configuration", (_problem(e, data, source, overrides) for e in errors)))


def _moved(data: Mapping[str, Any], source: str, overrides: Mapping[str, Any]) -> str | None:
    """Returns the replacement of the first key that only older configurations had."""
    for path, instead in MOVED.items():
        section, _, leaf = path.rpartition(".")
        where = data.get(section) if section else data
        if isinstance(where, Mapping) and leaf in where and not (section in NAMED and "name" in where):
            given = any(f"{key}.".startswith(f"{path}.") or f"{path}.".startswith(f"{key}.") for key in overrides)
            return (
                f"{COMMAND_LINE if given else source}: {path} = {_show(where[leaf])}: {instead} (docs/configuration.md)"
            )
    return None


def _problem(error: Any, data: Any, source: str, overrides: Mapping[str, Any]) -> str:
    """Returns one of pydantic's errors as `WHERE: KEY = VALUE: EXPECTATION`."""
    section: type[BaseModel] | None = TrainConfig
    field, path, value = None, [], data
    for part in error["loc"]:
        if field is not None and part in variants_of(field):
            section = variants_of(field)[str(part)]
            continue
        # Below a leaf, pydantic lists indices and branches of unions, such as `list[str]`: the whole leaf is shown.
        if section is None or not isinstance(value, Mapping) or part not in value:
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
    if error["type"] == "missing" and section is not None:
        missing = ".".join(str(part) for part in error["loc"])
        return f"{where}: {missing} is missing: expected {_meaning(missing)}"
    if error["type"] == "extra_forbidden":
        return f"{where}: {key} = {_show(value)}: unknown key{_nearest(key)}"
    if error["type"] == "value_error" and str(error["ctx"]["error"]):
        return f"{where}: {key + ': ' if key else ''}{error['ctx']['error']}"
    return f"{where}: {key} = {_show(value)}: expected {expected(field) if field else 'a mapping'}"


def _meaning(path: str) -> str:
    found = next((key for key in keys() if key.path == path), None)
    return "a value" if found is None else f"{found.expected} ({found.doc.removesuffix('.')})"


def _nearest(key: str, options: Sequence[str] = ()) -> str:
    """Returns the hint for an unknown `key`: a near name in its section, else its last part anywhere, else all names
    there.
    """
    known = [k.path for k in keys()]
    parent, dot, leaf = key[:100].rpartition(".")
    prefix = parent + dot
    beside = {p.removeprefix(prefix).split(".")[0]: p for p in known if p.startswith(prefix)}
    by_leaf = {p.rpartition(".")[2]: p for p in known}
    if near := difflib.get_close_matches(leaf, [*beside, *options], n=1, cutoff=0.6):
        return f'; did you mean "{prefix}{near[0]}"?'
    if near := difflib.get_close_matches(leaf, by_leaf, n=1, cutoff=0.8):
        return f'; did you mean "{by_leaf[near[0]]}"?'
    return did_you_mean(leaf, beside) or did_you_mean(key, known)


def _read(name: str, parents: tuple[str, ...]) -> dict[str, Any]:
    """Returns the mapping behind a name or file, merged over its base."""
    if name in parents:
        raise ConfigError(f"{parents[-1]}: {BASE_KEY} = {name}: refers to itself ({' -> '.join((*parents, name))})")
    text, origin = _text_of(name, parents)
    data = parse(text, origin)
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(f"{origin}: expected a mapping from keys to values, got {_show(data)}")
    return _merge_base(_spelt_out(data, Path(origin).parent), origin, (*parents, name))


def _merge_base(data: dict[str, Any], origin: str, parents: tuple[str, ...]) -> dict[str, Any]:
    base = data.pop(BASE_KEY, None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"{origin}: {BASE_KEY} = {_show(base)}: expected the name of a configuration or a file")
    beside = Path(origin).parent / base
    under = _read(str(beside) if base not in shipped() and beside.is_file() else base, parents)
    # Parameters belong to a spec, arguments to what they are arguments of: neither outlives it.
    if data.get("spec", under.get("spec")) != under.get("spec"):
        under.pop("params", None)
    for key in NAMED:
        over = data.get(key)
        if isinstance(over, Mapping) and over.get("name", name_in(under, key)) != name_in(under, key):
            under.pop(key, None)
    return merge(under, data)


def name_in(data: Mapping[str, Any], key: str) -> Any:
    """Returns the `name` in the mapping at `key`, if there is one."""
    section = data.get(key)
    return section.get("name") if isinstance(section, Mapping) else None


def _spelt_out(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns `data` with names alone as mappings, and with the files that it names found from `folder`."""
    out = dict(data)
    for key in NAMED:
        if isinstance(out.get(key), str):
            out[key] = {"name": out[key]}
        section = out.get(key)
        if isinstance(section, Mapping) and isinstance(name := section.get("name"), str) and OWN_FILE in name:
            out[key] = {**section, "name": _beside(name, folder)}
    spec = out.get("spec")
    if isinstance(spec, str) and Path(spec).suffix in SPEC_FILES:
        out["spec"] = _beside(spec, folder)
    return out


def _beside(file: str, folder: Path) -> str:
    """Returns `file`, optionally with a class, relative to `folder`; else to the working directory, if it only exists
    there.

    The latter serves a run's own configuration, whose files are named from the folder where the training was started.
    """
    beside = str(folder / file)
    here_alone = not _is_there(beside) and _is_there(file)
    return file if Path(file).is_absolute() or here_alone else beside


def _is_there(named: str) -> bool:
    return Path(named.rpartition(":")[0] if OWN_FILE in named else named).is_file()


def _text_of(name: str, parents: tuple[str, ...]) -> tuple[bytes, str]:
    """Returns the contents of a shipped configuration or of a file, and its name in messages."""
    if not name:
        raise ConfigError(f"configuration '': expected a YAML file{did_you_mean(name, shipped())}")
    if name in shipped():
        return resources.files(__package__).joinpath(f"{name}.yaml").read_bytes(), name
    try:
        return read_bytes(name), name
    except FileNotFoundError:
        where = f"{parents[-1]}: {BASE_KEY} = {name}" if parents else f"configuration {name!r}"
        raise ConfigError(
            f"{where}: neither a file nor a shipped configuration{did_you_mean(name, shipped())}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name}: cannot be read: {reason}; expected a YAML file") from error


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `base` with the values of `over`, mappings merged key by key at every depth; neither is changed."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        child = data.get(part)
        if part in NAMED and isinstance(child, str):
            child = {"name": child}
        data[part] = dict(child) if isinstance(child, Mapping) else {}
        data = data[part]
    data[last] = value


def _show(value: Any) -> str:
    """Returns `value` as one short line of YAML."""
    text = plain(excerpt(value))
    return text if len(text) <= 80 else text[:77] + "..."
