"""YAML as it is read here: the safe subset with the scalars of YAML 1.2, no key twice, errors with their place."""

from __future__ import annotations

import re
from typing import Any

import yaml

from ccarena.errors import ConfigError

COMMAND_LINE = "command line"


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
